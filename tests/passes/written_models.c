/* What is done to a model before it is written: masters become integers again, and training mode is switched off. */
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "passes/build_options.h"
#include "passes/model/inference.h"
#include "passes/model/integer_weights.h"
#include "passes/passes.gen.h"
#include "tests/harness/test.h"

static void check_text(const char *expected, const Graph *g)
{
    char *want = NULL, *found = NULL;
    Graph *w = NULL;

    if (CHECK_OK(graph_parse(&w, expected, strlen(expected))) &&
        CHECK_OK(graph_text(&want, w, &(PrintOptions){ .no_node_names = true })) &&
        CHECK_OK(graph_text(&found, g, &(PrintOptions){ .no_node_names = true })))
        CHECK_STR(want, found);
    graph_free(w);
    free(want);
    free(found);
}

/* ---- integers ---- */

static Status with_masters(Graph **g, const char *text)
{
    const BuildOptions opt = { .mode = BUILD_TRAIN };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt, .eval = interp_node };
    Status st = graph_parse(g, text, strlen(text));

    st = st ? st : pass_integer_weights.run(*g, &ctx);
    arena_free(ctx.scratch);
    return st;
}

/* Untrained masters give the integers of the file; a trained one the nearest integer, within the type's range. */
static void test_integers(void)
{
    static const char text[] =
        "graph \"g\" {\n  input %x : float32[2,3]\n  const %w : int8[3,2] = {1, 2, 3, 4, 5, 6}\n"
        "  const %b : int32[2] = {2147483647, 16777217}\n  const %scale : float32[] = {0.5}\n"
        "  const %fine : float32[] = {0.1}\n  %wf = DequantizeLinear(%w, %scale)\n"
        "  %bf = DequantizeLinear(%b, %fine)\n  %h = MatMul(%x, %wf)\n  %y = Add(%h, %bf)\n  output \"y\" = %y\n}\n";
    Graph *g = NULL;
    Tensor *w;

    if (CHECK_OK(with_masters(&g, text)) && CHECK_OK(integer_weights_write(g))) {
        const Tensor *b = value(g, graph_find(g, "b"))->init;

        CU_ASSERT_EQUAL(g->n_node, 4);
        CU_ASSERT_EQUAL(value(g, graph_find(g, "w"))->dtype, DT_INT8);
        for (int i = 0; i < 6; i++)
            CU_ASSERT_EQUAL(tensor_int(value(g, graph_find(g, "w"))->init, i), i + 1);
        CU_ASSERT_EQUAL(b->dtype, DT_INT32);
        CU_ASSERT_EQUAL(tensor_int(b, 0), 2147483647);
        CU_ASSERT_EQUAL(tensor_int(b, 1), 16777217);
    }
    graph_free(g);
    g = NULL;
    if (CHECK_OK(with_masters(&g, text))) {
        static const double trained[] = { 0.76, -0.76, 100, -100, 2.5, 0 };
        static const int expected[] = { 2, -2, 127, -128, 5, 0 };

        w = (Tensor *)value(g, graph_find(g, "w"))->init;
        for (int i = 0; i < 6; i++)
            tensor_set_float(w, i, trained[i]);
        if (CHECK_OK(integer_weights_write(g)))
            for (int i = 0; i < 6; i++)
                CU_ASSERT_EQUAL(tensor_int(value(g, graph_find(g, "w"))->init, i), expected[i]);
    }
    graph_free(g);
}

/* Masters that stay floats: ONNX's QuantizeLinear makes no int32, so a bias is read without. */
static void test_floats(void)
{
    static const char text[] =
        "graph \"g\" {\n  input %x : float32[2,2]\n  const %w : int8[2,2] = {1, 2, 3, 4}\n"
        "  const %b : int32[2] = {4, 6}\n  const %scale : float32[] = {0.5}\n  %wf = DequantizeLinear(%w, %scale)\n"
        "  %bf = DequantizeLinear(%b, %scale)\n  %h = MatMul(%x, %wf)\n  %y = Add(%h, %bf)\n  output \"y\" = %y\n}\n";
    Graph *g = NULL;

    if (CHECK_OK(with_masters(&g, text)) && CHECK_OK(integer_weights_standard(g))) {
        const Node *add = value(g, g->output[0].value)->producer;

        CHECK_STR("b", value(g, add->in[1])->name);
        CU_ASSERT_EQUAL(value(g, add->in[1])->dtype, DT_FLOAT32);
        CU_ASSERT_EQUAL(tensor_float(value(g, add->in[1])->init, 1), 3);
        CU_ASSERT_EQUAL(g->n_node, 4); /* the quantiser of w stays */
    }
    graph_free(g);
}

/* ---- training mode ---- */

static void check_inference(const char *before, const char *after)
{
    Graph *g = NULL;

    if (CHECK_OK(graph_parse(&g, before, strlen(before))) && CHECK_OK(inference_make(g)))
        check_text(after, g);
    graph_free(g);
}

#define BEGIN                                                                                                          \
    "graph \"g\" {\n  input %x : float32[4,3]\n  const %s : float32[3] = {1, 2, 3}\n  const %b : float32[3] = all 0\n" \
    "  const %m : float32[3] = all 0.5\n  const %v : float32[3] = all 1\n"
#define END "  output \"y\" = %y\n}\n"

/* Statistics are the running ones, and outputs of training mode that nobody reads go. */
static void test_mode(void)
{
    check_inference(BEGIN "  %y, %nm, %nv = BatchNormalization(%x, %s, %b, %m, %v) {training_mode=1}\n" END,
                    BEGIN "  %y = BatchNormalization(%x, %s, %b, %m, %v)\n" END);
    check_inference(BEGIN "  %y = BatchNormalization(%x, %s, %b, %m, %v)\n" END,
                    BEGIN "  %y = BatchNormalization(%x, %s, %b, %m, %v)\n" END);
}

/* A residual branch that training drops for whole samples: y = x + relu(x) mask, in a file whose batch is open.  The
 * mask is drawn in the shape that `list` gives, of the batch's size %n. */
static void check_open_branch(const char *list, const char *draw, bool dropped)
{
    char text[1024];
    Graph *g = NULL;
    int n_random = 0;

    snprintf(
        text, sizeof text,
        "graph \"g\" {\n  input %%x : float32[?,3,2,2]\n  const %%0 : int64[1] = {0}\n  const %%1 : int64[1] = {1}\n"
        "  const %%2 : int64[1] = {2}\n  const %%ones : int64[3] = {1, 1, 1}\n"
        "  const %%keep : float32[] = {0.75}\n  %%dims = Shape(%%x)\n  %%n = Slice(%%dims, %%0, %%1)\n"
        "  %%to = Concat(%s) {axis=0}\n%s  %%b = Relu(%%x)\n  %%d = Mul(%%b, %%m)\n  %%y = Add(%%x, %%d)\n"
        "  output \"y\" = %%y\n}\n",
        list, draw);
    if (CHECK_OK(graph_parse(&g, text, strlen(text))) && CHECK_OK(inference_make(g))) {
        FOR_NODES(g, n)
            n_random += (n->op->flags & OPF_RANDOM) != 0;
        if (n_random != !dropped || (dropped && g->n_node != 2))
            TEST_FAIL("a mask of shape [%s] is%s taken for noise", list, dropped ? "" : " not");
    }
    graph_free(g);
}

static void test_branches(void)
{
    static const char filled[] = "  %p = ConstantOfShape(%to) {value=float32[1] {0.75}}\n  %m = Bernoulli(%p)\n";
    static const char spread[] = "  %p = Expand(%keep, %to)\n  %m = Bernoulli(%p)\n";
    static const char like[] = "  %p = ConstantOfShape(%to)\n  %u = RandomUniformLike(%p)\n  %c = Less(%u, %keep)\n"
                               "  %m = Cast(%c) {to=1}\n";

    check_open_branch("%n, %1, %1, %1", filled, true);
    check_open_branch("%n, %ones", filled, true);
    check_open_branch("%n, %1, %2, %1", filled, false);
    check_open_branch("%n, %1, %1, %2", filled, false);
    check_open_branch("%n, %n, %1, %1", filled, false);
    check_open_branch("%n, %1, %1, %1", like, true);
    check_open_branch("%n, %1, %1, %2", like, false);
    check_open_branch("%n, %1, %1, %1", spread, true);
    check_open_branch("%n, %2, %1, %1", spread, false);
}

DEFINE_SUITE(written_models, { "integers again", test_integers }, { "floats without int32", test_floats },
             { "training mode", test_mode }, { "branches that training drops", test_branches });
