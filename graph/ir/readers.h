/* Readers and producers of values, by which passes recognise patterns of nodes.
 *
 * uses_find lists the uses of the graph as it is at that time; later changes do not show until it is called again. */
#ifndef DPX_READERS_H
#define DPX_READERS_H

#include "graph/ir/op.h"

typedef struct {
    Node *n;
    int in;
} Reader;

/* The nodes that read value i are reader[first[i] .. first[i + 1]), in graph order. */
typedef struct {
    const Graph *g;
    uint32_t n_value; /* number of values when the uses were listed */
    Reader *reader;
    uint32_t *first;
    uint32_t *ends; /* [value] number of outputs and updates that use it */
} Uses;

/* Lists the uses of the graph in `a`. */
Status uses_find(Uses *out, const Graph *g, Arena *a) CHECKED;
/* Returns the lists to `a`, the arena of uses_find.  { 0 } is legal. */
void uses_forget(Uses *u, Arena *a);
/* Number of uses by nodes, outputs and updates; 0 for a value that is newer than the list. */
uint32_t uses_count(const Uses *u, ValueId v);
/* The node with the only use of `v`; NULL when there are several uses or none, or the use is an output or an update. */
Node *only_reader(const Uses *u, ValueId v);
/* The producer of `v` if `v` has an only_reader; else NULL. */
Node *inner_maker(const Uses *u, ValueId v);

/* The node that produces `v`, or NULL. */
static inline Node *maker(const Graph *g, ValueId v)
{
    Node *n = has_value(v) ? value(g, v)->producer : NULL;

    return n && n->op ? n : NULL;
}

/* The node that produces `v` if its operator is `op`, else NULL. */
static inline Node *made_by(const Graph *g, ValueId v, const OpDef *op)
{
    Node *n = maker(g, v);

    return n && n->op == op ? n : NULL;
}

static inline bool is_view(const Node *n) { return n && n->op->flags & OPF_VIEW && n->n_out == 1; }
/* The value that v is a view of, through all views that keep the last axis, so that both have the same rows; or v. */
ValueId skip_views(const Graph *g, ValueId v);

/* Returns which of a node's two inputs is a constant number (the second if both are) and sets *number to it; -1:
 * none. */
int const_input(const Graph *g, const Node *n, double *number);

static inline bool same_place(const Node *a, const Node *b)
{
    return a->device == b->device && a->replica == b->replica;
}

#endif
