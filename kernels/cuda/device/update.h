/* The tensors of a norm, a CastAll, an Update, however many, for one launch: a table in the device's memory
 * (KernelCtx.table).  A block works on UPDATE_WORK elements of one tensor. */
#ifndef DPX_CUDA_UPDATE_H
#define DPX_CUDA_UPDATE_H

enum { UPDATE_WORK = 4096, UPDATE_THREADS = 256 };

typedef struct {
    long long count, block; /* elements; the tensor's first block */
    const void *g;
    void *w; /* what is made of g; may be NULL.  An Update has as many pointers as its formula asks for instead. */
} UpdateTensor;

typedef struct {
    const UpdateTensor *tensor;
    const unsigned *which;
} UpdateTable; /* which: the tensor of each block */

#endif
