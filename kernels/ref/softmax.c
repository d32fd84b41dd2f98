/* Softmax and LogSoftmax along one axis, as the formulas say; sums in the element's type. */
#include <math.h>

#include "kernels/ref/ref.h"

typedef struct {
    int64_t outer, n, inner;
} Plan;

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = &in_value(g, n, 0)->shape;
    int axis = (int)node_int(n, "axis");
    Plan *p = malloc(sizeof *p);

    (void)ctx;
    if (!p)
        return FAIL_NOMEM();
    *p = (Plan){ shape_count(x, 0, axis), x->dim[axis], shape_count(x, axis + 1, x->rank) };
    *state = p;
    return ST_OK;
}

/* The older meaning is lowered. */
static bool along_axis(const Graph *g, const Node *n)
{
    (void)g;
    return !node_int(n, "flatten");
}

#define SOFTMAX(NAME, T, EXP, LOG, RESULT)                                                 \
    static void NAME(const Plan *p, const T *x, T *y)                                      \
    {                                                                                      \
        for (int64_t o = 0; o < p->outer; o++)                                             \
            for (int64_t i = 0; i < p->inner; i++) {                                       \
                const T *xs = x + o * p->n * p->inner + i;                                 \
                T *ys = y + o * p->n * p->inner + i, max = -(T)INFINITY, sum = 0, log_sum; \
                for (int64_t k = 0; k < p->n; k++)                                         \
                    max = xs[k * p->inner] > max ? xs[k * p->inner] : max;                 \
                for (int64_t k = 0; k < p->n; k++)                                         \
                    sum += EXP(xs[k * p->inner] - max);                                    \
                log_sum = LOG(sum);                                                        \
                (void)log_sum;                                                             \
                for (int64_t k = 0; k < p->n; k++)                                         \
                    ys[k * p->inner] = RESULT(xs[k * p->inner] - max, sum, log_sum, EXP);  \
            }                                                                              \
    }
#define PROBABILITY(d, sum, log_sum, EXP) EXP(d) / (sum)
#define LOG_PROBABILITY(d, sum, log_sum, EXP) (d) - (log_sum)
SOFTMAX(softmax_f32, float, expf, logf, PROBABILITY)
SOFTMAX(softmax_f64, double, exp, log, PROBABILITY)
SOFTMAX(log_softmax_f32, float, expf, logf, LOG_PROBABILITY)
SOFTMAX(log_softmax_f64, double, exp, log, LOG_PROBABILITY)

static Status run_softmax(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    if (in[0].dtype == DT_FLOAT32)
        softmax_f32(state, in[0].data, out[0].data);
    else
        softmax_f64(state, in[0].data, out[0].data);
    return ST_OK;
}

static Status run_log_softmax(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    if (in[0].dtype == DT_FLOAT32)
        log_softmax_f32(state, in[0].data, out[0].data);
    else
        log_softmax_f64(state, in[0].data, out[0].data);
    return ST_OK;
}

#define COMMON .dtypes = DTYPES_F32_F64, .supports = along_axis, .prepare = prepare, .release = free

DEFINE_KERNEL(ref_softmax, .op = &op_Softmax, COMMON, .run = run_softmax);
DEFINE_KERNEL(ref_log_softmax, .op = &op_LogSoftmax, COMMON, .run = run_log_softmax);
