/* A training step with attention, or softmax and loss, fused is the step without, in float64: loss and every
 * gradient. */
#include "graph/ir/op.h"
#include "graph/ops/attention.gen.h"
#include "graph/ops/cross_entropy.gen.h"
#include "tests/harness/target.h"
#include "tests/harness/test.h"
#include "tests/passes/compare.h"

static int count_fused(const Graph *g)
{
    int count = 0;

    FOR_NODES(g, n)
        count += n->op == &op_ScaledDotProductAttention || n->op == &op_ScaledDotProductAttentionGrad ||
                 n->op == &op_CrossEntropySum || n->op == &op_CrossEntropyGrad;
    return count;
}

FUSES_ONLY(fuses_attention, ScaledDotProductAttention)
FUSES_ONLY(fuses_loss, CrossEntropySum)

static void check_model(StepCase with, int n_fused)
{
    StepCase without = with;
    Compared plain = { 0 }, fused = { 0 };

    without.target = (Target){ 0 };
    with.batch = without.batch = 3;
    if (CHECK_OK(compared_step(&plain, &without)) && CHECK_OK(compared_step(&fused, &with))) {
        CU_ASSERT_EQUAL(count_fused(plain.g), 0);
        CU_ASSERT_EQUAL(count_fused(fused.g), n_fused);
        compare_outputs(with.name, &fused, &plain, 1e-10);
    }
    compared_free(&plain);
    compared_free(&fused);
}

static void test_causal(void)
{
    check_model((StepCase){ .name = "transformer", .mode = BUILD_TRAIN, .target.fuses = fuses_attention }, 2 * 5);
}

static void test_whole(void)
{
    check_model((StepCase){ .name = "exported_encoder", .mode = BUILD_TRAIN, .target.fuses = fuses_attention }, 2 * 2);
}

static void test_loss_of_rows(void)
{
    check_model((StepCase){ .name = "mlp",
                            .mode = BUILD_TRAIN,
                            .settings = "label-smoothing=0.1",
                            .accuracy = true,
                            .target.fuses = fuses_loss },
                2);
}

/* On three replicas, with samples that do not count. */
static void test_loss_of_columns(void)
{
    check_model((StepCase){ .name = "unet",
                            .mode = BUILD_TRAIN,
                            .settings = "ignore-index=1",
                            .replicas = 3,
                            .target.fuses = fuses_loss },
                2 * 3);
}

/* Tokens, whose classes a Transpose brings to axis 1. */
static void test_loss_of_tokens(void)
{
    check_model((StepCase){ .name = "transformer",
                            .mode = BUILD_TRAIN,
                            .settings = "label-smoothing=0.1;ignore-index=1",
                            .replicas = 3,
                            .target.fuses = fuses_loss },
                2 * 3);
}

DEFINE_SUITE(fused_steps, { "a causal model", test_causal }, { "a model without a mask", test_whole },
             { "softmax and loss of rows", test_loss_of_rows }, { "softmax and loss of columns", test_loss_of_columns },
             { "softmax and loss of tokens", test_loss_of_tokens });
