/* TF32 on simulated CUDA devices: products and convolutions round their operands to 10 bits of fraction, and nothing
 * else changes.  A number between 1 and 2 is rounded by an error spread evenly over 2^-10, whose mean square is 2^-20 /
 * 12, that of the number being 7 / 3: 2^-20 / 28 of it, in every binade.  A product has two operands, and errors of
 * different terms do not know of each other: norm-wise sqrt(2 * 2^-20 / 28) = 2.6e-4.  The gradient of a model of L
 * layers is the end of chains of up to 2 L products, whose errors are between that of one and, all in one direction, of
 * 2 L; where Relu and windows decide, behind batch-norm, of the order of the root of a number's epsilon
 * (tests/exec/precision.c). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/train/session.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ir/emit.h"
#include "tests/harness/gpu.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"
#include "passes/build_options.h"
#include "passes/options/backend.h"
#include "passes/options/recipes.h"

static double product_error(void) { return sqrt(2.0 / 28) / 1024; }

static float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / (float)(1 << 23) - 1;
}

static Status open_session(Session **out, const Graph *model, bool tf32, const LossDef *loss)
{
    const BuildOptions opt = { .recipes = &(RecipeOptions){ .loss = loss, .settings = "momentum=0.9" },
                               .backend = &(BackendOptions){ .tf32 = tf32 } };
    DeviceList list;

    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 0);
    TRY(device_list_parse(&list, "cuda", 1));
    list.device[0].tf32 = tf32;
    return session_create(out, model, &opt, &list, NULL, NULL);
}

/* ---- a product ---- */

enum { M = 48, K = 96 };

/* To 11 significant bits, ties away from zero. */
static double rounded(double x)
{
    int e;
    const double fraction = frexp(x, &e);

    return ldexp(round(ldexp(fraction, 11)), e - 11);
}

typedef struct {
    float x[M * K], w[K * M];
} Matrices;

static double product(const Matrices *a, int i, int j, bool tf32)
{
    double sum = 0;

    for (int k = 0; k < K; k++) {
        const double x = (double)a->x[i * K + k], w = (double)a->w[k * M + j];

        sum += tf32 ? rounded(x) * rounded(w) : x * w;
    }
    return sum;
}

/* Norms of the difference to the product of rounded operands, to that of the operands, and of the product. */
static void compare(const float *y, const Matrices *a, double d[3])
{
    memset(d, 0, 3 * sizeof *d);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++) {
            const double exact = product(a, i, j, false);

            d[0] += pow((double)y[i * M + j] - product(a, i, j, true), 2);
            d[1] += pow((double)y[i * M + j] - exact, 2);
            d[2] += exact * exact;
        }
    for (int i = 0; i < 3; i++)
        d[i] = sqrt(d[i]);
}

static void test_product(void)
{
    Graph *g = graph_create("product");
    Shape xs = SHAPE(M, K), ws = SHAPE(K, M);
    uint32_t seed = 3;
    Matrices a;
    const NamedTensor *out;
    Session *s = NULL;
    int n;

    for (int i = 0; i < M * K; i++)
        a.x[i] = noise(&seed), a.w[i] = noise(&seed);
    const ValueId x = graph_add_input(g, "x", DT_FLOAT32, &xs);
    const Tensor w = { DT_FLOAT32, ws, a.w };

    graph_add_output(g, "y", EMIT(g, MatMul, NULL, x, graph_add_state(g, "w", &w, true)));
    for (int tf32 = 0; tf32 < 2; tf32++) {
        double d[3];

        if (CHECK_OK(g->status) && CHECK_OK(open_session(&s, g, tf32, NULL)) &&
            CHECK_OK(session_step(&out, &n, s, BUILD_INFER, &(NamedTensor){ "x", { DT_FLOAT32, xs, a.x } }, 1))) {
            compare(named_find(out, n, "y")->data, &a, d);
            CU_ASSERT(d[!tf32] < 1e-6 * d[2]); /* float32's own rounding */
            if (!(fabs(d[tf32] / d[2] - product_error()) < 0.1 * product_error()))
                TEST_FAIL("rounded operands and others differ by %g, expected %g", d[tf32] / d[2], product_error());
        }
        session_free(s);
        s = NULL;
    }
    graph_free(g);
}

/* ---- training ---- */

enum { MAX_STEPS = 60, STATE_ROOM = 1 << 20 };

typedef struct {
    const char *model, *input;
    Shape data;
    int steps;
    float lr;
    double least, most;
} Training;
typedef struct {
    double loss[MAX_STEPS];
    int n;
    double gradient[STATE_ROOM];
} Run; /* of the first step */

/* The momenta, which after one step are its gradients. */
static int read_gradients(Session *s, double *to)
{
    States *all = session_states(s);
    int n = 0;

    for (int i = 0; i < states_count(all); i++) {
        const State *st = states_at(all, i);
        Arena *a = arena_create();
        Tensor *t = tensor_create(a, st->dtype, &st->shape);

        CU_ASSERT_FATAL(t && n + tensor_numel(t) <= STATE_ROOM);
        if (strstr(st->name, ".momentum") && CHECK_OK(states_get(all, st->name, t)))
            for (int64_t k = 0; k < tensor_numel(t); k++)
                to[n++] = tensor_float(t, k);
        arena_free(a);
    }
    return n;
}

/* Every step on the same batch. */
static void steps_of(Run *r, const Training *how, Session *s, Arena *a)
{
    const Shape labels = SHAPE(how->data.dim[0]);
    Tensor *x = tensor_create(a, DT_FLOAT32, &how->data), *t = tensor_create(a, DT_INT64, &labels);
    float lr = how->lr;
    NamedTensor in[] = { { how->input, *x }, { "target", *t }, { IN_LR, { DT_FLOAT32, shape_scalar(), &lr } } };
    const NamedTensor *out;
    uint32_t seed = 11;
    int n;

    for (int64_t i = 0; i < tensor_numel(x); i++)
        ((float *)x->data)[i] = noise(&seed);
    for (int i = 0; i < labels.dim[0]; i++)
        ((int64_t *)t->data)[i] = i * 7 % 10;
    for (int i = 0; i < how->steps && CHECK_OK(session_step(&out, &n, s, BUILD_TRAIN, in, 3)); i++) {
        r->loss[i] = tensor_float(named_find(out, n, OUT_LOSS), 0);
        if (!i)
            r->n = read_gradients(s, r->gradient);
    }
}

static Run *train(Arena *a, const Training *how, bool tf32)
{
    Run *r = ARENA_NEW(a, Run, 1);
    Session *s = NULL;
    Graph *g = model_import(how->model);

    if (g && CHECK_OK(open_session(&s, g, tf32, &loss_cross_entropy)))
        steps_of(r, how, s, a);
    session_free(s);
    graph_free(g);
    return r;
}

static void check_training(const Training *how)
{
    Arena *a = arena_create();
    const Run *full = train(a, how, false), *low = train(a, how, true);
    double diff = 0, norm = 0;

    CU_ASSERT_FATAL(full->n > 1000 && full->n == low->n);
    for (int i = 0; i < full->n; i++) {
        diff += pow(low->gradient[i] - full->gradient[i], 2);
        norm += pow(full->gradient[i], 2);
    }
    if (!(sqrt(diff / norm) > how->least && sqrt(diff / norm) < how->most))
        TEST_FAIL("%s: the gradient differs by %g, expected %g to %g", how->model, sqrt(diff / norm), how->least,
                  how->most);
    if (!(low->loss[how->steps - 1] < 0.2 * low->loss[0]))
        TEST_FAIL("%s: the loss goes from %g to %g, in float32 to %g", how->model, low->loss[0],
                  low->loss[how->steps - 1], full->loss[how->steps - 1]);
    arena_free(a);
}

static void test_training(void)
{
    check_training(
        &(Training){ "mlp", "x", SHAPE(12, 64), MAX_STEPS, 0.05f, product_error(), 2 * 3 * product_error() });
    check_training(
        &(Training){ "fashion_cnn", "image", SHAPE(5, 1, 28, 28), 12, 0.01f, product_error(), 2 * sqrt(1.0 / 2048) });
}

DEFINE_SUITE(tf32, { "a product", test_product }, { "training", test_training });
