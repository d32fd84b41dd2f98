/* Elements of tensors of any type. */
#ifndef DPX_TOOLS_TENSOR_NUMBER_H
#define DPX_TOOLS_TENSOR_NUMBER_H

#include <math.h>

#include "include/dpexec.h"

/* Element i as a double; NaN: of 16 bits or complex, or a text. */
static inline double tensor_number(const dpx_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case DPX_FLOAT32: return (double)((const float *)t->data)[i];
    case DPX_FLOAT64: return ((const double *)t->data)[i];
    case DPX_INT64: return (double)((const int64_t *)t->data)[i];
    case DPX_INT32: return ((const int32_t *)t->data)[i];
    case DPX_BOOL:
    case DPX_UINT8: return ((const uint8_t *)t->data)[i];
    default: return (double)NAN;
    }
}

#endif
