/* A training step with attention, or softmax and loss, fused is the step without, in float64: loss and every gradient. */
#include <math.h>
#include <stdio.h>

#include "exec/interp.h"
#include "exec/verify_batch.h"
#include "graph/onnx/onnx.h"
#include "graph/ops.gen.h"
#include "tests/harness/test.h"

typedef struct { Graph *g; Arena *arena; const Tensor **values; int n_fused; } Run;

static int count_fused(const Graph *g)
{
    int count = 0;

    FOR_NODES(g, n)
        count += n->op == &op_ScaledDotProductAttention || n->op == &op_ScaledDotProductAttentionGrad || n->op == &op_CrossEntropySum ||
                 n->op == &op_CrossEntropyGrad;
    return count;
}

static Status run_model(Run *r, const char *name, const BuildOptions *opt)
{
    char path[512];

    snprintf(path, sizeof path, SOURCE_DIR "/models/%s.onnx", name);
    *r = (Run){ .arena = arena_create() };
    if (!r->arena)
        return FAIL_NOMEM();
    TRY(onnx_import_file(&r->g, NULL, path));
    TRY(pipeline_run(r->g, opt, interp_node, NULL, NULL));
    r->n_fused = count_fused(r->g);
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

/* |a - b| <= 1e-10 |b| + 1e-15 scale: the gradient of a key's bias is zero but for rounding, as softmax ignores what all keys share. */
static bool same(const Tensor *a, const Tensor *b, double scale)
{
    double difference = 0;

    if (!a || !b || !shape_eq(&a->shape, &b->shape) || !dtype_is_float(a->dtype))
        return a && b && a->dtype == b->dtype;
    for (int64_t i = 0; i < tensor_numel(a); i++)
        difference += pow(tensor_float(a, i) - tensor_float(b, i), 2);
    return sqrt(difference) <= 1e-10 * norm(b) + 1e-15 * scale;
}

/* The largest norm among the outputs of floating-point type. */
static double largest(const Run *r)
{
    double most = 0;

    for (int i = 0; i < r->g->n_output; i++) {
        const Tensor *t = r->values[r->g->output[i].value.i];

        if (t && dtype_is_float(t->dtype))
            most = fmax(most, norm(t));
    }
    return most;
}

static void check_model(const char *name, BuildOptions opt, int n_fused)
{
    BuildOptions without = opt;
    Run plain = { 0 }, fused = { 0 };

    without.fuse_attention = without.fuse_cross_entropy = false;
    if (CHECK_OK(run_model(&plain, name, &without)) && CHECK_OK(run_model(&fused, name, &opt))) {
        double scale = largest(&plain);

        CU_ASSERT_EQUAL(plain.n_fused, 0);
        CU_ASSERT_EQUAL(fused.n_fused, n_fused);
        CU_ASSERT_EQUAL(plain.g->n_output, fused.g->n_output);
        for (int i = 0; i < plain.g->n_output; i++) {
            const char *output = plain.g->output[i].name;
            ValueId a = graph_output(fused.g, output), b = plain.g->output[i].value;

            if (!has_value(a) || !same(fused.values[a.i], plain.values[b.i], scale))
                TEST_FAIL("%s: output '%s' differs", name, output);
        }
    }
    run_free(&plain);
    run_free(&fused);
}

#define TRAIN .mode = BUILD_TRAIN, .batch = 3, .dtype = DT_FLOAT64, .loss = LOSS_CROSS_ENTROPY, .keep_gradients = true

static void test_causal(void)
{
    check_model("transformer", (BuildOptions){ TRAIN, .fuse_attention = true }, 2 * 5);
}

static void test_whole(void)
{
    check_model("exported_encoder", (BuildOptions){ TRAIN, .fuse_attention = true }, 2 * 2);
}

static void test_loss_of_rows(void)
{
    check_model("mlp", (BuildOptions){ TRAIN, .label_smoothing = 0.1, .metric_accuracy = true, .fuse_cross_entropy = true }, 2);
}

/* On three replicas, with samples that do not count. */
static void test_loss_of_columns(void)
{
    check_model("unet", (BuildOptions){ TRAIN, .has_ignore_index = true, .ignore_index = 1, .replicas = 3, .devices = 2,
                                        .fuse_cross_entropy = true }, 2 * 3);
}

/* Tokens, whose classes a Transpose brings to axis 1. */
static void test_loss_of_tokens(void)
{
    check_model("transformer", (BuildOptions){ TRAIN, .label_smoothing = 0.1, .has_ignore_index = true, .ignore_index = 1, .replicas = 3,
                                               .devices = 2, .fuse_cross_entropy = true }, 2 * 3);
}

DEFINE_SUITE(fused_steps, { "a causal model", test_causal }, { "a model without a mask", test_whole },
             { "softmax and loss of rows", test_loss_of_rows }, { "softmax and loss of columns", test_loss_of_columns },
             { "softmax and loss of tokens", test_loss_of_tokens });
