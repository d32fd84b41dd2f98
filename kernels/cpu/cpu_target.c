/* The Target of CPU devices, which passes ask.  A node without a kernel here goes to the reference, which fuses nothing
 * and stores everything by rows. */
#include "graph/ops/batchnorm.gen.h"
#include "graph/ops/fused.gen.h"
#include "kernels/cpu/onednn.h"

/* What a kernel takes does not depend on the instruction set. */
static bool computes(const Graph *g, const Node *n)
{
    const CpuKernels cpu = cpu_kernels(NULL);

    return kernel_find(cpu.kernel, cpu.n, g, n);
}

static bool is_behind_relu(const Node *n)
{
    return (n->op == &op_BatchNormGradStats && has_in(n, 5)) || (n->op == &op_BatchNormGradInput && has_in(n, 7));
}

static bool computes_apart(const Graph *g, const Node *n) { return !is_behind_relu(n) && computes(g, n); }

static bool fuses(const Target *t, const OpDef *op)
{
    const CpuKernels cpu = cpu_kernels(NULL);

    return (t->joins || op != &op_Fused) && kernel_exists(cpu.kernel, cpu.n, op, t);
}

static bool joins(const Graph *g, const Node *n)
{
    const CpuKernels cpu = cpu_kernels(NULL);
    const Kernel *k = kernel_find(cpu.kernel, cpu.n, g, n);

    return k && k->by_rows;
}

/* Convolutions of float32 work on blocks of channels, and would put what is stored otherwise in blocks for themselves.
 */
static int cpu_target_layouts(const Target *t, const Graph *g, const Node *n, NodeLayouts out[TARGET_LAYOUTS])
{
    (void)t, (void)g, (void)n;
    out[0] = (NodeLayouts){ onednn_blocked(), LAYOUT_ROWS };
    return 1;
}

Target cpu_target(DType precision, bool tf32, bool blocks, bool fuse)
{
    return (Target){ .precision = precision,
                     .tf32 = tf32,
                     .align = TARGET_ALIGN,
                     .computes = fuse ? computes : computes_apart,
                     .fuses = fuses,
                     .joins = fuse ? joins : NULL,
                     .layouts = blocks ? cpu_target_layouts : NULL };
}
