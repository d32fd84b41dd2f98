/* A training step whose LayerNormGrads add the gradient of the residual stream has the outputs, gradients and next
 * values of the step without, but for the rounding of float64: of each graph in golden/fuse-norm-grad, and of a
 * transformer. */
#include "graph/ir/op.h"
#include "graph/ops/layernorm.gen.h"
#include "graph/ops/layernorm.h"
#include "tests/harness/target.h"
#include "tests/harness/test.h"
#include "tests/passes/compare.h"

extern const Pass pass_fuse_norm_grad;

static const double LIMIT = 1e-13;

static void test_golden(void) { CU_ASSERT(compare_golden("fuse-norm-grad", &pass_fuse_norm_grad) >= 1); }

FUSES_ONLY(fuses_norm_grad, LayerNormGrad)

static int count_added(const Graph *g)
{
    int added = 0;

    FOR_NODES(g, n)
        added += n->op == &op_LayerNormGrad && has_in(n, LAYER_NORM_GRAD_ADDED);
    return added;
}

static bool nothing_added(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_LayerNormGrad || !has_in(n, LAYER_NORM_GRAD_ADDED);
}

/* `added`: of each replica. */
static void check_step(int replicas, bool computes, int added)
{
    StepCase step = { .name = "transformer",
                      .batch = 4,
                      .replicas = replicas,
                      .mode = BUILD_TRAIN,
                      .target.computes = computes ? NULL : nothing_added };
    Compared plain = { 0 }, fused = { 0 };

    if (!CHECK_OK(compared_step(&plain, &step)))
        goto done;
    CU_ASSERT_EQUAL(count_added(plain.g), 0);
    step.target.fuses = fuses_norm_grad;
    if (CHECK_OK(compared_step(&fused, &step))) {
        compare_outputs("transformer", &fused, &plain, LIMIT);
        compare_updates("transformer", &fused, &plain, LIMIT);
        CU_ASSERT_EQUAL(count_added(fused.g), added * replicas);
    }
done:
    compared_free(&plain);
    compared_free(&fused);
}

static void test_steps(void)
{
    check_step(1, true, 10);
    check_step(3, true, 10);
}

static void test_not_computed(void) { check_step(1, false, 0); }

DEFINE_SUITE(fuse_norm_grad, { "the golden graphs compute the same", test_golden }, { "whole steps", test_steps },
             { "what a device does not compute", test_not_computed });
