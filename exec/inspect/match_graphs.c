/* Outputs correspond, and so do the nodes that make them and, one by one, what these read.  Constants are compared by
 * their readers: two that happen to be the same number are one value in one of the graphs (passes/simplify/cse.c) and
 * two in the other. */
#include "exec/inspect/match_graphs.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct {
    Match *m;
    ValueId *met; /* those whose makers are still to be looked at */
    uint32_t n;
} Walk;

/* ---- constants ---- */

static double rounding(DType t)
{
    return t == DT_FLOAT64 ? 4 * DBL_EPSILON : t == DT_FLOAT32 ? 4 * (double)FLT_EPSILON : 1.0 / 64;
}

static bool numbers_agree(double x, double y, double slack)
{
    return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= slack * fabs(y);
}

bool match_tensors(const Tensor *a, const Tensor *b)
{
    if (a == b || tensor_same(a, b))
        return true;
    if (a->dtype != b->dtype || !shape_eq(&a->shape, &b->shape) || !dtype_is_float(a->dtype) || !a->data || !b->data)
        return false;
    for (int64_t i = 0; i < tensor_numel(a); i++)
        if (!numbers_agree(tensor_float(a, i), tensor_float(b, i), rounding(a->dtype)))
            return false;
    return true;
}

/* ---- the walk ---- */

static void match_graphs_meet(Walk *w, ValueId x, ValueId y, const char *reader)
{
    Match *m = w->m;
    const Value *of_a = has_value(x) ? value(m->a, x) : NULL, *of_b = has_value(y) ? value(m->b, y) : NULL;

    if (!of_a && !of_b)
        return;
    if (!of_a || !of_b || of_a->kind != of_b->kind)
        problems_add(m->wrong, "%s reads something of another kind", reader);
    else if (of_a->kind == V_CONST) {
        if (m->equal && !match_tensors(of_a->init, of_b->init))
            problems_add(m->wrong, "%s reads another constant", reader);
    } else if (m->twin[x.i]) {
        if (m->twin[x.i] != y.i)
            problems_add(m->wrong, "%s reads the same where two are different", reader);
    } else {
        m->twin[x.i] = y.i;
        if (of_a->kind == V_TEMP)
            w->met[w->n++] = x;
        else if (strcmp(of_a->name, of_b->name))
            problems_add(m->wrong, "%s reads '%s' and '%s'", reader, of_a->name, of_b->name);
    }
}

static void meet_inputs(Walk *w, const Node *x, const Node *y)
{
    const char *reader = node_text(w->m->a, x);

    if (x->op != y->op || x->n_in != y->n_in || x->n_out != y->n_out) {
        problems_add(w->m->wrong, "%s is %s", reader, node_text(w->m->b, y));
        return;
    }
    if (!attrs_same(x, y))
        problems_add(w->m->wrong, "%s has other attributes", reader);
    for (int i = 0; i < x->n_in; i++)
        match_graphs_meet(w, x->in[i], y->in[i], reader);
}

Status match_graphs(Match *m, Arena *scratch)
{
    Walk w = { .m = m, .met = ARENA_NEW(scratch, ValueId, m->a->n_value) };

    m->twin = ARENA_NEW(scratch, uint32_t, m->a->n_value);
    if (!w.met || !m->twin)
        return FAIL_NOMEM();
    if (m->a->n_output != m->b->n_output)
        problems_add(m->wrong, "%d outputs are %d", m->a->n_output, m->b->n_output);
    for (int i = 0; i < m->a->n_output && i < m->b->n_output; i++)
        match_graphs_meet(&w, m->a->output[i].value, m->b->output[i].value, m->a->output[i].name);
    while (w.n) {
        const ValueId x = w.met[--w.n];
        const Value *of_a = value(m->a, x), *of_b = m->b->value[m->twin[x.i]];

        if (of_a->out_index != of_b->out_index)
            problems_add(m->wrong, "%s is read at another output", node_text(m->a, of_a->producer));
        else
            meet_inputs(&w, of_a->producer, of_b->producer);
    }
    return ST_OK;
}

const Node *match_node(const Match *m, const Node *n)
{
    for (int o = 0; o < n->n_out; o++)
        if (has_value(n->out[o]) && m->twin[n->out[o].i])
            return m->b->value[m->twin[n->out[o].i]]->producer;
    return NULL;
}
