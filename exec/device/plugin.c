/* Loads the CUDA plug-in. */
#include "exec/device/plugin.h"

#include <dlfcn.h>
#include <stdio.h>

#include "graph/base/plugin.h"

Status runtime_check(const Runtime *r, Status st) { return st ? FAIL(st, "%s", r->message()) : ST_OK; }

Status plugin_cuda(const Runtime **out)
{
    static const Plugin cuda = { "the CUDA plug-in", "libdpexec_cuda.so",   "DPEXEC_CUDA_PLUGIN",
                                 CUDA_DRIVER_SYMBOL, RTLD_NOW | RTLD_LOCAL, RUNTIME_ABI };
    const void *table;

    TRY(plugin_load(&table, &cuda));
    *out = table;
    return ST_OK;
}

void plugin_present(const Runtime *r, char text[PRESENT_TEXT])
{
    size_t len = 0;
    int n = 0;
    GpuInfo info;

    snprintf(text, PRESENT_TEXT, "none");
    if (r->count(&n))
        return;
    for (int i = 0; i < n && len < PRESENT_TEXT - 1; i++) {
        int wrote = r->info(&info, i)
                        ? snprintf(text + len, PRESENT_TEXT - len, "%scuda:%d", i ? ", " : "", i)
                        : snprintf(text + len, PRESENT_TEXT - len, "%scuda:%d (%s)", i ? ", " : "", i, info.name);

        len += (size_t)(wrote > 0 ? wrote : 0);
    }
}
