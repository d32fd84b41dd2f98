/* fuse-gelu: GELU written in single operators becomes one Gelu.
 *
 *   x/2 (1 + erf(x / sqrt 2))                               Gelu
 *   x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))           Gelu with approximate="tanh"
 *   x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3))              the same function: 1 + tanh(u) = 2 sigmoid(2u)
 *
 * Models write these in many ways: 1/2 first or last, Div or Mul by the root, Pow or products, the cube with x factored
 * out.  So the pass compares polynomials, not forms.  It expands sums, products and powers with constants: the argument
 * of erf (tanh, sigmoid) as a polynomial in x, and the rest as one in x and the result t.  The coefficients must be
 * those above, up to the rounding of literals: to float32 if all literals are numbers of float32, else to float64,
 * where a literal that is off by more means another function.  Any value may be x.
 *
 * Legal because it is the same function, computed and differentiated with less rounding.  Its gradient reads x alone,
 * where the single operators keep t, 1 + t and a multiple of x until the backward pass; so the pass runs before
 * autodiff. Only the last value is replaced: other readers of a part of the formula keep that part.  In 16-bit types,
 * where literals of another function round to these, nothing is fused. */
#include <math.h>

#include "graph/ir/emit.h"
#include "graph/ir/readers.h"
#include "graph/ir/rewrite.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/branch.gen.h"
#include "graph/ops/unary.gen.h"
#include "passes/pass.h"

enum { POWERS = 4, DEPTH = 8, CANDIDATES = 16 };
static const double ROUNDING = 0x1p-22,
                    WIDE_ROUNDING = 0x1p-50; /* relative: a product of a few literals of float32, float64 */

/* The sum of c[i][j] x^i t^j.  wide: some literal in it is not a number of float32. */
typedef struct {
    double c[POWERS][2];
    bool wide;
} Poly;

#define SQRT_HALF 0.70710678118654752440
#define SQRT_2_OVER_PI 0.79788456080286535588
#define CUBIC 0.044715

/* x (a + b t) with t = op(c x + d x^3). */
typedef struct {
    const OpDef *op;
    const char *approximate;
    double a, b, c, d;
} Form;
#define FORM(Op, how, a, b, scale, cubic)             \
    {                                                 \
        &op_##Op, how, a, b, scale, (scale) * (cubic) \
    }
static const Form forms[] = {
    /* each with both signs of the argument: erf and tanh are odd, sigmoid(-u) = 1 - sigmoid(u) */
    FORM(Erf, "none", 0.5, 0.5, SQRT_HALF, 0),
    FORM(Erf, "none", 0.5, -0.5, -SQRT_HALF, 0),
    FORM(Tanh, "tanh", 0.5, 0.5, SQRT_2_OVER_PI, CUBIC),
    FORM(Tanh, "tanh", 0.5, -0.5, -SQRT_2_OVER_PI, CUBIC),
    FORM(Sigmoid, "tanh", 0, 1, 2 * SQRT_2_OVER_PI, CUBIC),
    FORM(Sigmoid, "tanh", 1, -1, -2 * SQRT_2_OVER_PI, CUBIC),
};

/* One reading of t, as a form's function of x.  `other`: another reading, since erf(-x / sqrt 2) may be part of the
 * GELU of x or of -x. */
typedef struct Gate {
    ValueId x, t;
    const Form *form;
    const struct Gate *other;
} Gate;

/* ---- polynomials ---- */

/* Are the coefficients equal, up to rounding? */
static bool same(const Poly *p, const Poly *expected)
{
    const double rounding = p->wide ? WIDE_ROUNDING : ROUNDING;

    for (int i = 0; i < POWERS; i++)
        for (int j = 0; j < 2; j++)
            if (!(fabs(p->c[i][j] - expected->c[i][j]) <= rounding * fabs(expected->c[i][j])))
                return false;
    return true;
}

/* False: the degree exceeds that of any GELU. */
static bool fuse_gelu_multiply(Poly *out, const Poly *a, const Poly *b)
{
    Poly p = { .wide = a->wide || b->wide };

    for (int n = 0; n < 4 * POWERS * POWERS; n++) {
        int i = n / 4 / POWERS, k = n / 4 % POWERS, j = n / 2 % 2, l = n % 2;
        double term = a->c[i][j] * b->c[k][l];

        if (term == 0)
            continue;
        if (i + k >= POWERS || j + l > 1)
            return false;
        p.c[i + k][j + l] += term;
    }
    *out = p;
    return true;
}

/* ---- formulas as polynomials ---- */

/* The arithmetic node that makes v; NULL: none does. */
static const Node *arithmetic(const Graph *g, ValueId v)
{
    const Node *n = maker(g, v);
    const OpDef *op = n ? n->op : NULL;

    return op && (op == &op_Add || op == &op_Sub || op == &op_Mul || op == &op_Div || op == &op_Neg || op == &op_Pow)
               ? n
               : NULL;
}

/* *out: the result of the operator on two polynomials.  False: it is none, or of a higher degree than any GELU. */
static bool combine(Poly *out, const OpDef *op, const Poly *a, const Poly *b)
{
    const double number = b->c[0][0], sign = op == &op_Add ? 1 : -1;

    if (op == &op_Add || op == &op_Sub) {
        for (int i = 0; i < POWERS; i++)
            for (int j = 0; j < 2; j++)
                out->c[i][j] = a->c[i][j] + sign * b->c[i][j];
        out->wide = a->wide || b->wide;
        return true;
    }
    if (op == &op_Mul)
        return fuse_gelu_multiply(out, a, b);
    if (!same(b, &(Poly){ .c[0][0] = number }))
        return false;
    if (op == &op_Div)
        return fuse_gelu_multiply(out, a, &(Poly){ .c[0][0] = 1 / number, .wide = b->wide });
    return (number == 2 || number == 3) && fuse_gelu_multiply(out, a, a) &&
           (number == 2 || fuse_gelu_multiply(out, out, a));
}

/* The polynomial c x^i t^j. */
static bool term(Poly *out, int i, int j, double c)
{
    *out = (Poly){ .wide = (double)(float)c != c };
    out->c[i][j] = c;
    return true;
}

/* *out: v as a polynomial in x and t.  False: it is none. */
static bool fuse_gelu_expand(Poly *out, const Graph *g, const Gate *by, ValueId v, int depth)
{
    const Node *n = arithmetic(g, v);
    Poly a, b;
    double number;

    if (value_eq(v, by->x))
        return term(out, 1, 0, 1);
    if (value_eq(v, by->t))
        return term(out, 0, 1, 1);
    if (value_const_number(g, v, &number))
        return term(out, 0, 0, number);
    if (!n || !depth || !fuse_gelu_expand(&a, g, by, n->in[0], depth - 1))
        return false;
    if (n->op == &op_Neg)
        return fuse_gelu_multiply(out, &a, &(Poly){ .c[0][0] = -1 });
    return fuse_gelu_expand(&b, g, by, n->in[1], depth - 1) && combine(out, n->op, &a, &b);
}

/* Appends v and the values that arithmetic computes it from, each before its operands.  Returns the new count. */
static int candidates(const Graph *g, ValueId v, int depth, ValueId *list, int count)
{
    const Node *n = arithmetic(g, v);
    double number;

    if (count == CANDIDATES || !has_value(v) || value_const_number(g, v, &number))
        return count;
    list[count++] = v;
    for (int i = 0; n && depth && i < n->n_in; i++)
        count = candidates(g, n->in[i], depth - 1, list, count);
    return count;
}

/* ---- the pass ---- */

/* *out: the readings of n's output as t; NULL: there is none. */
static Status find_gates(Arena *scratch, const Graph *g, const Node *n, const Gate **out)
{
    ValueId list[CANDIDATES];
    bool known = false;
    int count;
    Poly argument;

    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
        known |= forms[k].op == n->op;
    count = known ? candidates(g, n->in[0], DEPTH, list, 0) : 0;
    *out = NULL;
    for (int k = 0; k < count; k++) {
        const Gate by = { .x = list[k] };
        const Form *form = NULL;
        Gate *gate;

        if (!fuse_gelu_expand(&argument, g, &by, n->in[0], DEPTH))
            continue;
        for (size_t i = 0; i < sizeof forms / sizeof *forms && !form; i++)
            if (n->op == forms[i].op && same(&argument, &(Poly){ .c = { [1] = { forms[i].c }, [3] = { forms[i].d } } }))
                form = &forms[i];
        if (!form)
            continue;
        if (!(gate = ARENA_NEW(scratch, Gate, 1)))
            return FAIL_NOMEM();
        *gate = (Gate){ list[k], n->out[0], form, *out };
        *out = gate;
    }
    return ST_OK;
}

/* The reading, `gate` or another of t, in which v is a GELU; NULL: none. */
static const Gate *read_gelu(const Graph *g, ValueId v, const Gate *gate)
{
    const Value *y = value(g, v);
    Poly p;

    if ((y->dtype != DT_FLOAT32 && y->dtype != DT_FLOAT64) || !shape_known(y->shape))
        return NULL;
    for (; gate; gate = gate->other)
        if (shape_eq(y->shape, value(g, gate->x)->shape) && fuse_gelu_expand(&p, g, gate, v, DEPTH) &&
            same(&p, &(Poly){ .c = { [1] = { gate->form->a, gate->form->b } } }))
            return gate;
    return NULL;
}

/* The one gate among the inputs of arithmetic n; NULL: none, or several.  `gates`: by value id. */
static const Gate *gate_of_inputs(const Graph *g, const Node *n, const Gate *const *gates, uint32_t n_value)
{
    const Gate *found = NULL;

    for (int i = 0; arithmetic(g, n->out[0]) && i < n->n_in; i++) {
        const Gate *gate = n->in[i].i < n_value ? gates[n->in[i].i] : NULL;

        if (found && gate && gate != found)
            return NULL;
        found = gate ? gate : found;
    }
    return found;
}

static Status fuse_gelu_run(Graph *g, PassCtx *ctx)
{
    const uint32_t n_value = g->n_value, n_node = g->n_node;
    const Gate **gates = ARENA_NEW(ctx->scratch, const Gate *, n_value), *gate, *gelu;

    if (!gates)
        return FAIL_NOMEM();
    TRY(rewrite_begin(g, ctx->scratch));
    for (uint32_t i = 0; i < n_node && !g->status; i++) {
        Node *n = g->node[i];

        if (!n->op)
            continue;
        rewrite_read(g, n);
        if (!(gate = gate_of_inputs(g, n, gates, n_value)))
            TRY(find_gates(ctx->scratch, g, n, &gate));
        if (!arithmetic(g, n->out[0]) || !(gelu = read_gelu(g, n->out[0], gate))) {
            gates[n->out[0].i] = gate;
            continue;
        }
        graph_replace(g, n->out[0], EMIT(g, Gelu, ATTRS(STRING("approximate", gelu->form->approximate)), gelu->x));
        graph_remove(g, n);
        ctx->n_changed++;
    }
    TRY(rewrite_end(g));
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_fuse_gelu = { .name = "fuse-gelu",
                              .summary = "merge GELU written in single operators into one node",
                              .idempotent = true,
                              .run = fuse_gelu_run };
