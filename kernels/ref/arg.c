/* ArgMax, ArgMin and CumSum along one axis, as loops over (outer, axis, inner). */
#include "kernels/ref/ref.h"

typedef struct {
    int64_t outer, n, inner;
    bool last, max; /* ArgMax, ArgMin: the last of equal ones */
} Plan;

static Status prepare_arg(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = &in_value(g, n, 0)->shape;
    int axis = (int)node_int(n, "axis");
    Plan *p = malloc(sizeof *p);

    (void)ctx;
    if (!p)
        return FAIL_NOMEM();
    *p = (Plan){ shape_count(x, 0, axis), x->dim[axis], shape_count(x, axis + 1, x->rank),
                 node_int(n, "select_last_index") != 0, n->op == &op_ArgMax };
    *state = p;
    return ST_OK;
}

/* Does v come before the best so far?  The first NaN beats every number, as in numpy. */
#define BEATS(v, best)                                \
    ((v) != (v)         ? (best) == (best) || p->last \
     : (best) != (best) ? false                       \
     : (v) == (best)    ? p->last                     \
     : p->max           ? (v) > (best)                \
                        : (v) < (best))
#define ARG(D, T)                                                              \
    case D:                                                                    \
        for (int64_t o = 0; o < p->outer; o++)                                 \
            for (int64_t i = 0; i < p->inner; i++) {                           \
                const T *xs = (const T *)in[0].data + o * p->n * p->inner + i; \
                int64_t best = 0;                                              \
                for (int64_t k = 1; k < p->n; k++)                             \
                    if (BEATS(xs[k * p->inner], xs[best * p->inner]))          \
                        best = k;                                              \
                *ys++ = best;                                                  \
            }                                                                  \
        return ST_OK;

static Status run_arg(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;
    int64_t *ys = out->data;

    (void)ctx;
    switch (in[0].dtype) {
        EACH_NUMERIC(ARG)
    default: return FAIL(E_INTERNAL, "ArgMax, ArgMin: no kernel for type %s", dtype_name(in[0].dtype));
    }
}

#define NUMBERS (DTYPES_F32_F64 | DTYPES_INT)

DEFINE_KERNEL(ref_arg_max, .op = &op_ArgMax, .dtypes = NUMBERS, .prepare = prepare_arg, .run = run_arg,
              .release = free);
DEFINE_KERNEL(ref_arg_min, .op = &op_ArgMin, .dtypes = NUMBERS, .prepare = prepare_arg, .run = run_arg,
              .release = free);

/* ---- CumSum: the axis is known when it runs ---- */

typedef struct {
    bool exclusive, reverse;
} Cumulate;

static Status prepare_cumsum(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Cumulate *c = malloc(sizeof *c);

    (void)ctx;
    (void)g;
    if (!c)
        return FAIL_NOMEM();
    *c = (Cumulate){ node_int(n, "exclusive") != 0, node_int(n, "reverse") != 0 };
    *state = c;
    return ST_OK;
}

/* Sums of float32 are kept in double; integers wrap. */
#define CUMSUM(D, T, ACC)                                                            \
    case D:                                                                          \
        for (int64_t o = 0; o < outer; o++)                                          \
            for (int64_t i = 0; i < inner; i++) {                                    \
                ACC sum = 0;                                                         \
                for (int64_t k = 0; k < n; k++) {                                    \
                    int64_t at = (o * n + (c->reverse ? n - 1 - k : k)) * inner + i; \
                    T x = ((const T *)in[0].data)[at];                               \
                    ((T *)out->data)[at] = (T)(c->exclusive ? sum : sum + (ACC)x);   \
                    sum += (ACC)x;                                                   \
                }                                                                    \
            }                                                                        \
        return ST_OK;
#define CUMSUM_FLOAT(D, T) CUMSUM(D, T, double)
#define CUMSUM_INT(D, T) CUMSUM(D, T, uint64_t)

static Status run_cumsum(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Cumulate *c = state;
    const Shape *x = &in[0].shape;
    int64_t outer, n, inner;
    int axis;

    (void)ctx;
    TRY(shape_axis(&axis, tensor_int(&in[1], 0), x->rank, "CumSum"));
    outer = shape_count(x, 0, axis);
    n = x->dim[axis];
    inner = shape_count(x, axis + 1, x->rank);
    switch (in[0].dtype) {
        EACH_FLOAT(CUMSUM_FLOAT)
        EACH_INT(CUMSUM_INT)
    default: return FAIL(E_INTERNAL, "CumSum: no kernel for type %s", dtype_name(in[0].dtype));
    }
}

DEFINE_KERNEL(ref_cumsum, .op = &op_CumSum, .dtypes = NUMBERS, .prepare = prepare_cumsum, .run = run_cumsum,
              .release = free);
