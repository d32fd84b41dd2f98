/* What a sample consists of, as a page shows it: the columns of a row, a text, the numbers of small arrays. */
#ifndef DPX_TOOLS_SAMPLE_VALUES_H
#define DPX_TOOLS_SAMPLE_VALUES_H

#include <jansson.h>

#include "tools/feed/feed.h"

/* A JSON string; what is no UTF-8 becomes U+FFFD.  NULL: no memory. */
json_t *shown_text(const char *s);
/* [[name, text], ...] of the first values of each input with samples [N] or [N, numbers].  *out NULL: there
 * is none.  `at`: the sample's place in this process's part of the batch; `target`: the number of its field. */
Status sample_values(json_t **out, const Feed *f, const Batch *b, int target, int64_t at) CHECKED;
/* The same as the data's format describes the row; *out NULL: it does not. */
Status sample_described(json_t **out, Dataset *d, int64_t row) CHECKED;

#endif
