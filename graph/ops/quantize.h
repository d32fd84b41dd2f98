/* Quantised networks: pairs of QuantizeLinear and DequantizeLinear, and constants on either side of them. */
#ifndef DPX_QUANTIZE_H
#define DPX_QUANTIZE_H

#include "graph/ir/op.h"

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
/* The QuantizeLinear whose integers these are, themselves or behind a Clip of them by constants, as exporters write
 * narrower ranges; NULL: they are of none.  range: the least and largest integer that passes. */
const Node *quantizer_of(const Graph *g, ValueId integers, double range[2]);

/* What makes the integers that a DequantizeLinear reads. */
typedef struct {
    const Node *from;  /* the QuantizeLinear */
    double range[2];   /* as quantizer_of tells it */
    bool scale_learns; /* the scale gets a gradient, too */
} Quantiser;

/* What DequantizeLinear `to` would make of other integers. */
ValueId dequantised(Graph *g, const Node *to, ValueId integers);
/* Likewise, with the gradient by what the quantiser of the integers reads straight through it.  The graph's types and
 * shapes are known. */
ValueId straight_through(Graph *g, const Node *to, ValueId integers, const Quantiser *how);
/* The scale of a QuantizeLinear in the type of its input 0 and in a shape that broadcasts to it. */
ValueId quantiser_scale(Graph *g, const Node *n);

/* ---- integer_flow.c: integers on their way to a DequantizeLinear ---- */

/* What a walk from DequantizeLinear `to` to where its integers come from finds, and what it puts in place of them. */
typedef struct {
    Graph *g;
    ValueId *floats; /* by value id: what stands for the integers, of turn `seen` */
    uint32_t *seen, *made;
    bool *passed; /* by value id: the integers of a QuantizeLinear, whose gradient passes in any turn */
    uint32_t n_value, turn;
    int n_constant, n_quantiser;
    bool (*scale_learns)(const void *data, const Graph *g, const Node *from); /* NULL: none does */
    const void *data;
} IntegerFlow;

Status integer_flow_begin(IntegerFlow *f, Graph *g, Arena *a) CHECKED;
/* Do all integers that `to` reads come from quantisers and constants, by operators that move or pick elements alone? */
bool integer_flow_find(IntegerFlow *f, const Node *to);
/* What `to` makes, computed from floats alone once integers are made: behind integer_flow_find. */
ValueId integer_flow_floats(IntegerFlow *f, const Node *to);
/* An axis of the node's output becomes that of input 0 whose elements it has; false: the node does not move whole axes.
 */
bool integer_flow_axis(const Node *n, int64_t *axis);
/* Does the node pass the integers on that it makes `v` of, by moving or picking them? */
bool integer_flow_passes(const Graph *g, const Node *n, ValueId v);

/* QuantizeLinear of constants of floats, as integers in the arena. */
Status quantize_constant(Tensor **out, Arena *a, const Graph *g, const Node *n) CHECKED;
/* What DequantizeLinear n, whose scale and zero point are constants, makes of those integers: floats of 32 bits at
 * least, in the arena. */
Status dequantize_constant(Tensor **out, Arena *a, const Graph *g, const Node *n, const Tensor *integers) CHECKED;

#endif
