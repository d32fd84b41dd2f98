/* Compares two graphs that were built alike, node by node from their outputs. */
#ifndef DPX_MATCH_GRAPHS_H
#define DPX_MATCH_GRAPHS_H

#include "graph/ir/op.h"

typedef struct {
    const Graph *a, *b;
    uint32_t *twin;  /* [a->n_value] of what is computed, an input or a state: the value of b that stands there; 0: a
                        constant, or nothing that an output needs */
    Problems *wrong; /* takes what stands in the way, by the nodes of a */
    bool equal;      /* constants are the same but for rounding, else they may be any */
} Match;

/* m->twin is made in `scratch`.  Outputs are paired as they stand, inputs and states by their names. */
Status match_graphs(Match *m, Arena *scratch) CHECKED;
/* The node of b that stands where n does; NULL: an output does not need n. */
const Node *match_node(const Match *m, const Node *n);
/* Numbers of one type and shape, of floats the last bits aside. */
bool match_tensors(const Tensor *a, const Tensor *b);

#endif
