/* Quantised networks: pairs of QuantizeLinear and DequantizeLinear, and constants on either side of them. */
#ifndef DPX_QUANTIZE_H
#define DPX_QUANTIZE_H

#include "graph/op.h"

/* What a node is to a network whose numbers are quantised: q = round(x / scale) + zero point. */
typedef enum {
    QUANT_NONE,
    QUANT_FROM,  /* (x, scale, zero point): floats become integers */
    QUANT_TO,    /* (q, scale, zero point): integers become floats */
    QUANT_WITHIN /* computes with integers that stand for floats, and has no gradient */
} QuantRole;

QuantRole quant_role(const Node *n);
/* The least and the largest integer of a type of up to 32 bits. */
void quantized_range(double range[2], DType t);
/* The QuantizeLinear whose integers the DequantizeLinear `to` reads, itself or behind a Clip of them by constants, as
 * exporters write narrower ranges; NULL: there is none.  range: the least and largest integer that passes. */
const Node *quantizer_of(const Graph *g, const Node *to, double range[2]);
/* What DequantizeLinear `to` makes, with the gradient by what its quantizer reads straight through it.  The graph's
 * types and shapes are known. */
ValueId straight_through(Graph *g, const Node *to, const Node *from, const double range[2]);
/* QuantizeLinear of constants of floats, as integers in the arena. */
Status quantize_constant(Tensor **out, Arena *a, const Graph *g, const Node *n) CHECKED;
/* DequantizeLinear of constants of integers, as floats in the arena. */
Status dequantize_constant(Tensor **out, Arena *a, const Graph *g, const Node *n) CHECKED;

#endif
