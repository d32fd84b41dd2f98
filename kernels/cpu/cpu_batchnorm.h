/* Parts of BatchNormApply of float32 or float64 that is stored by rows. */
#ifndef DPX_KERNELS_CPU_CPU_BATCHNORM_H
#define DPX_KERNELS_CPU_CPU_BATCHNORM_H

#include "kernels/ref/batch_norm.h"

/* k: what (x - mean) is multiplied by, for each channel. */
void batch_norm_factors(const BatchNorm *p, DType t, const void *var, const void *scale, void *k);
/* n elements of the result, from number `from` on; x and y point to these.  channel: mean, k and bias, of all channels.
 */
void batch_norm_part(const BatchNorm *p, DType t, const void *x, const void *const channel[3], void *y, int64_t from,
                     int64_t n);

#endif
