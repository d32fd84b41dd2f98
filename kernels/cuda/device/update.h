/* The tensors of an optimizer step or a CastAll, handed over by value: a launch of the kernels of optimizer.cu and cast_all.cu takes
 * up to UPDATE_MOST of them, which fills what a launch may carry (4 KiB), and works on blocks of UPDATE_WORK elements of one tensor. */
#ifndef DPX_CUDA_UPDATE_H
#define DPX_CUDA_UPDATE_H

enum { UPDATE_MOST = 88, UPDATE_WORK = 4096, UPDATE_THREADS = 256 };

typedef struct { void *w, *m, *v; const void *g; } UpdateTensors;       /* w, m, v: written, states in place; m, v may be NULL */

typedef struct {
    int n;
    unsigned block[UPDATE_MOST + 1];                                    /* the first block of each tensor; then how many */
    long long count[UPDATE_MOST];                                       /* elements */
    UpdateTensors tensor[UPDATE_MOST];
} UpdateTable;

#endif
