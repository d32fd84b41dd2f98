/* What an operator says of itself to those that do not know it by name (graph/ir/op.h) is held to, on every node of a
 * case: `same` and `moves` to the last bit, OPF_SUM, and that inputs within `span_in` give outputs within the span. */
#include <math.h>
#include <stdlib.h>

#include "exec/run/interp.h"
#include "tests/ops/check.h"

typedef struct {
    Arena *a;
    const Graph *g;
    Node *n;
    const Tensor **in;
    Tensor **out;
} Claim;

/* Something that no two numbers share, of each element. */
static Tensor *mapped(Arena *a, const Tensor *t)
{
    Tensor *y = t ? tensor_copy(a, t) : NULL;

    for (size_t i = 0; y && i < tensor_bytes(y); i++)
        ((unsigned char *)y->data)[i] ^= t->dtype == DT_BOOL ? 1 : 0x15;
    return y;
}

/* Is t what `expected` is with its elements mapped? */
static bool is_mapped(Arena *a, const Tensor *t, const Tensor *expected)
{
    const Tensor *y = mapped(a, expected);

    return y && t && tensor_same(t, y);
}

/* To change elements and move them then is to move them and change them then. */
static Status check_moves(Claim *c)
{
    const Node *n = c->n;
    const Tensor **in = ARENA_NEW(c->a, const Tensor *, n->n_in);
    Tensor **out = ARENA_NEW(c->a, Tensor *, n->n_out);

    for (int i = 0; i < n->n_in; i++)
        in[i] = op_moves(n->op, i) ? mapped(c->a, c->in[i]) : c->in[i];
    TRY(interp_node(c->a, c->g, c->n, in, out));
    for (int o = 0; o < n->n_out; o++)
        if (c->out[o] && !is_mapped(c->a, out[o], c->out[o]))
            return FAIL(E_INTERNAL, "%s: output %d does not consist of the inputs' elements (OpDef.moves, same)",
                        n->op->name, o);
    return ST_OK;
}

/* The element of t that broadcasting brings to element i of a tensor of shape s. */
static int64_t source_of(const Shape *t, const Shape *s, int64_t i)
{
    int64_t at = 0, step = 1;

    for (int a = s->rank - 1, b = t->rank - 1; b >= 0; a--, b--) {
        at += t->dim[b] == 1 ? 0 : i % s->dim[a] * step;
        i /= s->dim[a];
        step *= t->dim[b];
    }
    return at;
}

static Status check_same(const Claim *c)
{
    const Tensor *x = c->in[0], *y = c->out[0];
    const uint8_t same = c->n->op->same;
    bool good = x && (same & SAME_TYPED || x->dtype == y->dtype) &&
                (same & (SAME_SHAPED | SAME_SPREAD) || shape_eq(&x->shape, &y->shape));

    for (int64_t i = 0; good && i < tensor_numel(y); i++) {
        double from = tensor_float(x, same & SAME_SPREAD ? source_of(&x->shape, &y->shape, i) : i);

        if (isfinite(from) && from == trunc(from) && from >= 0 && from < 2)
            good = tensor_float(y, i) == from;
    }
    return good ? ST_OK : FAIL(E_INTERNAL, "%s: output 0 is not input 0 again (OpDef.same)", c->n->op->name);
}

static Status check_sum(const Claim *c)
{
    const Tensor *y = c->out[0];

    for (int64_t i = 0; i < tensor_numel(y) && y->dtype == DT_FLOAT64; i++) {
        double sum = 0;

        for (int k = 0; k < c->n->n_in; k++)
            sum += tensor_float(c->in[k], source_of(&c->in[k]->shape, &y->shape, i));
        if (isfinite(sum) && fabs(sum - tensor_float(y, i)) > 1e-12 * (1 + fabs(sum)))
            return FAIL(E_INTERNAL, "%s: output 0 is not the sum of the inputs (OPF_SUM)", c->n->op->name);
    }
    return ST_OK;
}

/* Input i filled with the ends of what it may be, and what lies between. */
static Status check_span(Claim *c, int i, IntSpan want)
{
    IntSpan may = want;
    bool said = c->n->op->span_in(c->g, c->n, i, &may);

    for (int k = 0; said && k < 3 && may.low < may.high; k++) {
        int64_t v = k == 0 ? may.low : k == 1 ? may.high - 1 : may.low + (may.high - may.low) / 2;
        Tensor *x = tensor_create(c->a, c->in[i]->dtype, &c->in[i]->shape);
        const Tensor *in[2] = { c->in[0], c->in[1] };
        Tensor *out[1];

        for (int64_t e = 0; x && e < tensor_numel(x); e++)
            tensor_set_int(x, e, v);
        in[i] = x;
        TRY(interp_node(c->a, c->g, c->n, in, out));
        for (int64_t e = 0; e < tensor_numel(out[0]); e++)
            if (tensor_int(out[0], e) < want.low || tensor_int(out[0], e) >= want.high)
                return FAIL(E_INTERNAL, "%s: %lld at input %d gives %lld, expected %lld to %lld (OpDef.span_in)",
                            c->n->op->name, (long long)v, i, (long long)tensor_int(out[0], e), (long long)want.low,
                            (long long)want.high - 1);
    }
    return ST_OK;
}

static Status check_spans(Claim *c)
{
    static const IntSpan want[] = { { 0, 7 }, { 3, 50 }, { -20, 50 }, { -9, -2 } };

    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4 && value_const(c->g, c->n->in[1 - i]) && c->in[i]->dtype == DT_INT64; k++)
            TRY(check_span(c, i, want[k]));
    return ST_OK;
}

static Status check_node(Claim *c)
{
    const OpDef *op = c->n->op;

    if (op->same)
        TRY(check_same(c));
    if ((op->same && !(op->same & SAME_TYPED)) || op->moves)
        TRY(check_moves(c));
    if (op->flags & OPF_SUM)
        TRY(check_sum(c));
    return op->span_in && c->n->n_in == 2 ? check_spans(c) : ST_OK;
}

Status check_claims(const Check *k, const Eval *e)
{
    const Tensor **values = ARENA_NEW(k->arena, const Tensor *, e->g->n_value);

    if (!values)
        return FAIL_NOMEM();
    for (int i = 0; i < e->g->n_input; i++)
        values[e->g->input[i].i] = e->in[atoi(value(e->g, e->g->input[i])->name + 1)];
    TRY(interp_run(k->arena, e->g, values));
    FOR_NODES(e->g, n) {
        Claim c = { k->arena, e->g, n, ARENA_NEW(k->arena, const Tensor *, n->n_in),
                    ARENA_NEW(k->arena, Tensor *, n->n_out) };
        bool whole = c.in && c.out;

        for (int i = 0; whole && i < n->n_in; i++)
            c.in[i] = values[n->in[i].i];
        for (int o = 0; whole && o < n->n_out; o++) {
            c.out[o] = (Tensor *)(uintptr_t)values[n->out[o].i];
            whole &= !c.out[o] || shape_known(value(e->g, n->out[o])->shape);
        }
        if (whole)
            TRY(check_node(&c));
    }
    return ST_OK;
}
