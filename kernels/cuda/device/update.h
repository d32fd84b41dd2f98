/* The tensors of an optimizer step or a CastAll, however many, for one launch of a kernel of optimizer.cu or
 * cast_all.cu: a table in the device's memory (KernelCtx.table).  A block works on UPDATE_WORK elements of one
 * tensor. */
#ifndef DPX_CUDA_UPDATE_H
#define DPX_CUDA_UPDATE_H

enum { UPDATE_WORK = 4096, UPDATE_THREADS = 256 };

typedef struct {
    void *w, *m, *v; /* written, states in place; m, v may be NULL */
    const void *g;
    long long count, block; /* elements; the tensor's first block */
} UpdateTensor;

typedef struct {
    const UpdateTensor *tensor;
    const unsigned *which;
} UpdateTable; /* which: the tensor of each block */

#endif
