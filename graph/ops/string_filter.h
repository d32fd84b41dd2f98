/* StringNormalizer's filter: it drops stop words and changes the case of strings. */
#ifndef DPX_STRING_FILTER_H
#define DPX_STRING_FILTER_H

#include "graph/ir/op.h"
#include "graph/tensor/strings.h"

typedef struct TextFilter TextFilter;

/* Makes the filter by the node's attributes. */
Status text_filter_create(TextFilter **out, const Graph *g, const Node *n) CHECKED;
void text_filter_free(TextFilter *f); /* NULL is legal */
/* *out: is it a stop word?  E_NOMEM. */
Status text_filter_drops(bool *out, const TextFilter *f, Text t) CHECKED;
/* Sets element `i` of `to` to the string in its new case; false: out of memory. */
bool text_filter_set(Tensor *to, int64_t i, Arena *a, const TextFilter *f, Text t);

#endif
