/* The folder of caches, by the environment. */
#include "graph/base/cache_folder.h"

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

void make_folders(const char *folder)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path)
        return;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0777);
        *slash = '/';
    }
    (void)mkdir(path, 0777);
}
