/* Number formats of 8 bits and less: the floats E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0 and E2M1, and integers of 4 and
 * 2 bits.  In memory each element is a byte: a float's bits, or an integer's value.  In files, elements of less than 8
 * bits are packed, the first in the lowest bits.
 * https://onnx.ai/onnx/technical/float8.html, float4.html, int4.html. */
#ifndef DPX_NARROW_TYPES_H
#define DPX_NARROW_TYPES_H

#include "graph/tensor/tensor.h"

/* Conversion of a float to a small one. */
typedef struct {
    bool saturate; /* too large numbers and infinity become the largest number; false: infinity or NaN */
    char mode;     /* of E8M0, to the power of two: 'u'p, 'd'own, 'n'earest; other types round to nearest even */
} SmallRounding;

#define SMALL_ROUNDING ((SmallRounding){ true, 'u' }) /* ONNX's default */

double small_value(DType t, uint8_t bits);
/* The byte in memory for v.  For integer types, v is truncated toward zero, and its lowest bits are kept. */
uint8_t small_from(DType t, double v, SmallRounding how);
/* The byte in memory for the lowest bits of v. */
uint8_t small_from_int(DType t, int64_t v);

/* Copy between memory and the bytes of a file; elements of less than 8 bits are packed there. */
size_t packed_bytes(DType t, int64_t numel);
void packed_read(Tensor *to, const uint8_t *from);
void packed_write(uint8_t *to, const Tensor *from);

#endif
