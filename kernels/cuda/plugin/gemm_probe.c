/* A test on the device: does an algorithm of cublasLt for a product with Relu keep a NaN?
 *
 * The documentation says max(x, 0), which leaves open whether a NaN stays one or becomes 0.  Here it must stay: a 0
 * would hide weights that are broken, and from the loss scale of float16 that a step has overflowed.  It depends on the
 * algorithm, and so on the shape: on an H100, cublasLt 13.1 keeps it in a product of 64 by 64 and loses it in one of 1
 * by 4.  So each algorithm that might be taken computes the product itself once, on memory of its own: A NaN (all bits
 * set, in every type), all else 0, so that all of the result, 0 before, has to be NaN.  Looked at are its first and its
 * last elements: of the tiles that an algorithm works in these are the whole ones and those that the end cuts off. */
#include <string.h>

#include "kernels/cuda/plugin/gemm.h"

enum { LOOKED_AT = 1 << 20 }; /* bytes at either end */

static Status gemm_probe_look(bool *kept, const GemmPlan *p, const GemmBench *b, size_t all)
{
    GpuStream stream = { p->plan.device, b->stream };
    const size_t n = all < LOOKED_AT ? all : LOOKED_AT;
    const char *at = b->buffer[GEMM_C];

    TRY(memory_all_nan(kept, &stream, at, n, p->desc.dtype_c));
    return *kept ? memory_all_nan(kept, &stream, at + all - n, n, p->desc.dtype_c) : ST_OK;
}

/* An algorithm that is refused after all keeps nothing. */
static Status try_one(bool *kept, GemmPlan *p, const GemmBench *b, const cublasLtMatmulHeuristicResult_t *c)
{
    const size_t all = (size_t)(p->desc.m * p->desc.n) * dtype_size(p->desc.dtype_c);

    *kept = false;
    TRY_CUDART(p->plan.device, cudaMemsetAsync(b->buffer[GEMM_C], 0, all, b->stream));
    if (gemm_enqueue(p, &c->algo, b->stream, b->buffer, b->workspace, c->workspaceSize))
        return ST_OK;
    return gemm_probe_look(kept, p, b, all);
}

/* Moves the first `most` of those that keep a NaN to the front; their number to *n. */
static Status select_keepers(GemmPlan *p, const GemmBench *b, cublasLtMatmulHeuristicResult_t *found, int *n, int most)
{
    const GpuGemm *g = &p->desc;
    const size_t rows = (size_t)(g->trans_a ? g->k : g->m);
    int kept = 0;
    bool keeps;

    TRY_CUDART(p->plan.device,
               cudaMemsetAsync(b->buffer[GEMM_A], 0xff, rows * (size_t)g->lda * dtype_size(g->dtype), b->stream));
    for (int i = 0; i < *n && kept < most; i++) {
        TRY(try_one(&keeps, p, b, &found[i]));
        if (keeps)
            memmove(&found[kept++], &found[i], sizeof *found);
    }
    *n = kept;
    return ST_OK;
}

Status gemm_keep_nan(GemmPlan *p, cublasLtMatmulHeuristicResult_t *found, int *n, int most)
{
    const GpuGemm *g = &p->desc;
    GpuDevice *d = p->plan.device;
    GemmBench b = { 0 };
    Status st = E_UNSUPPORTED;

    if (g->batch == 1 && g->ldc == g->n && g->lda == (g->trans_a ? g->m : g->k) && g->beta == 0) {
        st = gemm_bench_open(d, &b, g, found, *n);
        if (!st)
            st = select_keepers(p, &b, found, n, most);
        gemm_bench_close(d, &b);
    }
    if (st == E_DEVICE)
        return st;
    if (st || !*n)
        return FAIL(
            E_UNSUPPORTED,
            "%s: no algorithm of cublasLt keeps a NaN in the Relu of a product m=%lld n=%lld k=%lld of %s into %s",
            d->label, (long long)g->m, (long long)g->n, (long long)g->k, dtype_name(g->dtype), dtype_name(g->dtype_c));
    return ST_OK;
}
