/* Compares two graphs node by node, from their outputs. */
#ifndef DPX_MATCH_GRAPHS_H
#define DPX_MATCH_GRAPHS_H

#include "graph/ir/op.h"

typedef struct {
    const Graph *a, *b;
    uint32_t *twin;  /* [a->n_value] the value of b that corresponds to a computed value, input or state of a; 0: a
                        constant, or a value that no output needs */
    Problems *wrong; /* receives the differences, by the nodes of a */
    bool equal;      /* constants must be equal up to rounding; false: they may have any value */
} Match;

/* Fills m->twin, which is allocated in `scratch`.  Pairs outputs by position, inputs and states by name. */
Status match_graphs(Match *m, Arena *scratch) CHECKED;
/* The node of b that corresponds to node n of a; NULL: no output needs n. */
const Node *match_node(const Match *m, const Node *n);

#endif
