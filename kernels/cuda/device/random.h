/* The parameters of random operators (random.cu): the same text for the engine (C) and for the device. */
#ifndef DPX_CUDA_RANDOM_H
#define DPX_CUDA_RANDOM_H

/* `outer` rows of `row` elements here; row o begins at element o * global_row + global_start of the whole tensor.
 * Elements are drawn in groups of a power of two, at most `groups` to a row, that begin at multiples of their size in
 * the whole tensor. */
typedef struct {
    long long outer, row, global_row, global_start, groups;
    unsigned long long seed, threshold; /* an element is kept when its word is at least the threshold */
    unsigned key;
    int normal;
    double scale, a, b; /* uniform in [a, b), or normal with mean a and deviation b */
} RandomBox;

enum { RANDOM_THREADS = 256 };

#endif
