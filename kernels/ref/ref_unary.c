/* Functions of one element, as the formulas say. */
#include "kernels/ref/ref_elementwise.h"
#include "graph/ops/unary.gen.h"

/* ---- mathematics ---- */

/* Negation and |x| of the lowest integer wrap to itself. */
#define WRAP_NEG(x) (T)(0 - (uint64_t)(x))

ELEMENTWISE(neg, void, FLOAT1(-x) SIGNED1(WRAP_NEG(x)))
ELEMENTWISE(abs, void, FLOAT1(fabs(x)) SIGNED1(x < 0 ? WRAP_NEG(x) : x) UNSIGNED1(x))
ELEMENTWISE(reciprocal, void, FLOAT1(1 / x))
ELEMENTWISE(sqrt, void, FLOAT1(sqrt(x)))
ELEMENTWISE(exp, void, FLOAT1(exp(x)))
ELEMENTWISE(log, void, FLOAT1(log(x)))
ELEMENTWISE(erf, void, FLOAT1(erf(x)))
ELEMENTWISE(sin, void, FLOAT1(sin(x)))
ELEMENTWISE(cos, void, FLOAT1(cos(x)))
ELEMENTWISE(tan, void, FLOAT1(tan(x)))
ELEMENTWISE(asin, void, FLOAT1(asin(x)))
ELEMENTWISE(acos, void, FLOAT1(acos(x)))
ELEMENTWISE(atan, void, FLOAT1(atan(x)))
ELEMENTWISE(sinh, void, FLOAT1(sinh(x)))
ELEMENTWISE(cosh, void, FLOAT1(cosh(x)))
ELEMENTWISE(asinh, void, FLOAT1(asinh(x)))
ELEMENTWISE(acosh, void, FLOAT1(acosh(x)))
ELEMENTWISE(atanh, void, FLOAT1(atanh(x)))
ELEMENTWISE(sign, void, FLOAT1(isnan(x) ? x : (T)((x > 0) - (x < 0))) SIGNED1((x > 0) - (x < 0)) UNSIGNED1(x > 0))
ELEMENTWISE(ceil, void, FLOAT1(ceil(x)))
ELEMENTWISE(floor, void, FLOAT1(floor(x)))
ELEMENTWISE(round, void, FLOAT1(rint(x)))
ELEMENTWISE(not, void, BOOL1(!x))
ELEMENTWISE(bitwise_not, void, SIGNED1(~x) UNSIGNED1(~x))

#define NUMBERS (DTYPES_F32_F64 | DTYPES_INT)

DEFINE_KERNEL(ref_neg, .op = &op_Neg, .dtypes = DTYPES_F32_F64 | DTYPES_SIGNED, .run = run_neg);
DEFINE_KERNEL(ref_abs, .op = &op_Abs, .dtypes = NUMBERS, .run = run_abs);
DEFINE_KERNEL(ref_reciprocal, .op = &op_Reciprocal, .dtypes = DTYPES_F32_F64, .run = run_reciprocal);
DEFINE_KERNEL(ref_sqrt, .op = &op_Sqrt, .dtypes = DTYPES_F32_F64, .run = run_sqrt);
DEFINE_KERNEL(ref_exp, .op = &op_Exp, .dtypes = DTYPES_F32_F64, .run = run_exp);
DEFINE_KERNEL(ref_log, .op = &op_Log, .dtypes = DTYPES_F32_F64, .run = run_log);
DEFINE_KERNEL(ref_erf, .op = &op_Erf, .dtypes = DTYPES_F32_F64, .run = run_erf);
DEFINE_KERNEL(ref_sin, .op = &op_Sin, .dtypes = DTYPES_F32_F64, .run = run_sin);
DEFINE_KERNEL(ref_cos, .op = &op_Cos, .dtypes = DTYPES_F32_F64, .run = run_cos);
DEFINE_KERNEL(ref_tan, .op = &op_Tan, .dtypes = DTYPES_F32_F64, .run = run_tan);
DEFINE_KERNEL(ref_asin, .op = &op_Asin, .dtypes = DTYPES_F32_F64, .run = run_asin);
DEFINE_KERNEL(ref_acos, .op = &op_Acos, .dtypes = DTYPES_F32_F64, .run = run_acos);
DEFINE_KERNEL(ref_atan, .op = &op_Atan, .dtypes = DTYPES_F32_F64, .run = run_atan);
DEFINE_KERNEL(ref_sinh, .op = &op_Sinh, .dtypes = DTYPES_F32_F64, .run = run_sinh);
DEFINE_KERNEL(ref_cosh, .op = &op_Cosh, .dtypes = DTYPES_F32_F64, .run = run_cosh);
DEFINE_KERNEL(ref_asinh, .op = &op_Asinh, .dtypes = DTYPES_F32_F64, .run = run_asinh);
DEFINE_KERNEL(ref_acosh, .op = &op_Acosh, .dtypes = DTYPES_F32_F64, .run = run_acosh);
DEFINE_KERNEL(ref_atanh, .op = &op_Atanh, .dtypes = DTYPES_F32_F64, .run = run_atanh);
DEFINE_KERNEL(ref_sign, .op = &op_Sign, .dtypes = NUMBERS, .run = run_sign);
DEFINE_KERNEL(ref_ceil, .op = &op_Ceil, .dtypes = DTYPES_F32_F64, .run = run_ceil);
DEFINE_KERNEL(ref_floor, .op = &op_Floor, .dtypes = DTYPES_F32_F64, .run = run_floor);
DEFINE_KERNEL(ref_round, .op = &op_Round, .dtypes = DTYPES_F32_F64, .run = run_round);
DEFINE_KERNEL(ref_not, .op = &op_Not, .dtypes = DTYPES_BOOL, .run = run_not);
DEFINE_KERNEL(ref_bitwise_not, .op = &op_BitwiseNot, .dtypes = DTYPES_INT, .run = run_bitwise_not);

/* ---- tests of floats ---- */

typedef struct {
    bool negative, positive;
} Signs;

static Status prepare_is_inf(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Signs signs = { node_int(n, "detect_negative") != 0, node_int(n, "detect_positive") != 0 };

    (void)ctx;
    (void)g;
    return kernel_state(state, &signs, sizeof signs);
}

ELEMENTWISE(is_nan, void, FLOAT1_TO_BOOL(isnan(x) != 0))
ELEMENTWISE(is_inf, Signs, FLOAT1_TO_BOOL(isinf(x) && (x < 0 ? p->negative : p->positive)))

DEFINE_KERNEL(ref_is_nan, .op = &op_IsNaN, .dtypes = DTYPES_F32_F64, .run = run_is_nan);
DEFINE_KERNEL(ref_is_inf, .op = &op_IsInf, .dtypes = DTYPES_F32_F64, .prepare = prepare_is_inf, .run = run_is_inf,
              .release = free);
