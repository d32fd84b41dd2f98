/* What CPU devices can do, as the passes ask it: what has no kernel here is left to the reference, which fuses nothing
 * and stores everything by rows. */
#include "kernels/backend.h"

static bool computes(const Graph *g, const Node *n) { return kernel_find(kernels_cpu, kernels_cpu_len, g, n); }

static bool fuses(const Target *t, const OpDef *op) { return kernel_exists(kernels_cpu, kernels_cpu_len, op, t); }

Target cpu_target(DType precision, bool tf32)
{
    return (Target){ .precision = precision, .tf32 = tf32, .computes = computes, .fuses = fuses };
}
