/* Training in 16 bits: gradients are those of float32 up to the rounding of the type, and are not those of float32;
 * replicas agree with one replica to the same bound; state and outputs stay float32.  Expected values come from the
 * float32 graph, whose gradients are checked against PyTorch and finite differences elsewhere. */
#include <math.h>
#include <string.h>

#include "exec/run/interp.h"
#include "exec/inspect/verify_batch.h"
#include "passes/build_parts.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"

/* A rounding to bfloat16 (float16) moves a number by at most an epsilon of it, 2^-8 (2^-11), and what is smooth moves
 * in proportion: norm-wise a few epsilons.  Where a window's maximum and Relu decide by small differences, as behind
 * batch-norm, a share of the decisions of the order of epsilon turns over, each changing its gradient altogether: then
 * the squared error is in proportion, and the error goes as the root. */
static double smooth(double eps) { return 4 * eps; }
static double deciding(double eps) { return 2 * sqrt(eps); }

static double epsilon(DType t) { return t == DT_BFLOAT16 ? 1.0 / 256 : 1.0 / 2048; }

static BuildParts options(DType precision, int batch, int replicas)
{
    return (BuildParts){ .build.mode = BUILD_TRAIN,
                         .batch.batch = batch,
                         .recipes.loss = &loss_cross_entropy,
                         .recipes.optimizer = &optimizer_adam,
                         .replicas.replicas = replicas,
                         .replicas.devices = 1,
                         .step.keep_gradients = true,
                         .step.seed = 1,
                         .types.precision = precision };
}

typedef struct {
    Graph *g;
    const Tensor **values;
} Trained;

/* One training step of the model by the interpreter, on the same batch for every precision. */
static Trained train(Arena *a, const char *model, DType precision, int batch, int replicas)
{
    BuildParts opt = options(precision, batch, replicas);
    Trained t = { model_build(model, build_parts(&opt)), NULL };

    if (!t.g)
        return t;
    t.values = ARENA_NEW(a, const Tensor *, t.g->n_value);
    CHECK_OK(verify_batch(a, t.g, build_parts(&opt), 5, t.values));
    CHECK_OK(interp_run(a, t.g, t.values));
    return t;
}

static const Tensor *output(const Trained *t, const char *name)
{
    for (int i = 0; i < t->g->n_output; i++)
        if (!strcmp(t->g->output[i].name, name))
            return t->values[t->g->output[i].value.i];
    return NULL;
}

/* ||found - expected|| and ||expected|| over all gradients. */
static void compare(const Trained *found, const Trained *expected, double *diff, double *norm)
{
    *diff = *norm = 0;
    for (int i = 0; i < expected->g->n_output; i++) {
        const char *name = expected->g->output[i].name;
        const Tensor *e = expected->values[expected->g->output[i].value.i], *f = output(found, name);

        if (strncmp(name, OUT_GRAD_PREFIX, strlen(OUT_GRAD_PREFIX)))
            continue;
        if (!f || f->dtype != DT_FLOAT32) {
            TEST_FAIL("%s is %s", name, f ? dtype_name(f->dtype) : "missing");
            continue;
        }
        for (int64_t k = 0; k < tensor_numel(e); k++) {
            *diff += pow(tensor_float(f, k) - tensor_float(e, k), 2);
            *norm += pow(tensor_float(e, k), 2);
        }
    }
    *diff = sqrt(*diff);
    *norm = sqrt(*norm);
}

static void check_state_types(const Graph *g)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_STATE && dtype_size(g->value[i]->dtype) == 2)
            TEST_FAIL("state '%s' is %s", g->value[i]->name, dtype_name(g->value[i]->dtype));
}

static void check_model(const char *model, DType t, int batch, int replicas, double (*bound)(double))
{
    Arena *a = arena_create();
    Trained wide = train(a, model, DT_NONE, batch, 1), low = train(a, model, t, batch, replicas);
    double diff = 0, norm = 0;

    if (wide.values && low.values) {
        compare(&low, &wide, &diff, &norm);
        if (!(diff < bound(epsilon(t)) * norm) || !(diff > 0.01 * epsilon(t) * norm))
            TEST_FAIL("%s in %s, %d replicas: gradients differ by %g of %g, %g epsilons", model, dtype_name(t),
                      replicas, diff, norm, diff / norm / epsilon(t));
        check_state_types(low.g);
    }
    graph_free(wide.g);
    graph_free(low.g);
    arena_free(a);
}

static void test_bfloat16(void)
{
    check_model("mlp", DT_BFLOAT16, 10, 1, smooth);
    check_model("mlp", DT_BFLOAT16, 10, 3, smooth);
    check_model("fashion_cnn", DT_BFLOAT16, 4, 1, deciding);
    check_model("fashion_cnn", DT_BFLOAT16, 4, 3, deciding);
    check_model("transformer", DT_BFLOAT16, 2, 1, smooth);
}

static void test_float16(void)
{
    check_model("mlp", DT_FLOAT16, 10, 1, smooth);
    check_model("fashion_cnn", DT_FLOAT16, 4, 3, deciding);
}

DEFINE_SUITE(precision, { "gradients in bfloat16", test_bfloat16 }, { "gradients in float16", test_float16 });
