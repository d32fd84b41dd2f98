/* What the passes must know of the devices that a graph is built for. */
#ifndef DPX_TARGET_H
#define DPX_TARGET_H

#include "exec/backend.h"
#include "passes/pass.h"

/* `devices` of one kind; a replica on each unless the options say how many.  Tensor cores, which compute convolutions
 * of 16-bit numbers and of TF32, want channels last. */
static inline void target_devices(BuildOptions *b, int devices, bool cuda)
{
    const bool half = b->precision == DT_FLOAT16 || b->precision == DT_BFLOAT16;

    b->devices = devices;
    b->replicas = b->replicas ? b->replicas : devices;
    b->computes = cuda ? cuda_computes : NULL;
    b->fuse = b->fuse_product = b->fuse_conv = cuda;
    b->fuse_cross_entropy = cuda;
    b->fuse_attention = cuda && half;
    b->channels_last = cuda && (half || b->tf32);
}

#endif
