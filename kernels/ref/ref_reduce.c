/* Reductions along axes, one pass in the order of the elements.  Sums of float32 are kept in double; an empty reduction
 * gives the neutral element: 0, 1, the lowest or highest value, and NaN for a mean. */
#include <limits.h>
#include <math.h>

#include "graph/base/saturate.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/reduce.h"
#include "kernels/ref/reduction_axes.h"
#include "kernels/ref/ref.h"

/* Those from MEAN on go by way of double in every type, but the mean of integers, which is their sum, divided. */
typedef enum { SUM, PROD, L1, SUM_SQUARE, MAX, MIN, MEAN, L2, LOG_SUM, LOG_SUM_EXP, N_HOW } How;

static How ref_reduce_how_of(const Node *n)
{
    static const OpDef *const ops[N_HOW] = {
        [SUM] = &op_ReduceSum,        [PROD] = &op_ReduceProd,
        [L1] = &op_ReduceL1,          [SUM_SQUARE] = &op_ReduceSumSquare,
        [MAX] = &op_ReduceMax,        [MIN] = &op_ReduceMin,
        [MEAN] = &op_ReduceMean,      [L2] = &op_ReduceL2,
        [LOG_SUM] = &op_ReduceLogSum, [LOG_SUM_EXP] = &op_ReduceLogSumExp,
    };
    How how = SUM;

    while (ops[how] != n->op)
        how++;
    return how;
}

/* The output's dimensions are walked outside, the reduced ones inside. */
typedef struct {
    How how;
    ReductionAxes kept, reduced;
    int64_t outputs, count;
} Plan;

static Status ref_reduce_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int64_t stride[MAX_RANK];
    Plan p = { .how = ref_reduce_how_of(n), .outputs = 1, .count = 1 };
    unsigned mask;

    (void)ctx;
    TRY(reduce_axes(&mask, g, n));
    shape_strides(x, stride);
    for (int i = x->rank - 1; i >= 0; i--) { /* innermost first */
        if (mask >> i & 1) {
            reduction_axes_push(&p.reduced, x->dim[i], stride[i]);
            p.count *= x->dim[i];
        } else {
            reduction_axes_push(&p.kept, x->dim[i], stride[i]);
            p.outputs *= x->dim[i];
        }
    }
    return kernel_state(state, &p, sizeof p);
}

/* The next index of an odometer: the offset it stands for. */
static int64_t step(const ReductionAxes *a, int64_t *at, int64_t offset)
{
    for (int i = 0; i < a->n; i++) {
        offset += a->stride[i];
        if (++at[i] < a->dim[i])
            return offset;
        offset -= a->stride[i] * a->dim[i];
        at[i] = 0;
    }
    return offset;
}

/* Sums in double of any type, or a running maximum m and the sum s of e^(x - m), so that nothing overflows. */
typedef struct {
    double m, s;
} Sum;

static Sum take_double(How how, Sum r, double x)
{
    if (how != LOG_SUM_EXP)
        return (Sum){ r.m, r.s + (how == L2 ? x * x : x) };
    if (x == -INFINITY)
        return r;
    if (x > r.m)
        return (Sum){ x, r.s * exp(r.m - x) + 1 };
    r.s += r.m == INFINITY && !isnan(x) ? 0 : exp(x - r.m);
    return r;
}

static double ref_reduce_result(const Plan *p, Sum r)
{
    switch (p->how) {
    case MEAN: return r.s / (double)p->count;
    case L2: return sqrt(r.s);
    case LOG_SUM: return log(r.s);
    default: return r.m + log(r.s);
    }
}

#define BODY "kernels/ref/ref_reduce.inc"
#define TYPES (OF_NUMBERS | OF_BOOL)
#include "kernels/each_type.inc"

static Status ref_reduce_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const reduce[])(const Plan *, const void *,
                                  void *) = { OF_EACH_NUMBER(reduce), [DT_BOOL] = reduce_bool };

    (void)ctx;
    reduce[in[0].dtype](state, in[0].data, out[0].data);
    return ST_OK;
}

#define KERNEL(OP, DTYPES) \
    .op = &op_##OP, .dtypes = DTYPES, .prepare = ref_reduce_prepare, .run = ref_reduce_run, .release = free
#define NUMBERS (DTYPES_F32_F64 | DTYPES_INT)

DEFINE_KERNEL(ref_reduce_sum, KERNEL(ReduceSum, NUMBERS));
DEFINE_KERNEL(ref_reduce_mean, KERNEL(ReduceMean, NUMBERS));
DEFINE_KERNEL(ref_reduce_prod, KERNEL(ReduceProd, NUMBERS));
DEFINE_KERNEL(ref_reduce_max, KERNEL(ReduceMax, NUMBERS | DTYPES_BOOL));
DEFINE_KERNEL(ref_reduce_min, KERNEL(ReduceMin, NUMBERS | DTYPES_BOOL));
DEFINE_KERNEL(ref_reduce_l1, KERNEL(ReduceL1, NUMBERS));
DEFINE_KERNEL(ref_reduce_l2, KERNEL(ReduceL2, NUMBERS));
DEFINE_KERNEL(ref_reduce_sum_square, KERNEL(ReduceSumSquare, NUMBERS));
DEFINE_KERNEL(ref_reduce_log_sum, KERNEL(ReduceLogSum, NUMBERS));
DEFINE_KERNEL(ref_reduce_log_sum_exp, KERNEL(ReduceLogSumExp, NUMBERS));
