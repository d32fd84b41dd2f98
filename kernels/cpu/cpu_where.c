/* Where, by the size of the element. */
#include "graph/ops/where.gen.h"
#include "kernels/cpu/cpu_elementwise.h"

#define BODY "kernels/cpu/cpu_where.inc"
#define TYPES (OF_U32 | OF_U64)
#include "kernels/each_type.inc"

static bool supports_where(const Graph *g, const Node *n) { return dtype_size(in_value(g, n, 1)->dtype) >= 4; }

static Status prepare_where(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool small = dtype_size(in_value(g, n, 1)->dtype) == 4;

    (void)ctx;
    return elementwise_prepare(state, g, n, 3, small ? where_u32 : where_u64);
}

DEFINE_KERNEL(cpu_where, .op = &op_Where, .dtypes = DTYPES_BOOL, .supports = supports_where, .prepare = prepare_where,
              BY_ROWS);
