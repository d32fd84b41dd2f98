/* Matrix products by cublasLt, as prepared plans: of the algorithms that heuristics offer the first is taken, or the
 * one that is measured to be the fastest. */
#include "kernels/cuda/plugin/gemm.h"

static Status gemm_choose(GemmPlan *p)
{
    cublasLtMatmulHeuristicResult_t found[GEMM_CANDIDATES];
    const bool tune = p->plan.device->tune;
    int n = 0;

    TRY(gemm_ask(p, found, &n));
    if (p->desc.activation == GEMM_RELU && !p->desc.gradient)
        TRY(gemm_keep_nan(p, found, &n, tune ? n : 1));
    p->algo = found[0].algo;
    p->workspace = found[0].workspaceSize;
    return tune ? gemm_tune(p, found, n) : ST_OK;
}

/* On a described device the algorithm stays open, and with it how much of the largest workspace it would take. */
Status gemm_plan(GpuDevice *d, const GpuGemm *desc, GpuPlan **out, size_t *workspace)
{
    GemmPlan *p;
    Status st;

    TRY(gemm_describe(d, desc, &p));
    p->workspace = p->empty ? 0 : GEMM_WORKSPACE;
    if (!p->empty && d->index >= 0 && (st = gemm_choose(p))) {
        plan_free(&p->plan);
        return st;
    }
    *workspace = p->workspace;
    *out = &p->plan;
    return ST_OK;
}
