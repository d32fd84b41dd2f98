/* Gather of rows, its gradient, and ScatterND that replaces rows: embeddings, and the parts that a network picks out.
 *
 * Indices are checked before the team starts.  In the gradient a thread owns whole blocks in front of the axis, or
 * where there are too few of them a part of the axis, and reads all indices: every row is summed in the order of the
 * indices, whatever the team. */
#include "graph/ops/index.gen.h"
#include "graph/ops/scatter.gen.h"
#include "kernels/cpu/cpu_strided.h"
#include "kernels/cpu/team.h"
#include "kernels/ref/ref_move.h"

static Status cpu_index_check_indices(const RefNode *p, const Tensor *ix, int64_t d)
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

/* ---- Gather: x [outer, d, inner], y [outer, indices, inner] ---- */

static Status run_gather(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const Shape *x = &in[0].shape;
    const int64_t outer = shape_count(x, 0, p->axis), d = x->dim[p->axis], n = tensor_numel(&in[1]);
    const size_t row = (size_t)shape_count(x, p->axis + 1, x->rank) * dtype_size(in[0].dtype);
    const int team = team_size(ctx, outer * n * (int64_t)row / 4);

    TRY(cpu_index_check_indices(p, &in[1], d));
    if (!row || !n)
        return ST_OK;
#pragma omp parallel for num_threads(team) schedule(static) collapse(2)
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < n; i++)
            copy_row((char *)out[0].data + (size_t)(o * n + i) * row,
                     (const char *)in[0].data + (size_t)(o * d + wrapped(&in[1], i, d)) * row, row);
    return ST_OK;
}

#define BODY "kernels/cpu/cpu_index.inc"
#include "kernels/each_type.inc"

static Status run_gather_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const Shape *x = &out[0].shape;
    const int64_t outer = shape_count(x, 0, p->axis), d = x->dim[p->axis], inner = shape_count(x, p->axis + 1, x->rank);
    const int team = team_size(ctx, tensor_numel(&out[0]) + tensor_numel(&in[0]));
    const int parts = outer < team ? team : 1; /* of the axis */

    TRY(cpu_index_check_indices(p, &in[1], d));
    if (!d || !inner)
        return ST_OK;
#pragma omp parallel for num_threads(team) schedule(static)
    for (int64_t t = 0; t < outer * parts; t++) {
        const int64_t o = t / parts, from = team_begin(d, (int)(t % parts), parts),
                      to = team_begin(d, (int)(t % parts) + 1, parts);

        (in[0].dtype == DT_FLOAT32 ? add_rows_f32 : add_rows_f64)(in, out, o, d, inner, from, to);
    }
    return ST_OK;
}

DEFINE_KERNEL(cpu_gather, .op = &op_Gather, .prepare = ref_node_prepare, .run = run_gather, .release = free);
DEFINE_KERNEL(cpu_gather_grad, .op = &op_GatherGrad, .dtypes = DTYPES_F32_F64, .prepare = ref_node_prepare,
              .run = run_gather_grad, .release = free);

/* ---- ScatterND: of equal indices the last one wins, so that the rows are written in their order ---- */

static bool replaces(const Graph *g, const Node *n)
{
    (void)g;
    return !strcmp(node_string(n, "reduction"), "none");
}

static Status run_scatter_nd(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Shape *x = &out[0].shape, *ix = &in[1].shape;
    const int k = (int)ix->dim[ix->rank - 1];
    const int64_t n = shape_count(ix, 0, ix->rank - 1);
    const size_t row = (size_t)shape_count(x, k, x->rank) * dtype_size(out[0].dtype);
    int64_t index;

    (void)ctx;
    if (in[0].data != out[0].data && tensor_bytes(&in[0]))
        memcpy(out[0].data, in[0].data, tensor_bytes(&in[0]));
    for (int64_t i = 0; i < n && row; i++) {
        int64_t at = 0;

        for (int a = 0; a < k; a++) {
            TRY(ref_index_in(&index, state, &in[1], i * k + a, x->dim[a]));
            at = at * x->dim[a] + index;
        }
        copy_row((char *)out[0].data + (size_t)at * row, (const char *)in[2].data + (size_t)i * row, row);
    }
    return ST_OK;
}

DEFINE_KERNEL(cpu_scatter_nd, .op = &op_ScatterND, .supports = replaces, .prepare = ref_node_prepare,
              .run = run_scatter_nd, .release = free);
