/* Transpose, Expand, Tile and others that rearrange or repeat elements: each is one strided copy. */
#include "graph/ops/ranges.h"
#include "graph/ops/layout.gen.h"
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

typedef struct {
    int64_t b;
    bool crd;
} Blocks;

static Status prepare_blocks(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool crd = node_attr(n, "mode") && node_string(n, "mode")[0] == 'C';

    (void)ctx;
    (void)g;
    return kernel_state(state, &(Blocks){ node_int(n, "blocksize"), crd }, sizeof(Blocks));
}

/* Between the deep tensor [N, C * b * b, H, W] and the wide one [N, C, H * b, W * b]. */
static void move_blocks(const Blocks *p, size_t size, const Shape *wide, void *dst, const void *src, bool to_wide)
{
    int64_t b = p->b, C = wide->dim[1], H = wide->dim[2] / b, W = wide->dim[3] / b, hw = H * W;
    Shape dims = SHAPE(wide->dim[0], b, b, C, H, W);
    int64_t w[] = { C * H * b * W * b, W * b, 1, H * b * W * b, W * b * b, b };
    int64_t dcr[] = { C * b * b * hw, b * C * hw, C * hw, hw, W, 1 },
            crd[] = { C * b * b * hw, b * hw, hw, b * b * hw, W, 1 };
    const int64_t *deep = p->crd ? crd : dcr;

    ref_move(size, &dims, dst, to_wide ? w : deep, src, to_wide ? deep : w);
}

static Status run_depth_to_space(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    move_blocks(state, dtype_size(in[0].dtype), &out[0].shape, out[0].data, in[0].data, true);
    return ST_OK;
}

static Status run_space_to_depth(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    move_blocks(state, dtype_size(in[0].dtype), &in[0].shape, out[0].data, in[0].data, false);
    return ST_OK;
}

DEFINE_KERNEL(ref_depth_to_space, .op = &op_DepthToSpace, .prepare = prepare_blocks, .run = run_depth_to_space,
              .release = free);
DEFINE_KERNEL(ref_space_to_depth, .op = &op_SpaceToDepth, .prepare = prepare_blocks, .run = run_space_to_depth,
              .release = free);
