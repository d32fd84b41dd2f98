/* The norm of gradients of a power other than 2. */
#include "passes/train/power_norm.h"

#include <math.h>

#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"

ValueId power_norm(Graph *g, int n, const ValueId *grad, double power, DType t)
{
    const Shape flat = { 1, { -1 } };
    ValueId *each = ARENA_NEW(g->arena, ValueId, n), largest, all_zero, sum = NO_VALUE;

    if (!each) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int i = 0; i < n; i++) {
        Shape one = flat;

        one.dim[0] = shape_numel(value(g, grad[i])->shape);
        each[i] = EMIT(g, Abs, NULL, emit_reshape(g, grad[i], &one));
    }
    largest = NO_VALUE;
    for (int i = 0; i < n; i++) {
        const ValueId axes = emit_ints(g, 1, (const int64_t[]){ 0 }),
                      top = emit(g, &op_ReduceMax, ATTRS(INT("keepdims", 0)), 2, (const ValueId[]){ each[i], axes });

        largest = has_value(largest) ? EMIT(g, Max, NULL, largest, top) : top;
    }
    if (isinf(power))
        return largest;
    /* if all are zeros the largest counts as 1 */
    all_zero = EMIT(g, Equal, NULL, largest, emit_scalar(g, t, 0));
    largest = EMIT(g, Where, NULL, all_zero, emit_scalar(g, t, 1), largest);
    for (int i = 0; i < n; i++) {
        const ValueId ratio = EMIT(g, Div, NULL, each[i], largest),
                      part = EMIT(g, Pow, NULL, ratio, emit_scalar(g, t, power)),
                      s = emit_reduce_sum(g, part, 1, (const int64_t[]){ 0 }, false);

        sum = has_value(sum) ? EMIT(g, Add, NULL, sum, s) : s;
    }
    return EMIT(g, Mul, NULL, largest, EMIT(g, Pow, NULL, sum, emit_scalar(g, t, 1 / power)));
}
