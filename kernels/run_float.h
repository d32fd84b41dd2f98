/* Kernels of float32 and float64 that are one family of functions F_f32, F_f64. */
#ifndef DPX_KERNELS_RUN_FLOAT_H
#define DPX_KERNELS_RUN_FLOAT_H

#include "kernels/backend.h"

/* Defines the run function NAME: calls the F of input 0's type; the arguments may use ctx, state, in and out. */
#define RUN_FLOAT(NAME, F, ...)                                                    \
    static Status NAME(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out) \
    {                                                                              \
        (void)ctx, (void)state;                                                    \
        if (in[0].dtype == DT_FLOAT32)                                             \
            F##_f32(__VA_ARGS__);                                                  \
        else                                                                       \
            F##_f64(__VA_ARGS__);                                                  \
        return ST_OK;                                                              \
    }

#endif
