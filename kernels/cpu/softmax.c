/* Softmax and LogSoftmax in float32 where the elements of a sum are consecutive: rows of memory. */
#include <math.h>
#include <stdlib.h>

#include "kernels/backend.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/vmath.h"

typedef struct {
    int64_t rows, n;
    int team;
} Plan;

/* The axis is the last one, or only ones follow. */
static bool rows_of_memory(const Graph *g, const Node *n)
{
    const Shape *x = &in_value(g, n, 0)->shape;
    int axis = (int)node_int(n, "axis");

    return !node_int(n, "flatten") && x->dim[axis] > 0 && shape_count(x, axis + 1, x->rank) == 1;
}

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = &in_value(g, n, 0)->shape;
    int axis = (int)node_int(n, "axis");
    Plan *p = malloc(sizeof *p);

    if (!p)
        return FAIL_NOMEM();
    *p = (Plan){ shape_count(x, 0, axis), x->dim[axis], team_size(ctx->n_threads, shape_numel(x)) };
    *state = p;
    return ST_OK;
}

static float largest(const float *x, int64_t n)
{
    float max = x[0];

#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

static void softmax(const float *x, float *y, int64_t n)
{
    float max = largest(x, n), sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        y[i] = vexpf(x[i] - max);
        sum += y[i];
    }
    sum = 1 / sum;
    for (int64_t i = 0; i < n; i++)
        y[i] *= sum;
}

static void log_softmax(const float *x, float *y, int64_t n)
{
    float max = largest(x, n), sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += vexpf(x[i] - max);
    sum = logf(sum);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] - max - sum;
}

static Status each_row(const Plan *p, const float *x, float *y, void (*of_row)(const float *x, float *y, int64_t n))
{
#pragma omp parallel for num_threads(p->team) schedule(static)
    for (int64_t r = 0; r < p->rows; r++)
        of_row(x + r * p->n, y + r * p->n, p->n);
    return ST_OK;
}

static Status run_softmax(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    return each_row(state, in[0].data, out[0].data, softmax);
}

static Status run_log_softmax(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    return each_row(state, in[0].data, out[0].data, log_softmax);
}

#define ROWS .dtypes = DTYPE_BIT(DT_FLOAT32), .supports = rows_of_memory, .prepare = prepare, .release = free

DEFINE_KERNEL(cpu_softmax, .op = &op_Softmax, ROWS, .run = run_softmax);
DEFINE_KERNEL(cpu_log_softmax, .op = &op_LogSoftmax, ROWS, .run = run_log_softmax);
