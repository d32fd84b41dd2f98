/* What stops gradients: operators whose output is input 0, and whose gradient is zero. */
#ifndef DPX_STOP_H
#define DPX_STOP_H

#include "graph/op.h"

static inline bool op_stops(const OpDef *op) { return op->same & SAME_TENSOR && op->flags & OPF_ZERO_GRAD; }

#endif
