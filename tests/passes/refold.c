/* refold: a tensor that the exporter computed from parameters follows them when they change. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"
#include "tests/harness/test.h"

extern const Pass pass_refold;

/* The folded tensor, of p = {1,2,4} and q = {3,5,7}, the operator that computes it again, and what that gives for twice
 * as large a p. */
typedef struct {
    const char *folded, *op;
    double expected[3];
} Folded;

static void check(const Folded *t)
{
    char text[512];
    const BuildOptions opt = { 0 };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt };
    const Shape shape = SHAPE(3);
    const Tensor **values;
    Tensor *p;
    Graph *g = NULL;
    int n = snprintf(text, sizeof text,
                     "graph \"g\" {\n  input %%x : float32[3]\n  const %%p : float32[3] = {1,2,4}\n"
                     "  const %%q : float32[3] = {3,5,7}\n  const %%folded : float32[3] = {%s}\n"
                     "  %%y = Add(%%x, %%folded)\n  output \"y\" = %%y\n}\n",
                     t->folded);

    if (CHECK_OK(graph_parse(&g, text, (size_t)n))) {
        value(g, graph_find(g, "folded"))->folded_from = "['p', 'q']";
        CHECK_OK(pass_refold.run(g, &ctx));
        CHECK_STR(t->op, g->node[0]->op->name);
        p = (Tensor *)value(g, graph_find(g, "p"))->init;
        for (int i = 0; i < 3; i++)
            tensor_set_float(p, i, 2 * tensor_float(p, i));
        values = ARENA_NEW(ctx.scratch, const Tensor *, g->n_value);
        values[g->input[0].i] = tensor_create(ctx.scratch, DT_FLOAT32, &shape);
        if (CHECK_OK(interp_run(ctx.scratch, g, values)))
            for (int i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(tensor_float(values[g->output[0].value.i], i), t->expected[i]);
    }
    graph_free(g);
    arena_free(ctx.scratch);
}

static void test_one_source(void)
{
    check(&(Folded){ "1,0.5,0.25", "Reciprocal", { 0.5, 0.25, 0.125 } });
    check(&(Folded){ "-1,-2,-4", "Neg", { -2, -4, -8 } });
    check(&(Folded){ "3,6,12", "Mul", { 6, 12, 24 } });
    check(&(Folded){ "3,1.5,0.75", "Div", { 1.5, 0.75, 0.375 } });
    check(&(Folded){ "4,5,7", "Add", { 5, 7, 11 } });
    check(&(Folded){ "2,1,-1", "Sub", { 1, -1, -5 } });
}

static void test_two_sources(void)
{
    check(&(Folded){ "4,7,11", "Add", { 5, 9, 15 } });
    check(&(Folded){ "2,3,3", "Sub", { 1, 1, -1 } });
    check(&(Folded){ "-2,-3,-3", "Sub", { -1, -1, 1 } });
    check(&(Folded){ "3,10,28", "Mul", { 6, 20, 56 } });
    check(&(Folded){ "3,2.5,1.75", "Div", { 1.5, 1.25, 0.875 } });
}

/* ---- axes in other orders ---- */

static double inverse(double x) { return 1 / x; }
static double negative(double x) { return -x; }
static double same(double x) { return x; }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return log1p(exp(x)); }

/* A formula, the name that shows it, whether it takes -p, and whether the name shows another one, so that the tensor
 * stays. */
typedef struct {
    double (*of)(double);
    const char *shown;
    bool negated, stays;
} Formula;

static const Formula formulas[] = {
    { same, "'transpose'", false, false },
    { inverse, "'reciprocal'", false, false },
    { negative, "'neg'", false, false },
    { exp, "'exp'", false, false },
    { exp, "'neg', 'exp_3'", true, false },
    { log, "'log'", false, false },
    { sqrt, "'sqrt'", false, false },
    { sigmoid, "'sigmoid_1'", false, false },
    { sigmoid, "'neg', 'sigmoid'", true, false },
    { tanh, "'tanh'", false, false },
    { tanh, "'neg_2', 'tanh'", true, false },
    { softplus, "'softplus'", false, false },
};
static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
enum { ORDERS = sizeof orders / sizeof *orders, NUMBERS = 24 };
static const int64_t whole[3] = { 2, 3, 4 };

/* Element i of p [2,3,4], in the order of the result, which has the axes in this order. */
static int64_t place_of(int64_t i, const int order[3])
{
    static const int64_t stride[3] = { 12, 4, 1 };
    int64_t at = 0;

    for (int k = 3; k-- > 0; i /= whole[order[k]])
        at += i % whole[order[k]] * stride[order[k]];
    return at;
}

static double number_of(int64_t i, bool changed) { return 0.25 + 0.375 * (double)i + (changed ? 0.125 : 0); }

static double result_of(const Formula *f, int64_t i, bool changed)
{
    return f->of(f->negated ? -number_of(i, changed) : number_of(i, changed));
}

/* y = x + folded, and p, which folded was computed from.  `other`: folded has an element that the formula does not
 * give.
 */
static Graph *folded_graph(const Formula *f, const int order[3], DType dtype, bool other)
{
    const int size[3] = { (int)whole[order[0]], (int)whole[order[1]], (int)whole[order[2]] };
    const char *type = dtype_name(dtype);
    char text[512];
    Graph *g = NULL;
    Tensor *p, *folded;

    snprintf(text, sizeof text,
             "graph \"g\" {\n  const %%m.p : %s[2,3,4] = all 0\n  input %%x : %s[%d,%d,%d]\n"
             "  const %%folded : %s[%d,%d,%d] = all 0\n  %%y = Add(%%x, %%folded)\n  output \"y\" = %%y\n}\n",
             type, type, size[0], size[1], size[2], type, size[0], size[1], size[2]);
    if (!CHECK_OK(graph_parse(&g, text, strlen(text))))
        return NULL;
    value(g, graph_find(g, "folded"))->folded_from = arena_printf(g->arena, "['m.p', %s]", f->shown);
    p = (Tensor *)value(g, graph_find(g, "m.p"))->init;
    folded = (Tensor *)value(g, graph_find(g, "folded"))->init;
    for (int64_t i = 0; i < NUMBERS; i++) {
        tensor_set_float(p, i, number_of(i, false));
        tensor_set_float(folded, i, result_of(f, place_of(i, order), false));
    }
    if (other)
        tensor_set_float(folded, NUMBERS - 1, tensor_float(folded, NUMBERS - 1) * 1.001);
    return g;
}

/* Changes p and checks y for an x of zeros. */
static void check_changed(Graph *g, Arena *a, const Formula *f, const int order[3])
{
    Tensor *p = (Tensor *)value(g, graph_find(g, "m.p"))->init;
    const Tensor **values = ARENA_NEW(a, const Tensor *, g->n_value), *y;
    const double limit = p->dtype == DT_FLOAT32 ? 1e-6 : 1e-13;

    for (int64_t i = 0; i < NUMBERS; i++)
        tensor_set_float(p, i, number_of(i, true));
    values[g->input[0].i] = tensor_create(a, p->dtype, value(g, g->input[0])->shape);
    if (!CHECK_OK(interp_run(a, g, values)))
        return;
    y = values[g->output[0].value.i];
    for (int64_t i = 0; i < NUMBERS; i++) {
        const double want = result_of(f, place_of(i, order), true);

        CU_ASSERT_DOUBLE_EQUAL(tensor_float(y, i), want, limit * fabs(want));
    }
}

static void check_formula(const Formula *f, const int order[3], DType dtype, bool other)
{
    const BuildOptions opt = { 0 };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt };
    Graph *g = folded_graph(f, order, dtype, other);

    if (g && CHECK_OK(pass_refold.run(g, &ctx))) {
        const bool replaced = !other && !f->stays;

        if (ctx.n_changed != replaced)
            TEST_FAIL("%s in order %d %d %d: %d changes, expected %d", f->shown, order[0], order[1], order[2],
                      ctx.n_changed, replaced);
        else if (replaced)
            check_changed(g, ctx.scratch, f, order);
    }
    graph_free(g);
    arena_free(ctx.scratch);
}

static void test_orders(void)
{
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        for (int k = 0; k < ORDERS; k++) {
            check_formula(&formulas[i], orders[k], DT_FLOAT32, false);
            check_formula(&formulas[i], orders[k], DT_FLOAT64, false);
            check_formula(&formulas[i], orders[k], DT_FLOAT32, true);
        }
}

/* A function that no name shows stays a tensor of its own: many functions fit few numbers. */
static void test_unnamed(void)
{
    check_formula(&(Formula){ exp, "'expand'", false, true }, orders[0], DT_FLOAT32, false);
    check_formula(&(Formula){ tanh, "'val_2'", false, true }, orders[0], DT_FLOAT32, false);
    check_formula(&(Formula){ log, "'log', 'neg'", false, true }, orders[0], DT_FLOAT32, false); /* not of -p */
    check_formula(&(Formula){ exp, "'exp'", true, true }, orders[0], DT_FLOAT32, false); /* of -p, without a 'neg' */
}

/* ---- the older exporter, which records no sources ---- */

typedef struct {
    const char *name, *numbers, *p, *q; /* of the folded tensor; of m.p and m.q */
    const char *producer, *op;          /* NULL: it stays */
} Legacy;

static void check_legacy(const Legacy *t)
{
    const BuildOptions opt = { 0 };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt };
    char text[512];
    Graph *g = NULL;
    int n = snprintf(text, sizeof text,
                     "graph \"g\" {\n  const %%m.p : float32[3] = {%s}\n  input %%x : float32[3]\n"
                     "  const %%m.q : float32[3] = {%s}\n  const %%%s : float32[3] = {%s}\n  %%y = Add(%%x, %%%s)\n"
                     "  output \"y\" = %%y\n}\n",
                     t->p, t->q, t->name, t->numbers, t->name);

    if (CHECK_OK(graph_parse(&g, text, (size_t)n))) {
        g->producer = t->producer;
        for (uint32_t i = 1; i < g->n_value; i++)
            g->value[i]->origin = g->value[i]->kind == V_CONST ? ORIGIN_INITIALIZER : ORIGIN_NONE;
        CHECK_OK(pass_refold.run(g, &ctx));
        CHECK_STR(t->op ? t->op : "Add", g->node[0]->op->name);
        if (t->op)
            CHECK_STR("m.p", value(g, g->node[0]->in[0])->name);
    }
    graph_free(g);
    arena_free(ctx.scratch);
}

static void test_legacy(void)
{
    static const char made[] = "\"onnx::Add_5\"", three[] = "1,2,4";
    static const Legacy cases[] = {
        { made, "-1,-2,-4", three, "3,5,7", "pytorch", "Neg" },
        { made, "1,0.5,0.25", three, "3,5,7", "pytorch", "Reciprocal" },
        { made, "1,2,3", "1,4,9", "3,5,7", "pytorch", "Sqrt" },
        { made, "-1,-2,-4", three, three, "pytorch", NULL }, /* of which? */
        { made, "1,2,4", three, "3,5,7", "pytorch", NULL },
        { made, "-1,-2,-4.5", three, "3,5,7", "pytorch", NULL },
        { made, "-1,-2,-4", three, "3,5,7", "keras", NULL },
        { "folded", "-1,-2,-4", three, "3,5,7", "pytorch", NULL },
        { made, "2,2,2", "-2,-2,-2", "3,5,7", "pytorch", "Neg" },
        { made, "1,1,1", "-1,-1,-1", "3,5,7", "pytorch", NULL },
        { made, "-1,-1,-1", "1,1,1", "3,5,7", "pytorch", NULL },
        { made, "-0,-0,-0", "0,0,0", "3,5,7", "pytorch", "Neg" },
        { made, "0,0,0", "-0,-0,-0", "3,5,7", "pytorch", NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_legacy(&cases[i]);
}

DEFINE_SUITE(refold, { "formulas of one parameter and a number", test_one_source },
             { "formulas of two parameters", test_two_sources }, { "axes in other orders", test_orders },
             { "functions that no name shows", test_unnamed }, { "files without recorded sources", test_legacy });
