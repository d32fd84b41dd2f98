/* What the numbers of a constant look like: each kind at its limits, and what just misses it. */
#include <math.h>

#include "passes/model/parameters.h"
#include "tests/harness/test.h"

enum { MOST_NUMBERS = 36 };

typedef struct {
    Looks looks;
    int rank;
    int64_t dim[4];
    double number[MOST_NUMBERS];
} Example;

static Tensor *example_tensor(Arena *a, const Example *e)
{
    Shape s = shape_of(e->rank, e->dim);
    Tensor *t = tensor_create(a, DT_FLOAT64, &s);

    for (int64_t i = 0; i < tensor_numel(t); i++)
        tensor_set_float(t, i, e->number[i]);
    return t;
}

static const Example examples[] = {
    { LOOKS_UNIFORM, 1, { 3 }, { 2, 2, 2 } },
    { LOOKS_UNIFORM, 1, { 1 }, { 7 } },
    { LOOKS_PLAIN, 1, { 0 }, { 0 } },
    { LOOKS_SWITCH, 1, { 4 }, { 0, 1, 1, 0 } },
    { LOOKS_SWITCH, 1, { 2 }, { 1, 0 } },
    { LOOKS_PLAIN, 1, { 4 }, { 0, 2, 2, 0 } },
    { LOOKS_PLAIN, 1, { 3 }, { 0, 1, 2.5 } },
    { LOOKS_MASK, 1, { 4 }, { 0, -10, 0, -10 } },
    { LOOKS_MASK, 1, { 4 }, { -10, 0, 0, 0 } },
    { LOOKS_PLAIN, 1, { 4 }, { 0, -9.5, 0, -9.5 } },
    { LOOKS_PLAIN, 1, { 4 }, { 0, -20, 0, -10 } },
    { LOOKS_PLAIN, 1, { 3 }, { -20, -20, -10 } },
    { LOOKS_MASK, 1, { 3 }, { 0.5, -1e4, 3 } },
    { LOOKS_PLAIN, 1, { 3 }, { 0.5, -9999, 3 } },
    { LOOKS_MASK, 1, { 3 }, { -INFINITY, -INFINITY, -INFINITY } },
    /* filters [outputs, inputs, spatial ...] */
    { LOOKS_WINDOW, 3, { 1, 1, 3 }, { 0.25, 0.5, 0.25 } },
    { LOOKS_WINDOW, 3, { 2, 1, 3 }, { 0.25, 0.5, 0.25, 0, 0.625, 0.375 } },
    { LOOKS_WINDOW, 3, { 1, 2, 3 }, { 0.25, 0.5, 0.25, 0.5, 0.25, 0.25 } },
    { LOOKS_WINDOW, 4, { 1, 1, 2, 2 }, { 0.25, 0.5, 0.125, 0.125 } },
    { LOOKS_PLAIN, 3, { 1, 1, 2 }, { 0.25, 0.75 } },
    { LOOKS_PLAIN, 2, { 1, 3 }, { 0.25, 0.5, 0.25 } },
    { LOOKS_PLAIN, 3, { 1, 1, 3 }, { 0.25, 0.5, 0.3 } },
    { LOOKS_PLAIN, 3, { 1, 1, 3 }, { 0.25, 0.5, 0.2 } },
    { LOOKS_PLAIN, 3, { 1, 1, 3 }, { -0.25, 1, 0.25 } },
    { LOOKS_PLAIN, 3, { 2, 1, 3 }, { 0.25, 0.5, 0.25, 0.25, 0.5, 0.5 } },
    /* positions, in order */
    { LOOKS_STEPS, 1, { 4 }, { 1, 3, 5, 7 } },
    { LOOKS_STEPS, 1, { 4 }, { 7, 5, 3, 1 } },
    { LOOKS_PLAIN, 1, { 3 }, { 1, 3, 5 } },
    { LOOKS_PLAIN, 1, { 4 }, { 1, 3, 5, 7.5 } },
    { LOOKS_PLAIN, 1, { 4 }, { 1, 3.5, 5, 7 } },
    { LOOKS_STEPS, 1, { 6 }, { 1, 1, 3, 3, 5, 5 } },
    { LOOKS_STEPS, 1, { 6 }, { 1, 2, 3, 0, 3, 6 } },
    { LOOKS_PLAIN, 1, { 6 }, { 1, 2, 0, 3, -1, 1 } },
    { LOOKS_STEPS, 2, { 6, 1 }, { 1, 2, 3, 4, 5, 6 } },
    { LOOKS_STEPS, 2, { 2, 5 }, { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 } },
    /* points of a grid, one a row */
    { LOOKS_STEPS, 2, { 9, 2 }, { 0, 0, 0, 1, 0, 2, 2, 0, 2, 1, 2, 2, 4, 0, 4, 1, 4, 2 } },
    { LOOKS_STEPS, 2, { 9, 2 }, { 4, 2, 4, 1, 4, 0, 2, 2, 2, 1, 2, 0, 0, 2, 0, 1, 0, 0 } },
    { LOOKS_PLAIN, 2, { 9, 2 }, { 0, 0, 0, 1, 0, 2, 2, 0, 2, 1, 2, 3.5, 4, 0, 4, 1, 4, 2 } },
    { LOOKS_PLAIN, 2, { 9, 2 }, { 0, 0, 0, 1, 0, 2, 2, 0, 2.5, 1, 2.75, 2, 4, 0, 4, 1, 4, 2 } },
    { LOOKS_PLAIN, 2, { 4, 2 }, { 0, 5, 1, 4, 2, 3, 3, 2 } }, /* one up, one down */
    { LOOKS_PLAIN, 2, { 3, 2 }, { 0, 0, 1, 1, 2, 2 } },
    { LOOKS_STEPS, 2, { 4, 4 }, { 0, 4, 8, 9, 1, 5, 9, 10, 2, 6, 10, 11, 3, 7, 11, 12 } },
    { LOOKS_PLAIN, 2, { 4, 5 }, { 0, 4, 8, 9, 9, 1, 5, 9, 10, 9, 2, 6, 10, 11, 9, 3, 7, 11, 12, 9.5 } },
    /* rates */
    { LOOKS_STEPS, 1, { 5 }, { 1, 0.5, 0.25, 0.125, 0.0625 } },
    { LOOKS_STEPS, 1, { 4 }, { 3, 9, 27, 81 } },
    { LOOKS_PLAIN, 1, { 4 }, { 3, 9, 27, 80 } },
    { LOOKS_PLAIN, 1, { 4 }, { 3, -9, 27, -81 } },
    { LOOKS_PLAIN, 2, { 4, 5 }, { 1,    2,    4,    8,    16,    32,    64,    128,    256,    512,
                                  1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288 } },
};

static void test_examples(void)
{
    Arena *a = arena_create();

    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const Looks found = tensor_looks(example_tensor(a, &examples[i]));

        if (found != examples[i].looks)
            TEST_FAIL("example %d (%g, %g, %g ...) looks %d, expected %d", (int)i, examples[i].number[0],
                      examples[i].number[1], examples[i].number[2], (int)found, (int)examples[i].looks);
    }
    arena_free(a);
}

/* ---- sines and cosines ---- */

/* The ways to lay out a row of an even width. */
typedef enum { SIDE_BY_SIDE, HALVES, TWO_BLOCKS, THREE_BLOCKS, CHANNELS_FIRST, N_WAYS } WaveLayout;

/* A table of `rows` positions, times `scale` plus `shift`; the first `zeros` rows are zero. */
static Tensor *waves(Arena *a, WaveLayout way, int64_t rows, int64_t width, int zeros, double scale, double shift)
{
    const int64_t blocks = way == TWO_BLOCKS ? 2 : way == THREE_BLOCKS ? 3 : 1, half = width / blocks / 2;
    Shape flat = SHAPE(rows, width), image = SHAPE(1, width, rows, 1);
    Tensor *t = tensor_create(a, DT_FLOAT64, way == CHANNELS_FIRST ? &image : &flat);

    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < width; k++) {
            const bool cosine = way == SIDE_BY_SIDE ? k % 2 : k / half % 2;
            const int64_t rate = way == SIDE_BY_SIDE ? k / 2 : k % half + k / (2 * half);
            const double x = (double)(i + 1) * pow(30, -(double)rate / (double)half);
            const double v = i < zeros ? 0 : shift + scale * (cosine ? cos(x) : sin(x));

            tensor_set_float(t, way == CHANNELS_FIRST ? k * rows + i : i * width + k, v);
        }
    return t;
}

static void check_waves(const Tensor *t, Looks expected, int number)
{
    if (tensor_looks(t) != expected)
        TEST_FAIL("table %d looks %d, expected %d", number, (int)tensor_looks(t), (int)expected);
}

static void test_layouts(void)
{
    Arena *a = arena_create();

    for (WaveLayout way = SIDE_BY_SIDE; way < N_WAYS; way++)
        for (int64_t width = 12; width <= 24; width += 12)
            for (int k = 0; k < 4; k++) {
                const double scale = k & 1 ? 0.3 : 1, shift = k & 1 ? 1.7 : 0;
                const int number = 100 * way + (int)width + k;
                Tensor *t = waves(a, way, 7, width, k & 2, scale, shift);
                const int64_t at = tensor_numel(t) - 1;
                const double last = tensor_float(t, at);

                check_waves(t, LOOKS_WAVES, number);
                tensor_set_float(t, at, last + 1e-5 * scale);
                check_waves(t, LOOKS_WAVES, number);
                tensor_set_float(t, at, last + 0.1 * scale);
                check_waves(t, LOOKS_PLAIN, number);
            }
    arena_free(a);
}

static void test_limits(void)
{
    Arena *a = arena_create();

    check_waves(waves(a, SIDE_BY_SIDE, 2, 8, 0, 1, 0), LOOKS_WAVES, 0);
    check_waves(waves(a, SIDE_BY_SIDE, 2, 6, 0, 1, 0), LOOKS_PLAIN, 1); /* fewer than 16 numbers */
    check_waves(waves(a, SIDE_BY_SIDE, 6, 8, 3, 1, 0), LOOKS_WAVES, 2); /* half of the rows are zeros */
    check_waves(waves(a, SIDE_BY_SIDE, 6, 8, 4, 1, 0), LOOKS_PLAIN, 3);
    check_waves(waves(a, HALVES, 40, 8, 1, 2, 5), LOOKS_WAVES, 4);
    check_waves(waves(a, HALVES, 8, 2, 0, 1, 0), LOOKS_WAVES, 5);
    arena_free(a);
}

/* ---- fixed filters ---- */

typedef struct {
    bool fixed;
    Example of;
} Filter;

static const Filter filters[] = {
    { true, { 0, 4, { 2, 1, 3, 3 }, { -1, 0, 1, -2, 0, 2, -1, 0, 1, -1, -2, -1, 0, 0, 0, 1, 2, 1 } } }, /* Sobel */
    { true, { 0, 3, { 2, 1, 3 }, { 0.1, 0.2, 0.7, 0.1, 0.2, 0.7 } } }, /* one kernel for all channels */
    { true, { 0, 3, { 1, 2, 3 }, { 0.1, 0.2, 0.7, 0.1, 0.2, 0.7 } } },
    { false, { 0, 3, { 2, 1, 3 }, { 0.1, 0.2, 0.7, 0.1, 0.2, 0.6 } } },
    { false, { 0, 3, { 2, 1, 3 }, { 0.1, 0.2, 0.7, 0.3, 0.2, 0.7 } } },
    { false, { 0, 3, { 3, 1, 3 }, { 0.1, 0.2, 0.7, 0.1, 0.2, 0.7, 0.1, 0.3, 0.7 } } },
    { true, { 0, 3, { 2, 1, 4 }, { 0.5, -0.5, 0.3, -0.3, 0.1, 0.2, 0.2, 0.1 } } },
    { false, { 0, 3, { 2, 1, 4 }, { 0.5, -0.5, 0.3, -0.3, 0.1, 0.2, 0.3, 0.4 } } },
    { false, { 0, 3, { 2, 1, 4 }, { 0.1, 0.2, 0.3, 0.4, 0.5, -0.5, 0.3, -0.3 } } },
    { true, { 0, 3, { 1, 1, 4 }, { 0.5, -0.5, 0, 0 } } },
    { false, { 0, 3, { 1, 1, 4 }, { 0.5, 0.4, 0, 0 } } },
    { false, { 0, 3, { 1, 1, 3 }, { 0.1, 0.2, 0.7 } } },
    { true, { 0, 4, { 4, 1, 2, 2 }, { 1, 1, 1, 1, 1, -1, 1, -1, 1, 1, -1, -1, 1, -1, -1, 1 } } }, /* Haar */
    { false, { 0, 4, { 4, 1, 2, 2 }, { 0, 0, 0, 0, 1, -1, 1, -1, 1, 1, -1, -1, 1, -1, -1, 1 } } },
    { true, { 0, 3, { 1, 1, 4 }, { 0.5, -0.5, 0, 0 } } },
    { true, { 0, 3, { 1, 1, 4 }, { 0.5, -0.5, 0.3, -0.3 } } },
    { false, { 0, 3, { 1, 1, 4 }, { 0.5, -0.5, 0.3, -0.2 } } },
    { false, { 0, 3, { 1, 1, 4 }, { 0.5, 0, 0, 0 } } },
    { false, { 0, 3, { 1, 1, 5 }, { 0.5, -0.5, 0.3, 0.2, 0.1 } } },
    { false, { 0, 3, { 2, 1, 2 }, { 1, 1, 1, 1 } } }, /* one number throughout */
    { false, { 0, 2, { 2, 3 }, { 0.1, 0.2, 0.7, 0.1, 0.2, 0.7 } } },
    { false, { 0, 4, { 3, 1, 1, 1 }, { 2, 2, 2 } } }, /* a kernel of one number */
};

static void test_filters(void)
{
    Arena *a = arena_create();

    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (tensor_is_fixed_filter(example_tensor(a, &filters[i].of)) != filters[i].fixed)
            TEST_FAIL("filter %d is %s, expected the other", (int)i, filters[i].fixed ? "learned" : "fixed");
    CU_ASSERT(!tensor_is_fixed_filter(NULL));
    arena_free(a);
}

/* A symmetric kernel of 256 numbers is fixed; a larger one is not examined. */
static void test_large_filters(void)
{
    Arena *a = arena_create();

    for (int64_t size = 256; size <= 258; size += 2) {
        const Shape s = SHAPE(1, 1, size);
        Tensor *t = tensor_create(a, DT_FLOAT64, &s);

        for (int64_t i = 0; i < size; i++)
            tensor_set_float(t, i, 1 + (double)(i < size / 2 ? i : size - 1 - i));
        CU_ASSERT_EQUAL(tensor_is_fixed_filter(t), size <= 256);
    }
    arena_free(a);
}

DEFINE_SUITE(looks, { "examples", test_examples }, { "layouts of sines and cosines", test_layouts },
             { "limits of sines and cosines", test_limits }, { "fixed filters", test_filters },
             { "large filters", test_large_filters });
