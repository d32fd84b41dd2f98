/* Det and DetGrad: P A Q = L U by complete pivoting, in double.
 *
 *   det A = s u_11 ... u_nn,   adj A = s Q adj(U) L^-1 P,   s = det P det Q
 *
 * With U = [V, u; 0, w] the adjugate of U is det V [w V^-1, -V^-1 u; 0, 1]: nothing is divided by w, the smallest
 * pivot, so that rank n - 1 is no exception.  Where V too has a zero pivot all cofactors are 0. */
#include <math.h>

#include "graph/ops/det.gen.h"
#include "kernels/ref/ref.h"

typedef struct {
    double *a, *line;      /* [n, n]: L below the diagonal, U from there on; [n] */
    int64_t *row, *column; /* [n]: what stands there in A */
    int64_t n;
    double sign;
} Factors;

/* Scratch: the Factors of a matrix. */
static Status ref_det_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const size_t size = (size_t)shape_columns(in_value(g, n, 0)->shape), bytes = size * (size + 3) * sizeof(double);

    (void)state;
    if (bytes > ctx->scratch_bytes)
        ctx->scratch_bytes = bytes;
    return ST_OK;
}

static Factors factors_in(void *scratch, int64_t n)
{
    double *a = scratch;

    return (Factors){ a, a + n * n, (int64_t *)(void *)(a + n * n + n), (int64_t *)(void *)(a + n * n + 2 * n), n, 1 };
}

static void swap_numbers(double *a, double *b)
{
    const double t = *a;

    *a = *b;
    *b = t;
}

/* Brings the largest of the remaining elements, or a NaN, to (k, k). */
static void pivot(Factors *f, int64_t k)
{
    const int64_t n = f->n;
    int64_t r = k, c = k, t;

    for (int64_t i = k; i < n; i++)
        for (int64_t j = k; j < n; j++)
            if (!isnan(f->a[r * n + c]) && !(fabs(f->a[i * n + j]) <= fabs(f->a[r * n + c]))) {
                r = i;
                c = j;
            }
    if (r != k) {
        for (int64_t j = 0; j < n; j++)
            swap_numbers(&f->a[k * n + j], &f->a[r * n + j]);
        t = f->row[k], f->row[k] = f->row[r], f->row[r] = t;
        f->sign = -f->sign;
    }
    if (c != k) {
        for (int64_t i = 0; i < n; i++)
            swap_numbers(&f->a[i * n + k], &f->a[i * n + c]);
        t = f->column[k], f->column[k] = f->column[c], f->column[c] = t;
        f->sign = -f->sign;
    }
}

static void factorise(Factors *f)
{
    const int64_t n = f->n;

    for (int64_t i = 0; i < n; i++)
        f->row[i] = f->column[i] = i;
    for (int64_t k = 0; k < n; k++) {
        pivot(f, k);
        if (f->a[k * n + k] == 0)
            return;
        for (int64_t i = k + 1; i < n; i++) {
            const double l = f->a[i * n + k] /= f->a[k * n + k];

            for (int64_t j = k + 1; j < n; j++)
                f->a[i * n + j] -= l * f->a[k * n + j];
        }
    }
}

/* The product of the first `count` pivots. */
static double pivots(const Factors *f, int64_t count)
{
    double product = 1;

    for (int64_t k = 0; k < count; k++)
        product *= f->a[k * f->n + k];
    return product;
}

/* Column j of adj(U) L^-1 without det V, in `line`; V has no zero on its diagonal. */
static void adjugate_column(Factors *f, int64_t j)
{
    const int64_t n = f->n, last = n - 1;
    const double w = f->a[last * n + last];
    double *x = f->line;

    for (int64_t i = 0; i < n; i++) {
        x[i] = i == j;
        for (int64_t k = j; k < i; k++)
            x[i] -= f->a[i * n + k] * x[k];
    }
    for (int64_t i = last - 1; i >= 0; i--) {
        x[i] = w * x[i] - f->a[i * n + last] * x[last];
        for (int64_t k = i + 1; k < last; k++)
            x[i] -= f->a[i * n + k] * x[k];
        x[i] /= f->a[i * n + i];
    }
}

#define BODY "kernels/ref/ref_det.inc"
#include "kernels/each_type.inc"

RUN_FLOAT(run_det, det, ctx->scratch, &in[0], out[0].data)
RUN_FLOAT(run_grad, det_grad, ctx->scratch, &in[0], in[1].data, out[0].data)

DEFINE_KERNEL(ref_det, .op = &op_Det, .dtypes = DTYPES_F32_F64, .prepare = ref_det_prepare, .run = run_det);
DEFINE_KERNEL(ref_det_grad, .op = &op_DetGrad, .dtypes = DTYPES_F32_F64, .prepare = ref_det_prepare, .run = run_grad);
