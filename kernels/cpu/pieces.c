/* Concat, Split, Slice and its gradient, Pad with a constant, Tile, DepthToSpace and SpaceToDepth: boxes of elements
 * that are copied from a place in an input to one in an output, and boxes that one element fills.  Where the boxes are
 * follows from shapes and constants; a Slice or Pad by computed numbers is left to the reference. */
#include "graph/ops/concat.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/ranges.h"
#include "kernels/cpu/cpu_strided.h"
#include "kernels/cpu/team.h"
#include "kernels/ref/ref_move.h"

enum { FILL = -1 };

typedef struct {
    StridedBox box;
    int in, out;     /* in = FILL: the element */
    size_t from, to; /* bytes into them */
} StridedCopy;

typedef struct {
    int n, value_in; /* the input that holds the element that fills; -1: zero */
    StridedCopy piece[];
} Plan;

static Status pieces_create(Plan **out, const Graph *g, int pieces)
{
    Plan *p = kernel_table(g, 1, sizeof *p + (size_t)pieces * sizeof *p->piece);

    if (!p)
        return FAIL_NOMEM();
    p->value_in = -1;
    *out = p;
    return ST_OK;
}

static size_t element_size(const Graph *g, const Node *n) { return dtype_size(value(g, n->out[0])->dtype); }

static void pieces_push(Plan *p, const StridedCopy *piece)
{
    if (piece->box.lines)
        p->piece[p->n++] = *piece;
}

static Status pieces_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static const uint64_t zero = 0;
    const Plan *p = state;
    const void *element = p->value_in < 0 ? &zero : in[p->value_in].data;

    for (int i = 0; i < p->n; i++) {
        const StridedCopy *q = &p->piece[i];

        strided_copy(&q->box, (char *)out[q->out].data + q->to,
                     q->in == FILL ? (const char *)element : (const char *)in[q->in].data + q->from, ctx);
    }
    return ST_OK;
}

/* ---- Concat, Split: a piece an input or output ---- */

static Status prepare_concat(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const int axis = (int)node_int(n, "axis");
    const size_t size = element_size(g, n);
    int64_t xs[MAX_RANK], ys[MAX_RANK], begin = 0;
    Plan *p;

    (void)ctx;
    TRY(pieces_create(&p, g, n->n_in));
    shape_strides(value(g, n->out[0])->shape, ys);
    for (int i = 0; i < n->n_in; i++) {
        const Shape *x = in_value(g, n, i)->shape;

        shape_strides(x, xs);
        pieces_push(p, &(StridedCopy){ strided_box(size, x->rank, x->dim, ys, xs), i, 0, 0,
                                       (size_t)(begin * ys[axis]) * size });
        begin += x->dim[axis];
    }
    *state = p;
    return ST_OK;
}

static bool sizes_known(const Graph *g, const Node *n) { return !has_in(n, 1) || value_const(g, n->in[1]); }

static Status prepare_split(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    const int axis = (int)node_int(n, "axis");
    const Tensor *sizes = in_const(g, n, 1);
    const int64_t part = (x->dim[axis] + n->n_out - 1) / n->n_out;
    const size_t size = dtype_size(in_value(g, n, 0)->dtype);
    int64_t xs[MAX_RANK], ys[MAX_RANK], begin = 0;
    Plan *p;

    (void)ctx;
    TRY(pieces_create(&p, g, n->n_out));
    shape_strides(x, xs);
    for (int i = 0; i < n->n_out; i++) {
        if (has_out(n, i)) {
            const Shape *y = value(g, n->out[i])->shape;

            shape_strides(y, ys);
            pieces_push(p, &(StridedCopy){ strided_box(size, y->rank, y->dim, ys, xs), 0, i,
                                           (size_t)(begin * xs[axis]) * size, 0 });
        }
        begin += sizes ? tensor_int(sizes, i) : part;
    }
    *state = p;
    return ST_OK;
}

/* ---- Slice, Pad: a box within a larger one ---- */

/* Fills what lies around [at, at + inner) in y: for each axis what is before and behind it, of what the axes before
 * left over.  All of y where nothing is inside. */
static void fill_around(Plan *p, size_t size, const Shape *y, const int64_t *at, const Shape *inner)
{
    static const int64_t still[MAX_RANK];
    const bool empty = !shape_numel(inner);
    int64_t ys[MAX_RANK], to = 0;
    Shape rest = *y;

    shape_strides(y, ys);
    if (empty)
        pieces_push(p, &(StridedCopy){ strided_box(size, y->rank, y->dim, ys, still), FILL, 0, 0, 0 });
    for (int i = 0; i < y->rank && !empty; i++) {
        const int64_t end = at[i] + inner->dim[i];

        rest.dim[i] = at[i];
        pieces_push(p,
                    &(StridedCopy){ strided_box(size, y->rank, rest.dim, ys, still), FILL, 0, 0, (size_t)to * size });
        rest.dim[i] = y->dim[i] - end;
        pieces_push(p, &(StridedCopy){ strided_box(size, y->rank, rest.dim, ys, still), FILL, 0, 0,
                                       (size_t)(to + end * ys[i]) * size });
        rest.dim[i] = inner->dim[i];
        to += at[i] * ys[i];
    }
}

static bool slice_known(const Graph *g, const Node *n) { return constant_from(g, n, 1); }

static Status prepare_slice(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *y = value(g, n->out[0])->shape;
    const size_t size = element_size(g, n);
    int64_t ss[MAX_RANK], ys[MAX_RANK], begin;
    SliceRange r;
    Plan *p;

    TRY(slice_range(&r, x, in_const(g, n, 1), in_const(g, n, 2), in_const(g, n, 3), in_const(g, n, 4),
                    node_text(g, n)));
    (void)ctx;
    TRY(pieces_create(&p, g, 1));
    shape_strides(y, ys);
    begin = slice_strides(&r, x, ss);
    pieces_push(p, &(StridedCopy){ strided_box(size, y->rank, y->dim, ys, ss), 0, 0, (size_t)begin * size, 0 });
    *state = p;
    return ST_OK;
}

static Status prepare_slice_grad(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *dy = in_value(g, n, 0)->shape, *dx = value(g, n->out[0])->shape;
    const size_t size = element_size(g, n);
    Shape inner = *dy;
    int64_t ss[MAX_RANK], ys[MAX_RANK], begin;
    SliceRange r;
    Plan *p;

    TRY(slice_range(&r, dx, in_const(g, n, 2), in_const(g, n, 3), in_const(g, n, 4), in_const(g, n, 5),
                    node_text(g, n)));
    (void)ctx;
    TRY(pieces_create(&p, g, 2 * dx->rank + 2));
    shape_strides(dy, ys);
    begin = slice_strides(&r, dx, ss);
    for (int i = 0; i < dx->rank; i++)
        if (dy->dim[i] > 1 && r.step[i] != 1) /* gaps: all of it is filled, and written over */
            inner = (Shape){ .rank = dx->rank };
    fill_around(p, size, dx, r.start, &inner);
    pieces_push(p, &(StridedCopy){ strided_box(size, dy->rank, dy->dim, ss, ys), 0, 0, 0, (size_t)begin * size });
    *state = p;
    return ST_OK;
}

static bool pad_known(const Graph *g, const Node *n)
{
    return value_const(g, n->in[1]) && (!has_in(n, 3) || value_const(g, n->in[3])) &&
           (!has_in(n, 2) || in_value(g, n, 2)->dtype == in_value(g, n, 0)->dtype) &&
           !strcmp(node_string(n, "mode"), "constant");
}

static Status prepare_pad(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *y = value(g, n->out[0])->shape;
    const size_t size = element_size(g, n);
    Shape inner = { .rank = x->rank };
    int64_t at[MAX_RANK], xs[MAX_RANK], ys[MAX_RANK], from = 0, to = 0;
    PadRange r;
    Plan *p;

    TRY(pad_range(&r, x->rank, in_const(g, n, 1), in_const(g, n, 3), node_text(g, n)));
    (void)ctx;
    TRY(pieces_create(&p, g, 2 * x->rank + 2));
    p->value_in = has_in(n, 2) ? 2 : -1;
    shape_strides(x, xs);
    shape_strides(y, ys);
    for (int i = 0; i < x->rank; i++) { /* where x, moved by `before`, and y overlap */
        const int64_t moved = x->dim[i] + r.before[i], end = moved < y->dim[i] ? moved : y->dim[i];

        at[i] = r.before[i] > 0 ? r.before[i] : 0;
        inner.dim[i] = end > at[i] ? end - at[i] : 0;
        to += at[i] * ys[i];
        from += (at[i] - r.before[i]) * xs[i];
    }
    fill_around(p, size, y, at, &inner);
    pieces_push(p, &(StridedCopy){ strided_box(size, x->rank, inner.dim, ys, xs), 0, 0, (size_t)from * size,
                                   (size_t)to * size });
    *state = p;
    return ST_OK;
}

/* ---- Tile: of each axis the copies, which step 0 in x, and x's own ---- */

static bool few_axes(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *y = value(g, n->out[0])->shape;
    int axes = 0;

    for (int i = 0; i < x->rank; i++)
        axes += (x->dim[i] > 1) + (y->dim[i] != x->dim[i]);
    return axes <= BOX_RANK + 1;
}

static Status prepare_tile(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *y = value(g, n->out[0])->shape;
    int64_t dim[2 * MAX_RANK], ts[2 * MAX_RANK], fs[2 * MAX_RANK], xs[MAX_RANK], ys[MAX_RANK];
    Plan *p;

    (void)ctx;
    TRY(pieces_create(&p, g, 1));
    shape_strides(x, xs);
    shape_strides(y, ys);
    for (int i = 0; i < x->rank; i++) {
        dim[2 * i] = x->dim[i] ? y->dim[i] / x->dim[i] : 0;
        ts[2 * i] = x->dim[i] * ys[i];
        fs[2 * i] = 0;
        dim[2 * i + 1] = x->dim[i];
        ts[2 * i + 1] = ys[i];
        fs[2 * i + 1] = xs[i];
    }
    pieces_push(p, &(StridedCopy){ strided_box(element_size(g, n), 2 * x->rank, dim, ts, fs), 0, 0, 0, 0 });
    *state = p;
    return ST_OK;
}

/* ---- DepthToSpace, SpaceToDepth ---- */

static Status prepare_blocks(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool to_wide = n->op == &op_DepthToSpace;
    const BlockStrides b = ref_block_strides(g, n);
    Plan *p;

    (void)ctx;
    TRY(pieces_create(&p, g, 1));
    pieces_push(p, &(StridedCopy){ strided_box(element_size(g, n), b.dims.rank, b.dims.dim, to_wide ? b.wide : b.deep,
                                               to_wide ? b.deep : b.wide),
                                   0, 0, 0, 0 });
    *state = p;
    return ST_OK;
}

#define PIECES .run = pieces_run, .release = free

DEFINE_KERNEL(cpu_concat, .op = &op_Concat, .prepare = prepare_concat, PIECES);
DEFINE_KERNEL(cpu_split, .op = &op_Split, .supports = sizes_known, .prepare = prepare_split, PIECES);
DEFINE_KERNEL(cpu_slice, .op = &op_Slice, .supports = slice_known, .prepare = prepare_slice, PIECES);
DEFINE_KERNEL(cpu_slice_grad, .op = &op_SliceGrad, .supports = slice_known, .prepare = prepare_slice_grad, PIECES);
DEFINE_KERNEL(cpu_pad, .op = &op_Pad, .supports = pad_known, .prepare = prepare_pad, PIECES);
DEFINE_KERNEL(cpu_tile, .op = &op_Tile, .supports = few_axes, .prepare = prepare_tile, PIECES);
DEFINE_KERNEL(cpu_depth_to_space, .op = &op_DepthToSpace, .prepare = prepare_blocks, PIECES);
DEFINE_KERNEL(cpu_space_to_depth, .op = &op_SpaceToDepth, .prepare = prepare_blocks, PIECES);
