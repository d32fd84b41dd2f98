/* Weights that a file holds as integers, and that are trained as floats. */
#ifndef DPX_INTEGER_WEIGHTS_H
#define DPX_INTEGER_WEIGHTS_H

#include "graph/ir/graph.h"

/* Weights that the pass integer-weights made floats of become integers again, under their names: for a model that is
 * written. */
Status integer_weights_write(Graph *g) CHECKED;

/* Where masters stay floats in a file: those of integers of 32 bits, which no QuantizeLinear of ONNX makes, are read as
 * they are. */
Status integer_weights_standard(Graph *g) CHECKED;

#endif
