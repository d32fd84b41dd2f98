/* Compares two graphs from their outputs: pairs corresponding nodes and lists the differences.
 *
 * Constants are compared reader by reader: two constants of one number are one value in one of the graphs
 * (passes/simplify/cse.c) and may be two in the other. */
#include "exec/inspect/match_graphs.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- constants ---- */

/* Whether two tensors have one type, one shape and equal numbers; floats may differ by rounding. */
static bool match_tensors(const Tensor *a, const Tensor *b)
{
    const double rounding = a->dtype == DT_FLOAT64   ? 4 * DBL_EPSILON
                            : a->dtype == DT_FLOAT32 ? 4 * (double)FLT_EPSILON
                                                     : 1.0 / 64;
    if (a == b || tensor_same(a, b))
        return true;
    if (a->dtype != b->dtype || !shape_eq(&a->shape, &b->shape) || !dtype_is_float(a->dtype) || !a->data || !b->data)
        return false;
    for (int64_t i = 0; i < tensor_numel(a); i++) {
        const double x = tensor_float(a, i), y = tensor_float(b, i);

        if (x != y && !(isnan(x) && isnan(y)) && !(fabs(x - y) <= rounding * fabs(y)))
            return false;
    }
    return true;
}

/* ---- the walk ---- */

/* Pairs value x of m->a with y of m->b, which the node or output `reader` reads.  True: their producers are to be
 * paired next. */
static bool pair_values(Match *m, ValueId x, ValueId y, const char *reader)
{
    const Value *of_a = has_value(x) ? value(m->a, x) : NULL, *of_b = has_value(y) ? value(m->b, y) : NULL;

    if (!of_a && !of_b)
        return false;
    if (!of_a || !of_b || of_a->kind != of_b->kind)
        problems_add(m->wrong, "%s reads values of different kinds", reader);
    else if (of_a->kind == V_CONST) {
        if (m->equal && !match_tensors(of_a->init, of_b->init))
            problems_add(m->wrong, "%s reads different constants", reader);
    } else if (m->twin[x.i]) {
        if (m->twin[x.i] != y.i)
            problems_add(m->wrong, "%s reads one value in one graph and another in the other", reader);
    } else {
        m->twin[x.i] = y.i;
        if (of_a->kind == V_TEMP)
            return true;
        if (strcmp(of_a->name, of_b->name))
            problems_add(m->wrong, "%s reads '%s' and '%s'", reader, of_a->name, of_b->name);
    }
    return false;
}

Status match_graphs(Match *m, Arena *scratch)
{
    ValueId *todo = ARENA_NEW(scratch, ValueId, m->a->n_value); /* paired values whose producers are not yet */
    uint32_t n = 0;

    m->twin = ARENA_NEW(scratch, uint32_t, m->a->n_value);
    if (!todo || !m->twin)
        return FAIL_NOMEM();
    if (m->a->n_output != m->b->n_output)
        problems_add(m->wrong, "the graphs have %d and %d outputs", m->a->n_output, m->b->n_output);
    for (int i = 0; i < m->a->n_output && i < m->b->n_output; i++)
        if (pair_values(m, m->a->output[i].value, m->b->output[i].value, m->a->output[i].name))
            todo[n++] = m->a->output[i].value;
    while (n) {
        const ValueId v = todo[--n];
        const Value *of_a = value(m->a, v), *of_b = m->b->value[m->twin[v.i]];
        const Node *x = of_a->producer, *y = of_b->producer;
        const char *reader = node_text(m->a, x);

        if (of_a->out_index != of_b->out_index) {
            problems_add(m->wrong, "%s: its outputs %d and %d are read", reader, of_a->out_index, of_b->out_index);
            continue;
        }
        if (x->op != y->op || x->n_in != y->n_in || x->n_out != y->n_out) {
            problems_add(m->wrong, "%s corresponds to %s", reader, node_text(m->b, y));
            continue;
        }
        if (!attrs_same(x, y))
            problems_add(m->wrong, "%s: its attributes differ", reader);
        for (int i = 0; i < x->n_in; i++)
            if (pair_values(m, x->in[i], y->in[i], reader))
                todo[n++] = x->in[i];
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
