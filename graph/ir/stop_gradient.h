/* What stops gradients: operators whose output is input 0, and whose gradient is zero. */
#ifndef DPX_IR_STOP_GRADIENT_H
#define DPX_IR_STOP_GRADIENT_H

#include "graph/ir/op.h"

static inline bool op_stops(const OpDef *op) { return op->same & SAME_TENSOR && op->flags & OPF_ZERO_GRAD; }

#endif
