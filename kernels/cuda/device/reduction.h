/* The parameters of reductions (reduce.cu): the same text for the engine (C) and for the device. */
#ifndef DPX_CUDA_REDUCTION_H
#define DPX_CUDA_REDUCTION_H

enum { WALK_RANK = 8 };

/* Index i, row-major over dim[0..n), stands for the offset sum of coordinate * stride, in elements. */
typedef struct {
    int n;
    unsigned dim[WALK_RANK];
    long long stride[WALK_RANK];
} Walk;

/* The last step of a reduction, on the accumulated value. */
typedef enum { FINISH_NONE, FINISH_ROOT } Finish;

/* A reduction of runs of `n` neighbours, `runs` of them to an output, or of columns of which `inner` are neighbours.
 * Each output is computed in `parts`, which a second kernel adds up when there are several. */
typedef struct {
    Walk kept, reduced; /* where an output, or a group of `inner` outputs, begins; where its runs or elements are */
    long long outputs, n, runs, inner;
    unsigned parts, chunks; /* chunks of 16 bytes to a run, at most */
    Finish finish;
} Reduction;

#endif
