/* Reductions along axes, one pass in the order of the elements.  Sums of float32 are kept in double; an empty reduction
 * gives the neutral element: 0, 1, the lowest or highest value, and NaN for a mean. */
#include <limits.h>
#include <math.h>

#include "graph/ops/reduce.h"
#include "kernels/ref/ref.h"

/* The output's dimensions are walked outside, the reduced ones inside. */
typedef struct {
    int n_kept, n_reduced;
    int64_t kept[MAX_RANK], kept_stride[MAX_RANK], reduced[MAX_RANK], reduced_stride[MAX_RANK];
    int64_t outputs, count;
} Plan;

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = &in_value(g, n, 0)->shape;
    int64_t stride[MAX_RANK];
    unsigned mask;
    Plan *p;

    (void)ctx;
    TRY(reduce_axes(&mask, g, n));
    if (!(p = calloc(1, sizeof *p)))
        return FAIL_NOMEM();
    shape_strides(x, stride);
    p->outputs = p->count = 1;
    for (int i = x->rank - 1; i >= 0; i--) { /* innermost first */
        if (mask >> i & 1) {
            p->reduced[p->n_reduced] = x->dim[i];
            p->reduced_stride[p->n_reduced++] = stride[i];
            p->count *= x->dim[i];
        } else {
            p->kept[p->n_kept] = x->dim[i];
            p->kept_stride[p->n_kept++] = stride[i];
            p->outputs *= x->dim[i];
        }
    }
    *state = p;
    return ST_OK;
}

/* The next index of an odometer: the offset it stands for. */
static int64_t step(int rank, const int64_t *dim, const int64_t *stride, int64_t *at, int64_t offset)
{
    for (int i = 0; i < rank; i++) {
        offset += stride[i];
        if (++at[i] < dim[i])
            return offset;
        offset -= stride[i] * dim[i];
        at[i] = 0;
    }
    return offset;
}

/* ACC r = FIRST; for each element x: r = STEP; y = LAST. */
#define REDUCE(D, T, ACC, FIRST, STEP, LAST)                                     \
    case D: {                                                                    \
        const T *xs = in[0].data;                                                \
        T *ys = out[0].data;                                                     \
        int64_t at[MAX_RANK] = { 0 }, base = 0;                                  \
        for (int64_t o = 0; o < p->outputs; o++) {                               \
            int64_t inner[MAX_RANK] = { 0 }, k = base;                           \
            ACC r = FIRST;                                                       \
            for (int64_t i = 0; i < p->count; i++) {                             \
                const T x = xs[k];                                               \
                r = STEP;                                                        \
                k = step(p->n_reduced, p->reduced, p->reduced_stride, inner, k); \
            }                                                                    \
            ys[o] = (T)(LAST);                                                   \
            base = step(p->n_kept, p->kept, p->kept_stride, at, base);           \
        }                                                                        \
        return ST_OK;                                                            \
    }
#define FLOATS(...)                                \
    REDUCE(DT_FLOAT32, float, double, __VA_ARGS__) \
    REDUCE(DT_FLOAT64, double, double, __VA_ARGS__)
/* Integers wrap: in uint64_t that is defined. */
#define INTS_WRAP(...)                                 \
    REDUCE(DT_INT8, int8_t, uint64_t, __VA_ARGS__)     \
    REDUCE(DT_INT16, int16_t, uint64_t, __VA_ARGS__)   \
    REDUCE(DT_INT32, int32_t, uint64_t, __VA_ARGS__)   \
    REDUCE(DT_INT64, int64_t, uint64_t, __VA_ARGS__)   \
    REDUCE(DT_UINT8, uint8_t, uint64_t, __VA_ARGS__)   \
    REDUCE(DT_UINT16, uint16_t, uint64_t, __VA_ARGS__) \
    REDUCE(DT_UINT32, uint32_t, uint64_t, __VA_ARGS__) \
    REDUCE(DT_UINT64, uint64_t, uint64_t, __VA_ARGS__)
/* Integers by way of double, for what has no integer meaning. */
#define INTS_DOUBLE(...)                             \
    REDUCE(DT_INT8, int8_t, double, __VA_ARGS__)     \
    REDUCE(DT_INT16, int16_t, double, __VA_ARGS__)   \
    REDUCE(DT_INT32, int32_t, double, __VA_ARGS__)   \
    REDUCE(DT_INT64, int64_t, double, __VA_ARGS__)   \
    REDUCE(DT_UINT8, uint8_t, double, __VA_ARGS__)   \
    REDUCE(DT_UINT16, uint16_t, double, __VA_ARGS__) \
    REDUCE(DT_UINT32, uint32_t, double, __VA_ARGS__) \
    REDUCE(DT_UINT64, uint64_t, double, __VA_ARGS__)

#define RUN(NAME, ...)                                                                                 \
    static Status run_##NAME(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)               \
    {                                                                                                  \
        const Plan *p = state;                                                                         \
        (void)ctx;                                                                                     \
        switch (in[0].dtype) {                                                                         \
            __VA_ARGS__                                                                                \
        default: return FAIL(E_INTERNAL, "%s: no kernel for type %s", #NAME, dtype_name(in[0].dtype)); \
        }                                                                                              \
    }

#define MAGNITUDE(x) ((x) > 0 ? (uint64_t)(x) : 0 - (uint64_t)(x))
#define LARGER (x > r || x != x ? x : r)
#define SMALLER (x < r || x != x ? x : r)
#define EXTREME(D, T, LOWEST, STEP) REDUCE(D, T, T, LOWEST, STEP, r)

/* Types in rows. */
/* clang-format off */
RUN(sum, FLOATS(0, r + x, r) INTS_WRAP(0, r + (uint64_t)x, r))
RUN(mean, FLOATS(0, r + x, r / (double)p->count)
    INTS_DOUBLE(0, r + (double)x, p->count ? r / (double)p->count : 0))
RUN(prod, FLOATS(1, r * x, r) INTS_WRAP(1, r * (uint64_t)x, r))
RUN(l1, FLOATS(0, r + fabs((double)x), r) INTS_WRAP(0, r + MAGNITUDE(x), r))
RUN(sum_square, FLOATS(0, r + (double)x * x, r) INTS_WRAP(0, r + (uint64_t)x * (uint64_t)x, r))
RUN(l2, FLOATS(0, r + (double)x * x, sqrt(r)) INTS_DOUBLE(0, r + (double)x * (double)x, sqrt(r)))
RUN(log_sum, FLOATS(0, r + x, log(r)))
RUN(max, EXTREME(DT_FLOAT32, float, -INFINITY, LARGER) EXTREME(DT_FLOAT64, double, -INFINITY, LARGER)
    EXTREME(DT_INT8, int8_t, INT8_MIN, LARGER) EXTREME(DT_INT16, int16_t, INT16_MIN, LARGER)
    EXTREME(DT_INT32, int32_t, INT32_MIN, LARGER) EXTREME(DT_INT64, int64_t, INT64_MIN, LARGER)
    EXTREME(DT_UINT8, uint8_t, 0, LARGER) EXTREME(DT_UINT16, uint16_t, 0, LARGER)
    EXTREME(DT_UINT32, uint32_t, 0, LARGER) EXTREME(DT_UINT64, uint64_t, 0, LARGER)
    EXTREME(DT_BOOL, uint8_t, 0, LARGER))
RUN(min, EXTREME(DT_FLOAT32, float, INFINITY, SMALLER) EXTREME(DT_FLOAT64, double, INFINITY, SMALLER)
    EXTREME(DT_INT8, int8_t, INT8_MAX, SMALLER) EXTREME(DT_INT16, int16_t, INT16_MAX, SMALLER)
    EXTREME(DT_INT32, int32_t, INT32_MAX, SMALLER) EXTREME(DT_INT64, int64_t, INT64_MAX, SMALLER)
    EXTREME(DT_UINT8, uint8_t, UINT8_MAX, SMALLER) EXTREME(DT_UINT16, uint16_t, UINT16_MAX, SMALLER)
    EXTREME(DT_UINT32, uint32_t, UINT32_MAX, SMALLER) EXTREME(DT_UINT64, uint64_t, UINT64_MAX, SMALLER)
    EXTREME(DT_BOOL, uint8_t, 1, SMALLER))
/* clang-format on */

/* Running maximum m and the sum s of e^(x - m), so that nothing overflows. */
typedef struct {
    double m, s;
} LogSum;

static LogSum log_sum_step(LogSum r, double x)
{
    if (x == -INFINITY)
        return r;
    if (x > r.m)
        return (LogSum){ x, x == INFINITY ? 1 : r.s * exp(r.m - x) + 1 };
    r.s += r.m == INFINITY ? 0 : exp(x - r.m);
    return r;
}

RUN(log_sum_exp, REDUCE(DT_FLOAT32, float, LogSum, ((LogSum){ -INFINITY, 0 }), log_sum_step(r, x), r.m + log(r.s))
                     REDUCE(DT_FLOAT64, double, LogSum, ((LogSum){ -INFINITY, 0 }), log_sum_step(r, x), r.m + log(r.s)))

#define NUMBERS (DTYPES_F32_F64 | DTYPES_INT)
#define KERNEL(NAME) .prepare = prepare, .run = run_##NAME, .release = free

DEFINE_KERNEL(ref_reduce_sum, .op = &op_ReduceSum, .dtypes = NUMBERS, KERNEL(sum));
DEFINE_KERNEL(ref_reduce_mean, .op = &op_ReduceMean, .dtypes = NUMBERS, KERNEL(mean));
DEFINE_KERNEL(ref_reduce_prod, .op = &op_ReduceProd, .dtypes = NUMBERS, KERNEL(prod));
DEFINE_KERNEL(ref_reduce_max, .op = &op_ReduceMax, .dtypes = NUMBERS | DTYPES_BOOL, KERNEL(max));
DEFINE_KERNEL(ref_reduce_min, .op = &op_ReduceMin, .dtypes = NUMBERS | DTYPES_BOOL, KERNEL(min));
DEFINE_KERNEL(ref_reduce_l1, .op = &op_ReduceL1, .dtypes = NUMBERS, KERNEL(l1));
DEFINE_KERNEL(ref_reduce_l2, .op = &op_ReduceL2, .dtypes = NUMBERS, KERNEL(l2));
DEFINE_KERNEL(ref_reduce_sum_square, .op = &op_ReduceSumSquare, .dtypes = NUMBERS, KERNEL(sum_square));
DEFINE_KERNEL(ref_reduce_log_sum, .op = &op_ReduceLogSum, .dtypes = DTYPES_F32_F64, KERNEL(log_sum));
DEFINE_KERNEL(ref_reduce_log_sum_exp, .op = &op_ReduceLogSumExp, .dtypes = DTYPES_F32_F64, KERNEL(log_sum_exp));
