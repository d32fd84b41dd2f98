/* Pad: fill and copy for the constant mode, element by element from its source for the others; and the gradient of
 * these. */
#include "graph/ops/layout.gen.h"
#include "graph/ops/ranges.h"
#include "kernels/ref/ref_move.h"

/* The state's mode is a PadMode. */
static Status ref_pad_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    PadMode mode;

    (void)ctx;
    TRY(pad_mode(&mode, g, n));
    return ref_mode_prepare(state, g, n, mode);
}

/* The overlap of x, moved by `before`, with y: fills in where it begins in both. */
static Shape overlap(const PadRange *r, const Shape *x, const Shape *y, int64_t *from, int64_t *to)
{
    Shape s = { .rank = x->rank };

    for (int i = 0; i < x->rank; i++) {
        int64_t end = x->dim[i] + r->before[i];

        to[i] = r->before[i] > 0 ? r->before[i] : 0;
        from[i] = to[i] - r->before[i];
        end = end < y->dim[i] ? end : y->dim[i];
        s.dim[i] = end > to[i] ? end - to[i] : 0;
    }
    return s;
}

static void ref_pad_run_constant(const PadRange *r, const Tensor *x, const Tensor *v, Tensor *y)
{
    int64_t from[MAX_RANK], to[MAX_RANK], xs[MAX_RANK], ys[MAX_RANK], x0 = 0, y0 = 0;
    Shape inner = overlap(r, &x->shape, &y->shape, from, to);
    size_t size = dtype_size(x->dtype);
    uint64_t element = 0;
    Tensor one = { x->dtype, shape_scalar(), &element };

    if (v && v->dtype == x->dtype)
        memcpy(&element, v->data, size);
    else if (v)
        tensor_set_float(&one, 0, tensor_float(v, 0));
    ref_fill(size, tensor_numel(y), y->data, &element);
    shape_strides(&x->shape, xs);
    shape_strides(&y->shape, ys);
    for (int i = 0; i < x->shape.rank; i++) {
        x0 += from[i] * xs[i];
        y0 += to[i] * ys[i];
    }
    if (shape_numel(&inner))
        ref_move(size, &inner, (char *)y->data + y0 * (int64_t)size, ys, (const char *)x->data + x0 * (int64_t)size,
                 xs);
}

/* Where element `at` of y comes from.  Negative pads are cut off first, so that added elements mirror the rest. */
static int64_t ref_pad_source(PadMode mode, const PadRange *r, const Shape *x, const int64_t *xs, const int64_t *at)
{
    int64_t offset = 0;

    for (int i = 0; i < x->rank; i++) {
        int64_t cut = r->before[i] < 0 ? -r->before[i] : 0, cut_end = r->after[i] < 0 ? -r->after[i] : 0;

        offset += (cut + pad_source(mode, at[i] - r->before[i] - cut, x->dim[i] - cut - cut_end)) * xs[i];
    }
    return offset;
}

static bool ref_pad_advance(int64_t *at, const Shape *s)
{
    for (int i = s->rank - 1; i >= 0; i--) {
        if (++at[i] < s->dim[i])
            return true;
        at[i] = 0;
    }
    return false;
}

static Status run_pad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    PadRange r;
    int64_t at[MAX_RANK] = { 0 }, xs[MAX_RANK], i = 0;
    size_t size = dtype_size(in[0].dtype);

    (void)ctx;
    TRY(pad_range(&r, in[0].shape.rank, &in[1], ref_in(p, in, 3), p->what));
    if (p->mode == PAD_CONSTANT) {
        ref_pad_run_constant(&r, &in[0], ref_in(p, in, 2), &out[0]);
        return ST_OK;
    }
    if (tensor_numel(&out[0]) == 0)
        return ST_OK;
    shape_strides(&in[0].shape, xs);
    do
        memcpy((char *)out[0].data + (size_t)i++ * size,
               (const char *)in[0].data + ref_pad_source((PadMode)p->mode, &r, &in[0].shape, xs, at) * (int64_t)size,
               size);
    while (ref_pad_advance(at, &out[0].shape));
    return ST_OK;
}

#define BODY "kernels/ref/ref_pad.inc"
#include "kernels/each_type.inc"

static Status run_pad_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    PadRange r;

    (void)ctx;
    TRY(pad_range(&r, in[0].shape.rank, &in[1], NULL, p->what));
    if (tensor_bytes(&out[0]))
        memset(out[0].data, 0, tensor_bytes(&out[0]));
    if (tensor_numel(&in[0]) > 0)
        (in[0].dtype == DT_FLOAT32 ? pad_grad_f32 : pad_grad_f64)((PadMode)p->mode, &r, &in[0], &out[0]);
    return ST_OK;
}

DEFINE_KERNEL(ref_pad, .op = &op_Pad, .prepare = ref_pad_prepare, .run = run_pad, .release = free);
DEFINE_KERNEL(ref_pad_grad, .op = &op_PadGrad, .dtypes = DTYPES_F32_F64, .prepare = ref_pad_prepare,
              .run = run_pad_grad, .release = free);
