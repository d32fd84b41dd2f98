/* A training step with what stands around batch-norm taken into its operators is the step without, in float64: outputs, every
 * gradient and every next value of a state; and nothing of it is left where all of it can be taken. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/interp.h"
#include "exec/verify_batch.h"
#include "graph/onnx/onnx.h"
#include "graph/op.h"
#include "tests/harness/test.h"

typedef struct { Graph *g; Arena *arena; const Tensor **values; } Run;
typedef struct { int relu_grads, params, merges_alone; } Left;
typedef bool Computes(const Graph *g, const Node *n);

static Status run_model(Run *r, const char *name, const BuildOptions *opt)
{
    char path[512];

    snprintf(path, sizeof path, SOURCE_DIR "/models/%s.onnx", name);
    *r = (Run){ .arena = arena_create() };
    if (!r->arena)
        return FAIL_NOMEM();
    TRY(onnx_import_file(&r->g, NULL, path));
    TRY(pipeline_run(r->g, opt, interp_node, NULL, NULL));
    if (!(r->values = ARENA_NEW(r->arena, const Tensor *, r->g->n_value)))
        return FAIL_NOMEM();
    TRY(verify_batch(r->arena, r->g, opt, 7, r->values));
    return interp_run(r->arena, r->g, r->values);
}

static void run_free(Run *r)
{
    graph_free(r->g);
    arena_free(r->arena);
}

static double norm(const Tensor *t)
{
    double sum = 0;

    for (int64_t i = 0; i < tensor_numel(t); i++)
        sum += pow(tensor_float(t, i), 2);
    return sqrt(sum);
}

/* |a - b| <= 1e-10 |b| + 1e-15 largest. */
static bool same(const Tensor *a, const Tensor *b, double largest)
{
    double difference = 0;

    if (!a || !b || a->dtype != b->dtype || !shape_eq(&a->shape, &b->shape))
        return false;
    for (int64_t i = 0; i < tensor_numel(a); i++)
        difference += pow(tensor_float(a, i) - tensor_float(b, i), 2);
    return sqrt(difference) <= 1e-10 * norm(b) + 1e-15 * largest;
}

static void compare_outputs(const char *what, const Run *found, const Run *expected)
{
    double largest = 0;

    for (int i = 0; i < expected->g->n_output; i++)
        largest = fmax(largest, norm(expected->values[expected->g->output[i].value.i]));
    for (int i = 0; i < expected->g->n_output; i++) {
        const char *name = expected->g->output[i].name;
        ValueId v = graph_output(found->g, name);

        if (!has_value(v) || !same(found->values[v.i], expected->values[expected->g->output[i].value.i], largest))
            TEST_FAIL("%s: output '%s' differs", what, name);
    }
}

static void compare_updates(const char *what, const Run *found, const Run *expected)
{
    const Graph *g = expected->g;

    CU_ASSERT_EQUAL(found->g->n_update, g->n_update);
    for (int u = 0; u < g->n_update && u < found->g->n_update; u++) {
        const char *name = value(g, g->update[u].state)->name;

        CU_ASSERT_STRING_EQUAL(value(found->g, found->g->update[u].state)->name, name);
        if (!same(found->values[found->g->update[u].next.i], expected->values[g->update[u].next.i], 1))
            TEST_FAIL("%s: the next value of '%s' differs", what, name);
    }
}

/* merges_alone: those without a running statistic. */
static Left count_left(const Graph *g)
{
    Left l = { 0 };

    FOR_NODES(g, n) {
        l.relu_grads += n->op == &op_ReluGrad || (n->op == &op_Fused && strstr(node_string(n, "program"), "ReluGrad"));
        l.params += n->op == &op_BatchNormGradParams;
        l.merges_alone += n->op == &op_BatchNormMerge && n->n_out < 5;
    }
    return l;
}

static bool computes_all(const Graph *g, const Node *n)
{
    (void)g, (void)n;
    return true;
}

static void check_step(const char *name, int replicas, bool local, Computes *computes, Left each)
{
    BuildOptions opt = { .mode = BUILD_TRAIN, .batch = replicas > 1 ? 3 : 2, .dtype = DT_FLOAT64, .loss = LOSS_CROSS_ENTROPY, .keep_gradients = true,
                         .replicas = replicas, .devices = replicas > 1 ? 2 : 1, .bn_local = local };
    Run plain = { 0 }, fused = { 0 };

    if (!CHECK_OK(run_model(&plain, name, &opt)))
        goto done;
    opt.fuse = true;
    opt.computes = computes;
    if (CHECK_OK(run_model(&fused, name, &opt))) {
        const Left l = count_left(fused.g);

        compare_outputs(name, &fused, &plain);
        compare_updates(name, &fused, &plain);
        if (l.relu_grads != each.relu_grads * replicas || l.params != each.params || l.merges_alone != each.merges_alone)
            TEST_FAIL("%s, %d replicas: %d ReluGrad, %d BatchNormGradParams and %d BatchNormMerge are left", name, replicas, l.relu_grads,
                      l.params, l.merges_alone);
    }
done:
    run_free(&plain);
    run_free(&fused);
}

/* Each block ends with a Relu of a sum, whose gradient the shortcut reads too. */
static void test_one_replica(void)
{
    check_step("resnet20", 1, false, computes_all, (Left){ 9, 0, 0 });
    check_step("fashion_cnn", 1, false, computes_all, (Left){ 0, 0, 0 });
    check_step("unet", 1, false, computes_all, (Left){ 0, 0, 0 });
}

static void test_replicas(void)
{
    check_step("fashion_cnn", 3, false, computes_all, (Left){ 0, 0, 0 });
    check_step("fashion_cnn", 3, true, computes_all, (Left){ 0, 0, 9 });       /* running statistics are means over replicas */
    check_step("resnet20", 2, false, computes_all, (Left){ 9, 0, 0 });
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

static bool no_running(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_BatchNormMerge || n->n_in == 1;
}

static void test_partly(void)
{
    check_step("fashion_cnn", 1, false, no_relu, (Left){ 3, 0, 0 });
    check_step("fashion_cnn", 1, false, no_params, (Left){ 0, 3, 0 });
    check_step("fashion_cnn", 1, false, no_running, (Left){ 0, 0, 3 });
}

DEFINE_SUITE(fuse_batch_norm, { "one replica", test_one_replica }, { "several replicas", test_replicas },
             { "what a device does not compute", test_partly });
