/* Conversions that jansson lacks.  A document is measured first and then written into enough memory; nothing is
 * allocated in between, so nothing can be lost.
 *
 * Texts come from command lines, which need not be UTF-8, as JSON must be.  The escapes are those of a graph's text
 * form (graph/text/print.c). */
#include "graph/base/jsontext.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"

char *json_text(const json_t *j, size_t flags)
{
    const size_t n = j ? json_dumpb(j, NULL, 0, flags) : 0; /* 0: an error */
    char *text = n ? malloc(n + 1) : NULL;

    if (!text || json_dumpb(j, text, n, flags) != n) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    return text;
}

json_t *json_of_text(const char *s)
{
    enum { LONGEST = 4 }; /* of a byte */
    char *text = malloc(strlen(s) * LONGEST + 1), *to = text;
    json_t *j;

    for (int n; text && *s; s += n ? n : 1) {
        n = utf8_length(s);
        if (!n)
            to += sprintf(to, "\\x%02x", (unsigned char)*s);
        else if (*s == '\\')
            to = (char *)memcpy(to, "\\\\", 2) + 2;
        else
            to = (char *)memcpy(to, s, (size_t)n) + n;
    }
    j = text ? json_stringn(text, (size_t)(to - text)) : NULL;
    free(text);
    return j;
}
