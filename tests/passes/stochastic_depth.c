/* stochastic-depth: which masks are dropout, and go out of training, and which are the model's own noise. */
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "tests/harness/test.h"

/* How many operators draw numbers in inference, of a model that draws once. */
static int drawn(const char *nodes)
{
    BuildOptions opt = { .mode = BUILD_INFER, .batch = &(BatchOptions){ .batch = 4 } };
    Graph *g = NULL;
    char text[1024];
    int n_random = 0;

    snprintf(text, sizeof text,
             "graph \"g\" {\n  input %%x : float32[4,3,2,2]\n  const %%keep : float32[] = {0.75}\n"
             "  const %%zero : float32[] = {0}\n%s  output \"y\" = %%y\n}\n",
             nodes);
    if (CHECK_OK(graph_parse(&g, text, strlen(text))) && CHECK_OK(pipeline_run(g, &opt, interp_node, NULL, NULL)))
        FOR_NODES(g, n)
            n_random += (n->op->flags & OPF_RANDOM) != 0;
    graph_free(g);
    return n_random;
}

#define UNIFORM(shape) \
    "  %u = RandomUniform() {shape=" shape "}\n  %less = Less(%u, %keep)\n  %m = Cast(%less) {to=1}\n"
#define RESIDUAL "  %b = Relu(%x)\n  %d = Mul(%b, %m)\n  %y = Add(%x, %d)\n"
#define RESIDUAL_FORMAT "  %%b = Relu(%%x)\n  %%d = Mul(%%b, %%m)\n  %%y = Add(%%x, %%d)\n"

static void test_residual(void)
{
    CU_ASSERT_EQUAL(drawn(UNIFORM("[4,1,1,1]") RESIDUAL), 0);
    CU_ASSERT_EQUAL(drawn(UNIFORM("[4,3,2,2]") RESIDUAL), 1);
    CU_ASSERT_EQUAL(
        drawn("  %u = RandomUniformLike(%x)\n  %less = Less(%u, %keep)\n  %m = Cast(%less) {to=1}\n" RESIDUAL), 1);
}

static void test_divided(void)
{
    CU_ASSERT_EQUAL(drawn(UNIFORM("[4,3,2,2]") "  %d = Mul(%x, %m)\n  %y = Div(%d, %keep)\n"), 0);
    CU_ASSERT_EQUAL(drawn(UNIFORM("[4,3,2,2]") "  %d = Where(%less, %x, %zero)\n  %y = Div(%d, %keep)\n"), 0);
    CU_ASSERT_EQUAL(drawn(UNIFORM("[4,3,2,2]") "  %y = Mul(%x, %m)\n"), 1);
}

/* ---- every way to write a dropout ---- */

/* Masks %m of numbers that are 1 with a probability of 0.75. */
static const char *const masks[] = {
    "  %m = Bernoulli(%probability)\n",
    UNIFORM("[4,3,2,2]"),
    "  %u = RandomUniformLike(%x)\n  %c = LessOrEqual(%u, %keep)\n  %m = Cast(%c) {to=1}\n",
    "  %u = RandomUniformLike(%x)\n  %c = Greater(%keep, %u)\n  %m = Cast(%c) {to=1}\n",
    "  %u = RandomUniformLike(%x)\n  %c = GreaterOrEqual(%u, %quarter)\n  %m = Cast(%c) {to=1}\n",
    "  %u = RandomUniformLike(%x)\n  %c = Less(%quarter, %u)\n  %m = Cast(%c) {to=1}\n",
    "  %u = RandomUniformLike(%x)\n  %s = Add(%u, %keep)\n  %m = Floor(%s)\n",
    "  %u = RandomUniformLike(%x)\n  %s = Add(%keep, %u)\n  %m = Floor(%s)\n",
    "  %u = RandomUniformLike(%x)\n  %c = Less(%u, %quarter)\n  %n = Not(%c)\n  %m = Cast(%n) {to=1}\n",
    "  %u = RandomUniformLike(%x)\n  %c = Less(%u, %quarter)\n  %n = Cast(%c) {to=1}\n  %m = Sub(%one, %n)\n",
    "  %u = RandomUniformLike(%x)\n  %c = Less(%u, %keep)\n  %m = Where(%c, %one, %zero)\n",
    "  %u = RandomUniformLike(%x)\n  %c = Less(%u, %quarter)\n  %m = Where(%c, %zero, %one)\n",
};
/* What scales by the reciprocal of %divisor: in front of the mask, within it, behind it. */
static const char *const scaled[] = {
    "  %a = Div(%x, %divisor)\n  %y = Mul(%a, %m)\n",  "  %a = Mul(%x, %factor)\n  %y = Mul(%m, %a)\n",
    "  %a = Mul(%factor, %x)\n  %y = Mul(%m, %a)\n",   "  %s2 = Div(%m, %divisor)\n  %y = Mul(%x, %s2)\n",
    "  %s2 = Mul(%factor, %m)\n  %y = Mul(%s2, %x)\n", "  %d = Mul(%x, %m)\n  %y = Div(%d, %divisor)\n",
    "  %d = Mul(%m, %x)\n  %y = Mul(%d, %factor)\n",
};

static int drawn_by(const char *mask, const char *apply, double divisor)
{
    char text[1024];

    snprintf(text, sizeof text,
             "  const %%probability : float32[4,3,2,2] = all 0.75\n  const %%quarter : float32[] = {0.25}\n"
             "  const %%one : float32[] = {1}\n  const %%divisor : float32[] = {%.9g}\n"
             "  const %%factor : float32[] = {%.9g}\n%s%s",
             divisor, 1 / divisor, mask, apply);
    return drawn(text);
}

/* Out of training nothing is drawn, unless the factor is that of another probability. */
static void test_ways(void)
{
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        for (size_t k = 0; k < sizeof scaled / sizeof *scaled; k++) {
            if (drawn_by(masks[i], scaled[k], 0.75) != 0)
                TEST_FAIL("mask %d scaled in way %d is taken for noise", (int)i, (int)k);
            if (drawn_by(masks[i], scaled[k], 0.5) != 1)
                TEST_FAIL("mask %d of another probability, in way %d, is taken for dropout", (int)i, (int)k);
        }
}

/* A number that is not drawn from [0, 1), compared with what is no number, or added to the input. */
static void test_noise(void)
{
    static const char *const noise[] = {
        "  %u = RandomUniform() {shape=[4,3,2,2], high=2.0}\n  %c = Less(%u, %keep)\n  %m = Cast(%c) {to=1}\n",
        "  %u = RandomUniform() {shape=[4,3,2,2], low=0.5}\n  %c = Less(%u, %keep)\n  %m = Cast(%c) {to=1}\n",
        "  %u = RandomNormal() {shape=[4,3,2,2]}\n  %c = Less(%u, %keep)\n  %m = Cast(%c) {to=1}\n",
        "  %u = RandomUniformLike(%x)\n  %c = Less(%u, %x)\n  %m = Cast(%c) {to=1}\n",
        "  %u = RandomUniformLike(%x)\n  %c = Less(%u, %one)\n  %n = Cast(%c) {to=1}\n  %m = Sub(%keep, %n)\n",
        "  %u = RandomUniformLike(%x)\n  %s = Sub(%u, %keep)\n  %m = Floor(%s)\n",
        "  %u = RandomUniformLike(%x)\n  %s = Add(%u, %keep)\n  %m = Ceil(%s)\n",
        "  %u = RandomUniformLike(%x)\n  %c = Less(%u, %keep)\n  %m = Where(%c, %one, %keep)\n",
    };

    for (size_t i = 0; i < sizeof noise / sizeof *noise; i++)
        if (drawn_by(noise[i], scaled[0], 0.75) != 1)
            TEST_FAIL("noise %d is taken for dropout", (int)i);
}

/* One number a sample drops a residual branch without a factor: however the shape of the numbers is written. */
static void test_samples(void)
{
    static const struct {
        const char *drawn;
        int n;
    } shapes[] = {
        { "  const %ones : float32[4,1,1,1] = all 1\n  %u = RandomUniformLike(%ones)\n", 0 },
        { "  const %ones : float32[4,1,2,1] = all 1\n  %u = RandomUniformLike(%ones)\n", 1 },
        { "  const %to : int64[4] = {4,1,1,1}\n  %e = ConstantOfShape(%to)\n  %u = RandomUniformLike(%e)\n", 0 },
        { "  const %to : int64[4] = {4,3,1,1}\n  %e = ConstantOfShape(%to)\n  %u = RandomUniformLike(%e)\n", 1 },
        { "  %u = RandomUniform() {shape=[4,1,1,2]}\n", 1 },
    };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char text[512];

        snprintf(text, sizeof text, "%s  %%c = Less(%%u, %%keep)\n  %%m = Cast(%%c) {to=1}\n" RESIDUAL_FORMAT,
                 shapes[i].drawn);
        if (drawn(text) != shapes[i].n)
            TEST_FAIL("shape %d: expected %d operators that draw", (int)i, shapes[i].n);
    }
    /* No residual branch: the masked value is an output as well, or is multiplied. */
    CU_ASSERT_EQUAL(drawn(UNIFORM("[4,1,1,1]") "  %d = Mul(%x, %m)\n  %y = Mul(%d, %x)\n"), 1);
    CU_ASSERT_EQUAL(drawn(UNIFORM("[4,1,1,1]") "  %y = Mul(%x, %m)\n"), 1);
}

DEFINE_SUITE(stochastic_depth, { "a residual branch is kept for whole samples", test_residual },
             { "dropout divides by its probability", test_divided }, { "every way to write it", test_ways },
             { "noise", test_noise }, { "one number a sample", test_samples });
