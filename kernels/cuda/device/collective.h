/* The parameters that kernels/cuda/cuda_collective.c passes to the kernel that adds up a device's parts: plain types,
 * the same in C and CUDA C++. */
#ifndef DPX_CUDA_COLLECTIVE_H
#define DPX_CUDA_COLLECTIVE_H

enum { PART_ENTRIES = 32 };

/* out = a + b, or a when there is no b; n elements. */
typedef struct {
    const void *a, *b;
    void *out;
    long long n;
} PartEntry;
typedef struct {
    PartEntry at[PART_ENTRIES];
} PartTable;

#endif
