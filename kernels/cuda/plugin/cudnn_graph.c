/* Descriptors, tensors and operations of cuDNN's backend API. */
#include "kernels/cuda/plugin/cudnn_graph.h"

void cudnn_graph_free(CudnnGraph *g)
{
    while (g->n_made)
        cudnnBackendDestroyDescriptor(g->made[--g->n_made]);
}

Status cudnn_failed(cudnnStatus_t e, const char *what, const char *name)
{
    bool unsupported = CUDNN_STATUS_CATEGORY(e) == CUDNN_STATUS_NOT_SUPPORTED;
    char words[256] = "";

    cudnnGetLastErrorString(words, sizeof words);
    for (char *p = words; *p; p++)
        if (*p == '\n')
            *p = ' ';
    return FAIL(unsupported ? E_UNSUPPORTED : E_DEVICE, "cuDNN: %s %s: %s%s%s", what, name, cudnnGetErrorString(e),
                words[0] ? ": " : "", words);
}

static void cudnn_graph_check(CudnnGraph *g, cudnnStatus_t e, const char *what, const char *name)
{
    if (!g->status && e)
        g->status = cudnn_failed(e, what, name);
}

CudnnDescriptor cudnn_new(CudnnGraph *g, cudnnBackendDescriptorType_t type, const char *name)
{
    CudnnDescriptor d = NULL;

    if (g->status)
        return NULL;
    if (g->n_made == CUDNN_DESCRIPTORS) {
        g->status = FAIL(E_INTERNAL, "cuDNN: more than %d descriptors in a graph", CUDNN_DESCRIPTORS);
        return NULL;
    }
    cudnn_graph_check(g, cudnnBackendCreateDescriptor(type, &d), "creating", name);
    if (g->status)
        return NULL;
    return g->made[g->n_made++] = d;
}

void cudnn_set(CudnnGraph *g, CudnnDescriptor d, cudnnBackendAttributeName_t attr, cudnnBackendAttributeType_t type,
               int64_t n, const void *values, const char *name)
{
    if (!g->status)
        cudnn_graph_check(g, cudnnBackendSetAttribute(d, attr, type, n, values), "setting", name);
}

CudnnDescriptor cudnn_finalize(CudnnGraph *g, CudnnDescriptor d, const char *name)
{
    if (!g->status)
        cudnn_graph_check(g, cudnnBackendFinalize(d), "finalizing", name);
    return g->status ? NULL : d;
}

/* ---- tensors ---- */

cudnnDataType_t cudnn_type(DType t)
{
    return t == DT_FLOAT64    ? CUDNN_DATA_DOUBLE
           : t == DT_FLOAT16  ? CUDNN_DATA_HALF
           : t == DT_BFLOAT16 ? CUDNN_DATA_BFLOAT16
                              : CUDNN_DATA_FLOAT;
}

static size_t type_size(cudnnDataType_t t)
{
    return t == CUDNN_DATA_DOUBLE ? 8 : t == CUDNN_DATA_HALF || t == CUDNN_DATA_BFLOAT16 ? 2 : 4;
}

void cudnn_strides(CudnnTensor *t, bool channels_last)
{
    int64_t step = channels_last ? t->dim[1] : 1;

    for (int i = t->rank - 1; i >= 0; i--) {
        if (i == 1 && channels_last) {
            t->stride[i] = 1;
            continue;
        }
        t->stride[i] = step;
        step *= t->dim[i];
    }
}

static CudnnDescriptor make_tensor(CudnnGraph *g, const CudnnTensor *t, int64_t id, bool is_virtual, bool by_value)
{
    CudnnDescriptor d = CUDNN_NEW(g, TENSOR);
    int64_t alignment = 16;

    CUDNN_SET(g, d, TENSOR_UNIQUE_ID, INT64, 1, &id);
    CUDNN_SET(g, d, TENSOR_DATA_TYPE, DATA_TYPE, 1, &t->type);
    CUDNN_SET(g, d, TENSOR_DIMENSIONS, INT64, t->rank, t->dim);
    CUDNN_SET(g, d, TENSOR_STRIDES, INT64, t->rank, t->stride);
    CUDNN_SET(g, d, TENSOR_BYTE_ALIGNMENT, INT64, 1, &alignment);
    CUDNN_SET(g, d, TENSOR_IS_VIRTUAL, BOOLEAN, 1, &is_virtual);
    CUDNN_SET(g, d, TENSOR_IS_BY_VALUE, BOOLEAN, 1, &by_value);
    return cudnn_finalize(g, d, "a tensor");
}

static void cudnn_graph_bind(CudnnGraph *g, const CudnnBinding *b)
{
    if (g->status)
        return;
    if (g->n_bind == CUDNN_BINDINGS)
        g->status = FAIL(E_INTERNAL, "cuDNN: more than %d tensors in memory", CUDNN_BINDINGS);
    else
        g->bind[g->n_bind++] = *b;
}

/* From the first element to the last, with what stands in between. */
static size_t tensor_bytes(const CudnnTensor *t)
{
    size_t n = 1;

    for (int i = 0; i < t->rank; i++)
        n += (size_t)((t->dim[i] - 1) * t->stride[i]);
    return n * type_size(t->type);
}

CudnnDescriptor cudnn_tensor(CudnnGraph *g, const CudnnTensor *t, int buffer)
{
    CudnnBinding b = { .kind = BIND_BUFFER, .id = ++g->last_id, .buffer = buffer, .bytes = tensor_bytes(t) };

    cudnn_graph_bind(g, &b);
    return make_tensor(g, t, b.id, false, false);
}

CudnnDescriptor cudnn_scratch(CudnnGraph *g, const CudnnTensor *t)
{
    CudnnBinding b = { .kind = BIND_WORKSPACE, .id = ++g->last_id, .offset = g->scratch, .bytes = tensor_bytes(t) };

    g->scratch += (b.bytes + 255) / 256 * 256;
    cudnn_graph_bind(g, &b);
    return make_tensor(g, t, b.id, false, false);
}

CudnnDescriptor cudnn_virtual(CudnnGraph *g, const CudnnTensor *t)
{
    return make_tensor(g, t, ++g->last_id, true, false);
}

CudnnDescriptor cudnn_scalar(CudnnGraph *g, int rank, float value)
{
    CudnnTensor t = { CUDNN_DATA_FLOAT, rank, { 1, 1, 1, 1, 1 }, { 1, 1, 1, 1, 1 } };
    CudnnBinding b = { .kind = BIND_SCALAR, .id = ++g->last_id, .value = value, .bytes = sizeof value };

    cudnn_graph_bind(g, &b);
    return make_tensor(g, &t, b.id, false, true);
}

/* ---- operations ---- */

void cudnn_add_op(CudnnGraph *g, CudnnDescriptor op)
{
    if (g->status)
        return;
    if (g->n_op == CUDNN_OPS)
        g->status = FAIL(E_INTERNAL, "cuDNN: more than %d operations in a graph", CUDNN_OPS);
    else
        g->op[g->n_op++] = op;
}

static CudnnDescriptor pointwise_mode(CudnnGraph *g, cudnnPointwiseMode_t mode, cudnnDataType_t type, int64_t axis)
{
    CudnnDescriptor d = CUDNN_NEW(g, POINTWISE);

    CUDNN_SET(g, d, POINTWISE_MODE, POINTWISE_MODE, 1, &mode);
    CUDNN_SET(g, d, POINTWISE_MATH_PREC, DATA_TYPE, 1, &type);
    if (mode == CUDNN_POINTWISE_GEN_INDEX)
        CUDNN_SET(g, d, POINTWISE_AXIS, INT64, 1, &axis);
    return cudnn_finalize(g, d, "a pointwise mode");
}

static void pointwise(CudnnGraph *g, CudnnDescriptor mode, CudnnDescriptor x, CudnnDescriptor b, CudnnDescriptor t,
                      CudnnDescriptor y)
{
    CudnnDescriptor op = CUDNN_NEW(g, OPERATION_POINTWISE);

    CUDNN_SET(g, op, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, &mode);
    CUDNN_SET(g, op, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, 1, &x);
    if (b)
        CUDNN_SET(g, op, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, 1, &b);
    if (t)
        CUDNN_SET(g, op, OPERATION_POINTWISE_TDESC, BACKEND_DESCRIPTOR, 1, &t);
    CUDNN_SET(g, op, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, 1, &y);
    cudnn_add_op(g, cudnn_finalize(g, op, "a pointwise operation"));
}

void cudnn_pointwise(CudnnGraph *g, cudnnPointwiseMode_t mode, cudnnDataType_t type, CudnnDescriptor x,
                     CudnnDescriptor b, CudnnDescriptor t, CudnnDescriptor y)
{
    pointwise(g, pointwise_mode(g, mode, type, 0), x, b, t, y);
}

void cudnn_gen_index(CudnnGraph *g, int64_t axis, CudnnDescriptor x, CudnnDescriptor y)
{
    pointwise(g, pointwise_mode(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis), x, NULL, NULL, y);
}

void cudnn_reduce(CudnnGraph *g, cudnnReduceTensorOp_t kind, CudnnDescriptor x, CudnnDescriptor y)
{
    CudnnDescriptor how = CUDNN_NEW(g, REDUCTION), op;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;

    CUDNN_SET(g, how, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, &kind);
    CUDNN_SET(g, how, REDUCTION_COMP_TYPE, DATA_TYPE, 1, &type);
    how = cudnn_finalize(g, how, "a reduction");
    op = CUDNN_NEW(g, OPERATION_REDUCTION);
    CUDNN_SET(g, op, OPERATION_REDUCTION_DESC, BACKEND_DESCRIPTOR, 1, &how);
    CUDNN_SET(g, op, OPERATION_REDUCTION_XDESC, BACKEND_DESCRIPTOR, 1, &x);
    CUDNN_SET(g, op, OPERATION_REDUCTION_YDESC, BACKEND_DESCRIPTOR, 1, &y);
    cudnn_add_op(g, cudnn_finalize(g, op, "a reduction operation"));
}

void cudnn_matmul(CudnnGraph *g, CudnnDescriptor a, CudnnDescriptor b, CudnnDescriptor c)
{
    CudnnDescriptor how = CUDNN_NEW(g, MATMUL), op;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;

    CUDNN_SET(g, how, MATMUL_COMP_TYPE, DATA_TYPE, 1, &type);
    how = cudnn_finalize(g, how, "a matrix product");
    op = CUDNN_NEW(g, OPERATION_MATMUL);
    CUDNN_SET(g, op, OPERATION_MATMUL_DESC, BACKEND_DESCRIPTOR, 1, &how);
    CUDNN_SET(g, op, OPERATION_MATMUL_ADESC, BACKEND_DESCRIPTOR, 1, &a);
    CUDNN_SET(g, op, OPERATION_MATMUL_BDESC, BACKEND_DESCRIPTOR, 1, &b);
    CUDNN_SET(g, op, OPERATION_MATMUL_CDESC, BACKEND_DESCRIPTOR, 1, &c);
    cudnn_add_op(g, cudnn_finalize(g, op, "a matrix product operation"));
}

void cudnn_reshape(CudnnGraph *g, CudnnDescriptor x, CudnnDescriptor y)
{
    CudnnDescriptor op = CUDNN_NEW(g, OPERATION_RESHAPE);

    CUDNN_SET(g, op, OPERATION_RESHAPE_XDESC, BACKEND_DESCRIPTOR, 1, &x);
    CUDNN_SET(g, op, OPERATION_RESHAPE_YDESC, BACKEND_DESCRIPTOR, 1, &y);
    cudnn_add_op(g, cudnn_finalize(g, op, "a reshape operation"));
}
