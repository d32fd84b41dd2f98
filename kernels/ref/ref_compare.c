/* Comparisons and logic with broadcasting. */
#include "kernels/ref/ref_elementwise.h"
#include "graph/ops/compare.gen.h"

#define ALL(EXPR) FLOAT2_TO_BOOL(EXPR) SIGNED2_TO_BOOL(EXPR) UNSIGNED2_TO_BOOL(EXPR)

ELEMENTWISE(equal, void, ALL(a == b) BOOL2(a == b))
ELEMENTWISE(greater, void, ALL(a > b))
ELEMENTWISE(less, void, ALL(a < b))
ELEMENTWISE(greater_or_equal, void, ALL(a >= b))
ELEMENTWISE(less_or_equal, void, ALL(a <= b))
ELEMENTWISE(and, void, BOOL2(a &&b))
ELEMENTWISE(or, void, BOOL2(a || b))
ELEMENTWISE(xor, void, BOOL2(!a != !b))

#define NUMBERS (DTYPES_F32_F64 | DTYPES_INT)

DEFINE_KERNEL(ref_equal, .op = &op_Equal, .dtypes = NUMBERS | DTYPES_BOOL, .run = run_equal);
DEFINE_KERNEL(ref_greater, .op = &op_Greater, .dtypes = NUMBERS, .run = run_greater);
DEFINE_KERNEL(ref_less, .op = &op_Less, .dtypes = NUMBERS, .run = run_less);
DEFINE_KERNEL(ref_greater_or_equal, .op = &op_GreaterOrEqual, .dtypes = NUMBERS, .run = run_greater_or_equal);
DEFINE_KERNEL(ref_less_or_equal, .op = &op_LessOrEqual, .dtypes = NUMBERS, .run = run_less_or_equal);
DEFINE_KERNEL(ref_and, .op = &op_And, .dtypes = DTYPES_BOOL, .run = run_and);
DEFINE_KERNEL(ref_or, .op = &op_Or, .dtypes = DTYPES_BOOL, .run = run_or);
DEFINE_KERNEL(ref_xor, .op = &op_Xor, .dtypes = DTYPES_BOOL, .run = run_xor);
