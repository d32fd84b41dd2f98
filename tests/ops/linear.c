/* Partial sums: an operator whose rule lets them pass says that it is linear in them.  Every node of a case is held to
 * that: for every choice of partial inputs, where outputs are said to be partial sums as well, the results of two parts
 * add up to the result of the whole, for integers (which wrap) exactly. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ir/placement_rules.h"
#include "tests/ops/check.h"

enum { MAX_PARTIAL = 5, ARGS = 16 };

typedef struct {
    Arena *a;
    Graph *g;
    Node *n;
    const Tensor *in[ARGS];
    Place have[ARGS], want[ARGS], out[CHECK_OUTPUTS];
} Linear;

static bool is_sum(const Tensor *t) { return t && (t->dtype == DT_FLOAT64 || dtype_is_int(t->dtype)); }

/* One of two parts whose sum is t. */
static Tensor *part_of(Arena *a, const Tensor *t, int r)
{
    Tensor *part = tensor_create(a, t->dtype, &t->shape);
    uint32_t seed = 99;

    for (int64_t i = 0; part && i < tensor_numel(t); i++) {
        seed = seed * 1664525u + 1013904223u;
        if (dtype_is_float(t->dtype)) {
            double x = (double)(seed >> 8) / (1 << 23) - 1;

            tensor_set_float(part, i, r ? tensor_float(t, i) - x : x);
        } else {
            uint64_t x = seed >> 25;

            tensor_set_int(part, i, (int64_t)(r ? (uint64_t)tensor_int(t, i) - x : x));
        }
    }
    return part;
}

/* Replica r's outputs: of inputs that are to be partial and were not, replica 0 has all. */
static Status run_part(Linear *l, int r, Tensor **out)
{
    const Tensor *in[ARGS] = { NULL };

    for (int i = 0; i < l->n->n_in; i++) {
        in[i] = l->in[i];
        if (!in[i] || l->want[i].kind != PL_P)
            continue;
        in[i] = l->have[i].kind == PL_P ? part_of(l->a, in[i], r)
                : r                     ? tensor_create(l->a, in[i]->dtype, &in[i]->shape)
                                        : in[i];
        if (!in[i])
            return FAIL_NOMEM();
    }
    return interp_node(l->a, l->g, l->n, in, out);
}

static Status compare_sums(Linear *l, Tensor **whole, Tensor **p0, Tensor **p1)
{
    for (int o = 0; o < l->n->n_out; o++) {
        if (!whole[o] || l->out[o].kind != PL_P)
            continue;
        for (int64_t i = 0; i < tensor_numel(whole[o]); i++)
            if (dtype_is_float(whole[o]->dtype) && !isfinite(tensor_float(whole[o], i)))
                tensor_set_float(p0[o], i, tensor_float(whole[o], i)); /* infinity is no vector space */
            else if (dtype_is_float(whole[o]->dtype))
                tensor_set_float(p0[o], i, tensor_float(p0[o], i) + tensor_float(p1[o], i));
            else
                tensor_set_int(p0[o], i, (int64_t)((uint64_t)tensor_int(p0[o], i) + (uint64_t)tensor_int(p1[o], i)));
        TRY(check_equal(p0[o], whole[o], 1e-9, "the sum of the parts' results"));
    }
    return ST_OK;
}

static bool any_partial(const Place *at, int n)
{
    for (int i = 0; i < n; i++)
        if (at[i].kind == PL_P)
            return true;
    return false;
}

static Status try_choice(Linear *l)
{
    const int64_t all = 1, none = 0;
    const Split batch = { .n = 1, .total = 1, .count = &all, .offset = &none };
    Placement p = { .g = l->g, .node = l->n, .split = &batch, .in = l->want, .out = l->out };
    Tensor *whole[CHECK_OUTPUTS] = { NULL }, *part[2][CHECK_OUTPUTS] = { { NULL } };

    memcpy(l->want, l->have, sizeof l->want);
    TRY(place_by_rule(&p));
    if (!any_partial(l->out, l->n->n_out) || !any_partial(l->want, l->n->n_in))
        return ST_OK;
    TRY(interp_node(l->a, l->g, l->n, l->in, whole));
    for (int r = 0; r < 2; r++)
        TRY(run_part(l, r, part[r]));
    return compare_sums(l, whole, part[0], part[1]);
}

static Status check_node(Graph *g, Node *n, const Tensor **values, Arena *a)
{
    Linear l = { .a = a, .g = g, .n = n };
    int sums = 0, of[MAX_PARTIAL];

    for (int i = 0; i < n->n_in; i++) {
        l.in[i] = has_value(n->in[i]) ? values[n->in[i].i] : NULL;
        if (is_sum(l.in[i]) && sums < MAX_PARTIAL)
            of[sums++] = i;
    }
    for (unsigned choice = 1; choice < 1u << sums; choice++) {
        for (int i = 0; i < n->n_in; i++)
            l.have[i] = PLACE_B;
        for (int i = 0; i < sums; i++)
            l.have[of[i]] = choice >> i & 1 ? PLACE_P : PLACE_B;
        Status st = try_choice(&l);

        if (st)
            return status_prefix(st, "%s, partial inputs %#x", n->op->name, choice);
    }
    return ST_OK;
}

Status check_linear(const Check *k, const Eval *e)
{
    const Tensor **values = ARENA_NEW(k->arena, const Tensor *, e->g->n_value);

    if (!values)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < e->g->n_value; i++)
        values[i] = e->g->value[i]->init;
    for (int i = 0; i < e->g->n_input; i++)
        values[e->g->input[i].i] = e->in[atoi(value(e->g, e->g->input[i])->name + 1)];
    TRY(interp_run(k->arena, e->g, values));
    FOR_NODES(e->g, n) {
        bool known = n->n_in <= ARGS && n->n_out <= CHECK_OUTPUTS && n->op->place && !(n->op->flags & OPF_RANDOM);

        for (int o = 0; o < n->n_out; o++)
            known &= !has_value(n->out[o]) || shape_known(value(e->g, n->out[o])->shape);
        if (known && !k->c->nosplit)
            TRY(check_node(e->g, n, values, k->arena));
    }
    return ST_OK;
}
