/* How reductions along any axes are dealt to the threads of a device: kernels/cuda/cuda_reduce.c, and generated kernels
 * that end in a sum (kernels/cuda/fused_sum.c).  Axes are merged into the fewest; the last one is then reduced (runs)
 * or kept (columns).  In how many parts an output is computed depends on shapes alone, so that the bits do not depend
 * on the device. */
#ifndef DPX_CUDA_AXES_H
#define DPX_CUDA_AXES_H

#include "kernels/cuda/device/reduction.h"
#include "kernels/cuda/rows.h"

enum { REDUCTION_THREADS = 256 };

/* The axes in the order of memory, outermost first; strides in elements. */
typedef struct {
    int n;
    bool reduced[MAX_RANK];
    int64_t dim[MAX_RANK], stride[MAX_RANK];
} Axes;

/* The next axis as they stand in memory: none for a dimension of 1, and neighbours of one kind are one. */
void axes_add(Axes *a, bool reduced, int64_t dim, int64_t stride);
/* Those of x; bit i of mask: axis i is reduced. */
Axes axes_merge(const Value *x, unsigned mask);
/* Do the axes that are kept stand in the result y in the order in which they stand in x? */
bool axes_keep_order(const Value *x, const Value *y, unsigned mask);

typedef struct {
    Reduction r;   /* but for `chunks` and `finish` */
    bool columns;  /* the last axis is kept */
    bool even;     /* runs begin on boundaries of chunks if the tensor does; columns: are whole chunks */
    int lanes;     /* runs: threads that share an output */
    unsigned x, y; /* columns: the block */
} ReductionPlan;

/* v: elements of a chunk, the access of runs; width: neighbouring columns that a thread takes. */
void reduction_plan(ReductionPlan *p, const Axes *a, int v, int width);
/* Chunks of v in a run of n that begins `offset` elements behind a boundary. */
unsigned reduction_chunks(int64_t n, int offset, int v);

/* Blocks of REDUCTION_THREADS for runs, and of (x, y) for columns of which a thread takes `width`. */
unsigned reduction_run_blocks(const ReductionPlan *p);
unsigned reduction_column_blocks(const ReductionPlan *p, int64_t width);
/* Launches k, reduce_<name>_parts_<type>, which adds up in y the parts of each output from scratch. */
Status reduction_add_parts(const KernelCtx *ctx, const ReductionPlan *p, GpuKernel *k, void *scratch, void *y) CHECKED;

#endif
