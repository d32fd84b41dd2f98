/* Folders with those above them, and the folder of caches, by the environment. */
#include "graph/base/folders.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *cache_folder(char text[PATH_MAX])
{
    const char *given = getenv("DPEXEC_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = given         ? snprintf(text, PATH_MAX, "%s", given)
            : xdg && *xdg ? snprintf(text, PATH_MAX, "%s/dpexec", xdg)
            : home        ? snprintf(text, PATH_MAX, "%s/.cache/dpexec", home)
                          : 0;

    return n > 0 && n < PATH_MAX ? text : NULL;
}

static bool is_folder(const char *path)
{
    struct stat s;

    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

Status make_folders(const char *folder)
{
    char path[PATH_MAX];
    size_t n = strlen(folder);

    if (n >= sizeof path)
        return FAIL(E_IO, "%.60s...: the path is too long", folder);
    memcpy(path, folder, n + 1);
    for (char *slash = strchr(n ? path + 1 : path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0777) && errno != EEXIST &&
            !is_folder(path)) /* below a file, the folder itself cannot be made */
            return FAIL(E_IO, "%s: cannot create: %s", path, strerror(errno));
        *slash = '/';
    }
    return mkdir(path, 0777) && !is_folder(path) ? FAIL(E_IO, "%s: cannot create: %s", folder, strerror(errno)) : ST_OK;
}
