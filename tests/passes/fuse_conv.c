/* What fuse_conv makes of a graph computes what the graph did: of each graph in golden/fuse-conv, and of whole training
 * steps in float64 with every gradient. */
#include "graph/ir/op.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/conv.gen.h"
#include "graph/ops/conv.h"
#include "tests/harness/target.h"
#include "tests/harness/test.h"
#include "tests/passes/compare.h"

extern const Pass pass_fuse_conv;

typedef bool Computes(const Graph *g, const Node *n);

static void test_golden(void) { CU_ASSERT(compare_golden("fuse-conv", &pass_fuse_conv) >= 4); }

/* Nodes that take in a Relu, of these how many a sum too, and each Relu that is left. */
typedef struct {
    int fused, sums, relus;
} Left;

static Left count_left(const Graph *g)
{
    Left l = { 0, 0, 0 };

    FOR_NODES(g, n) {
        l.fused += n->op == &op_ConvRelu;
        l.sums += n->op == &op_ConvRelu && has_in(n, CONV_IN_ADDED);
        l.relus += n->op == &op_Relu;
    }
    return l;
}

FUSES_ONLY(fuses_conv, ConvRelu)

/* `each`: for every replica. */
static void check_step(const char *name, int replicas, bool last, Computes *computes, Left each)
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
    CU_ASSERT_EQUAL(count_left(plain.g).fused, 0);
    CU_ASSERT_EQUAL(count_left(plain.g).relus, (each.fused + each.relus) * replicas);
    step.target.fuses = fuses_conv;
    if (CHECK_OK(compared_step(&fused, &step))) {
        const Left l = count_left(fused.g);

        compare_outputs(name, &fused, &plain, 1e-10);
        if (l.fused != each.fused * replicas || l.sums != each.sums * replicas || l.relus != each.relus * replicas)
            TEST_FAIL(
                "%s, %d replicas: %d with Relu, %d of them with a sum, %d Relus left; expected %d, %d, %d for each",
                name, replicas, l.fused, l.sums, l.relus, each.fused, each.sums, each.relus);
    }
done:
    compared_free(&plain);
    compared_free(&fused);
}

/* Two residual blocks without batch-norm: as many Relus as the file has. */
static void test_folded(void)
{
    check_step("exported_folded", 1, false, NULL, (Left){ 5, 2, 0 });
    check_step("exported_folded", 3, false, NULL, (Left){ 5, 2, 0 });
    check_step("exported_folded", 2, true, NULL, (Left){ 5, 2, 0 });
}

/* Batch-norm stands between. */
static void test_batch_norm(void) { check_step("fashion_cnn", 2, false, NULL, (Left){ 0, 0, 3 }); }

static bool no_sum(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_ConvRelu || !has_in(n, CONV_IN_ADDED);
}

static bool no_relu(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_ConvRelu;
}

/* Two convolutions are added up; the first one does not take in the other's result. */
static bool not_of_first(const Graph *g, const Node *n)
{
    return n->op != &op_ConvRelu || !has_in(n, CONV_IN_ADDED) ||
           value(g, n->in[CONV_IN_ADDED])->producer->op != &op_Conv ||
           n->index > value(g, n->in[CONV_IN_ADDED])->producer->index;
}

static void test_partly(void)
{
    check_step("exported_folded", 1, false, no_sum, (Left){ 3, 0, 2 });
    check_step("exported_folded", 1, false, no_relu, (Left){ 0, 0, 5 });
    check_step("exported_folded", 1, false, not_of_first, (Left){ 5, 2, 0 });
}

DEFINE_SUITE(fuse_conv, { "the golden graphs compute the same", test_golden },
             { "a residual network without batch-norm", test_folded }, { "a network with batch-norm", test_batch_norm },
             { "what a device does not compute", test_partly });
