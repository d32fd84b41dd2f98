/* What jansson leaves to its users: documents as text, and texts that are not UTF-8 in documents. */
#ifndef DPX_BASE_JSONTEXT_H
#define DPX_BASE_JSONTEXT_H

#include <jansson.h>

/* json_dumps, which forgets a key when the memory for it is missing and goes on: all of the text, to be freed with
 * free(), or NULL; of NULL, NULL. */
char *json_text(const json_t *j, size_t flags);
/* A string.  Two texts that differ are written differently: a byte that is not of UTF-8 as \xNN, a backslash doubled.
 * NULL: no memory. */
json_t *json_of_text(const char *s);

#endif
