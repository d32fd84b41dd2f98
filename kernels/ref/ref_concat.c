/* Concat, Split, Slice and Slice's gradient: strided copies. */
#include "graph/ops/concat.gen.h"
#include "graph/ops/ranges.h"
#include "kernels/ref/ref_move.h"

static void *at(const Tensor *t, int64_t element) { return (char *)t->data + element * (int64_t)dtype_size(t->dtype); }

static Status ref_concat_run_concat(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    int64_t xs[MAX_RANK], ys[MAX_RANK], begin = 0;

    (void)ctx;
    shape_strides(&out[0].shape, ys);
    for (int i = 0; i < p->n_in; i++) {
        shape_strides(&in[i].shape, xs);
        if (tensor_numel(&in[i]))
            ref_move(dtype_size(in[i].dtype), &in[i].shape, at(&out[0], begin * ys[p->axis]), ys, in[i].data, xs);
        begin += in[i].shape.dim[p->axis];
    }
    return ST_OK;
}

static Status ref_concat_run_split(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const Tensor *sizes = ref_in(p, in, 1);
    int64_t xs[MAX_RANK], ys[MAX_RANK], begin = 0, part = (in[0].shape.dim[p->axis] + p->n_out - 1) / p->n_out;

    (void)ctx;
    shape_strides(&in[0].shape, xs);
    for (int i = 0; i < p->n_out; i++) {
        if (out[i].data && tensor_numel(&out[i])) {
            shape_strides(&out[i].shape, ys);
            ref_move(dtype_size(in[0].dtype), &out[i].shape, out[i].data, ys, at(&in[0], begin * xs[p->axis]), xs);
        }
        begin += sizes ? tensor_int(sizes, i) : part;
    }
    return ST_OK;
}

static Status run_slice(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    SliceRange r;
    int64_t ss[MAX_RANK], ds[MAX_RANK], begin;

    (void)ctx;
    TRY(slice_range(&r, &in[0].shape, &in[1], &in[2], ref_in(p, in, 3), ref_in(p, in, 4), p->what));
    if (!tensor_numel(&out[0]))
        return ST_OK;
    begin = slice_strides(&r, &in[0].shape, ss);
    shape_strides(&out[0].shape, ds);
    ref_move(dtype_size(in[0].dtype), &out[0].shape, out[0].data, ds, at(&in[0], begin), ss);
    return ST_OK;
}

static Status run_slice_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    SliceRange r;
    int64_t ss[MAX_RANK], ds[MAX_RANK], begin;

    (void)ctx;
    TRY(slice_range(&r, &out[0].shape, &in[2], &in[3], ref_in(p, in, 4), ref_in(p, in, 5), p->what));
    if (tensor_bytes(&out[0]))
        memset(out[0].data, 0, tensor_bytes(&out[0]));
    if (!tensor_numel(&in[0]))
        return ST_OK;
    begin = slice_strides(&r, &out[0].shape, ds);
    shape_strides(&in[0].shape, ss);
    ref_move(dtype_size(in[0].dtype), &in[0].shape, at(&out[0], begin), ds, in[0].data, ss);
    return ST_OK;
}

DEFINE_KERNEL(ref_concat, .op = &op_Concat, .prepare = ref_node_prepare, .run = ref_concat_run_concat, .release = free);
DEFINE_KERNEL(ref_split, .op = &op_Split, .prepare = ref_node_prepare, .run = ref_concat_run_split, .release = free);
DEFINE_KERNEL(ref_slice, .op = &op_Slice, .prepare = ref_node_prepare, .run = run_slice, .release = free);
DEFINE_KERNEL(ref_slice_grad, .op = &op_SliceGrad, .prepare = ref_node_prepare, .run = run_slice_grad, .release = free);
