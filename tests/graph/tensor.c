/* Conversions of 16-bit floats, over all their values, against the compiler's own arithmetic and closed forms. */
#include <math.h>
#include <string.h>

#include "graph/tensor/tensor.h"
#include "tests/harness/test.h"

/* sign * mantissa * 2^exponent as the format's definition says, with `bits` of mantissa and an exponent bias. */
static double value_of(unsigned h, int bits, int bias)
{
    int special = (1 << (15 - bits)) - 1, exponent = (int)(h >> bits) & special;
    double mantissa = h & ((1u << bits) - 1), sign = h & 0x8000 ? -1 : 1;

    if (exponent == special)
        return mantissa != 0 ? NAN : sign * INFINITY;
    return sign *
           (exponent ? ldexp(mantissa + ldexp(1, bits), exponent - bias - bits) : ldexp(mantissa, 1 - bias - bits));
}

static bool same(double a, double b) { return isnan(a) ? isnan(b) != 0 : a == b && !signbit(a) == !signbit(b); }

static void test_half_values(void)
{
    int wrong = 0;

    for (unsigned h = 0; h < 65536; h++) {
        double v = value_of(h, 10, 15);
        uint16_t back = half_from_double(v);

        wrong += !same(half_to_float((uint16_t)h), v);
        wrong += isnan(v) ? (back & 0x7c00) != 0x7c00 || !(back & 0x3ff) : back != h;
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

/* Between two neighbours: below the middle down, above it up, in the middle to the even one. */
static void test_half_rounding(void)
{
    int wrong = 0;

    for (unsigned h = 0; h < 0x7bff; h++) {
        double low = value_of(h, 10, 15), high = value_of(h + 1, 10, 15), middle = (low + high) / 2;
        unsigned even = h & 1 ? h + 1 : h;

        wrong += half_from_double(middle) != even;
        wrong += half_from_double(-middle) != (even | 0x8000);
        wrong += half_from_double(nextafter(middle, -1)) != h;
        wrong += half_from_double(nextafter(middle, 1e9)) != h + 1;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(half_from_double(65519.999), 0x7bff);
    CU_ASSERT_EQUAL(half_from_double(65520), 0x7c00);
    CU_ASSERT_EQUAL(half_from_double(-1e300), 0xfc00);
    CU_ASSERT_EQUAL(half_from_double(1e-300), 0);
    CU_ASSERT_EQUAL(half_from_double(-0.0), 0x8000);
}

static void test_bfloat(void)
{
    int wrong = 0;

    for (unsigned b = 0; b < 65536; b++) {
        double v = value_of(b, 7, 127);
        uint16_t back = bfloat_from_float((float)v);

        wrong += !same(bfloat_to_float((uint16_t)b), v);
        wrong += isnan(v) ? (back & 0x7f80) != 0x7f80 || !(back & 0x7f) : back != b;
    }
    for (unsigned b = 0; b < 0x7f7f; b++) {
        float middle = (float)((value_of(b, 7, 127) + value_of(b + 1, 7, 127)) / 2);

        wrong += bfloat_from_float(middle) != (b & 1 ? b + 1 : b);
        wrong += bfloat_from_float(nextafterf(middle, 0)) != b;
        wrong += bfloat_from_float(nextafterf(middle, INFINITY)) != b + 1;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(bfloat_from_float(3.4e38f), 0x7f80);
}

static void test_elements(void)
{
    static const struct {
        DType t;
        int64_t min, max;
    } ints[] = {
        { DT_INT8, INT8_MIN, INT8_MAX },    { DT_INT16, INT16_MIN, INT16_MAX }, { DT_INT32, INT32_MIN, INT32_MAX },
        { DT_INT64, INT64_MIN, INT64_MAX }, { DT_UINT8, 0, UINT8_MAX },         { DT_UINT16, 0, UINT16_MAX },
        { DT_UINT32, 0, UINT32_MAX },       { DT_UINT64, 0, INT64_MAX },        { DT_BOOL, 0, 1 },
    };
    Arena *a = arena_create();
    Shape s = SHAPE(2, 3);

    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        Tensor *t = tensor_create(a, ints[i].t, &s), *copy;

        tensor_set_int(t, 4, ints[i].min);
        tensor_set_int(t, 5, ints[i].max);
        copy = tensor_copy(a, t);
        CU_ASSERT_EQUAL(tensor_int(copy, 4), ints[i].min);
        CU_ASSERT_EQUAL(tensor_int(copy, 5), ints[i].max);
        CU_ASSERT_EQUAL(tensor_int(copy, 3), 0);
        CU_ASSERT_EQUAL(tensor_bytes(t), 6 * dtype_size(ints[i].t));
    }
    for (int t = DT_FLOAT32; t < DT_COUNT; t++) {
        Tensor *x;

        if (!dtype_is_float((DType)t))
            continue;
        x = tensor_create(a, (DType)t, &s);
        tensor_set_float(x, 1, -2.5);
        CU_ASSERT_EQUAL(tensor_float(x, 1), -2.5);
        CU_ASSERT_EQUAL(tensor_int(x, 1), -2);
        tensor_set_float(x, 1, NAN);
        CU_ASSERT_EQUAL(tensor_int(x, 1), 0);
        tensor_set_float(x, 1, INFINITY);
        CU_ASSERT_EQUAL(tensor_int(x, 1), INT64_MAX);
        tensor_set_float(x, 1, t == DT_FLOAT16 ? -INFINITY : -0x1p63);
        CU_ASSERT_EQUAL(tensor_int(x, 1), INT64_MIN);
    }
    arena_free(a);
}

/* What is not known is no number of rows or columns. */
static void test_rows_and_columns(void)
{
    const struct {
        Shape shape;
        int64_t rows, columns;
    } is[] = {
        { SHAPE(2, 3, 4), 6, 4 },    { SHAPE(5), 1, 5 },      { { .rank = 0 }, 1, 1 },
        { shape_unknown(), -1, -1 }, { SHAPE(-1, 4), -1, 4 },
    };

    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        CU_ASSERT_EQUAL(shape_rows(&is[i].shape), is[i].rows);
        CU_ASSERT_EQUAL(shape_columns(&is[i].shape), is[i].columns);
    }
}

DEFINE_SUITE(tensor, { "all float16 values", test_half_values },
             { "float16 rounds to nearest even", test_half_rounding }, { "all bfloat16 values", test_bfloat },
             { "elements of every type", test_elements }, { "rows and columns", test_rows_and_columns });
