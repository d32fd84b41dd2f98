/* Splitting a graph: both parts are copies of the whole without the other part's nodes.  Value ids stay. */
#include "graph/ir/split_graph.h"

#include "graph/ir/op.h"
#include "graph/ir/rewrite.h"

/* Marks of a value: it is computed without the rest; an output depends on it; it is an output of the known part. */
enum { KNOWN = 1, NEEDED = 2, HANDED = 4 };

/* Does n belong to the known part?  `marks` are by value id. */
static bool split_graph_is_known(const uint8_t *marks, const Graph *g, const Node *n)
{
    for (int o = 0; o < n->n_out; o++)
        if (has_value(n->out[o]) && !shape_known(value(g, n->out[o])->shape))
            return false;
    for (int i = 0; i < n->n_in; i++)
        if (!(marks[n->in[i].i] & KNOWN))
            return false;
    return true;
}

static bool is_needed(const uint8_t *marks, const Node *n)
{
    bool any = n->op->flags & OPF_IMPURE;

    for (int o = 0; o < n->n_out; o++)
        any |= has_value(n->out[o]) && marks[n->out[o].i] & NEEDED;
    return any;
}

/* Marks v as an output of the known part if that computes it. */
static void hand(uint8_t *marks, const Graph *g, ValueId v)
{
    if (has_value(v) && marks[v.i] & KNOWN && value(g, v)->kind == V_TEMP)
        marks[v.i] |= HANDED;
}

static void set_marks(uint8_t *marks, const Graph *g)
{
    for (uint32_t i = 0; i < g->n_value; i++)
        marks[i] = !i || g->value[i]->kind != V_TEMP ? KNOWN : 0;
    FOR_NODES(g, n) {
        const bool all = split_graph_is_known(marks, g, n);

        for (int o = 0; o < n->n_out; o++)
            if (has_value(n->out[o]))
                marks[n->out[o].i] = all ? KNOWN : 0;
    }
    for (int i = 0; i < g->n_output; i++) {
        marks[g->output[i].value.i] |= NEEDED;
        hand(marks, g, g->output[i].value);
    }
    for (uint32_t i = g->n_node; i-- > 0;) {
        const Node *n = g->node[i];

        if (!n->op || !is_needed(marks, n))
            continue;
        for (int k = 0; k < n->n_in; k++) {
            marks[n->in[k].i] |= NEEDED;
            if (!split_graph_is_known(marks, g, n))
                hand(marks, g, n->in[k]);
        }
    }
}

/* Removes the nodes of the other part of g, which `part` copies, and all that no output needs. */
static Status split_graph_keep(Graph *part, const Graph *g, const uint8_t *marks, bool known)
{
    uint32_t *uses;

    part->n_update = 0;
    FOR_NODES(part, n)
        if (split_graph_is_known(marks, g, g->node[n->index]) != known || !is_needed(marks, g->node[n->index]))
            graph_remove(part, n);
    TRY(graph_sort(part));
    if (!(uses = graph_count_uses(part, part->arena)))
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value; i++) {
        Value *v = part->value[i];

        if (v->kind == V_INPUT || uses[i] || (v->producer && v->producer->op))
            continue;
        value_make_temp(v);
    }
    return part->status;
}

/* Replaces the known values in the rest by inputs, and removes the known part. */
static Status make_rest(Graph *rest, const Graph *g, const uint8_t *marks)
{
    const uint32_t n_value = rest->n_value;
    Arena *scratch = arena_create_beside(rest->arena);
    Status st = scratch ? rewrite_begin(rest, scratch) : FAIL_NOMEM();

    for (uint32_t i = 1; i < n_value && !st; i++) {
        const Value *v = rest->value[i];

        if (marks[i] & HANDED)
            graph_replace(rest, (ValueId){ i }, graph_add_input(rest, v->name, v->dtype, v->shape));
    }
    st = st ? st : rewrite_end(rest);
    rewrite_drop(rest);
    if (scratch)
        arena_free(scratch);
    TRY(st);
    return split_graph_keep(rest, g, marks, false);
}

static Status split_graph_cut(Graph **known, Graph **rest, const Graph *g, uint8_t *marks)
{
    int at = g->n_input;

    set_marks(marks, g);
    TRY(graph_clone(rest, g));
    TRY(make_rest(*rest, g, marks));
    if ((*rest)->n_input == g->n_input) /* nothing is handed over */
        return ST_OK;
    TRY(graph_clone(known, g));
    (*known)->n_output = 0;
    for (uint32_t i = 1; i < g->n_value; i++)
        if (marks[i] & HANDED)
            graph_add_output(*known, value(*rest, (*rest)->input[at++])->name, (ValueId){ i });
    TRY((*known)->status);
    return split_graph_keep(*known, g, marks, true);
}

Status graph_cut(Graph **known, Graph **rest, const Graph *g)
{
    Arena *a = arena_create_beside(g->arena);
    uint8_t *marks = a ? ARENA_NEW(a, uint8_t, g->n_value) : NULL;
    Graph *one = NULL, *other = NULL;
    Status st = marks ? split_graph_cut(&one, &other, g, marks) : FAIL_NOMEM();

    arena_free(a);
    if (st) {
        graph_free(one);
        graph_free(other);
        return st;
    }
    *known = one;
    *rest = other;
    return ST_OK;
}
