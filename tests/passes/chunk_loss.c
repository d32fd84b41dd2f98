/* A step whose scores are computed in chunks of rows is the step with all scores at once, in float64: loss, gradients
 * and next states. */
#include "graph/ir/op.h"
#include "graph/ops/cross_entropy.gen.h"
#include "graph/ops/product.gen.h"
#include "tests/harness/target.h"
#include "tests/harness/test.h"
#include "tests/passes/compare.h"

FUSES_ONLY(fuses_loss, CrossEntropySum)

static bool fuses_products(const Target *t, const OpDef *op)
{
    (void)t;
    return op == &op_CrossEntropySum || op == &op_Product;
}

static int count_sums(const Graph *g)
{
    int count = 0;

    FOR_NODES(g, n)
        count += n->op == &op_CrossEntropySum;
    return count;
}

/* `rows` a chunk: as many chunks of all replicas. */
static void check_step(StepCase chunked, int64_t rows, int chunks)
{
    StepCase whole = chunked;
    Compared expected = { 0 }, found = { 0 };

    chunked.chunk_rows = rows;
    if (CHECK_OK(compared_step(&expected, &whole)) && CHECK_OK(compared_step(&found, &chunked))) {
        CU_ASSERT_EQUAL(count_sums(expected.g), chunked.replicas ? chunked.replicas : 1);
        CU_ASSERT_EQUAL(count_sums(found.g), chunks);
        compare_outputs(whole.name, &found, &expected, 1e-12);
        compare_updates(whole.name, &found, &expected, 1e-12);
    }
    compared_free(&expected);
    compared_free(&found);
}

/* [N, T, C] scores, whose rows end in a smaller chunk. */
static void test_tokens(void)
{
    StepCase step = { .name = "transformer",
                      .mode = BUILD_TRAIN,
                      .batch = 3,
                      .settings = "label-smoothing=0.1;ignore-index=1",
                      .target.fuses = fuses_loss };

    check_step(step, 50, 4);
    step.target.fuses = fuses_products;
    check_step(step, 50, 4);
}

/* Three replicas of 2, 2 and 1 samples on two devices. */
static void test_replicas(void)
{
    StepCase step = { .name = "transformer",
                      .mode = BUILD_TRAIN,
                      .batch = 5,
                      .settings = "ignore-index=1",
                      .replicas = 3,
                      .target.fuses = fuses_loss };

    check_step(step, 50, 3 + 3 + 2);
    step.target.fuses = fuses_products;
    check_step(step, 50, 3 + 3 + 2);
}

/* A layer with a bias, and sums over micro-batches of a loss that is scaled. */
static void test_modes(void)
{
    StepCase step = { .name = "mlp", .mode = BUILD_TRAIN, .batch = 7, .target.fuses = fuses_loss };

    check_step(step, 3, 3);
    step.mode = BUILD_ACCUMULATE;
    step.loss_scale = 8;
    check_step(step, 3, 3);
}

/* A bias of as many axes as the scores is a row of each chunk all the same. */
static void test_bias(void)
{
    static const char text[] =
        "graph \"bias\" {\n"
        "  input %x : float64[4,5,3]\n"
        "  state %w trainable : float64[3,4] = {0.5, -0.25, 1, 0.75, -1, 0.125, 0.25, -0.5, 0.375, 1.5, -0.75, 0.625}\n"
        "  state %b trainable : float64[1,1,4] = {0.1, -0.2, 0.3, 0}\n"
        "  %p = MatMul(%x, %w)\n"
        "  const %rows : int64[2] = {-1, 4}\n"
        "  %q = Add(%b, %p)\n"
        "  %y = Reshape(%q, %rows)\n"
        "  output \"y\" = %y\n"
        "}\n";

    check_step((StepCase){ .name = "bias", .text = text, .mode = BUILD_TRAIN, .batch = 4, .target.fuses = fuses_loss },
               8, 3);
}

/* The metric reads the scores. */
static void test_metric(void)
{
    check_step(
        (StepCase){ .name = "mlp", .mode = BUILD_TRAIN, .batch = 7, .accuracy = true, .target.fuses = fuses_loss }, 3,
        1);
}

DEFINE_SUITE(chunk_loss, { "tokens", test_tokens }, { "replicas", test_replicas }, { "modes", test_modes },
             { "bias", test_bias }, { "a metric", test_metric });
