/* The parameters of operators along one axis (arg.cu, cumsum.cu, topk.cu): the same text for the engine (C) and the
 * device. */
#ifndef DPX_CUDA_LINE_H
#define DPX_CUDA_LINE_H

/* A tensor [outer, n, inner]: lines of n elements, `inner` apart. */
typedef struct {
    long long outer, n, inner;
} LineBox;

/* Lines of which `k` elements are wanted, sorted in `room` places, a power of two and at least n. */
typedef struct {
    LineBox line;
    long long k;
    unsigned room;
    int smallest;
} TopBox;

enum { LINE_THREADS = 256, LINE_WARPS = 8, TOP_SHARED = 2048 }; /* TOP_SHARED: places that fit into shared memory */

#endif
