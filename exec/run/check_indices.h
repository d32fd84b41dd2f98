/* Indices and labels among a program's inputs: checked before a step of accelerators, whose kernels cannot fail, and on
 * CPUs when a step has failed, to name the element by its place in the caller's tensor and not in its device's part.
 * An index that the graph computes is not checked there; it reads nothing elsewhere, gives zeros, and as a label a loss
 * of NaN. */
#ifndef DPX_CHECK_INDICES_H
#define DPX_CHECK_INDICES_H

#include "exec/plan/prepared.h"
#include "graph/ir/op.h"

typedef struct IndexCheck IndexCheck; /* a list of checks, in check_indices.c */

/* Lists the checks of a graph, in the arena. */
Status index_check_create(IndexCheck **out, Arena *a, const Graph *g) CHECKED;
/* `input` [n_input] in the order of the graph's, as given; E_INVALID names the node and an index that selects nothing,
 * counted in the whole, which is the element of the failure. */
Status index_check_run(const IndexCheck *c, const Prepared *p, const Tensor *input) CHECKED;

#endif
