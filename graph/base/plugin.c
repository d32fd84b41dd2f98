/* Loading of plug-ins by dlopen, which keeps one copy for each process, however often it is called.  So this file needs
 * no variables, which sessions would share. */
#include "graph/base/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Status load(const void **table, const Plugin *p, const char *path)
{
    void *library = dlopen(path, p->mode), *symbol;
    PluginEntry *entry;
    const int *abi;

    if (!library) {
        const char *why = dlerror();

        return FAIL(E_DEVICE, "%s %s cannot be loaded: %s", p->what, path, why ? why : "unknown cause");
    }
    if (!(symbol = dlsym(library, p->symbol)))
        return FAIL(E_DEVICE, "%s is no plug-in: it has no %s", path, p->symbol);
    memcpy(&entry, &symbol, sizeof entry); /* POSIX: they have one size; C has no cast between them */
    if (!(abi = entry()) || *abi != p->abi)
        return FAIL(E_DEVICE, "%s is of another version: interface %d, expected %d", path, abi ? *abi : 0, p->abi);
    *table = abi;
    return ST_OK;
}

/* ---- folders ---- */

/* The folder of the library or program that holds this code, without a last slash; false: unknown. */
static bool own_folder(char out[PATH_MAX])
{
    static const char here[] = "";
    Dl_info info;
    char *slash;
    ssize_t n = -1;

    out[0] = '\0';
    if (dladdr(here, &info) && info.dli_fname && strchr(info.dli_fname, '/') && realpath(info.dli_fname, out))
        n = (ssize_t)strlen(out);
    else if ((n = readlink("/proc/self/exe", out, PATH_MAX - 1)) > 0)
        out[n] = '\0';
    if (n <= 0 || !(slash = strrchr(out, '/')))
        return false;
    *slash = '\0';
    return true;
}

enum { MOST_FOLDERS = 3 };

/* Lists the folders in which plug-ins are looked for; returns their number. */
static int list_folders(char out[MOST_FOLDERS][PATH_MAX])
{
    const int most = (int)(PATH_MAX - sizeof "/dpexec");
    const char *given = getenv("DPEXEC_PLUGIN_DIR");
    char own[PATH_MAX];
    int n = 0;

    if (given && *given)
        snprintf(out[n++], PATH_MAX, "%s", given);
    if (own_folder(own)) {
        snprintf(out[n++], PATH_MAX, "%s", own);
        snprintf(out[n++], PATH_MAX, "%.*s/dpexec", most, own);
    }
    return n;
}

Status plugin_load(const void **table, const Plugin *p)
{
    const char *named = getenv(p->variable);
    char path[PATH_MAX + 64];
    PROBLEMS(missing);
    char(*folder)[PATH_MAX];
    Status st = ST_OK;
    bool found = false;

    if (named && *named)
        return load(table, p, named);
    if (!(folder = malloc(MOST_FOLDERS * sizeof *folder)))
        return FAIL_NOMEM();
    for (int i = 0, n = list_folders(folder); i < n && !found; i++) {
        snprintf(path, sizeof path, "%s/%s", folder[i], p->file);
        if ((found = !access(path, F_OK)))
            st = load(table, p, path);
        else
            problems_add(&missing, "%s", folder[i]);
    }
    free(folder);
    return found ? st
                 : problems_fail(&missing, E_DEVICE,
                                 "there is no %s %s ($DPEXEC_PLUGIN_DIR may name its folder); looked in",
                                 p->what + (strncmp(p->what, "the ", 4) ? 0 : 4), p->file);
}
