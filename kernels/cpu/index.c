/* Gather of whole rows and its gradient: the embedding of a language model.
 *
 * In the gradient each thread owns a part of the table and reads all indices, so that every row is summed in the order
 * of the indices, whatever the team. */
#include "kernels/cpu/team.h"
#include "kernels/ref/move.h"

static bool rows_only(const Graph *g, const Node *n)
{
    (void)g;
    return node_int(n, "axis") == 0;
}

static Status check_indices(const RefNode *p, const Tensor *ix, int64_t d)
{
    int64_t n = tensor_numel(ix), at;

    for (int64_t i = 0; i < n; i++)
        TRY(ref_index_in(&at, p, ix, i, d));
    return ST_OK;
}

static int64_t wrapped(const Tensor *ix, int64_t i, int64_t d)
{
    int64_t at = ref_index(ix, i);

    return at < 0 ? at + d : at;
}

static Status run_gather(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    int64_t d = in[0].shape.dim[0], n = tensor_numel(&in[1]);
    size_t row = (size_t)shape_count(&in[0].shape, 1, in[0].shape.rank) * dtype_size(in[0].dtype);
    int team = team_size(ctx->n_threads, n * (int64_t)row / 4);

    TRY(check_indices(state, &in[1], d));
    if (!row)
        return ST_OK;
#pragma omp parallel for num_threads(team) schedule(static)
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)out[0].data + (size_t)i * row, (const char *)in[0].data + (size_t)wrapped(&in[1], i, d) * row,
               row);
    return ST_OK;
}

#define ADD_ROWS(NAME, T)                                                                      \
    static void NAME(const Tensor *in, Tensor *out, int64_t inner, int64_t from, int64_t to)   \
    {                                                                                          \
        const int64_t n = tensor_numel(&in[1]), d = out[0].shape.dim[0];                       \
        memset((T *)out[0].data + from * inner, 0, (size_t)((to - from) * inner) * sizeof(T)); \
        for (int64_t i = 0; i < n; i++) {                                                      \
            const int64_t at = wrapped(&in[1], i, d);                                          \
            const T *dy = (const T *)in[0].data + i * inner;                                   \
            T *dx = (T *)out[0].data + at * inner;                                             \
            if (at < from || at >= to)                                                         \
                continue;                                                                      \
            _Pragma("omp simd") for (int64_t k = 0; k < inner; k++) dx[k] += dy[k];            \
        }                                                                                      \
    }
ADD_ROWS(add_rows_f32, float)
ADD_ROWS(add_rows_f64, double)

static Status run_gather_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    int64_t d = out[0].shape.dim[0], inner = shape_count(&out[0].shape, 1, out[0].shape.rank);
    int team = team_size(ctx->n_threads, tensor_numel(&out[0]) + tensor_numel(&in[0]));

    TRY(check_indices(state, &in[1], d));
    if (!d || !inner)
        return ST_OK;
#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++)
        (in[0].dtype == DT_FLOAT32 ? add_rows_f32 : add_rows_f64)(in, out, inner, team_begin(d, t, team),
                                                                  team_begin(d, t + 1, team));
    return ST_OK;
}

DEFINE_KERNEL(cpu_gather_rows, .op = &op_Gather, .rank = 10, .supports = rows_only, .prepare = ref_node_prepare,
              .run = run_gather, .release = free);
DEFINE_KERNEL(cpu_gather_rows_grad, .op = &op_GatherGrad, .dtypes = DTYPES_F32_F64, .rank = 10, .supports = rows_only,
              .prepare = ref_node_prepare, .run = run_gather_grad, .release = free);
