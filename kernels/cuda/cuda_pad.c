/* Pad in all modes and the gradient of those that repeat elements.  Dimensions that are kept whole are merged into the
 * one before them, so that padding images copies their rows in wide units. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/layout.gen.h"
#include "graph/ops/ranges.h"
#include "graph/tensor/layout.h"
#include "kernels/cuda/cuda_move.h"

typedef struct {
    PadBox pad;    /* in elements; mode and fill */
    int64_t from0; /* elements cut off in front */
    size_t size, unit;
    bool empty, given; /* given: the constant is read where it lies, at input 2 */
    GpuKernel *kernel[MOVE_WIDTHS];
} State;

static Status read_pads(PadRange *r, PadMode *mode, const Graph *g, const Node *n)
{
    TRY(pad_mode(mode, g, n));
    return pad_range(r, in_value(g, n, 0)->shape->rank, value_const(g, n->in[1]), in_const(g, n, 3), node_text(g, n));
}

static int64_t cut_of(int64_t pad) { return pad < 0 ? -pad : 0; }

/* Elements left of an axis of d elements; more may be cut off than there are. */
static int64_t kept_of(int64_t d, int64_t before, int64_t after)
{
    const int64_t kept = d - cut_of(before) - cut_of(after);

    return kept > 0 ? kept : 0;
}

/* ---- Pad ---- */

/* Appends axis `d` of the result, of which `shift` come before the `kept` elements that are left of x. */
static void add_axis(PadBox *p, int64_t d, int64_t shift, int64_t kept, int64_t stride)
{
    int k = p->box.rank, last = k - 1;
    bool plain = d == kept;

    if (d == 1 && plain)
        return;
    if (k && p->size[last] == p->box.dim[last] && stride == p->box.dim[last] * p->box.from[last] &&
        (plain || !p->mode)) {
        p->shift[last] = shift * p->box.dim[last];
        p->size[last] = kept * p->box.dim[last];
        p->box.dim[last] *= d;
        return;
    }
    p->box.dim[k] = d;
    p->shift[k] = shift;
    p->size[k] = kept;
    p->box.from[k] = stride;
    p->box.rank++;
}

/* Bytes that everything is a multiple of; the inner axis moves in units only when no element of it is repeated. */
static size_t pad_unit(const State *s)
{
    const PadBox *p = &s->pad;
    uint64_t elements = (uint64_t)s->from0;

    if (!p->box.rank || p->box.from[0] != 1 || (p->mode && p->size[0] != p->box.dim[0]))
        return s->size;
    elements |= (uint64_t)p->box.dim[0] | (uint64_t)p->shift[0] | (uint64_t)p->size[0];
    for (int i = 1; i < p->box.rank; i++)
        elements |= (uint64_t)p->box.from[i];
    return unit_of(elements * s->size);
}

/* The constant as 16 bytes of elements; zeros without one. */
static void read_fill(State *s, const Graph *g, const Node *n)
{
    const Tensor *v = in_const(g, n, 2);
    Tensor one = { in_value(g, n, 0)->dtype, shape_scalar(), s->pad.fill };

    s->given = has_in(n, 2) && !v;
    if (!v)
        return;
    if (v->dtype == one.dtype)
        memcpy(s->pad.fill, v->data, s->size);
    else
        tensor_set_float(&one, 0, tensor_float(v, 0));
    for (size_t i = s->size; i < sizeof s->pad.fill; i += s->size)
        memcpy((char *)s->pad.fill + i, s->pad.fill, s->size);
}

static Status prepare_pad(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *y = value(g, n->out[0])->shape;
    const Layout order = node_layout(g, n);
    State *s = calloc(1, sizeof *s);
    int64_t xs[MAX_RANK];
    PadMode mode;
    PadRange r;
    bool wide;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    TRY_TO(fail, st, read_pads(&r, &mode, g, n));
    layout_strides(order, x, xs);
    s->size = dtype_size(in_value(g, n, 0)->dtype);
    s->pad.mode = mode;
    s->pad.element = (int)s->size;
    for (int k = x->rank - 1; k >= 0; k--) {
        int i = layout_axis(order, x->rank, k);
        int64_t shift = r.before[i] > 0 ? r.before[i] : 0;

        add_axis(&s->pad, y->dim[i], shift, kept_of(x->dim[i], r.before[i], r.after[i]), xs[i]);
        s->from0 += cut_of(r.before[i]) * xs[i];
    }
    s->unit = pad_unit(s);
    s->pad.box.n = shape_numel(y);
    read_fill(s, g, n);
    wide = s->pad.box.n > INT32_MAX || shape_numel(x) > INT32_MAX;
    TRY_TO(fail, st, unit_kernels(s->kernel, ctx, wide ? "pad_wide" : "pad", s->size, s->unit));
    *state = s;
    return ST_OK;
fail:
    free(s);
    return st;
}

static Status run_pad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    const char *x = (const char *)in[0].data + s->from0 * (int64_t)s->size;
    const void *fill = s->given ? in[2].data : NULL;
    size_t here = unit_of((uintptr_t)in[0].data | (uintptr_t)out[0].data), w = here < s->unit ? here : s->unit;
    int64_t v = (int64_t)(w / s->size);
    PadBox p = s->pad;

    if (!p.box.n)
        return ST_OK;
    p.box.n /= v;
    for (int i = 0; i < p.box.rank; i++) {
        if (i == 0) {
            p.box.dim[0] /= v;
            p.shift[0] /= v;
            p.size[0] /= v;
        } else {
            p.box.from[i] /= v;
        }
        p.box.by[i] = divisor_of(p.box.dim[i]);
    }
    return cuda_launch(ctx, s->kernel[log2_of(w)], move_blocks(p.box.n), MOVE_THREADS, 0,
                       CUDA_ARGS(&p, &out[0].data, &x, &fill));
}

static bool constant_pads(const Graph *g, const Node *n)
{
    return value_const(g, n->in[1]) && (!has_in(n, 3) || value_const(g, n->in[3]));
}

/* A constant of another type is converted, for which it must be known. */
static bool fits_pad(const Graph *g, const Node *n)
{
    return constant_pads(g, n) &&
           (!has_in(n, 2) || value_const(g, n->in[2]) || in_value(g, n, 2)->dtype == in_value(g, n, 0)->dtype);
}

DEFINE_KERNEL(cuda_pad, .op = &op_Pad, .layouts = kernel_channels_last, .supports = fits_pad, .prepare = prepare_pad,
              .run = run_pad, .release = free);

/* ---- PadGrad ---- */

typedef struct {
    PadGradBox box;
    GpuKernel *kernel;
} GradState;

static Status cuda_pad_prepare_grad(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *dy = in_value(g, n, 0)->shape, *dx = value(g, n->out[0])->shape;
    const Layout order = node_layout(g, n);
    GradState *s = calloc(1, sizeof *s);
    int64_t ys[MAX_RANK];
    PadMode mode;
    PadRange r;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    TRY_TO(fail, st, read_pads(&r, &mode, g, n));
    TRY_TO(fail, st, cuda_kernel(&s->kernel, ctx, "pad_grad", in_value(g, n, 0)->dtype));
    layout_strides(order, dy, ys);
    s->box.mode = mode;
    s->box.box.n = shape_numel(dx);
    for (int position = dx->rank - 1; position >= 0; position--) {
        int i = layout_axis(order, dx->rank, position), k = s->box.box.rank++;

        s->box.box.dim[k] = dx->dim[i];
        s->box.box.from[k] = ys[i];
        s->box.shift[k] = r.before[i] > 0 ? r.before[i] : 0;
        s->box.cut[k] = cut_of(r.before[i]);
        s->box.size[k] = dx->dim[i] - cut_of(r.before[i]) - cut_of(r.after[i]);
        s->box.padded[k] = dy->dim[i];
    }
    *state = s;
    return ST_OK;
fail:
    free(s);
    return st;
}

static Status cuda_pad_run_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    GradState *s = state;
    const void *dy = in[0].data;

    if (!s->box.box.n)
        return ST_OK;
    return cuda_launch(ctx, s->kernel, cuda_blocks(s->box.box.n, 128, 1 << 20), 128, 0,
                       CUDA_ARGS(&s->box, &out[0].data, &dy));
}

static bool fits_grad(const Graph *g, const Node *n)
{
    PadMode mode;

    return constant_pads(g, n) && !pad_mode(&mode, g, n) && mode != PAD_CONSTANT;
}

DEFINE_KERNEL(cuda_pad_grad, .op = &op_PadGrad, .dtypes = DTYPES_FLOAT, .layouts = kernel_channels_last,
              .supports = fits_grad, .prepare = cuda_pad_prepare_grad, .run = cuda_pad_run_grad, .release = free);
