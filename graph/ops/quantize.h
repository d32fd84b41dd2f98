/* Quantised networks: pairs of QuantizeLinear and DequantizeLinear, their integers and their constants. */
#ifndef DPX_QUANTIZE_H
#define DPX_QUANTIZE_H

#include "graph/ir/op.h"

/* Role of a node in a quantised network: q = round(x / scale) + zero point. */
typedef enum {
    QUANT_NONE,
    QUANT_FROM,  /* (x, scale, zero point): floats become integers */
    QUANT_TO,    /* (q, scale, zero point): integers become floats */
    QUANT_WITHIN /* computes with quantised integers, and has no gradient */
} QuantRole;

QuantRole quant_role(const Node *n);
/* Is input i, a scale or a zero point, one number for the whole tensor, or absent? */
static inline bool quant_is_one_number(const Graph *g, const Node *n, int i)
{
    return !has_in(n, i) || shape_numel(in_value(g, n, i)->shape) == 1;
}

/* The least and the largest integer of a type of up to 32 bits. */
void quantized_range(double range[2], DType t);
/* The QuantizeLinear that makes these integers, directly or through a Clip by constants, by which exporters write
 * narrower ranges; NULL: none does.  range receives the least and the largest integer that passes. */
const Node *quantizer_of(const Graph *g, ValueId integers, double range[2]);

/* The producer of the integers that a DequantizeLinear reads. */
typedef struct {
    const Node *from;  /* the QuantizeLinear */
    double range[2];   /* as in quantizer_of */
    bool scale_learns; /* the scale gets a gradient, too */
} Quantiser;

/* Emits DequantizeLinear `to` of other integers. */
ValueId dequantised(Graph *g, const Node *to, ValueId integers);
/* The same with a straight-through gradient to the quantiser's input.  Types and shapes of the graph are known. */
ValueId straight_through(Graph *g, const Node *to, ValueId integers, const Quantiser *how);
/* The scale of a QuantizeLinear in the type of its input 0 and in a shape that broadcasts to it. */
ValueId quantiser_scale(Graph *g, const Node *n);

/* ---- integer_flow.c: integers between QuantizeLinear and DequantizeLinear ---- */

/* A walk from a DequantizeLinear back to the sources of its integers, and the floats that replace them. */
typedef struct {
    Graph *g;
    ValueId *floats;       /* by value id: the floats that replace the integers, valid in turn `made` */
    uint32_t *seen, *made; /* by value id: the turn in which the walk found it, and made its floats */
    bool *passed;          /* by value id: integers of a QuantizeLinear whose gradient passes in any turn */
    uint32_t n_value, turn;
    int n_constant, n_quantiser;
    bool (*scale_learns)(const void *data, const Graph *g, const Node *from); /* NULL: none does */
    const void *data;
} IntegerFlow;

Status integer_flow_begin(IntegerFlow *f, Graph *g, Arena *a) CHECKED;
/* Do all integers that `to` reads come from quantisers and constants, through operators that only move or pick
 * elements? */
bool integer_flow_find(IntegerFlow *f, const Node *to);
/* Emits the result of `to` from floats; called after integer_flow_find returned true. */
ValueId integer_flow_floats(IntegerFlow *f, const Node *to);
/* Turns *axis, an axis of the node's output, into the axis of input 0 with the same elements; false: the node does not
 * move whole axes. */
bool integer_flow_axis(const Node *n, int64_t *axis);
/* Does the node make its output `v` by moving or picking integers? */
bool integer_flow_passes(const Graph *g, const Node *n, ValueId v);

/* Computes QuantizeLinear n of a constant; the integers lie in the arena. */
Status quantize_constant(Tensor **out, Arena *a, const Graph *g, const Node *n) CHECKED;
/* Computes DequantizeLinear n, whose scale and zero point are constants, of those integers: floats of at least 32 bits,
 * in the arena. */
Status dequantize_constant(Tensor **out, Arena *a, const Graph *g, const Node *n, const Tensor *integers) CHECKED;

#endif
