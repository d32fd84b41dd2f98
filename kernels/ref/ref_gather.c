/* Gather, GatherElements and GatherND, and their gradients: sums in the order of the indices. */
#include "graph/ops/index.gen.h"
#include "kernels/ref/ref_move.h"

/* ---- Gather: x [outer, d, inner], y [outer, indices, inner] ---- */

static Status run_gather(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const Shape *x = &in[0].shape;
    int64_t outer = shape_count(x, 0, p->axis), d = x->dim[p->axis], n = tensor_numel(&in[1]), at;
    size_t row = (size_t)shape_count(x, p->axis + 1, x->rank) * dtype_size(in[0].dtype);
    char *y = out[0].data;

    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        TRY(ref_index_in(&at, p, &in[1], i, d));
        for (int64_t o = 0; o < outer && row; o++)
            memcpy(y + (size_t)(o * n + i) * row, (const char *)in[0].data + (size_t)(o * d + at) * row, row);
    }
    return ST_OK;
}

#define ADD_ROW(T)                      \
    for (int64_t k = 0; k < inner; k++) \
    ((T *)to)[k] += ((const T *)from)[k]

static void add_row(DType t, int64_t inner, void *to, const void *from)
{
    if (t == DT_FLOAT32)
        ADD_ROW(float);
    else
        ADD_ROW(double);
}

static Status run_gather_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const Shape *x = &out[0].shape;
    int64_t outer = shape_count(x, 0, p->axis), d = x->dim[p->axis], inner = shape_count(x, p->axis + 1, x->rank), at;
    int64_t n = tensor_numel(&in[1]), row = inner * (int64_t)dtype_size(in[0].dtype);

    (void)ctx;
    if (tensor_bytes(&out[0]))
        memset(out[0].data, 0, tensor_bytes(&out[0]));
    for (int64_t i = 0; i < n; i++) {
        TRY(ref_index_in(&at, p, &in[1], i, d));
        for (int64_t o = 0; o < outer && row; o++)
            add_row(in[0].dtype, inner, (char *)out[0].data + (o * d + at) * row,
                    (const char *)in[0].data + (o * n + i) * row);
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_gather, .op = &op_Gather, .prepare = ref_node_prepare, .run = run_gather, .release = free);
DEFINE_KERNEL(ref_gather_grad, .op = &op_GatherGrad, .dtypes = DTYPES_F32_F64, .prepare = ref_node_prepare,
              .run = run_gather_grad, .release = free);

/* ---- GatherElements: the axis' coordinate is replaced by the index ---- */

static Status run_gather_elements(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    int64_t xs[MAX_RANK], ys[MAX_RANK], n = tensor_numel(&in[1]), at;
    size_t size = dtype_size(in[0].dtype);

    (void)ctx;
    shape_strides(&in[0].shape, xs);
    shape_strides(&in[1].shape, ys);
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0;

        TRY(ref_index_in(&at, p, &in[1], i, in[0].shape.dim[p->axis]));
        for (int a = 0; a < in[0].shape.rank; a++)
            offset += (a == p->axis ? at : i / ys[a] % in[1].shape.dim[a]) * xs[a];
        memcpy((char *)out[0].data + (size_t)i * size, (const char *)in[0].data + (size_t)offset * size, size);
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_gather_elements, .op = &op_GatherElements, .prepare = ref_node_prepare, .run = run_gather_elements,
              .release = free);

/* ---- GatherND ---- */

/* The state's mode is batch_dims. */
static Status ref_gather_prepare_nd(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_mode_prepare(state, g, n, node_int(n, "batch_dims"));
}

/* The row of x that tuple `i` names, in rows of the dimensions behind those indexed. */
static Status row_nd(int64_t *out, const RefNode *p, const Shape *x, const Tensor *ix, int64_t i)
{
    int batch = (int)p->mode, rank = ix->shape.rank, k = (int)ix->shape.dim[rank - 1];
    int64_t per_batch = shape_count(&ix->shape, batch, rank - 1), row = per_batch ? i / per_batch : 0, at;

    for (int a = 0; a < k; a++) {
        TRY(ref_index_in(&at, p, ix, i * k + a, x->dim[batch + a]));
        row = row * x->dim[batch + a] + at;
    }
    *out = row;
    return ST_OK;
}

static Status run_gather_nd(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const Shape *x = &in[0].shape, *ix = &in[1].shape;
    int64_t n = shape_count(ix, 0, ix->rank - 1), row;
    size_t bytes = (size_t)shape_count(x, (int)p->mode + (int)ix->dim[ix->rank - 1], x->rank) * dtype_size(in[0].dtype);

    (void)ctx;
    for (int64_t i = 0; i < n && bytes; i++) {
        TRY(row_nd(&row, p, x, &in[1], i));
        memcpy((char *)out[0].data + (size_t)i * bytes, (const char *)in[0].data + (size_t)row * bytes, bytes);
    }
    return ST_OK;
}

static Status run_gather_nd_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const Shape *x = &out[0].shape, *ix = &in[1].shape;
    int64_t n = shape_count(ix, 0, ix->rank - 1), row,
            inner = shape_count(x, (int)p->mode + (int)ix->dim[ix->rank - 1], x->rank);
    int64_t bytes = inner * (int64_t)dtype_size(in[0].dtype);

    (void)ctx;
    if (tensor_bytes(&out[0]))
        memset(out[0].data, 0, tensor_bytes(&out[0]));
    for (int64_t i = 0; i < n && bytes; i++) {
        TRY(row_nd(&row, p, x, &in[1], i));
        add_row(in[0].dtype, inner, (char *)out[0].data + row * bytes, (const char *)in[0].data + i * bytes);
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_gather_nd, .op = &op_GatherND, .prepare = ref_gather_prepare_nd, .run = run_gather_nd,
              .release = free);
DEFINE_KERNEL(ref_gather_nd_grad, .op = &op_GatherNDGrad, .dtypes = DTYPES_F32_F64, .prepare = ref_gather_prepare_nd,
              .run = run_gather_nd_grad, .release = free);
