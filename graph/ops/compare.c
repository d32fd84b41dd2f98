/* Comparisons and logic with numpy broadcasting; the result is bool, without a gradient. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"

static Status compare_infer(Graph *g, Node *n)
{
    TRY(infer_same_dtype(g, n, 0, 2));
    return infer_broadcast(g, n, DT_BOOL);
}

#define COMPARE(version, first, types)                                                                              \
    .elementwise = true, .since = (version), .from = (first), .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1, \
    .dtypes = (types), .import = import_broadcast, .infer = compare_infer, .grad = grad_none,                       \
    .place = place_elementwise

DEFINE_OP(Equal, COMPARE(13, 7, DTYPES_ALL | DTYPES_TEXT), .doc = "a == b");
DEFINE_OP(Greater, COMPARE(13, 7, DTYPES_NUMERIC), .doc = "a > b");
DEFINE_OP(Less, COMPARE(13, 7, DTYPES_NUMERIC), .doc = "a < b");
DEFINE_OP(GreaterOrEqual, COMPARE(16, 12, DTYPES_NUMERIC), .doc = "a >= b");
DEFINE_OP(LessOrEqual, COMPARE(16, 12, DTYPES_NUMERIC), .doc = "a <= b");
DEFINE_OP(And, COMPARE(7, 7, DTYPES_BOOL), .doc = "a and b");
DEFINE_OP(Or, COMPARE(7, 7, DTYPES_BOOL), .doc = "a or b");
DEFINE_OP(Xor, COMPARE(7, 7, DTYPES_BOOL), .doc = "a or b, not both");
