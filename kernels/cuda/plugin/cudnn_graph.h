/* A cuDNN graph under construction: operations on tensors in cuDNN's "backend" API, one line each.
 *
 * Every descriptor belongs to the graph and ends with it.  Failure is sticky in g->status, as in the engine's own emit:
 * after a failure every call does nothing, so a graph reads as the formula it stands for, and is checked once, by
 * cudnn_plan_make. */
#ifndef DPX_CUDNN_GRAPH_H
#define DPX_CUDNN_GRAPH_H

#include <cudnn.h>
#include <stdbool.h>

#include "graph/base/status.h"
#include "graph/tensor/dtype.h"

enum { CUDNN_RANK = 5, CUDNN_OPS = 32, CUDNN_DESCRIPTORS = 160, CUDNN_BINDINGS = 16 };

typedef cudnnBackendDescriptor_t CudnnDescriptor;
typedef struct {
    cudnnDataType_t type;
    int rank;
    int64_t dim[CUDNN_RANK], stride[CUDNN_RANK];
} CudnnTensor;

/* Where the data of a tensor that is not virtual lies when the plan runs. */
typedef enum { BIND_BUFFER, BIND_SCALAR, BIND_WORKSPACE } CudnnBindKind;
typedef struct {
    CudnnBindKind kind;
    int64_t id;
    int buffer;    /* BIND_BUFFER: index among the plan's buffers */
    float value;   /* BIND_SCALAR */
    size_t offset; /* BIND_WORKSPACE: in the plan's memory beside the library's own workspace */
    size_t bytes;
} CudnnBinding;

typedef struct {
    CudnnDescriptor made[CUDNN_DESCRIPTORS], op[CUDNN_OPS];
    CudnnBinding bind[CUDNN_BINDINGS];
    int n_made, n_op, n_bind;
    int64_t last_id;
    size_t scratch; /* bytes of all BIND_WORKSPACE tensors */
    Status status;
} CudnnGraph;

void cudnn_graph_free(CudnnGraph *g);

/* ---- descriptors; NULL after a failure ---- */
CudnnDescriptor cudnn_new(CudnnGraph *g, cudnnBackendDescriptorType_t type, const char *name);
#define CUDNN_NEW(g, TYPE) cudnn_new((g), CUDNN_BACKEND_##TYPE##_DESCRIPTOR, #TYPE)
void cudnn_set(CudnnGraph *g, CudnnDescriptor d, cudnnBackendAttributeName_t attr, cudnnBackendAttributeType_t type,
               int64_t n, const void *values, const char *name);
#define CUDNN_SET(g, d, ATTR, TYPE, n, values) \
    cudnn_set((g), (d), CUDNN_ATTR_##ATTR, CUDNN_TYPE_##TYPE, (n), (values), #ATTR)
/* d itself, complete; `name` for messages. */
CudnnDescriptor cudnn_finalize(CudnnGraph *g, CudnnDescriptor d, const char *name);
/* Records cuDNN's own message; E_UNSUPPORTED where cuDNN does not support the call. */
Status cudnn_failed(cudnnStatus_t e, const char *what, const char *name);

/* ---- tensors ---- */
cudnnDataType_t cudnn_type(DType t); /* of a float type */
/* Row-major strides of t->dim; with channels_last dimension 1 is the innermost. */
void cudnn_strides(CudnnTensor *t, bool channels_last);
CudnnDescriptor cudnn_tensor(CudnnGraph *g, const CudnnTensor *t, int buffer);
CudnnDescriptor cudnn_scratch(CudnnGraph *g, const CudnnTensor *t); /* memory of the plan's workspace */
CudnnDescriptor cudnn_virtual(CudnnGraph *g, const CudnnTensor *t); /* never in memory */
CudnnDescriptor cudnn_scalar(CudnnGraph *g, int rank, float value); /* float32, broadcast */

/* ---- operations ---- */
/* y = mode(x), mode(x, b) or mode(x, b, t), computed in `type`. */
void cudnn_pointwise(CudnnGraph *g, cudnnPointwiseMode_t mode, cudnnDataType_t type, CudnnDescriptor x,
                     CudnnDescriptor b, CudnnDescriptor t, CudnnDescriptor y);
void cudnn_gen_index(CudnnGraph *g, int64_t axis, CudnnDescriptor x,
                     CudnnDescriptor y); /* y: positions along axis, int32 */
void cudnn_reduce(CudnnGraph *g, cudnnReduceTensorOp_t op, CudnnDescriptor x, CudnnDescriptor y);
void cudnn_matmul(CudnnGraph *g, CudnnDescriptor a, CudnnDescriptor b, CudnnDescriptor c);
void cudnn_reshape(CudnnGraph *g, CudnnDescriptor x, CudnnDescriptor y); /* the same elements by y's strides */
void cudnn_add_op(CudnnGraph *g, CudnnDescriptor op);                    /* of a finalized operation */

#endif
