/* What fuse_product makes of a graph computes what the graph did: of each graph in golden/fuse-product, and of whole
 * training steps in float64 with every gradient; and of the models it leaves no epilogue behind. */
#include <string.h>

#include "graph/ir/op.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/cross_entropy.gen.h"
#include "graph/ops/product.gen.h"
#include "graph/ops/reduce.gen.h"
#include "tests/harness/graphs.h"
#include "tests/harness/target.h"
#include "tests/harness/test.h"
#include "tests/passes/compare.h"

extern const Pass pass_fuse_product;

static void test_golden(void) { CU_ASSERT(compare_golden("fuse-product", &pass_fuse_product) >= 8); }

/* ---- whole steps ---- */

/* How many of each are left for every replica; sums: outputs of products that are sums. */
typedef struct {
    int products, gradients, sums, relus, relu_grads, reductions;
} Left;

static Left count_left(const Graph *g)
{
    Left l = { count_nodes(g, &op_Product),  0, 0, count_nodes(g, &op_Relu), count_nodes(g, &op_ReluGrad),
               count_nodes(g, &op_ReduceSum) };

    FOR_NODES(g, n)
        if (n->op == &op_Product) {
            l.gradients += node_int(n, "gradient") != 0;
            l.sums += strcmp(node_string(n, "bias_grad"), "none") != 0;
        }
    return l;
}

FUSES_ONLY(fuses_losses, CrossEntropySum)

static bool fuses_losses_and_products(const Target *t, const OpDef *op)
{
    return fuses_losses(t, op) || op == &op_Product;
}

typedef bool Computes(const Graph *g, const Node *n);

static void check_step(const char *name, const char *text, int replicas, Computes *computes, Left each)
{
    StepCase step = { .name = name,
                      .text = text,
                      .batch = 4,
                      .replicas = replicas,
                      .mode = BUILD_TRAIN,
                      .target = { .accelerator = computes, .computes = computes, .fuses = fuses_losses } };
    const int expected[] = { each.products, each.gradients, each.sums, each.relus, each.relu_grads, each.reductions };
    Compared plain = { 0 }, fused = { 0 };

    if (!CHECK_OK(compared_step(&plain, &step)))
        goto done;
    CU_ASSERT_EQUAL(count_nodes(plain.g, &op_Product), 0);
    step.target.fuses = fuses_losses_and_products;
    if (CHECK_OK(compared_step(&fused, &step))) {
        const Left l = count_left(fused.g);
        const int found[] = { l.products, l.gradients, l.sums, l.relus, l.relu_grads, l.reductions };

        compare_outputs(name, &fused, &plain, 1e-10);
        for (int i = 0; i < 6; i++)
            if (found[i] != expected[i] * replicas)
                TEST_FAIL("%s, %d replicas: count %d is %d, expected %d for each", name, replicas, i, found[i],
                          expected[i]);
    }
done:
    compared_free(&plain);
    compared_free(&fused);
}

/* Two hidden layers: their forward products and those that make their gradients, and the gradient of the last
 * weight. */
static void test_mlp(void)
{
    check_step("mlp", NULL, 1, NULL, (Left){ 7, 2, 3, 0, 0, 0 });
    check_step("mlp", NULL, 3, NULL, (Left){ 7, 2, 3, 0, 0, 0 });
}

/* Gelu by erf stays.  Four products of a layer have a bias: that of queries, keys and values has three in one. */
static void test_transformer(void) { check_step("transformer", NULL, 2, NULL, (Left){ 40, 0, 20, 0, 0, 6 }); }

static void test_fashion_cnn(void) { check_step("fashion_cnn", NULL, 1, NULL, (Left){ 1, 0, 1, 3, 3, 0 }); }

static const char tokens_text[] =
    "graph \"tokens\" {\n"
    "  input %x : float32[4,3,3]\n"
    "  state %w1 trainable : float32[3,4] = {0.5, -0.25, 1, 0.75, -1, 0.125, 0.25, -0.5, 0.375, 1.5, -0.75, 0.625}\n"
    "  state %b1 trainable : float32[4] = {0.1, -0.2, 0.3, 0}\n"
    "  state %w2 trainable : float32[4,2] = {1, -0.5, 0.25, 0.75, -1.25, 0.5, 0.125, -0.375}\n"
    "  state %b2 trainable : float32[2] = {0.05, -0.1}\n"
    "  %p = MatMul(%x, %w1)\n"
    "  %h = Add(%p, %b1)\n"
    "  %a = Gelu(%h) {approximate=\"tanh\"}\n"
    "  %q = MatMul(%a, %w2)\n"
    "  %y = Add(%q, %b2)\n"
    "  %logits = Transpose(%y) {perm=[0,2,1]}\n"
    "  output \"logits\" = %logits\n"
    "}\n";

static void test_tokens(void)
{
    check_step("tokens with Gelu by tanh", tokens_text, 1, NULL, (Left){ 5, 1, 2, 0, 0, 0 });
    check_step("tokens with Gelu by tanh", tokens_text, 3, NULL, (Left){ 5, 1, 2, 0, 0, 0 });
}

/* ---- devices that do not compute everything ---- */

static bool no_gradient(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_Product || !node_int(n, "gradient");
}

static bool no_mask(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_Product || !has_out(n, 1);
}

static bool no_sum(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_Product || !has_out(n, 2);
}

static bool no_product(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_Product;
}

/* Without gradients there is no mask either, and the gradients of the weights make all sums. */
static void test_partly(void)
{
    check_step("mlp", NULL, 1, no_gradient, (Left){ 5, 0, 3, 0, 2, 0 });
    check_step("mlp", NULL, 1, no_mask, (Left){ 5, 0, 3, 0, 2, 0 });
    check_step("mlp", NULL, 1, no_sum, (Left){ 4, 2, 0, 0, 0, 3 });
    check_step("mlp", NULL, 1, no_product, (Left){ 0, 0, 0, 2, 2, 3 });
}

DEFINE_SUITE(fuse_product, { "the golden graphs compute the same", test_golden }, { "mlp", test_mlp },
             { "transformer", test_transformer }, { "fashion_cnn", test_fashion_cnn }, { "tokens", test_tokens },
             { "what a device does not compute", test_partly });
