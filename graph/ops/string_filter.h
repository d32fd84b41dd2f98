/* What StringNormalizer does to each string: drops it, or changes its case. */
#ifndef DPX_STRING_FILTER_H
#define DPX_STRING_FILTER_H

#include "graph/ir/op.h"
#include "graph/tensor/strings.h"

typedef struct TextFilter TextFilter;

/* By the node's attributes. */
Status text_filter_create(TextFilter **out, const Graph *g, const Node *n) CHECKED;
void text_filter_free(TextFilter *f); /* NULL is legal */
/* Is it one of the stop words?  E_NOMEM: there is no saying. */
Status text_filter_drops(bool *out, const TextFilter *f, Text t) CHECKED;
/* Element `i` of `to` becomes the string in its new case; false: out of memory. */
bool text_filter_set(Tensor *to, int64_t i, Arena *a, const TextFilter *f, Text t);

#endif
