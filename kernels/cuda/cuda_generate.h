/* Generates a kernel from a graph of elementwise nodes: one pass over memory, whatever the number of nodes. */
#ifndef DPX_CUDA_CUDA_GENERATE_H
#define DPX_CUDA_CUDA_GENERATE_H

#include "kernels/cuda/cuda.h"

enum { GENERATED_NAME = 64, GENERATED_POINTERS = 32, GENERATED_NUMBERS = 1024 };

/* The kernel's parameters, in this order: the pointers, `count`, whether all pointers are aligned (int), and, when
 * there are any, the numbers as one structure. */
typedef struct {
    int n_pointer;
    int of[GENERATED_POINTERS];       /* the body's input (by position), or output: -1 - position */
    size_t align[GENERATED_POINTERS]; /* to what the pointer must be aligned */
    int64_t count;                    /* elements */
    int n_number;
    uint32_t number[GENERATED_NUMBERS]; /* sizes and strides */
    int vector;                         /* elements that a thread takes at a time */
    char name[GENERATED_NAME];          /* of the kernel */
    char *source;                       /* CUDA C++; freed by the caller */
} Generated;

/* All outputs of `body` have one shape, to which its inputs broadcast; constants of one element become literals.  The
 * text depends on operators, types, attributes, such constants, which dimensions stretch and how many merge, not on
 * sizes. E_UNSUPPORTED when an operator has no expression, or for more pointers or elements than the kernel can
 * address. */
Status generate_elementwise(Generated *out, const Graph *body) CHECKED;
/* One body for any number of tensors: its first `n_array` inputs and its outputs are of one shape and stand, as many
 * as are pointers, in a table (kernels/cuda/tensors.h); the other inputs are scalars.  The kernel's parameters: the
 * table's tensors and which of them each block works on, then the scalars' pointers. */
Status generate_many(Generated *out, const Graph *body, int n_array) CHECKED;
/* The same as generate_elementwise with the last output summed, into type `sum`, instead of stored.  The axes of the
 * sum merge (kernels/cuda/axes.h) to runs, or columns, of `inner` neighbours, which `vector` divides.  The kernel's
 * parameters: the pointers, the sum, what is left of parts, the Reduction, the lanes to an output (int), whether all
 * pointers are aligned (int), and the numbers. */
Status generate_sum(Generated *out, const Graph *body, DType sum, bool columns, int64_t inner) CHECKED;

/* Frees a calloc'ed Generated and what a generate_ function put into it; NULL is legal. */
void generated_free(Generated *k);

/* A kernel that was generated and compiled, with what it is launched with; the state of whoever launches it begins
 * with it. */
typedef struct {
    const CudaDriver *driver;
    GpuModule *module;
    GpuKernel *kernel;
    int n_pointer, of[GENERATED_POINTERS]; /* as in Generated, and so the others */
    size_t align[GENERATED_POINTERS];
    uint32_t *number;
    unsigned blocks, threads; /* of generate_elementwise's kernel; blocks 0: there is nothing to do */
    int64_t count;            /* of its elements */
} GeneratedCode;

/* Compiles the kernel, unless it has no `work`.  generated_release frees what it holds, also after a failure. */
Status generated_compile(GeneratedCode *c, KernelCtx *ctx, const Generated *k, bool work) CHECKED;
/* The addresses of a step, and args[i] for each; are all of them aligned? */
int generated_bind(const GeneratedCode *c, const Tensor *in, const Tensor *out, void **pointer, void **args);
/* Frees a state that begins with GeneratedCode; NULL is legal. */
void generated_release(void *state);

#endif
