/* Loading by dlopen, which keeps one copy for each process however often it is asked: so there is nothing to remember
 * here, and two sessions share no variable of ours. */
#include "exec/device/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN_FILE "libdpexec_cuda.so"

Status runtime_check(const Runtime *r, Status st) { return st ? FAIL(st, "%s", r->message()) : ST_OK; }

static Status enter(const Runtime **out, void *library, const char *path)
{
    void *symbol = dlsym(library, CUDA_DRIVER_SYMBOL);
    CudaDriverEntry *entry;
    const Runtime *r;

    if (!symbol)
        return FAIL(E_DEVICE, "%s is no plug-in: it has no %s", path, CUDA_DRIVER_SYMBOL);
    memcpy(&entry, &symbol, sizeof entry); /* POSIX: they have one size; C has no cast between them */
    if (!(r = (const Runtime *)entry()) || r->abi != RUNTIME_ABI)
        return FAIL(E_DEVICE, "%s is of another version: interface %d, expected %d", path, r ? r->abi : 0, RUNTIME_ABI);
    *out = r;
    return ST_OK;
}

static Status load(const Runtime **out, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        const char *why = dlerror();

        return FAIL(E_DEVICE, "the CUDA plug-in %s cannot be loaded: %s", path, why ? why : "unknown cause");
    }
    return enter(out, library, path);
}

/* ---- where to look ---- */

typedef struct {
    char at[PATH_MAX];
} Folder;

/* The folder of the library or program that holds this code, without a last slash; false: unknown. */
static bool own_folder(Folder *out)
{
    Dl_info info;
    char *slash;
    ssize_t n = -1;

    out->at[0] = '\0';
    if (dladdr(PLUGIN_FILE, &info) && info.dli_fname && strchr(info.dli_fname, '/') &&
        realpath(info.dli_fname, out->at))
        n = (ssize_t)strlen(out->at);
    else if ((n = readlink("/proc/self/exe", out->at, sizeof out->at - 1)) > 0)
        out->at[n] = '\0';
    if (n <= 0 || !(slash = strrchr(out->at, '/')))
        return false;
    *slash = '\0';
    return true;
}

static int list_folders(Folder out[3])
{
    const char *given = getenv("DPEXEC_PLUGIN_DIR");
    Folder own;
    int n = 0;

    if (given && *given)
        snprintf(out[n++].at, sizeof out->at, "%s", given);
    if (own_folder(&own)) {
        out[n++] = own;
        snprintf(out[n++].at, sizeof out->at, "%.*s/../%s", (int)(PATH_MAX - sizeof DPX_LIBDIR - 8), own.at,
                 DPX_LIBDIR);
    }
    return n;
}

Status plugin_cuda(const Runtime **out)
{
    const char *named = getenv("DPEXEC_CUDA_PLUGIN");
    char path[PATH_MAX + sizeof PLUGIN_FILE + 1];
    Problems missing = { 0 };
    Folder *folder;
    Status st = ST_OK;
    bool found = false;

    if (named && *named)
        return load(out, named);
    if (!(folder = malloc(3 * sizeof *folder)))
        return FAIL_NOMEM();
    for (int i = 0, n = list_folders(folder); i < n && !found; i++) {
        snprintf(path, sizeof path, "%s/%s", folder[i].at, PLUGIN_FILE);
        if ((found = !access(path, F_OK)))
            st = load(out, path);
        else
            problems_add(&missing, "%s", folder[i].at);
    }
    free(folder);
    if (found)
        free(missing.text);
    return found ? st
                 : problems_fail(&missing, E_DEVICE,
                                 "there is no CUDA plug-in " PLUGIN_FILE
                                 " ($DPEXEC_PLUGIN_DIR may name its folder); looked in");
}

/* ---- what it sees ---- */

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
