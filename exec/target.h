/* What the passes must know of the devices that a graph is built for. */
#ifndef DPX_TARGET_H
#define DPX_TARGET_H

#include "exec/backend.h"
#include "passes/pass.h"

/* `devices` of one kind; a replica on each unless the options say how many. */
static inline void target_devices(BuildOptions *b, int devices, bool cuda)
{
    b->devices = devices;
    b->replicas = b->replicas ? b->replicas : devices;
    b->computes = cuda ? cuda_computes : NULL;
    b->fuse = cuda;
    b->fuse_cross_entropy = cuda;
    b->fuse_attention = cuda && (b->precision == DT_FLOAT16 || b->precision == DT_BFLOAT16);
}

#endif
