/* Weights that a file holds as integers, and that are trained as floats. */
#ifndef DPX_INTEGER_WEIGHTS_H
#define DPX_INTEGER_WEIGHTS_H

#include "graph/ir/graph.h"

/* Turns the float masters of the pass integer-weights into integers of the same names, in a model to be written. */
Status integer_weights_write(Graph *g) CHECKED;

/* For a file in which masters stay floats: removes the quantisers of 32-bit integers, which ONNX's QuantizeLinear
 * cannot make. */
Status integer_weights_standard(Graph *g) CHECKED;

#endif
