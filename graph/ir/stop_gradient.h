/* Stop-gradient operators: output 0 is input 0, the gradient is zero. */
#ifndef DPX_IR_STOP_GRADIENT_H
#define DPX_IR_STOP_GRADIENT_H

#include "graph/ir/op.h"

static inline bool op_stops(const OpDef *op) { return op->same & SAME_TENSOR && op->flags & OPF_ZERO_GRAD; }

#endif
