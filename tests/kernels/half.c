/* Reference kernels in 16 bits: inputs as they are, arithmetic in float32, each result rounded once.  The numbers are
 * chosen so that rounding an input, an intermediate sum or not rounding the result would show. */
#include <string.h>

#include "kernels/backend.h"
#include "graph/ops/matmul.gen.h"
#include "exec/run/interp.h"
#include "graph/ir/emit.h"
#include "tests/harness/test.h"

static ValueId constant(Graph *g, DType t, int rows, int columns, const double *v)
{
    Shape s = SHAPE(rows, columns);
    Tensor *x = tensor_create(g->arena, t, &s);

    for (int i = 0; x && i < rows * columns; i++)
        tensor_set_float(x, i, v[i]);
    return x ? graph_add_const_nocopy(g, "c", x) : NO_VALUE;
}

static void check_product(DType t, const double *a, const double *b, int k, double expected)
{
    Graph *g = graph_create("half");
    const ValueId row = constant(g, t, 1, k, a), y = EMIT(g, MatMul, NULL, row, constant(g, t, k, 1, b));
    const Tensor **values = ARENA_NEW(g->arena, const Tensor *, g->n_value);

    CHECK_OK(g->status);
    CU_ASSERT_EQUAL(value(g, y)->dtype, t);
    CU_ASSERT_STRING_EQUAL(kernel_reference(g, g->node[0])->name, "ref_half");
    CHECK_OK(interp_run(g->arena, g, values));
    if (values[y.i] && tensor_float(values[y.i], 0) != expected)
        TEST_FAIL("%s: found %.17g, expected %.17g", dtype_name(t), tensor_float(values[y.i], 0), expected);
    graph_free(g);
}

/* bfloat16 has 8 significant bits: next to 256 the numbers are 2 apart, next to 1 they are 2^-7 apart. */
static void test_bfloat16(void)
{
    /* 256 + 1 + 1 = 258; had each sum been rounded, 257 would have become 256 twice. */
    check_product(DT_BFLOAT16, (double[]){ 256, 1, 1 }, (double[]){ 1, 1, 1 }, 3, 258);
    check_product(DT_BFLOAT16, (double[]){ 256, 1, 0 }, (double[]){ 1, 1, 1 }, 3, 256); /* 257 lies halfway: to even */
    check_product(DT_BFLOAT16, (double[]){ 1.0078125, 1, 0 }, (double[]){ 1.0078125, 0, 0 }, 3,
                  1.015625); /* (1+2^-7)^2 */
}

/* float16 has 11: next to 2048 the numbers are 2 apart, and nothing is above 65504. */
static void test_float16(void)
{
    check_product(DT_FLOAT16, (double[]){ 2048, 1, 1 }, (double[]){ 1, 1, 1 }, 3, 2050);
    check_product(DT_FLOAT16, (double[]){ 256, 256, -1 }, (double[]){ 256, -255, 1 }, 3, 255); /* 65536 in between */
    check_product(DT_FLOAT16, (double[]){ 256, 0, 0 }, (double[]){ 256, 0, 0 }, 3, 1.0 / 0.0);
}

DEFINE_SUITE(half, { "bfloat16", test_bfloat16 }, { "float16", test_float16 });
