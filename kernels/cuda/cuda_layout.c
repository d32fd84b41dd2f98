/* Operators that are one strided copy: Transpose, Expand, Tile, Slice and its gradient, DepthToSpace, SpaceToDepth, and
 * those that only change the shape or the layout.  Dimensions are listed as the tensor that is written has them in
 * memory. */
#include <stdlib.h>

#include "graph/ops/concat.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/ranges.h"
#include "graph/ops/view.gen.h"
#include "graph/tensor/layout.h"
#include "kernels/cuda/cuda_move.h"

/* The copy, and the elements at which it begins on both sides. */
typedef struct {
    MovePlan move;
    int64_t to, from;
    bool zero; /* the output is cleared first */
} State;

static void cuda_layout_add(MoveDims *b, int64_t dim, int64_t to, int64_t from)
{
    b->dim[b->rank] = dim;
    b->to[b->rank] = to;
    b->from[b->rank++] = from;
}

/* ---- the operators as moves ---- */

typedef Status BoxOf(MoveDims *b, const Graph *g, const Node *n);

static Status box_transpose(MoveDims *b, const Graph *g, const Node *n)
{
    const Shape *y = value(g, n->out[0])->shape;
    int64_t xs[MAX_RANK], ys[MAX_RANK];
    int count;
    const int64_t *perm = node_ints(n, "perm", &count);

    shape_strides(in_value(g, n, 0)->shape, xs);
    shape_strides(y, ys);
    for (int i = 0; i < count; i++)
        cuda_layout_add(b, y->dim[i], ys[i], xs[perm[i]]);
    return ST_OK;
}

static Status box_expand(MoveDims *b, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0), *y = value(g, n->out[0]);
    int64_t xs[MAX_RANK], ys[MAX_RANK];
    int lead = y->shape->rank - x->shape->rank;

    layout_strides(x->layout, x->shape, xs);
    layout_strides(y->layout, y->shape, ys);
    for (int k = 0; k < y->shape->rank; k++) {
        int i = layout_axis(y->layout, y->shape->rank, k);

        cuda_layout_add(b, y->shape->dim[i], ys[i], i < lead || x->shape->dim[i - lead] == 1 ? 0 : xs[i - lead]);
    }
    return ST_OK;
}

/* Axis i of y is [repeats, dim of x]. */
static Status box_tile(MoveDims *b, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *y = value(g, n->out[0])->shape;
    const Layout order = node_layout(g, n);
    int64_t xs[MAX_RANK], ys[MAX_RANK];

    layout_strides(order, x, xs);
    layout_strides(order, y, ys);
    for (int k = 0; k < x->rank; k++) {
        int i = layout_axis(order, x->rank, k);

        cuda_layout_add(b, x->dim[i] ? y->dim[i] / x->dim[i] : 0, ys[i] * x->dim[i], 0);
        cuda_layout_add(b, x->dim[i], ys[i], xs[i]);
    }
    return ST_OK;
}

static Status range_of(SliceRange *r, const Graph *g, const Node *n, const Shape *x, int first)
{
    const Tensor *t[4] = { NULL };

    for (int i = 0; i < 4; i++)
        t[i] = has_in(n, first + i) ? value_const(g, n->in[first + i]) : NULL;
    return slice_range(r, x, t[0], t[1], t[2], t[3], node_text(g, n));
}

static Status box_slice(MoveDims *b, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *y = value(g, n->out[0])->shape;
    const Layout order = node_layout(g, n);
    int64_t xs[MAX_RANK], ys[MAX_RANK];
    SliceRange r;

    TRY(range_of(&r, g, n, x, 1));
    layout_strides(order, x, xs);
    layout_strides(order, y, ys);
    for (int k = 0; k < y->rank; k++) {
        int i = layout_axis(order, y->rank, k);

        cuda_layout_add(b, y->dim[i], ys[i], xs[i] * r.step[i]);
        b->from0 += xs[i] * r.start[i];
    }
    return ST_OK;
}

static Status box_slice_grad(MoveDims *b, const Graph *g, const Node *n)
{
    const Shape *dy = in_value(g, n, 0)->shape, *dx = value(g, n->out[0])->shape;
    const Layout order = node_layout(g, n);
    int64_t xs[MAX_RANK], ys[MAX_RANK];
    SliceRange r;

    TRY(range_of(&r, g, n, dx, 2));
    layout_strides(order, dx, xs);
    layout_strides(order, dy, ys);
    for (int k = 0; k < dy->rank; k++) {
        int i = layout_axis(order, dy->rank, k);

        cuda_layout_add(b, dy->dim[i], xs[i] * r.step[i], ys[i]);
        b->to0 += xs[i] * r.start[i];
    }
    return ST_OK;
}

/* [N, C, positions] by rows against [N, positions, C]; dimensions in the order of the written tensor. */
static Status box_reorder(MoveDims *b, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int64_t c = x->dim[1], s = shape_count(x, 2, x->rank);
    bool last = node_int(n, "layout") == LAYOUT_CHANNELS_LAST;

    cuda_layout_add(b, x->dim[0], c * s, c * s);
    cuda_layout_add(b, last ? s : c, last ? c : s, 1);
    cuda_layout_add(b, last ? c : s, 1, last ? s : c);
    return ST_OK;
}

/* [N, C, H, b, W, b] of the wide tensor [N, C, H b, W b]; `depth` are the strides of the deep one, [N, C b b, H, W]. */
static void add_blocks(MoveDims *box, const Shape *wide, int64_t b, bool crd, bool to_wide)
{
    int64_t C = wide->dim[1], H = wide->dim[2] / b, W = wide->dim[3] / b, hw = H * W;
    int64_t dim[] = { wide->dim[0], C, H, b, W, b };
    int64_t w[] = { C * H * b * W * b, H * b * W * b, W * b * b, W * b, b, 1 };
    int64_t dcr[] = { C * b * b * hw, hw, W, b * C * hw, 1, C * hw },
            crd_s[] = { C * b * b * hw, b * b * hw, W, b * hw, 1, hw };
    const int64_t *deep = crd ? crd_s : dcr;

    for (int i = 0; i < 6; i++)
        cuda_layout_add(box, dim[i], to_wide ? w[i] : deep[i], to_wide ? deep[i] : w[i]);
}

static Status box_depth_to_space(MoveDims *b, const Graph *g, const Node *n)
{
    add_blocks(b, value(g, n->out[0])->shape, node_int(n, "blocksize"), node_string(n, "mode")[0] == 'C', true);
    return ST_OK;
}

/* In the order of the deep tensor, so that writes are contiguous. */
static Status box_space_to_depth(MoveDims *b, const Graph *g, const Node *n)
{
    static const int order[] = { 0, 3, 5, 1, 2, 4 };
    MoveDims wide = { 0 };

    add_blocks(&wide, in_value(g, n, 0)->shape, node_int(n, "blocksize"), false, false);
    for (int i = 0; i < wide.rank; i++)
        cuda_layout_add(b, wide.dim[order[i]], wide.to[order[i]], wide.from[order[i]]);
    return ST_OK;
}

/* ---- kernels ---- */

/* All that is read at planning time is known, and the box fits a kernel. */
static bool cuda_layout_fits(const Graph *g, const Node *n, BoxOf *box_of)
{
    MoveDims b = { 0 };
    MovePlan p;

    return constant_from(g, n, 1) && !box_of(&b, g, n) && move_plan(&p, dtype_size(in_value(g, n, 0)->dtype), &b);
}

static Status cuda_layout_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n, BoxOf *box_of)
{
    MoveDims b = { 0 };
    State *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    TRY_TO(fail, st, box_of(&b, g, n));
    move_plan(&s->move, dtype_size(in_value(g, n, 0)->dtype), &b);
    s->to = b.to0;
    s->from = b.from0;
    s->zero = shape_numel(value(g, n->out[0])->shape) != s->move.n;
    TRY_TO(fail, st, move_prepare(&s->move, ctx));
    *state = s;
    return ST_OK;
fail:
    free(s);
    return st;
}

static Status cuda_layout_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    int64_t size = (int64_t)dtype_size(in[0].dtype);

    if (s->zero && tensor_bytes(&out[0]))
        TRY_CUDA(ctx, runtime.zero(ctx->stream, out[0].data, tensor_bytes(&out[0])));
    if (s->move.kind == MOVE_NOTHING)
        return ST_OK;
    return move_run(ctx, &s->move, (char *)out[0].data + s->to * size, (const char *)in[0].data + s->from * size);
}

#define MOVED(NAME)                                                                                       \
    static bool fits_##NAME(const Graph *g, const Node *n) { return cuda_layout_fits(g, n, box_##NAME); } \
    static Status prepare_##NAME(void **state, KernelCtx *ctx, const Graph *g, const Node *n)             \
    {                                                                                                     \
        return cuda_layout_prepare(state, ctx, g, n, box_##NAME);                                         \
    }
MOVED(transpose)
MOVED(expand)
MOVED(tile)
MOVED(slice)
MOVED(slice_grad)
MOVED(reorder)
MOVED(depth_to_space)
MOVED(space_to_depth)

#define USES(NAME) .supports = fits_##NAME, .prepare = prepare_##NAME, .run = cuda_layout_run, .release = free

DEFINE_KERNEL(cuda_transpose, .op = &op_Transpose, USES(transpose));
DEFINE_KERNEL(cuda_expand, .op = &op_Expand, .layouts = kernel_channels_last, USES(expand));
DEFINE_KERNEL(cuda_tile, .op = &op_Tile, .layouts = kernel_channels_last, USES(tile));
DEFINE_KERNEL(cuda_slice, .op = &op_Slice, .layouts = kernel_channels_last, USES(slice));
DEFINE_KERNEL(cuda_slice_grad, .op = &op_SliceGrad, .layouts = kernel_channels_last, USES(slice_grad));
DEFINE_KERNEL(cuda_reorder, .op = &op_Reorder, .layouts = kernel_channels_last, USES(reorder));
DEFINE_KERNEL(cuda_depth_to_space, .op = &op_DepthToSpace, USES(depth_to_space));
DEFINE_KERNEL(cuda_space_to_depth, .op = &op_SpaceToDepth, USES(space_to_depth));

/* ---- views ---- */

static Status run_view(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)state;
    return move_same(ctx, out[0].data, in[0].data, tensor_bytes(&out[0]));
}

/* Channels last, positions alone may be divided otherwise: then the elements have their order already. */
static bool same_order(const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0), *y = value(g, n->out[0]);

    if (x->layout == LAYOUT_ROWS && y->layout == LAYOUT_ROWS)
        return true;
    return x->layout == y->layout && x->shape->dim[0] == y->shape->dim[0] && x->shape->dim[1] == y->shape->dim[1];
}

#define VIEW .layouts = kernel_channels_last, .supports = same_order, .run = run_view

DEFINE_KERNEL(cuda_reshape, .op = &op_Reshape, VIEW);
DEFINE_KERNEL(cuda_flatten, .op = &op_Flatten, VIEW);
DEFINE_KERNEL(cuda_squeeze, .op = &op_Squeeze, VIEW);
DEFINE_KERNEL(cuda_unsqueeze, .op = &op_Unsqueeze, VIEW);
DEFINE_KERNEL(cuda_identity, .op = &op_Identity, VIEW);
DEFINE_KERNEL(cuda_stop_gradient, .op = &op_StopGradient, VIEW);
