/* Conversions that jansson lacks: documents as text, checked for lack of memory, and texts that are not UTF-8. */
#ifndef DPX_BASE_JSONTEXT_H
#define DPX_BASE_JSONTEXT_H

#include <jansson.h>

/* The document's text, to be freed with free(); NULL: no memory, or j is NULL.  json_dumps, in contrast, silently
 * leaves out a key when it lacks memory. */
char *json_text(const json_t *j, size_t flags);
/* A JSON string; bytes that are no UTF-8 become \xNN, and backslashes are doubled, so that different texts stay
 * different.  NULL: no memory. */
json_t *json_of_text(const char *s);

#endif
