/* Batch-norm statistics of data far from zero, merged over uneven parts, against sums in long double over the whole. */
#include <math.h>
#include <stdlib.h>

#include "kernels/backend.h"
#include "graph/ops/batchnorm.gen.h"
#include "graph/ir/emit.h"
#include "tests/harness/test.h"

enum { SAMPLES = 101, CHANNELS = 3, PLANE = 49, ROW = 2 * CHANNELS + 1, PARTS = 4 };

/* Box-Muller over a fixed linear congruential sequence. */
static double normal(uint64_t *seed)
{
    double u[2];

    for (int i = 0; i < 2; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        u[i] = ((double)(*seed >> 11) + 0.5) * 0x1p-53;
    }
    return sqrt(-2 * log(u[0])) * cos(6.283185307179586 * u[1]);
}

static Status run_node(const Kernel *const *list, int len, const Graph *g, const Node *n, const Tensor *in, Tensor *out)
{
    const Kernel *k = kernel_find(list, len, g, n);
    KernelCtx ctx = { .n_threads = 1 };
    void *state = NULL;
    Status st;

    if (!k)
        return FAIL(E_INTERNAL, "no kernel for %s", n->op->name);
    if (k->prepare)
        TRY(k->prepare(&state, &ctx, g, n));
    st = ctx.scratch_bytes && !(ctx.scratch = aligned_alloc(64, (ctx.scratch_bytes + 63) / 64 * 64))
             ? FAIL_NOMEM()
             : k->run(&ctx, state, in, out);
    free(ctx.scratch);
    if (k->release && state)
        k->release(state);
    return st;
}

/* The row of samples [from, to) of x. */
static Status stats_of(const Kernel *const *list, int len, float *x, int from, int to, double *row)
{
    Graph *g = graph_create("stats");
    Shape s = SHAPE(to - from, CHANNELS, PLANE), r = SHAPE(1, ROW);
    Tensor in = { DT_FLOAT32, s, x + from * CHANNELS * PLANE }, out = { DT_FLOAT64, r, row };
    Status st;

    EMIT(g, BatchNormStats, NULL, graph_add_input(g, "x", DT_FLOAT32, &s));
    st = g->status ? g->status : run_node(list, len, g, g->node[0], &in, &out);
    graph_free(g);
    return st;
}

static Status merge(double *rows, int n_rows, float *mean, float *var, float *count)
{
    Graph *g = graph_create("merge");
    Shape r = SHAPE(n_rows, ROW), c = SHAPE(CHANNELS), one = SHAPE(1);
    Tensor in = { DT_FLOAT64, r, rows };
    Tensor out[3] = { { DT_FLOAT32, c, mean }, { DT_FLOAT32, c, var }, { DT_FLOAT32, one, count } };
    ValueId m[3];
    Status st;

    EMIT_MULTI(g, BatchNormMerge, NULL, 3, m, graph_add_input(g, "rows", DT_FLOAT64, &r));
    st = g->status ? g->status : run_node(kernels_ref, kernels_ref_len, g, g->node[0], &in, out);
    graph_free(g);
    return st;
}

/* The layer as it is; by a momentum of 0 the running statistics are the batch's. */
static Status whole_layer(float *x, float *mean, float *var)
{
    float ones[CHANNELS] = { 1, 1, 1 }, zeros[CHANNELS] = { 0 }, *y = malloc(sizeof *y * SAMPLES * CHANNELS * PLANE);
    Graph *g = graph_create("layer");
    Shape s = SHAPE(SAMPLES, CHANNELS, PLANE), c = SHAPE(CHANNELS);
    Tensor in[5] = { { DT_FLOAT32, s, x },
                     { DT_FLOAT32, c, ones },
                     { DT_FLOAT32, c, zeros },
                     { DT_FLOAT32, c, zeros },
                     { DT_FLOAT32, c, ones } };
    Tensor out[3] = { { DT_FLOAT32, s, y }, { DT_FLOAT32, c, mean }, { DT_FLOAT32, c, var } };
    ValueId v[5], o[3];
    Status st;

    for (int i = 0; i < 5; i++)
        v[i] = graph_add_input(g, "", DT_FLOAT32, &in[i].shape);
    EMIT_MULTI(g, BatchNormalization, ATTRS(INT("training_mode", 1), FLOAT("momentum", 0)), 3, o, v[0], v[1], v[2],
               v[3], v[4]);
    st = g->status ? g->status : run_node(kernels_ref, kernels_ref_len, g, g->node[0], in, out);
    graph_free(g);
    free(y);
    return st;
}

static double exact_variance(const float *x, int c, double *mean)
{
    long double sum = 0, squares = 0;
    int n = SAMPLES * PLANE;

    for (int pass = 0; pass < 2; pass++)
        for (int s = 0; s < SAMPLES; s++)
            for (int i = 0; i < PLANE; i++) {
                long double v = x[(s * CHANNELS + c) * PLANE + i];

                if (pass)
                    squares += (v - sum / n) * (v - sum / n);
                else
                    sum += v;
            }
    *mean = (double)(sum / n);
    return (double)(squares / n);
}

static void check_moments(const float *x, const float *mean, const float *var, double centre)
{
    for (int c = 0; c < CHANNELS; c++) {
        double m, v = exact_variance(x, c, &m);

        if (fabs(var[c] - v) > 1e-6 * v || fabs(mean[c] - m) > 1e-7 * fabs(m) + 1e-7)
            TEST_FAIL("around %g, channel %d: mean %.9g and variance %.9g, expected %.9g and %.9g", centre, c, mean[c],
                      var[c], m, v);
    }
}

static void check_far(const Kernel *const *list, int len, double centre)
{
    static const int begin[PARTS + 1] = { 0, 1, 1, 60, SAMPLES }; /* one sample, none, many */
    float *x = malloc(sizeof *x * SAMPLES * CHANNELS * PLANE), mean[CHANNELS], var[CHANNELS], count;
    double rows[PARTS * ROW];
    uint64_t seed = 7;

    for (int i = 0; i < SAMPLES * CHANNELS * PLANE; i++)
        x[i] = (float)(centre + normal(&seed));
    for (int p = 0; p < PARTS; p++)
        CHECK_OK(stats_of(list, len, x, begin[p], begin[p + 1], rows + p * ROW));
    CHECK_OK(merge(rows, PARTS, mean, var, &count));
    CU_ASSERT_EQUAL(count, SAMPLES * PLANE);
    check_moments(x, mean, var, centre);
    CHECK_OK(whole_layer(x, mean, var));
    check_moments(x, mean, var, centre);
    free(x);
}

static void test_far_from_zero(void)
{
    static const double centre[] = { 0, 1000, 3000, -50000 };

    for (int i = 0; i < 4; i++) {
        check_far(kernels_ref, kernels_ref_len, centre[i]);
        for (int s = 0; cpu_kernels_at(s).isa; s++)
            check_far(cpu_kernels_at(s).kernel, cpu_kernels_at(s).n, centre[i]);
    }
}

static void test_single_value(void)
{
    double rows[2 * ROW] = { 0 };
    float mean[CHANNELS], var[CHANNELS], count;

    rows[ROW] = 1;
    CHECK_FAILS(E_SHAPE, "one value per channel", merge(rows, 2, mean, var, &count));
    rows[0] = 1;
    rows[1] = 2;
    CHECK_OK(merge(rows, 2, mean, var, &count)); /* one value each, two in all: 2 and 0 */
    CU_ASSERT_EQUAL(mean[0], 1);
    CU_ASSERT_EQUAL(var[0], 1);
}

DEFINE_SUITE(batchnorm, { "variance far from zero", test_far_from_zero }, { "a single value", test_single_value });
