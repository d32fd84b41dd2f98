/* A batch of one sample over several replicas: any size is a multiple of it, and still the graph is split where that of
 * two samples is, with the same collectives, and computes the same bits as one replica does. */
#include <math.h>
#include <string.h>

#include "exec/run/interp.h"
#include "exec/inspect/verify.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "passes/report.h"
#include "passes/build_parts.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"

/* Rows are made by a Reshape that counts samples, and by Flatten; a bias [1,12] is no sample. */
static const char mlp[] = "graph \"mlp\" {\n"
                          "  input %x : float32[\"N\"=?,3,4]\n"
                          "  const %bias : float32[1,12] = all 0\n"
                          "  const %w1 : float32[12,6] = all 0\n"
                          "  const %w2 : float32[6,3] = all 0\n"
                          "  const %rest : int64[1] = {-1}\n"
                          "  const %two : int64[3] = {0, 2, 3}\n"
                          "  %n = Shape(%x) {start=0, end=1}\n"
                          "  %rows = Concat(%n, %rest) {axis=0}\n"
                          "  %flat = Reshape(%x, %rows)\n"
                          "  %b = Add(%flat, %bias)\n"
                          "  %h0 = MatMul(%b, %w1)\n"
                          "  %h = Relu(%h0)\n"
                          "  %apart = Reshape(%h, %two)\n"
                          "  %again = Flatten(%apart) {axis=1}\n"
                          "  %y = MatMul(%again, %w2)\n"
                          "  output \"y\" = %y\n"
                          "}\n";

static const char conv[] = "graph \"conv\" {\n"
                           "  input %x : float32[\"N\"=?,2,5,5]\n"
                           "  const %shift : float32[1,2,5,5] = all 0\n"
                           "  const %w : float32[4,2,3,3] = all 0\n"
                           "  const %c : float32[4] = all 0\n"
                           "  const %w2 : float32[36,3] = all 0\n"
                           "  %s = Add(%x, %shift)\n"
                           "  %y0 = Conv(%s, %w, %c)\n"
                           "  %r = Relu(%y0)\n"
                           "  %f = Flatten(%r)\n"
                           "  %y = MatMul(%f, %w2)\n"
                           "  output \"y\" = %y\n"
                           "}\n";

/* Time first; two heads become part of the batch, [5,N,8] is [5,2N,4]; a token [1,1,8] is given to each sample; the
 * rows of a layer are [6N,8]. */
static const char attention[] = "graph \"attention\" {\n"
                                "  input %x : float32[5,\"N\"=?,8]\n"
                                "  const %token : float32[1,1,8] = all 0\n"
                                "  const %place : float32[6,1,8] = all 0\n"
                                "  const %w1 : float32[8,8] = all 0\n"
                                "  const %w2 : float32[8,3] = all 0\n"
                                "  const %one : int64[1] = {1}\n"
                                "  const %eight : int64[1] = {8}\n"
                                "  const %rest : int64[1] = {-1}\n"
                                "  const %heads : int64[1] = {2}\n"
                                "  const %width : int64[1] = {4}\n"
                                "  const %six : int64[1] = {6}\n"
                                "  const %first : int64[1] = {0}\n"
                                "  %n = Shape(%x) {start=1, end=2}\n"
                                "  %sizes = Concat(%one, %n, %eight) {axis=0}\n"
                                "  %tokens = Expand(%token, %sizes)\n"
                                "  %z0 = Concat(%tokens, %x) {axis=0}\n"
                                "  %z = Add(%z0, %place)\n"
                                "  %rows = Concat(%rest, %eight) {axis=0}\n"
                                "  %zr = Reshape(%z, %rows)\n"
                                "  %q0 = MatMul(%zr, %w1)\n"
                                "  %nh = Mul(%n, %heads)\n"
                                "  %parts = Concat(%six, %nh, %width) {axis=0}\n"
                                "  %q1 = Reshape(%q0, %parts)\n"
                                "  %q = Transpose(%q1) {perm=[1,0,2]}\n"
                                "  %k = Transpose(%q1) {perm=[1,2,0]}\n"
                                "  %s = MatMul(%q, %k)\n"
                                "  %p = Softmax(%s) {axis=2}\n"
                                "  %o0 = MatMul(%p, %q)\n"
                                "  %o1 = Transpose(%o0) {perm=[1,0,2]}\n"
                                "  %whole = Concat(%six, %n, %eight) {axis=0}\n"
                                "  %o = Reshape(%o1, %whole)\n"
                                "  %m = ReduceMean(%o, %first) {keepdims=0}\n"
                                "  %y = MatMul(%m, %w2)\n"
                                "  output \"y\" = %y\n"
                                "}\n";

static Graph *model(const char *text)
{
    Graph *g = NULL;
    uint32_t seed = 12345;

    if (!CHECK_OK(graph_parse(&g, text, strlen(text))))
        return NULL;
    for (uint32_t i = 1; i < g->n_value; i++) {
        Tensor *t = (Tensor *)g->value[i]->init;

        for (int64_t k = 0; t && dtype_is_float(t->dtype) && k < tensor_numel(t); k++) {
            seed = seed * 1664525u + 1013904223u;
            tensor_set_float(t, k, (double)(seed >> 8) / (1 << 24) - 0.5);
        }
    }
    return g;
}

static BuildParts options(int replicas, int64_t batch)
{
    static const char *const all[] = { "*" };

    return (BuildParts){ .build.mode = BUILD_TRAIN,
                         .replicas.replicas = replicas,
                         .replicas.devices = 2,
                         .batch.batch = batch,
                         .recipes.loss = &loss_cross_entropy,
                         .parameters.train = all,
                         .parameters.n_train = 1 };
}

typedef struct {
    int collectives, products, mixing;
} Counts;

static Counts count(const Graph *from, int replicas, int64_t batch)
{
    BuildParts opt = options(replicas, batch);
    Report *r = report_create();
    Graph *g = NULL;
    Counts c = { 0 };

    if (CHECK_OK(graph_clone(&g, from)) && CHECK_OK(model_repair(g, build_parts(&opt), interp_node, r)) &&
        CHECK_OK(pipeline_run(g, build_parts(&opt), interp_node, r, NULL))) {
        FOR_NODES(g, n) {
            c.collectives += (n->op->flags & OPF_COLLECTIVE) != 0;
            c.products += n->op->precision == PREC_LOW;
        }
        for (int i = 0; i < r->n_note; i++)
            if (r->note[i].kind == NOTE_MIXES) {
                c.mixing++;
                TEST_FAIL("%s, %d replicas, batch %d: %s", g->name, replicas, (int)batch, r->note[i].text);
            }
    }
    report_free(r);
    graph_free(g);
    return c;
}

static void check(const char *text)
{
    Graph *g = model(text);

    for (int replicas = 2; g && replicas <= 3; replicas++) {
        BuildParts opt = options(replicas, 1);
        Counts one = count(g, replicas, 1), two = count(g, replicas, 2);
        Arena *a = arena_create();
        Verify v = { .worst = NAN };

        CU_ASSERT_EQUAL(one.collectives, two.collectives);
        CU_ASSERT_EQUAL(one.products, two.products);
        CU_ASSERT(two.products > 0);
        if (CHECK_OK(verify_partition(&v, a, g, build_parts(&opt), interp_node, 1)) && !(v.n_row > 6 && v.worst == 0))
            TEST_FAIL("%s, %d replicas: '%s' differs by %.3e", g->name, replicas, v.n_row ? v.row[0].name : "nothing",
                      v.worst);
        arena_free(a);
    }
    graph_free(g);
}

static void test_mlp(void) { check(mlp); }
static void test_conv(void) { check(conv); }
static void test_attention(void) { check(attention); }

DEFINE_SUITE(one_sample, { "rows", test_mlp }, { "images", test_conv }, { "time first, heads", test_attention });
