/* Element types of 8 bits and fewer that no processor computes with: the floats E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0
 * and E2M1, and integers of 4 and 2 bits.  In memory each element is a byte, a float's bits or an integer's value; in
 * files those of fewer bits are packed, the first in the lowest bits.
 * https://onnx.ai/onnx/technical/float8.html, float4.html, int4.html. */
#ifndef DPX_NARROW_TYPES_H
#define DPX_NARROW_TYPES_H

#include "graph/tensor/tensor.h"

/* How floats become small ones. */
typedef struct {
    bool saturate; /* what is too large becomes the largest, also infinity; else infinity or NaN */
    char mode;     /* of E8M0, to the power of two: 'u'p, 'd'own, 'n'earest; others round to nearest even */
} SmallRounding;

#define SMALL_ROUNDING ((SmallRounding){ true, 'u' }) /* ONNX's default */

double small_value(DType t, uint8_t bits);
/* Integers: toward zero, the lowest bits. */
uint8_t small_from(DType t, double v, SmallRounding how);
/* The byte in memory of an integer's lowest bits. */
uint8_t small_from_int(DType t, int64_t v);

/* Between memory and the bytes of a file; of types of whole bytes a copy. */
size_t packed_bytes(DType t, int64_t numel);
void packed_read(Tensor *to, const uint8_t *from);
void packed_write(uint8_t *to, const Tensor *from);

#endif
