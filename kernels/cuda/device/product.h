/* The parameters of what follows a matrix product (product.cu): the same text for the engine (C) and for the device. */
#ifndef DPX_CUDA_DEVICE_PRODUCT_H
#define DPX_CUDA_DEVICE_PRODUCT_H

#include "params.h"

enum {
    FINISH_GROUP = 8,
    FINISH_THREADS = 256
}; /* elements of a thread at a time: as many as a byte of a mask has bits */

/* Y is [n / columns, columns], its mask [n / columns, mask_row] bytes. */
typedef struct {
    long long n, columns, mask_row, n_mask; /* n_mask: bytes of the mask */
    Divisor by_columns, by_mask_row;
    int relu, gelu, gradient; /* at most one of relu and gelu */
} ProductBox;

#endif
