/* Who reads and who makes what: the questions that a pattern of nodes is recognised by.
 *
 * Uses are listed in one walk, as a graph is then: nodes that are removed, change or are added afterwards do not show.
 * A pass lists them anew when it must know. */
#ifndef DPX_READERS_H
#define DPX_READERS_H

#include "graph/ir/op.h"

typedef struct {
    Node *n;
    int in;
} Reader;

/* Nodes that read value i are reader[first[i] .. first[i + 1]), in their order. */
typedef struct {
    const Graph *g;
    uint32_t n_value; /* those that there were */
    Reader *reader;
    uint32_t *first;
    uint32_t *ends; /* [value] outputs and updates that it is */
} Uses;

/* Of the graph as it is now, in `a`. */
Status uses_find(Uses *out, const Graph *g, Arena *a) CHECKED;
/* Gives back to `a`, of which they are, the lists; of { 0 }: nothing. */
void uses_forget(Uses *u, Arena *a);
/* How often nodes, outputs and updates use the value; 0 for one that is newer than the list. */
uint32_t uses_count(const Uses *u, ValueId v);
/* The node that alone reads `v`, once; NULL when there are several, or none, or it is an output or a next value. */
Node *only_reader(const Uses *u, ValueId v);
/* The node that makes `v` for one reader alone; NULL when there is none, or `v` is used otherwise. */
Node *inner_maker(const Uses *u, ValueId v);

/* The node that makes `v`, or NULL. */
static inline Node *maker(const Graph *g, ValueId v)
{
    Node *n = has_value(v) ? value(g, v)->producer : NULL;

    return n && n->op ? n : NULL;
}

/* The same where its operator is `op`, else NULL. */
static inline Node *made_by(const Graph *g, ValueId v, const OpDef *op)
{
    Node *n = maker(g, v);

    return n && n->op == op ? n : NULL;
}

static inline bool is_view(const Node *n) { return n && n->op->flags & OPF_VIEW && n->n_out == 1; }
/* v, or what it is a view of with the same columns (the last axis): the rows are the same. */
ValueId skip_views(const Graph *g, ValueId v);

/* Which of two inputs is a constant number (the second where both are), which *number is then; -1: none. */
int const_input(const Graph *g, const Node *n, double *number);

static inline bool same_place(const Node *a, const Node *b)
{
    return a->device == b->device && a->replica == b->replica;
}

#endif
