/* A training step with what stands around batch-norm taken into its operators is the step without, in float64: outputs,
 * every gradient and every next value of a state; and nothing of it is left where all of it can be taken. */
#include <string.h>

#include "graph/ir/op.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/batchnorm.gen.h"
#include "graph/ops/fused.gen.h"
#include "tests/harness/target.h"
#include "tests/harness/test.h"
#include "tests/passes/compare.h"

typedef struct {
    int relu_grads, params;
} Left;
typedef bool Computes(const Graph *g, const Node *n);

static bool has_relu_grad(const Graph *program)
{
    FOR_NODES(program, n)
        if (n->op == &op_ReluGrad)
            return true;
    return false;
}

static bool has_stats(const Graph *g)
{
    FOR_NODES(g, n)
        if (n->op == &op_BatchNormStats)
            return true;
    return false;
}

static Left count_left(const Graph *g)
{
    Left l = { 0 };

    FOR_NODES(g, n) {
        l.relu_grads += n->op == &op_ReluGrad || (n->op == &op_Fused && has_relu_grad(node_graph(n, "program")));
        l.params += n->op == &op_BatchNormGradParams;
    }
    return l;
}

static bool fuses(const Target *t, const OpDef *op)
{
    (void)t;
    return op == &op_BatchNormGradStats || op == &op_BatchNormMoments || op == &op_Fused;
}

static void check_step(const char *name, int replicas, bool local, Computes *computes, Left each)
{
    StepCase step = { .name = name,
                      .batch = replicas > 1 ? 3 : 2,
                      .replicas = replicas,
                      .mode = BUILD_TRAIN,
                      .local_batch_norm = local };
    Compared plain = { 0 }, fused = { 0 };

    if (!CHECK_OK(compared_step(&plain, &step)))
        goto done;
    step.target = (Target){ .accelerator = true, .computes = computes, .fuses = fuses };
    if (CHECK_OK(compared_step(&fused, &step))) {
        const Left l = count_left(fused.g);

        compare_outputs(name, &fused, &plain, 1e-10);
        compare_updates(name, &fused, &plain, 1e-10);
        if (l.relu_grads != each.relu_grads * replicas || l.params != each.params)
            TEST_FAIL("%s, %d replicas: %d ReluGrad and %d BatchNormGradParams are left", name, replicas, l.relu_grads,
                      l.params);
        if (has_stats(fused.g) != (replicas > 1 && !local))
            TEST_FAIL("%s, %d replicas: BatchNormStats stay where nobody merges them, or go", name, replicas);
    }
done:
    compared_free(&plain);
    compared_free(&fused);
}

/* Each block ends with a Relu of a sum, whose gradient the shortcut reads too. */
static void test_one_replica(void)
{
    check_step("resnet20", 1, false, NULL, (Left){ 9, 0 });
    check_step("fashion_cnn", 1, false, NULL, (Left){ 0, 0 });
    check_step("unet", 1, false, NULL, (Left){ 0, 0 });
}

static void test_replicas(void)
{
    check_step("fashion_cnn", 3, false, NULL, (Left){ 0, 0 });
    check_step("fashion_cnn", 3, true, NULL, (Left){ 0, 0 });
    check_step("resnet20", 2, false, NULL, (Left){ 9, 0 });
}

/* ---- devices that do not compute everything ---- */

static bool no_relu(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_BatchNormGradInput || !has_in(n, 7);
}

static bool no_params(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_BatchNormGradInput || n->n_out == 1;
}

static void test_partly(void)
{
    check_step("fashion_cnn", 1, false, no_relu, (Left){ 3, 0 });
    check_step("fashion_cnn", 1, false, no_params, (Left){ 0, 3 });
}

DEFINE_SUITE(fuse_batch_norm, { "one replica", test_one_replica }, { "several replicas", test_replicas },
             { "what a device does not compute", test_partly });
