/* Parameter updates in one pass over memory, vectorised by the compiler, shared among the team.  Scalars are computed
 * in double and rounded once to the parameters' type, as PyTorch does. */
#include <math.h>
#include <stdlib.h>

#include "kernels/backend.h"
#include "kernels/cpu/team.h"
#include "kernels/ref/optimizer.h"

/* ---- SGD ---- */

/* With nesterov the step is d + momentum b, else b. */
#define SGD(NAME, T)                                                                                            \
    static void NAME(int team, const Sgd *p, int64_t n, const Tensor *in, Tensor *out)                          \
    {                                                                                                           \
        const T *w = in[0].data, *g = in[1].data, *m = p->has_buffer ? in[3].data : NULL;                       \
        T *w1 = out[0].data, *m1 = m ? out[1].data : NULL;                                                      \
        const T lr = *(const T *)in[2].data, mu = (T)p->momentum, decay = (T)p->decay;                          \
        const T direct = p->nesterov ? 1 : 0, through = p->nesterov ? mu : 1;                                   \
        if (m) {                                                                                                \
            _Pragma("omp parallel for simd num_threads(team) schedule(static)") for (int64_t i = 0; i < n; i++) \
            {                                                                                                   \
                const T d = g[i] + decay * w[i], b = mu * m[i] + d;                                             \
                m1[i] = b;                                                                                      \
                w1[i] = w[i] - lr * (direct * d + through * b);                                                 \
            }                                                                                                   \
        } else {                                                                                                \
            _Pragma("omp parallel for simd num_threads(team) schedule(static)") for (int64_t i = 0; i < n; i++) \
                w1[i] = w[i] - lr * (g[i] + decay * w[i]);                                                      \
        }                                                                                                       \
    }
SGD(sgd_f32, float)
SGD(sgd_f64, double)

static Status run_sgd(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Sgd *p = state;
    int64_t n = tensor_numel(&in[0]);

    if (!update_applies(p->apply, in)) {
        update_keep(&in[0], &out[0]);
        if (p->has_buffer)
            update_keep(&in[3], &out[1]);
        return ST_OK;
    }
    (in[0].dtype == DT_FLOAT32 ? sgd_f32 : sgd_f64)(team_size(ctx->n_threads, n), state, n, in, out);
    return ST_OK;
}

DEFINE_KERNEL(cpu_sgd_update, .op = &op_SgdUpdate, .dtypes = DTYPES_F32_F64, .rank = 10, .prepare = sgd_prepare,
              .run = run_sgd, .release = free);

/* ---- Adam, AdamW ---- */

#define ADAM(NAME, T, SQRT)                                                                                     \
    static void NAME(int team, const Adam *p, int64_t n, const Tensor *in, Tensor *out)                         \
    {                                                                                                           \
        const T *w = in[0].data, *g = in[1].data, *m = in[3].data, *v = in[4].data;                             \
        T *w1 = out[0].data, *m1 = out[1].data, *v1 = out[2].data;                                              \
        const double lr = (double)*(const T *)in[2].data, t = (double)*(const int64_t *)in[5].data + 1;         \
        const T size = (T)(lr / (1 - pow(p->beta1, t))), root = (T)sqrt(1 - pow(p->beta2, t)), eps = (T)p->eps; \
        const T b1 = (T)p->beta1, c1 = (T)(1 - p->beta1), b2 = (T)p->beta2, c2 = (T)(1 - p->beta2);             \
        const T keep = (T)(p->decoupled ? 1 - lr * p->decay : 1), decay = (T)(p->decoupled ? 0 : p->decay);     \
        _Pragma("omp parallel for simd num_threads(team) schedule(static)") for (int64_t i = 0; i < n; i++)     \
        {                                                                                                       \
            const T d = g[i] + decay * w[i], a = b1 * m[i] + c1 * d, b = b2 * v[i] + c2 * d * d;                \
            m1[i] = a;                                                                                          \
            v1[i] = b;                                                                                          \
            w1[i] = w[i] * keep - size * a / (SQRT(b) / root + eps);                                            \
        }                                                                                                       \
    }
ADAM(adam_f32, float, sqrtf)
ADAM(adam_f64, double, sqrt)

static Status run_adam(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Adam *p = state;
    int64_t n = tensor_numel(&in[0]);

    if (!update_applies(p->apply, in)) {
        update_keep(&in[0], &out[0]);
        update_keep(&in[3], &out[1]);
        update_keep(&in[4], &out[2]);
        return ST_OK;
    }
    (in[0].dtype == DT_FLOAT32 ? adam_f32 : adam_f64)(team_size(ctx->n_threads, n), state, n, in, out);
    return ST_OK;
}

DEFINE_KERNEL(cpu_adam_update, .op = &op_AdamUpdate, .dtypes = DTYPES_F32_F64, .rank = 10, .prepare = adam_prepare,
              .run = run_adam, .release = free);

/* ---- norm: sums of blocks in double, added in order, so that the team's size does not change a bit ---- */

typedef struct {
    int n;
    double max_norm;
    bool scaled;
    int64_t blocks;
} Norm; /* n: tensors */
enum { BLOCK = 4096 };

static Status prepare_norm(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Norm *p = malloc(sizeof *p);
    size_t bytes;

    if (!p)
        return FAIL_NOMEM();
    *p = (Norm){ .max_norm = node_float(n, "max_norm"), .scaled = node_int(n, "scaled") != 0 };
    p->n = n->n_in - p->scaled;
    for (int i = 0; i < p->n; i++) {
        int64_t blocks = shape_numel(&in_value(g, n, i)->shape) / BLOCK + 1;

        p->blocks = blocks > p->blocks ? blocks : p->blocks;
    }
    bytes = (size_t)p->blocks * sizeof(double);
    ctx->scratch_bytes = bytes > ctx->scratch_bytes ? bytes : ctx->scratch_bytes;
    *state = p;
    return ST_OK;
}

#define SQUARES(NAME, T)                                                                                    \
    static double NAME(int team, int64_t n, const T *x, double *sum)                                        \
    {                                                                                                       \
        int64_t blocks = (n + BLOCK - 1) / BLOCK;                                                           \
        double all = 0;                                                                                     \
        _Pragma("omp parallel for num_threads(team) schedule(static)") for (int64_t b = 0; b < blocks; b++) \
        {                                                                                                   \
            const int64_t end = (b + 1) * BLOCK < n ? (b + 1) * BLOCK : n;                                  \
            double s = 0;                                                                                   \
            _Pragma("omp simd reduction(+:s)") for (int64_t i = b * BLOCK; i < end; i++) s +=               \
                (double)x[i] * (double)x[i];                                                                \
            sum[b] = s;                                                                                     \
        }                                                                                                   \
        for (int64_t b = 0; b < blocks; b++)                                                                \
            all += sum[b];                                                                                  \
        return all;                                                                                         \
    }
SQUARES(squares_f32, float)
SQUARES(squares_f64, double)

static Status run_norm(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Norm *p = state;
    double sum = 0, by = p->scaled ? tensor_float(&in[p->n], 0) : 1, norm, scale;

    for (int i = 0; i < p->n; i++) {
        int64_t n = tensor_numel(&in[i]);
        int team = team_size(ctx->n_threads, n);

        sum += in[i].dtype == DT_FLOAT32 ? squares_f32(team, n, in[i].data, ctx->scratch)
                                         : squares_f64(team, n, in[i].data, ctx->scratch);
    }
    norm = sqrt(sum) * fabs(by);
    scale = p->max_norm / (norm + 1e-6);
    tensor_set_float(&out[0], 0, norm);
    tensor_set_float(&out[1], 0, by * (scale > 1 ? 1 : scale));
    return ST_OK;
}

DEFINE_KERNEL(cpu_global_norm, .op = &op_GlobalNorm, .dtypes = DTYPES_F32_F64, .rank = 10, .prepare = prepare_norm,
              .run = run_norm, .release = free);
