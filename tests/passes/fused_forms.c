/* Every way to write GELU and layer normalisation that their passes know, and what they must leave alone.
 *
 * A form is a formula of `x` in the text form of graphs, all of its numbers named constants.  It must be found however
 * the operands of its sums and products are exchanged, and then be the formula, in float64: the value and the gradient
 * by every parameter, against the single operators run and differentiated as they stand.  With one of its constants a
 * millionth off, or a state in place of one, it must not be found. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/ir/op.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/layernorm.gen.h"
#include "graph/text/parse.h"
#include "graph/ir/verify.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"
#include "tests/passes/step.h"
#include "passes/build_options.h"

extern const Pass pass_autodiff, pass_fuse_gelu, pass_fuse_layer_norm;

typedef struct {
    const char *name, *text;
} Form;
typedef struct {
    const Pass *pass;
    const OpDef *op;
    const char *data, *numbers[16][2]; /* what stands in front of every form, and its constants with their values */
    const char *free;                  /* the constant that may have any value, or NULL */
    double tolerance;                  /* norm-wise */
} Family;

static const Family gelu = {
    &pass_fuse_gelu,
    &op_Gelu,
    "state %x trainable : TYPE[3,5] = {-6, -4.5, -3.25, -2.5, -1.75, -1, -0.5, -0.125, 0, 0.25, 0.75, 1.5, 2.25, 3.5, "
    "6}\n"
    "input %other : TYPE[3,5]\n",
    { { "half", "0.5" },
      { "one", "1" },
      { "minus_one", "-1" },
      { "two", "2" },
      { "three", "3" },
      { "root2", "1.4142135623730951" },
      { "root_half", "0.70710678118654757" },
      { "beta", "0.79788456080286541" },
      { "cubic", "0.044715" },
      { "minus_cubic", "-0.044715" },
      { "beta_cubic", "0.035677408136300127" },
      { "two_beta", "1.5957691216057308" },
      { "minus_two_beta", "-1.5957691216057308" },
      { "quick", "1.702" },
      { "near_root_half", "0.70710679" } },
    NULL,
    1e-15,
};

static const Form by_erf[] = {
    { "torch.nn.GELU",
      "%u = Div(%x, %root2)\n%t = Erf(%u)\n%a = Add(%t, %one)\n%p = Mul(%x, %a)\n%y = Mul(%p, %half)\n" },
    { "half of x first",
      "%u = Div(%x, %root2)\n%t = Erf(%u)\n%a = Add(%t, %one)\n%h = Mul(%x, %half)\n%y = Mul(%h, %a)\n" },
    { "x times a probability",
      "%u = Mul(%x, %root_half)\n%t = Erf(%u)\n%a = Add(%t, %one)\n%p = Mul(%a, %half)\n%y = Mul(%x, %p)\n" },
    { "divided by two",
      "%u = Mul(%x, %root_half)\n%t = Erf(%u)\n%a = Add(%t, %one)\n%p = Mul(%a, %x)\n%y = Div(%p, %two)\n" },
    { "multiplied out",
      "%u = Div(%x, %root2)\n%t = Erf(%u)\n%h = Mul(%x, %half)\n%p = Mul(%h, %t)\n%y = Add(%h, %p)\n" },
    { "half and half",
      "%u = Div(%x, %root2)\n%t = Erf(%u)\n%p = Mul(%t, %half)\n%a = Add(%p, %half)\n%y = Mul(%x, %a)\n" },
    { "of -x",
      "%n = Neg(%x)\n%u = Div(%n, %root2)\n%t = Erf(%u)\n%a = Sub(%one, %t)\n%p = Mul(%x, %a)\n%y = Mul(%p, %half)\n" },
    { "less minus one",
      "%u = Div(%x, %root2)\n%t = Erf(%u)\n%a = Sub(%t, %minus_one)\n%p = Mul(%x, %a)\n%y = Mul(%p, %half)\n" },
    { "half of the root", "%v = Mul(%x, %root2)\n%u = Mul(%v, %half)\n%t = Erf(%u)\n%a = Add(%t, %one)\n%p = Mul(%x, "
                          "%a)\n%y = Mul(%p, %half)\n" },
};

#define CUBE "%q = Mul(%x, %x)\n%c = Mul(%q, %x)\n"
#define SUM CUBE "%k = Mul(%cubic, %c)\n%s = Add(%x, %k)\n"
#define HALF_X_GATE "%a = Add(%one, %t)\n%h = Mul(%half, %x)\n%y = Mul(%h, %a)\n"
static const Form by_tanh[] = {
    { "torch.nn.GELU",
      SUM "%u = Mul(%beta, %s)\n%t = Tanh(%u)\n%a = Add(%one, %t)\n%p = Mul(%x, %a)\n%y = Mul(%half, %p)\n" },
    { "a power", "%c = Pow(%x, %three)\n%k = Mul(%c, %cubic)\n%s = Add(%x, %k)\n%u = Mul(%s, %beta)\n%t = "
                 "Tanh(%u)\n" HALF_X_GATE },
    { "x taken out", "%b = Mul(%x, %beta)\n%k = Mul(%x, %cubic)\n%q = Mul(%k, %x)\n%s = Add(%one, %q)\n%u = Mul(%b, "
                     "%s)\n%t = Tanh(%u)\n" HALF_X_GATE },
    { "a square", "%q = Pow(%x, %two)\n%k = Mul(%q, %cubic)\n%s = Add(%one, %k)\n%z = Mul(%s, %x)\n%u = Mul(%beta, "
                  "%z)\n%t = Tanh(%u)\n" HALF_X_GATE },
    { "multiplied out",
      CUBE "%k = Mul(%beta_cubic, %c)\n%b = Mul(%beta, %x)\n%u = Add(%b, %k)\n%t = Tanh(%u)\n" HALF_X_GATE },
    { "a difference",
      CUBE "%k = Mul(%minus_cubic, %c)\n%s = Sub(%x, %k)\n%u = Mul(%beta, %s)\n%t = Tanh(%u)\n" HALF_X_GATE },
    { "the root of two and half", SUM "%v = Mul(%two_beta, %s)\n%u = Div(%v, %two)\n%t = Tanh(%u)\n" HALF_X_GATE },
    { "a sigmoid", SUM "%u = Mul(%two_beta, %s)\n%t = Sigmoid(%u)\n%y = Mul(%x, %t)\n" },
    { "the rest of a sigmoid",
      SUM "%u = Mul(%minus_two_beta, %s)\n%t = Sigmoid(%u)\n%p = Mul(%x, %t)\n%y = Sub(%x, %p)\n" },
};

static const Form no_gelu[] = {
    { "quick GELU", "%u = Mul(%quick, %x)\n%t = Sigmoid(%u)\n%y = Mul(%x, %t)\n" },
    { "swish", "%t = Sigmoid(%x)\n%y = Mul(%x, %t)\n" },
    { "no half", "%u = Div(%x, %root2)\n%t = Erf(%u)\n%a = Add(%t, %one)\n%y = Mul(%x, %a)\n" },
    { "twice", "%u = Div(%x, %root2)\n%t = Erf(%u)\n%a = Add(%t, %one)\n%p = Mul(%x, %a)\n%y = Mul(%p, %x)\n" },
    { "the gate's square", "%u = Div(%x, %root2)\n%t = Erf(%u)\n%a = Add(%t, %one)\n%s = Mul(%a, %t)\n%p = Mul(%x, "
                           "%s)\n%y = Mul(%p, %half)\n" },
    { "the other sign",
      "%u = Div(%x, %root2)\n%t = Erf(%u)\n%a = Sub(%one, %t)\n%p = Mul(%x, %a)\n%y = Mul(%p, %half)\n" },
    { "another value",
      "%u = Div(%x, %root2)\n%t = Erf(%u)\n%a = Add(%t, %one)\n%p = Mul(%other, %a)\n%y = Mul(%p, %half)\n" },
    { "multiplied by the root",
      "%u = Mul(%x, %root2)\n%t = Erf(%u)\n%a = Add(%t, %one)\n%p = Mul(%x, %a)\n%y = Mul(%p, %half)\n" },
    { "divided by x",
      "%u = Div(%root_half, %x)\n%t = Erf(%u)\n%a = Add(%t, %one)\n%p = Mul(%x, %a)\n%y = Mul(%p, %half)\n" },
    { "a tanh of erf's argument",
      "%u = Div(%x, %root2)\n%t = Tanh(%u)\n%a = Add(%t, %one)\n%p = Mul(%x, %a)\n%y = Mul(%p, %half)\n" },
    { "an erf of tanh's argument", SUM "%u = Mul(%beta, %s)\n%t = Erf(%u)\n" HALF_X_GATE },
    { "no cube", "%u = Mul(%beta, %x)\n%t = Tanh(%u)\n" HALF_X_GATE },
    { "a square in place of the cube",
      "%c = Pow(%x, %two)\n%k = Mul(%c, %cubic)\n%s = Add(%x, %k)\n%u = Mul(%s, %beta)\n%t = Tanh(%u)\n" HALF_X_GATE },
    { "a fourth power", CUBE
      "%d = Mul(%c, %x)\n%k = Mul(%d, %cubic)\n%s = Add(%x, %k)\n%u = Mul(%s, %beta)\n%t = Tanh(%u)\n" HALF_X_GATE },
    { "another value's cube",
      CUBE "%k = Mul(%cubic, %c)\n%s = Add(%other, %k)\n%u = Mul(%beta, %s)\n%t = Tanh(%u)\n" HALF_X_GATE },
    { "an exponent of x", "%c = Pow(%three, %x)\n%k = Mul(%c, %cubic)\n%s = Add(%x, %k)\n%u = Mul(%s, %beta)\n%t = "
                          "Tanh(%u)\n" HALF_X_GATE },
};

static const Family layer_norm = {
    &pass_fuse_layer_norm,
    &op_LayerNormalization,
    "state %x trainable : TYPE[2,3,4] = "
    "{-6, 4.5, -3.25, 2.5, -1.75, 1, -0.5, 8.125, 0, 0.25, 0.75, 1.5, 2.25, 3.5, 6, -7, 5, 1.75, -4, 9, 3, -2, -8, 2}\n"
    "input %other : TYPE[2,3,4]\n"
    "state %w trainable : TYPE[4] = {1, -0.5, 2, 0.25}\nstate %b trainable : TYPE[4] = {0.5, 1, -1, 3}\n"
    "state %wide trainable : TYPE[1,1,4] = {1, -0.5, 2, 0.25}\nstate %w2 trainable : TYPE[3,4] = {1, 2, 3, 4, 5, 6, 7, "
    "8, 9, 10, 11, 12}\n"
    "const %last : int64[1] = {-1}\nconst %two_last : int64[2] = {2, 1}\nconst %first : int64[1] = {0}\nconst %all : "
    "int64[3] = {0, 1, 2}\n",
    { { "n", "4" },
      { "n2", "12" },
      { "less", "3" },
      { "all_n", "24" },
      { "part", "0.25" },
      { "one", "1" },
      { "two", "2" },
      { "half", "0.5" },
      { "minus_half", "-0.5" },
      { "eps", "1e-3" } },
    "eps",
    1e-14,
};

#define MEAN "%m0 = ReduceSum(%x, %last)\n%m = Div(%m0, %n)\n%d = Sub(%x, %m)\n"
#define VARIANCE "%q = Mul(%d, %d)\n%v0 = ReduceSum(%q, %last)\n%v1 = Div(%v0, %n)\n%v = Add(%v1, %eps)\n"
static const Form norms[] = {
    { "torch.nn.LayerNorm",
      MEAN "%q = Pow(%d, %two)\n%v0 = ReduceSum(%q, %last)\n%v1 = Div(%v0, %n)\n%v = Add(%v1, %eps)\n%r = Sqrt(%v)\n"
           "%z = Div(%d, %r)\n%s = Mul(%z, %w)\n%y = Add(%s, %b)\n" },
    { "plain", MEAN VARIANCE "%r = Sqrt(%v)\n%y = Div(%d, %r)\n" },
    { "scaled", MEAN VARIANCE "%r = Sqrt(%v)\n%z = Div(%d, %r)\n%y = Mul(%w, %z)\n" },
    { "shifted", MEAN VARIANCE "%r = Sqrt(%v)\n%z = Div(%d, %r)\n%y = Add(%z, %b)\n" },
    { "a scale of x's rank", MEAN VARIANCE "%r = Sqrt(%v)\n%z = Div(%d, %r)\n%s = Mul(%z, %wide)\n%y = Add(%s, %b)\n" },
    { "a reciprocal",
      MEAN VARIANCE "%r = Sqrt(%v)\n%i = Reciprocal(%r)\n%z = Mul(%d, %i)\n%s = Mul(%z, %w)\n%y = Add(%s, %b)\n" },
    { "one over the root", MEAN VARIANCE "%r = Sqrt(%v)\n%i = Div(%one, %r)\n%y = Mul(%d, %i)\n" },
    { "the power of a half", MEAN VARIANCE "%r = Pow(%v, %half)\n%y = Div(%d, %r)\n" },
    { "the power of minus a half", MEAN VARIANCE "%r = Pow(%v, %minus_half)\n%y = Mul(%d, %r)\n" },
    { "means as products", "%m0 = ReduceSum(%x, %last)\n%m = Mul(%m0, %part)\n%d = Sub(%x, %m)\n%q = Mul(%d, %d)\n%v0 "
                           "= ReduceSum(%q, %last)\n"
                           "%v1 = Mul(%v0, %part)\n%v = Add(%v1, %eps)\n%r = Sqrt(%v)\n%y = Div(%d, %r)\n" },
    { "two axes", "%m0 = ReduceSum(%x, %two_last)\n%m = Div(%m0, %n2)\n%d = Sub(%x, %m)\n%q = Mul(%d, %d)\n%v0 = "
                  "ReduceSum(%q, %two_last)\n"
                  "%v1 = Div(%v0, %n2)\n%v = Add(%v1, %eps)\n%r = Sqrt(%v)\n%z = Div(%d, %r)\n%y = Mul(%z, %w2)\n" },
};

#define ROOT "%r = Sqrt(%v)\n%y = Div(%d, %r)\n"
static const Form no_norms[] = {
    { "a sample's variance",
      MEAN "%q = Mul(%d, %d)\n%v0 = ReduceSum(%q, %last)\n%v1 = Div(%v0, %less)\n%v = Add(%v1, %eps)\n" ROOT },
    { "the first axis", "%m0 = ReduceSum(%x, %first)\n%m = Div(%m0, %two)\n%d = Sub(%x, %m)\n%q = Mul(%d, %d)\n%v0 = "
                        "ReduceSum(%q, %first)\n"
                        "%v1 = Div(%v0, %two)\n%v = Add(%v1, %eps)\n" ROOT },
    { "all axes", "%m0 = ReduceSum(%x, %all)\n%m = Div(%m0, %all_n)\n%d = Sub(%x, %m)\n%q = Mul(%d, %d)\n%v0 = "
                  "ReduceSum(%q, %all)\n"
                  "%v1 = Div(%v0, %all_n)\n%v = Add(%v1, %eps)\n" ROOT },
    { "unlike axes",
      MEAN "%q = Mul(%d, %d)\n%v0 = ReduceSum(%q, %two_last)\n%v1 = Div(%v0, %n2)\n%v = Add(%v1, %eps)\n" ROOT },
    { "the root mean square", "%q = Mul(%x, %x)\n%v0 = ReduceSum(%q, %last)\n%v1 = Div(%v0, %n)\n%v = Add(%v1, %eps)\n"
                              "%r = Sqrt(%v)\n%y = Div(%x, %r)\n" },
    { "another's mean", "%m0 = ReduceSum(%other, %last)\n%m = Div(%m0, %n)\n%d = Sub(%x, %m)\n" VARIANCE ROOT },
    { "another's difference", MEAN VARIANCE "%r = Sqrt(%v)\n%y = Div(%other, %r)\n" },
    { "another's square",
      MEAN "%q = Mul(%d, %other)\n%v0 = ReduceSum(%q, %last)\n%v1 = Div(%v0, %n)\n%v = Add(%v1, %eps)\n" ROOT },
    { "no epsilon", MEAN "%q = Mul(%d, %d)\n%v0 = ReduceSum(%q, %last)\n%v = Div(%v0, %n)\n" ROOT },
    { "epsilon beside the root",
      MEAN "%q = Mul(%d, %d)\n%v0 = ReduceSum(%q, %last)\n%v1 = Div(%v0, %n)\n%v = Sqrt(%v1)\n"
           "%r = Add(%v, %eps)\n%y = Div(%d, %r)\n" },
    { "the variance itself", MEAN VARIANCE "%y = Div(%d, %v)\n" },
    { "the mean less x", "%m0 = ReduceSum(%x, %last)\n%m = Div(%m0, %n)\n%d = Sub(%m, %x)\n" VARIANCE ROOT },
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- making graphs ---- */

static void append(char *text, size_t size, const char *from, const char *type)
{
    const char *word;

    for (; (word = strstr(from, "TYPE")); from = word + 4)
        snprintf(text + strlen(text), size - strlen(text), "%.*s%s", (int)(word - from), from, type);
    snprintf(text + strlen(text), size - strlen(text), "%s", from);
}

/* The formula in `type` and a loss that weighs the elements of y unlike.  The constants are of `shape`, or only number
 * `only` is if that is not negative.  NULL after a failed check. */
static Graph *make_with(const Family *f, const Form *form, const char *type, const char *shape, int only)
{
    char text[8192] = "graph \"g\" {\n";
    Graph *g = NULL;

    append(text, sizeof text, f->data, type);
    for (int i = 0; f->numbers[i][0]; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "const %%%s : %s%s = {%s}\n", f->numbers[i][0], type,
                 only < 0 || only == i ? shape : "[]", f->numbers[i][1]);
    append(text, sizeof text, form->text, type);
    append(text, sizeof text, "%weighed = Mul(%y, %other)\n%loss = ReduceSum(%weighed) {keepdims=0}\n", type);
    append(text, sizeof text, "output \"loss\" = %loss\noutput \"y\" = %y\n}\n", type);
    return CHECK_OK(graph_parse(&g, text, strlen(text))) ? g : NULL;
}

static Graph *make(const Family *f, const Form *form, const char *type, const char *shape)
{
    return make_with(f, form, type, shape, -1);
}

static bool fused(const Family *f, Graph *g)
{
    return CHECK_OK(step_pass(g, f->pass, &(BuildOptions){ 0 })) && CHECK_OK(graph_verify(g)) &&
           count_nodes(g, f->op) == 1;
}

static void expect(const Family *f, const Form *form, Graph *g, bool expected, const char *how)
{
    uint32_t before = g->n_node;

    if (fused(f, g) != expected)
        TEST_FAIL("%s, %s: %s", form->name, how, expected ? "not found" : "found");
    else if (!expected && g->n_node != before)
        TEST_FAIL("%s, %s: changed", form->name, how);
}

/* ---- what must be found ---- */

/* All exchanges of the operands of sums and products. */
static void check_orders(const Family *f, const Form *form)
{
    Graph *g = make(f, form, "float64", "[]"), *turned;
    unsigned orders = 1;

    if (!g)
        return;
    orders <<= count_nodes(g, &op_Add) + count_nodes(g, &op_Mul) - 1; /* the last weighs y */
    for (unsigned order = 0; order < orders; order++) {
        unsigned bits = order;

        if (!CHECK_OK(graph_clone(&turned, g)))
            break;
        FOR_NODES(turned, n)
            if (n->op == &op_Add || n->op == &op_Mul) {
                ValueId a = n->in[0];

                n->in[0] = bits & 1 ? n->in[1] : a;
                n->in[1] = bits & 1 ? a : n->in[1];
                bits >>= 1;
            }
        expect(f, form, turned, true, "operands exchanged");
        graph_free(turned);
    }
    graph_free(g);
}

static double norm(const Tensor *a, const Tensor *b)
{
    double sum = 0;

    for (int64_t i = 0; i < tensor_numel(a); i++)
        sum += pow(tensor_float(a, i) - (b ? tensor_float(b, i) : 0), 2);
    return sqrt(sum);
}

static Status differentiate(Step *s, Graph *g)
{
    double seed[24];

    for (int i = 0; i < 24; i++)
        seed[i] = 1 + 0.3 * ((7 * i) % 5) - 0.1 * i;
    TRY(step_pass(g, &pass_autodiff, &(BuildOptions){ .mode = BUILD_TRAIN }));
    TRY(step_open(s, g));
    step_give(s, "other", step_floats(s, value(g, graph_find(g, "other"))->shape, seed));
    return step_run(s);
}

static void check_values(const Family *f, const Form *form)
{
    Graph *a = make(f, form, "float64", "[]"), *b = make(f, form, "float64", "[]");
    Step plain = { 0 }, one = { 0 };

    if (!a || !b)
        return;
    expect(f, form, b, true, "alone");
    if (CHECK_OK(differentiate(&plain, a)) && CHECK_OK(differentiate(&one, b)))
        for (int i = 0; i < a->n_output; i++) {
            const char *name = a->output[i].name;
            const Tensor *expected = step_output(&plain, name), *found = step_output(&one, name);

            if (!found || !expected || !(norm(found, expected) <= f->tolerance * norm(expected, NULL)))
                TEST_FAIL("%s: '%s' is off by %g of %g", form->name, name,
                          found && expected ? norm(found, expected) : -1, expected ? norm(expected, NULL) : -1);
        }
    step_close(&plain);
    step_close(&one);
}

/* ---- near misses ---- */

static bool reads(const Graph *g, ValueId v)
{
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (value_eq(n->in[i], v))
                return true;
    return false;
}

/* Each constant of the formula in turn by a factor. */
static void check_scaled(const Family *f, const Form *form, double factor, bool expected, const char *how)
{
    for (int i = 0; f->numbers[i][0]; i++) {
        Graph *g = make(f, form, "float64", "[]");
        ValueId v = g ? graph_find(g, f->numbers[i][0]) : NO_VALUE;

        if (has_value(v) && reads(g, v) && (!f->free || strcmp(f->free, f->numbers[i][0]))) {
            Tensor *t = tensor_copy(g->arena, value(g, v)->init);

            tensor_set_float(t, 0, factor * tensor_float(t, 0));
            value(g, v)->init = t;
            expect(f, form, g, expected, how);
        }
        graph_free(g);
    }
}

static void check_learned(const Family *f, const Form *form)
{
    for (int i = 0; f->numbers[i][0]; i++) {
        Graph *g = make(f, form, "float64", "[]");
        ValueId v = g ? graph_find(g, f->numbers[i][0]) : NO_VALUE;

        if (has_value(v) && reads(g, v)) {
            value(g, v)->kind = V_STATE;
            expect(f, form, g, false, "a state among its numbers");
        }
        graph_free(g);
    }
}

static void check_type(const Family *f, const Form *form, const char *type, const char *shape, bool expected)
{
    Graph *g = make(f, form, type, shape);

    if (g)
        expect(f, form, g, expected, type);
    graph_free(g);
}

static void check_form(const Family *f, const Form *form)
{
    check_orders(f, form);
    check_values(f, form);
    check_scaled(f, form, 1 + 1e-6, false, "a number a millionth off");
    check_learned(f, form);
    check_type(f, form, "float32", "[]", true);
    check_type(f, form, "float32", "[1]", true);
    check_type(f, form, "float32", "[1,1]", true);
    check_type(f, form, "float16", "[]", false);
}

static void check_missed(const Family *f, const Form *form)
{
    check_type(f, form, "float64", "[]", false);
    check_type(f, form, "float32", "[]", false);
}

/* ---- the tests ---- */

/* Found as every form must be, and as the approximation that it is. */
static void check_gelu(const Form *form, const char *approximate)
{
    Graph *g = make(&gelu, form, "float64", "[]");

    check_form(&gelu, form);
    if (!g)
        return;
    if (fused(&gelu, g))
        FOR_NODES(g, n)
            if (n->op == &op_Gelu)
                CHECK_STR(approximate, node_string(n, "approximate"));
    graph_free(g);
}

static void test_erf(void)
{
    for (size_t i = 0; i < COUNT(by_erf); i++)
        check_gelu(&by_erf[i], "none");
}

static void test_tanh(void)
{
    for (size_t i = 0; i < COUNT(by_tanh); i++)
        check_gelu(&by_tanh[i], "tanh");
}

static void test_no_gelu(void)
{
    for (size_t i = 0; i < COUNT(no_gelu); i++)
        check_missed(&gelu, &no_gelu[i]);
}

/* A root that is off by 1e-8 is float32's number of the root, and none of float64's. */
static void test_near_gelu(void)
{
    static const Form near_root = {
        "near the root", "%u = Mul(%x, %near_root_half)\n%t = Erf(%u)\n%a = Add(%t, %one)\n%p = Mul(%x, %a)\n"
                         "%y = Mul(%p, %half)\n"
    };

    check_type(&gelu, &near_root, "float32", "[]", true);
    check_type(&gelu, &near_root, "float64", "[]", false);
}

static void test_norms(void)
{
    for (size_t i = 0; i < COUNT(norms); i++)
        check_form(&layer_norm, &norms[i]);
}

static void test_no_norms(void)
{
    for (size_t i = 0; i < COUNT(no_norms); i++)
        check_missed(&layer_norm, &no_norms[i]);
}

/* Constants of one element that have more axes than x, alone or all of them, make the result another shape. */
static void check_shapes(const Family *f, const Form *form, const char *shape)
{
    check_type(f, form, "float64", shape, false);
    for (int i = 0; f->numbers[i][0]; i++) {
        Graph *g = make_with(f, form, "float64", shape, i);
        ValueId v = g ? graph_find(g, f->numbers[i][0]) : NO_VALUE;

        if (has_value(v) && reads(g, v))
            expect(f, form, g, false, f->numbers[i][0]);
        graph_free(g);
    }
}

static void test_shapes(void)
{
    for (size_t i = 0; i < COUNT(by_erf); i++)
        check_shapes(&gelu, &by_erf[i], "[1,1,1]");
    for (size_t i = 0; i < COUNT(by_tanh); i++)
        check_shapes(&gelu, &by_tanh[i], "[1,1,1]");
    for (size_t i = 0; i < COUNT(norms); i++)
        check_shapes(&layer_norm, &norms[i], "[1,1,1,1]");
}

DEFINE_SUITE(fused_forms, { "GELU by erf", test_erf }, { "GELU by tanh", test_tanh }, { "not GELU", test_no_gelu },
             { "nearly GELU", test_near_gelu }, { "layer normalisation", test_norms },
             { "not layer normalisation", test_no_norms }, { "shapes of numbers", test_shapes });
