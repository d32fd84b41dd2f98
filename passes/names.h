/* Names of tensors and modules: paths of words joined by points, as in PyTorch's state_dict. */
#ifndef DPX_PASSES_NAMES_H
#define DPX_PASSES_NAMES_H

#include "graph/ir/graph.h"

/* The last word: "weight" of "layers.0.weight". */
const char *names_last(const char *name);
/* Do the names differ in numbers alone, and in one at least?  *order < 0: a comes before b.  prefix: the lengths of a
 * and b up to the end of the first word that differs. */
bool names_siblings(const char *a, const char *b, int *order, size_t prefix[2]);
bool names_are_siblings(const char *a, const char *b);
/* A name that an exporter made, not one of a module's parameter: val_12, onnx::MatMul_34. */
bool names_made_up(const char *name);

/* The name of a node that replaces all of the list: "HEAD (conv1.weight, bn1.bias ... 11 in all)"; NULL: no memory. */
const char *names_of_group(Arena *a, const char *head, Node *const *list, int n);

#endif
