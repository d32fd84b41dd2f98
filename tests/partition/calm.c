/* What looks like a difference and is rounding: gradients that are zero (a bias in front of BatchNormalization), or
 * zero but for its epsilon (a gain in front of it); running means of data whose mean is zero but for noise; moments
 * beside them.  The check must not alarm, over any number of replicas; tests/partition/mutants.c shows that it still
 * can. */
#include <math.h>
#include <string.h>

#include "exec/run/interp.h"
#include "exec/inspect/verify.h"
#include "graph/text/parse.h"
#include "tests/harness/test.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "passes/options/parameters.h"
#include "passes/options/recipes.h"
#include "passes/options/replicas.h"

/* Each sample has mean zero over its elements; `noise` keeps that but for about 1e-8. */
static const char text[] = "graph \"calm\" {\n"
                           "  input %x : float32[\"N\"=?,1,6,6]\n"
                           "  const %axes : int64[3] = {1, 2, 3}\n"
                           "  const %noise : float32[6] = {1, 1.0000001, 1, 0.9999999, 1, 1}\n"
                           "  const %one : float32[1] = {1}\n"
                           "  const %none : float32[1] = {0}\n"
                           "  const %mean1 : float32[1] = {0}\n"
                           "  const %var1 : float32[1] = {1}\n"
                           "  const %w : float32[4,1,3,3] = all 0\n"
                           "  const %bias : float32[4] = all 0\n"
                           "  const %gain : float32[4,1,1] = all 0\n"
                           "  const %scale : float32[4] = all 0\n"
                           "  const %shift : float32[4] = all 0\n"
                           "  const %mean2 : float32[4] = {0, 0, 0, 0}\n"
                           "  const %var2 : float32[4] = {1, 1, 1, 1}\n"
                           "  const %w2 : float32[64,3] = all 0\n"
                           "  %m = ReduceMean(%x, %axes) {keepdims=1}\n"
                           "  %c = Sub(%x, %m)\n"
                           "  %cn = Mul(%c, %noise)\n"
                           "  %n1 = BatchNormalization(%cn, %one, %none, %mean1, %var1) \"still\"\n"
                           "  %h0 = Conv(%n1, %w, %bias) \"conv\"\n"
                           "  %h1 = Mul(%h0, %gain)\n"
                           "  %h2 = BatchNormalization(%h1, %scale, %shift, %mean2, %var2) \"norm\"\n"
                           "  %h3 = Relu(%h2)\n"
                           "  %f = Flatten(%h3)\n"
                           "  %y = MatMul(%f, %w2)\n"
                           "  output \"y\" = %y\n"
                           "}\n";

static Graph *model(void)
{
    static const char *const drawn[] = { "w", "bias", "gain", "scale", "shift", "w2" };
    Graph *g = NULL;
    uint32_t seed = 12345;

    if (!CHECK_OK(graph_parse(&g, text, strlen(text))))
        return NULL;
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
        Tensor *t = (Tensor *)value(g, graph_find(g, drawn[i]))->init;

        for (int64_t k = 0; k < tensor_numel(t); k++) {
            seed = seed * 1664525u + 1013904223u;
            tensor_set_float(t, k, (double)(seed >> 8) / (1 << 24) + 0.1);
        }
    }
    return g;
}

static const VerifyRow *row(const Verify *v, const char *name)
{
    for (int i = 0; i < v->n_row; i++)
        if (!strcmp(v->row[i].name, name))
            return &v->row[i];
    TEST_FAIL("'%s' is not compared", name);
    return NULL;
}

static void check(const Graph *g, int replicas, const OptimizerDef *optimizer)
{
    static const char *const list[] = { "w", "bias", "gain", "scale", "shift", "w2" };
    BuildOptions opt = {
        .mode = BUILD_TRAIN,
        .replicas = &(ReplicaOptions){ .replicas = replicas, .devices = replicas < 3 ? 1 : 3 },
        .batch = &(BatchOptions){ .batch = 10 },
        .recipes = &(RecipeOptions){ .loss = &loss_cross_entropy, .optimizer = optimizer, .settings = "momentum=0.9" },
        .parameters = &(ParameterOptions){ .train = list, .n_train = sizeof list / sizeof *list }
    };
    Arena *a = arena_create();
    Verify v = { .times = NAN };
    const VerifyRow *bias, *gain, *w;

    if (CHECK_OK(verify_partition(&v, a, g, &opt, interp_node, 7))) {
        if (!(v.times <= VERIFY_TIMES))
            TEST_FAIL("%d replicas: '%s' differs by %.3g, %.3g times rounding", replicas, v.row[0].name,
                      v.row[0].difference, v.times);
        if (replicas > 1 && !(v.worst > 10 * VERIFY_FLOOR))
            TEST_FAIL("%d replicas: differs by %.3g only: the case tests nothing", replicas, v.worst);
        bias = row(&v, "grad:bias");
        gain = row(&v, "grad:gain");
        w = row(&v, "grad:w");
        CU_ASSERT(bias && w && bias->norm < 1e-12 * fmax(w->norm, 1)); /* the case is what it says */
        CU_ASSERT(gain && w && gain->norm < 1e-2 * w->norm);
        CU_ASSERT_PTR_NOT_NULL(row(&v, "mean1"));
    }
    arena_free(a);
}

static void test_calm(void)
{
    static const int replicas[] = { 1, 3, 8 };
    Graph *g = model();

    for (size_t i = 0; g && i < sizeof replicas / sizeof *replicas; i++) {
        check(g, replicas[i], &optimizer_sgd);
        check(g, replicas[i], &optimizer_adam);
    }
    graph_free(g);
}

DEFINE_SUITE(calm, { "what is zero but for rounding does not alarm", test_calm });
