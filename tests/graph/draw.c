/* Drawn first values: their moments and distributions against closed forms, and what they depend on. */
#include "graph/tensor/draw.h"

#include <math.h>
#include <stdlib.h>

#include "tests/harness/test.h"

enum { N = 40000 };
/* The distance of Kolmogorov and Smirnov that a sample of N numbers exceeds once in a thousand: 1.95 / sqrt(N). */
static const double KS = 1.95 / 200;

static Tensor *drawn(Arena *a, Distribution d, uint64_t seed, const char *name, int64_t n)
{
    const Shape shape = SHAPE(n);
    Tensor *t = tensor_create(a, DT_FLOAT64, &shape);

    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    tensor_draw(t, &d, seed, name);
    return t;
}

static double normal_cdf(double x) { return erfc(-x / sqrt(2)) / 2; }
static double uniform_cdf(double x) { return x < -1 ? 0 : x > 1 ? 1 : (x + 1) / 2; }
/* Of a normal number that is drawn again beyond +-1.5. */
static double truncated_cdf(double x)
{
    const double low = normal_cdf(-1.5), mass = 1 - 2 * low;

    return x < -1.5 ? 0 : x > 1.5 ? 1 : (normal_cdf(x) - low) / mass;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The largest difference between the sample's distribution and `cdf` of (x - mean) / spread. */
static double distance(const Tensor *t, double mean, double spread, double (*cdf)(double))
{
    double *x = t->data, most = 0;

    qsort(x, N, sizeof *x, compare);
    for (int i = 0; i < N; i++) {
        const double p = cdf((x[i] - mean) / spread);

        most = fmax(most, fmax(fabs(p - (double)i / N), fabs(p - (double)(i + 1) / N)));
    }
    return most;
}

static void test_distributions(void)
{
    static const struct {
        Distribution d;
        double (*cdf)(double);
        double variance; /* of spread 1 */
    } table[] = {
        { { DRAW_UNIFORM, 0.25, 3, 0 }, uniform_cdf, 1.0 / 3 },
        { { DRAW_NORMAL, -2, 0.02, 0 }, normal_cdf, 1 },
        /* 1 - 2 * 1.5 phi(1.5) / (Phi(1.5) - Phi(-1.5)) */
        { { DRAW_TRUNCATED_NORMAL, 1, 2, 3 }, truncated_cdf, 0.551524 },
    };

    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        Arena *a = arena_create();
        const Distribution d = table[k].d;
        const Tensor *t = drawn(a, d, 7, "layer.weight", N);
        double mean = 0, square = 0;
        const double deviation = d.spread * sqrt(table[k].variance);

        for (int i = 0; i < N; i++)
            mean += tensor_float(t, i) / N;
        for (int i = 0; i < N; i++)
            square += (tensor_float(t, i) - mean) * (tensor_float(t, i) - mean) / N;
        CU_ASSERT_DOUBLE_EQUAL(mean, d.mean, 4 * deviation / sqrt(N));
        CU_ASSERT_DOUBLE_EQUAL(square / (deviation * deviation), 1, 4 * sqrt(2.0 / N));
        CU_ASSERT(distance(t, d.mean, d.spread, table[k].cdf) < KS);
        arena_free(a);
    }
}

/* Every number is within the bound, also where nearly all draws are not. */
static void test_bound(void)
{
    Arena *a = arena_create();
    const Tensor *t = drawn(a, (Distribution){ DRAW_TRUNCATED_NORMAL, 0, 1, 0.001 }, 1, "w", 4000);

    for (int64_t i = 0; i < 4000; i++)
        CU_ASSERT(fabs(tensor_float(t, i)) <= 0.001);
    arena_free(a);
}

/* Neighbours, halves of a pair and tensors of other names and seeds do not depend on each other. */
static void test_independence(void)
{
    Arena *a = arena_create();
    const Distribution d = { DRAW_NORMAL, 0, 1, 0 };
    const Tensor *t = drawn(a, d, 7, "a.weight", N), *name = drawn(a, d, 7, "b.weight", N),
                 *seed = drawn(a, d, 8, "a.weight", N);
    double lag[4] = { 0 }, names = 0, seeds = 0;

    for (int i = 0; i < N; i++) {
        for (int k = 1; k <= 4; k++)
            lag[k - 1] += tensor_float(t, i) * tensor_float(t, (i + k) % N) / N;
        names += tensor_float(t, i) * tensor_float(name, i) / N;
        seeds += tensor_float(t, i) * tensor_float(seed, i) / N;
    }
    for (int k = 0; k < 4; k++)
        CU_ASSERT_DOUBLE_EQUAL(lag[k], 0, 4 / sqrt(N));
    CU_ASSERT_DOUBLE_EQUAL(names, 0, 4 / sqrt(N));
    CU_ASSERT_DOUBLE_EQUAL(seeds, 0, 4 / sqrt(N));
    arena_free(a);
}

/* A longer tensor begins like a shorter one; a constant is itself. */
static void test_elements(void)
{
    Arena *a = arena_create();
    const Distribution kinds[] = { { DRAW_UNIFORM, 0, 1, 0 },
                                   { DRAW_NORMAL, 0, 1, 0 },
                                   { DRAW_TRUNCATED_NORMAL, 0, 1, 0.5 } };

    for (int k = 0; k < 3; k++) {
        const Tensor *few = drawn(a, kinds[k], 3, "w", 7), *many = drawn(a, kinds[k], 3, "w", 30);

        for (int64_t i = 0; i < 7; i++)
            CU_ASSERT_EQUAL(tensor_float(few, i), tensor_float(many, i));
    }
    CU_ASSERT_EQUAL(tensor_float(drawn(a, (Distribution){ DRAW_CONSTANT, 1.5, 9, 0 }, 3, "w", 2), 1), 1.5);
    arena_free(a);
}

DEFINE_SUITE(draw, { "distributions", test_distributions }, { "bound", test_bound },
             { "independence", test_independence }, { "elements", test_elements });
