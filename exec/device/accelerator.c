/* Opens cuda:N: the device of the plug-in's runtime, and the stream on which its memory is filled and read. */
#include "exec/device/accelerator.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/base/folders.h"
#include "exec/device/describe.h"
#include "exec/device/plugin.h"

static Status open_real(Accelerator *a, const DeviceSpec *spec, const GpuOptions *opt)
{
    const Runtime *r;
    char present[PRESENT_TEXT];
    int n;

    TRY(plugin_cuda(&r));
    TRY(runtime_check(r, r->count(&n)));
    if (spec->index >= n) {
        plugin_present(r, present);
        return FAIL(E_DEVICE, "there is no such device; present: %s", present);
    }
    TRY(runtime_check(r, r->info(&a->info, spec->index)));
    TRY(runtime_check(r, r->open(&a->gpu, spec->index, opt)));
    a->runtime = r;
    return runtime_check(r, r->stream_create(a->gpu, &a->stream, false));
}

/* A described device needs no plug-in; where there is one, its libraries confirm the plans. */
static Status open_described(Accelerator *a, const DeviceSpec *spec, GpuOptions *opt)
{
    const Runtime *library;

    TRY(describe_read(&a->info, &a->description, spec->described));
    opt->described = &a->info;
    opt->description = a->description;
    if (!plugin_cuda(&library))
        opt->confirm = library;
    TRY(described_runtime()->open(&a->gpu, spec->index, opt));
    a->runtime = described_runtime();
    return ST_OK;
}

Status accelerator_open(Accelerator *out, const DeviceSpec *spec)
{
    char cache[PATH_MAX];
    GpuOptions opt = { .tf32 = spec->tf32, .tune = spec->tune, .exact = spec->exact, .cache_dir = cache_folder(cache) };
    Accelerator a = { .runtime = NULL };
    Status st = *spec->described ? open_described(&a, spec, &opt) : open_real(&a, spec, &opt);

    if (st) {
        accelerator_close(&a);
        return status_prefix(st, "cuda:%d", spec->index);
    }
    *out = a;
    return ST_OK;
}

void accelerator_close(Accelerator *a)
{
    if (a->stream)
        a->runtime->stream_free(a->stream);
    if (a->runtime)
        a->runtime->close(a->gpu);
    free(a->description);
    *a = (Accelerator){ .runtime = NULL };
}
