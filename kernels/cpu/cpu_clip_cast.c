/* Clip by two numbers, and Cast where nothing has to be saturated. */
#include "graph/ops/cast.gen.h"
#include "graph/ops/where.gen.h"
#include "kernels/cpu/cpu_elementwise.h"
#include "kernels/cpu/cpu_formulas.h"
#include "kernels/typed.h"

/* ---- Clip: both bounds are numbers; an absent one is an infinity ---- */

#define BODY "kernels/cpu/clip.inc"
#include "kernels/each_type.inc"

static Status prepare_clip(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool wide = in_value(g, n, 0)->dtype == DT_FLOAT64;
    RowFn row[1 << MAX_OPERANDS];

    (void)ctx;
    for (int i = 0; i < 1 << MAX_OPERANDS; i++) /* numbers stand still in a row of more than one element */
        row[i] = wide ? clip_f64 : clip_f32;
    return elementwise_prepare(state, g, n, n->n_in, row);
}

DEFINE_KERNEL(cpu_clip, .op = &op_Clip, .dtypes = DTYPES_F32_F64, .prepare = prepare_clip, BY_ROWS);

/* ---- Cast, where nothing has to be saturated: to a float, from floats and the integers that graphs compute with
 * ---- */

#define BODY "kernels/cpu/cpu_cast.inc"
#define TYPES (OF_FLOATS | OF_I32 | OF_I64 | OF_U8)
#include "kernels/each_type.inc"

static bool supports_cast(const Graph *g, const Node *n)
{
    (void)g;
    return node_int(n, "to") == DT_FLOAT32 || node_int(n, "to") == DT_FLOAT64;
}

static Status prepare_cast(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    static const RowFn to_f32[] = { OF_EACH_FLOAT(to_f32), [DT_INT32] = to_f32_i32, [DT_INT64] = to_f32_i64,
                                    [DT_UINT8] = to_f32_u8, [DT_BOOL] = to_f32_u8 };
    static const RowFn to_f64[] = { OF_EACH_FLOAT(to_f64), [DT_INT32] = to_f64_i32, [DT_INT64] = to_f64_i64,
                                    [DT_UINT8] = to_f64_u8, [DT_BOOL] = to_f64_u8 };
    const RowFn fn = (node_int(n, "to") == DT_FLOAT64 ? to_f64 : to_f32)[in_value(g, n, 0)->dtype];

    (void)ctx;
    return elementwise_prepare(state, g, n, 1, (const RowFn[]){ fn, fn });
}

#define CASTABLE (DTYPES_F32_F64 | DTYPES_BOOL | DTYPE_BIT(DT_UINT8) | DTYPE_BIT(DT_INT32) | DTYPE_BIT(DT_INT64))

DEFINE_KERNEL(cpu_cast, .op = &op_Cast, .dtypes = CASTABLE, .supports = supports_cast, .prepare = prepare_cast,
              BY_ROWS);
