/* Operators that make tensors from shapes and scalars: ConstantOfShape, Range and others. */
#include "graph/ops/generate.gen.h"
#include "kernels/ref/ref_move.h"

/* ---- Constant, ConstantOfShape: the attribute lives as long as the graph ---- */

static Status prepare_value(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    (void)g;
    *state = (void *)(uintptr_t)node_attr(n, "value")->tensor;
    return ST_OK;
}

static Status ref_generate_run_constant(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Tensor *t = state;

    (void)ctx;
    (void)in;
    if (tensor_bytes(t))
        memcpy(out[0].data, t->data, tensor_bytes(t));
    return ST_OK;
}

static Status run_constant_of_shape(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Tensor *t = state;
    uint64_t zero = 0;

    (void)ctx;
    (void)in;
    ref_fill(dtype_size(out[0].dtype), tensor_numel(&out[0]), out[0].data, t ? t->data : &zero);
    return ST_OK;
}

DEFINE_KERNEL(ref_constant, .op = &op_Constant, .prepare = prepare_value, .run = ref_generate_run_constant);
DEFINE_KERNEL(ref_constant_of_shape, .op = &op_ConstantOfShape, .prepare = prepare_value, .run = run_constant_of_shape);

/* ---- Shape, Size: the input's data is not read ---- */

static Status prepare_shape(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const int64_t from = node_int(n, "start");

    (void)ctx;
    (void)g;
    return kernel_state(state, &from, sizeof from);
}

static Status run_shape(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const int64_t from = *(const int64_t *)state;

    (void)ctx;
    for (int64_t i = 0; i < out[0].shape.dim[0]; i++)
        ((int64_t *)out[0].data)[i] = in[0].shape.dim[from + i];
    return ST_OK;
}

static Status run_size(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    (void)state;
    *(int64_t *)out[0].data = shape_numel(&in[0].shape);
    return ST_OK;
}

DEFINE_KERNEL(ref_shape, .op = &op_Shape, .prepare = prepare_shape, .run = run_shape, .release = free);
DEFINE_KERNEL(ref_size, .op = &op_Size, .run = run_size);

/* ---- Range ---- */

static Status ref_generate_run_range(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    bool ints = dtype_is_int(in[0].dtype);

    (void)ctx;
    (void)state;
    for (int64_t i = 0; i < out[0].shape.dim[0]; i++)
        if (ints)
            tensor_set_int(&out[0], i,
                           (int64_t)((uint64_t)tensor_int(&in[0], 0) + (uint64_t)i * (uint64_t)tensor_int(&in[2], 0)));
        else
            tensor_set_float(&out[0], i, tensor_float(&in[0], 0) + (double)i * tensor_float(&in[2], 0));
    return ST_OK;
}

DEFINE_KERNEL(ref_range, .op = &op_Range, .run = ref_generate_run_range);

/* ---- EyeLike ---- */

static Status prepare_eye(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const int64_t k = node_int(n, "k");

    (void)ctx;
    (void)g;
    return kernel_state(state, &k, sizeof k);
}

static Status run_eye(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    int64_t k = *(const int64_t *)state, rows = out[0].shape.dim[0], cols = out[0].shape.dim[1];

    (void)ctx;
    (void)in;
    if (tensor_bytes(&out[0]))
        memset(out[0].data, 0, tensor_bytes(&out[0]));
    for (int64_t r = 0; r < rows && k > -rows && k < cols; r++)
        if (r + k >= 0 && r + k < cols)
            tensor_set_float(&out[0], r * cols + r + k, 1);
    return ST_OK;
}

DEFINE_KERNEL(ref_eye_like, .op = &op_EyeLike, .prepare = prepare_eye, .run = run_eye, .release = free);
