/* A training step whose MaxPools leave the places of their maxima has the outputs, gradients and next values of the
 * step without, bit by bit: of each graph in golden/fuse-max-pool, and of whole models. */
#include "graph/ir/op.h"
#include "graph/ops/pool.gen.h"
#include "tests/harness/target.h"
#include "tests/harness/test.h"
#include "tests/passes/compare.h"

extern const Pass pass_fuse_max_pool;

typedef bool Computes(const Graph *g, const Node *n);

static void test_golden(void) { CU_ASSERT(compare_golden("fuse-max-pool", &pass_fuse_max_pool) >= 2); }

FUSES_ONLY(fuses_places, MaxPoolPlaces)

static int count_pairs(const Graph *g)
{
    int pools = 0, grads = 0;

    FOR_NODES(g, n) {
        pools += n->op == &op_MaxPoolPlaces;
        grads += n->op == &op_MaxPoolPlacesGrad;
    }
    CU_ASSERT_EQUAL(pools, grads);
    return grads;
}

/* `pairs`: of each replica. */
static void check_step(const char *name, int replicas, bool last, Computes *computes, int pairs)
{
    StepCase step = {
        .name = name,
        .batch = 4,
        .replicas = replicas,
        .mode = BUILD_TRAIN,
        .target = { .accelerator = computes, .computes = computes, .layouts = last ? prefers_channels_last : NULL }
    };
    Compared plain = { 0 }, fused = { 0 };

    if (!CHECK_OK(compared_step(&plain, &step)))
        goto done;
    CU_ASSERT_EQUAL(count_pairs(plain.g), 0);
    step.target.fuses = fuses_places;
    if (CHECK_OK(compared_step(&fused, &step))) {
        compare_outputs(name, &fused, &plain, 0);
        compare_updates(name, &fused, &plain, 0);
        CU_ASSERT_EQUAL(count_pairs(fused.g), pairs * replicas);
    }
done:
    compared_free(&plain);
    compared_free(&fused);
}

static void test_steps(void)
{
    check_step("fashion_cnn", 1, false, NULL, 3);
    check_step("fashion_cnn", 3, false, NULL, 3);
    check_step("fashion_cnn", 2, true, NULL, 3);
}

static bool no_gradient(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_MaxPoolPlacesGrad;
}

static bool no_places(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_MaxPoolPlaces;
}

static void test_partly(void)
{
    check_step("fashion_cnn", 1, false, no_gradient, 0);
    check_step("fashion_cnn", 1, false, no_places, 0);
}

DEFINE_SUITE(fuse_max_pool, { "the golden graphs compute the same", test_golden }, { "whole steps", test_steps },
             { "what a device does not compute", test_partly });
