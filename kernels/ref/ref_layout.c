/* Transpose, Expand, Tile and others that rearrange or repeat elements: each is one strided copy. */
#include "graph/ops/layout.gen.h"
#include "graph/ops/ranges.h"
#include "kernels/ref/ref_move.h"

/* ---- Transpose ---- */

static Status prepare_transpose(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    int count, perm[MAX_RANK] = { 0 };
    const int64_t *p = node_ints(n, "perm", &count);

    (void)ctx;
    (void)g;
    for (int i = 0; i < count; i++)
        perm[i] = (int)p[i];
    return kernel_state(state, perm, sizeof perm);
}

static Status run_transpose(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const int *perm = state;
    int64_t x[MAX_RANK], ss[MAX_RANK], ds[MAX_RANK];

    (void)ctx;
    shape_strides(&in[0].shape, x);
    shape_strides(&out[0].shape, ds);
    for (int i = 0; i < out[0].shape.rank; i++)
        ss[i] = x[perm[i]];
    ref_move(dtype_size(in[0].dtype), &out[0].shape, out[0].data, ds, in[0].data, ss);
    return ST_OK;
}

DEFINE_KERNEL(ref_transpose, .op = &op_Transpose, .prepare = prepare_transpose, .run = run_transpose, .release = free);

/* ---- Expand ---- */

static Status run_expand(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    int64_t x[MAX_RANK], ss[MAX_RANK] = { 0 }, ds[MAX_RANK];
    int lead = out[0].shape.rank - in[0].shape.rank;

    (void)ctx;
    (void)state;
    shape_strides(&in[0].shape, x);
    shape_strides(&out[0].shape, ds);
    for (int i = 0; i < in[0].shape.rank; i++)
        ss[lead + i] = in[0].shape.dim[i] == 1 ? 0 : x[i];
    ref_move(dtype_size(in[0].dtype), &out[0].shape, out[0].data, ds, in[0].data, ss);
    return ST_OK;
}

DEFINE_KERNEL(ref_expand, .op = &op_Expand, .run = run_expand);

/* ---- Tile ---- */

static Status run_tile(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Shape *x = &in[0].shape, *y = &out[0].shape;
    int64_t at[MAX_RANK] = { 0 }, xs[MAX_RANK], ys[MAX_RANK];
    size_t size = dtype_size(in[0].dtype);

    (void)ctx;
    (void)state;
    shape_strides(x, xs);
    shape_strides(y, ys);
    if (shape_numel(y) == 0)
        return ST_OK;
    for (int i = 0; i >= 0;) { /* each copy of x in turn */
        int64_t offset = 0;

        for (int j = 0; j < x->rank; j++)
            offset += at[j] * x->dim[j] * ys[j];
        ref_move(size, x, (char *)out[0].data + offset * (int64_t)size, ys, in[0].data, xs);
        for (i = x->rank - 1; i >= 0; i--) {
            if (++at[i] < y->dim[i] / x->dim[i])
                break;
            at[i] = 0;
        }
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_tile, .op = &op_Tile, .run = run_tile);

/* ---- DepthToSpace, SpaceToDepth: [N, b, b, C, H, W] seen through strides ---- */

BlockStrides ref_block_strides(const Graph *g, const Node *n)
{
    const Shape *wide = n->op == &op_DepthToSpace ? value(g, n->out[0])->shape : in_value(g, n, 0)->shape;
    const int64_t b = node_int(n, "blocksize"), C = wide->dim[1], H = wide->dim[2] / b, W = wide->dim[3] / b,
                  hw = H * W;
    const bool crd = node_attr(n, "mode") && node_string(n, "mode")[0] == 'C';

    return (BlockStrides){ .dims = SHAPE(wide->dim[0], b, b, C, H, W),
                           .deep = { C * b * b * hw, (crd ? 1 : C) * b * hw, (crd ? 1 : C) * hw, (crd ? b * b : 1) * hw,
                                     W, 1 },
                           .wide = { C * H * b * W * b, W * b, 1, H * b * W * b, W * b * b, b } };
}

static Status prepare_blocks(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const BlockStrides p = ref_block_strides(g, n);

    (void)ctx;
    return kernel_state(state, &p, sizeof p);
}

static Status run_depth_to_space(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const BlockStrides *p = state;

    (void)ctx;
    ref_move(dtype_size(in[0].dtype), &p->dims, out[0].data, p->wide, in[0].data, p->deep);
    return ST_OK;
}

static Status run_space_to_depth(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const BlockStrides *p = state;

    (void)ctx;
    ref_move(dtype_size(in[0].dtype), &p->dims, out[0].data, p->deep, in[0].data, p->wide);
    return ST_OK;
}

DEFINE_KERNEL(ref_depth_to_space, .op = &op_DepthToSpace, .prepare = prepare_blocks, .run = run_depth_to_space,
              .release = free);
DEFINE_KERNEL(ref_space_to_depth, .op = &op_SpaceToDepth, .prepare = prepare_blocks, .run = run_space_to_depth,
              .release = free);
