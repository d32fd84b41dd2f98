/* Scopes of layers in the names of nodes. */
#include "exec/inspect/layer_name.h"

#include <stdio.h>
#include <string.h>

bool layer_name_scope(char out[MOST_LAYER_NAME], const char *node)
{
    size_t n = 0, last = 0; /* bytes of `out`; where its last scope begins */

    *out = '\0';
    if (!node || *node != '/')
        return false;
    for (const char *part = node + 1, *slash; (slash = strchr(part, '/')); part = slash + 1) {
        const size_t len = (size_t)(slash - part), before = n - last;

        /* a scope may repeat the one around it: "layer1" and "layer1.0" are "layer1.0" */
        if (n && len > before && !strncmp(part, out + last, before) && part[before] == '.')
            n = last;
        else if (n && n + 1 < MOST_LAYER_NAME)
            out[n++] = '.';
        last = n;
        n += (size_t)snprintf(out + n, MOST_LAYER_NAME - n, "%.*s", (int)len, part);
        n = n < MOST_LAYER_NAME ? n : MOST_LAYER_NAME - 1;
    }
    return *out;
}
