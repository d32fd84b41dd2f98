/* What names of tensors and modules tell: paths of words joined by points, as PyTorch's state_dict has them. */
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

/* Whose gradient or update a node named by its purpose has in hand: "conv1.weight" of "all-reduce of gradient of
 * conv1.weight". */
const char *names_subject(const char *purpose);
/* What the node that stands for all of the list is for: "HEAD (conv1.weight, bn1.bias ... of 11)"; NULL: no memory. */
const char *names_of_group(Arena *a, const char *head, Node *const *list, int n);

#endif
