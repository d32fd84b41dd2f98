/* What cublasLt's Relu makes of a NaN, found out on the device.
 *
 * Its documentation says max(x, 0), which leaves open whether a NaN stays one or becomes 0.  Here it must stay: a 0
 * would hide weights that are broken, and from the loss scale of float16 that a step has overflowed.  So the first time
 * that a product with Relu is planned, for a device and types, a small one is computed there whose first row is NaN, by
 * every algorithm that heuristics offer for it.  Where one of them makes a number of it, or none runs, no product with
 * Relu is planned for these types: the engine then asks for the product alone and has its own kernel do the rest. */
#include "kernels/cuda/plugin/gemm.h"

enum { SIDE = 64 };

static GpuGemm small_product(DType dtype, DType dtype_c)
{
    return (GpuGemm){ .dtype = dtype,
                      .dtype_c = dtype_c,
                      .m = SIDE,
                      .n = SIDE,
                      .k = SIDE,
                      .batch = 1,
                      .lda = SIDE,
                      .ldb = SIDE,
                      .ldc = SIDE,
                      .alpha = 1,
                      .bias = true,
                      .activation = GEMM_RELU,
                      .align = 16 };
}

/* Of the first row of C, which holds numbers before; NAN_UNASKED when the algorithm is refused after all. */
static Status try_one(NanFate *fate, GemmPlan *p, const GemmBench *b, const cublasLtMatmulHeuristicResult_t *c)
{
    GpuDevice *d = p->plan.device;
    GpuStream stream = { d, b->stream };
    size_t bytes = SIDE * dtype_size(p->desc.dtype_c);
    bool kept;

    *fate = NAN_UNASKED;
    TRY_CUDART(d, cudaMemsetAsync(b->buffer[GEMM_C], 0, bytes, b->stream));
    if (c->state || gemm_enqueue(p, &c->algo, b->stream, b->buffer, b->workspace, c->workspaceSize))
        return ST_OK;
    TRY(memory_all_nan(&kept, &stream, b->buffer[GEMM_C], bytes, p->desc.dtype_c));
    *fate = kept ? NAN_KEPT : NAN_LOST;
    return ST_OK;
}

/* NAN_KEPT when all that run keep it, and one does.  A is 0 but for a NaN (all bits set, in every type) in its first
 * row, B and the bias are 0. */
static Status try_all(NanFate *out, GemmPlan *p, const cublasLtMatmulHeuristicResult_t *candidate, int n)
{
    GpuDevice *d = p->plan.device;
    NanFate fate = NAN_UNASKED, all = NAN_UNASKED;
    GemmBench b = { 0 };
    Status st;

    TRY_TO(done, st, gemm_bench_open(d, &b, &p->desc, candidate, n));
    TRY_TO(done, st,
           cudart_check(d, "cudaMemsetAsync",
                        cudaMemsetAsync(b.buffer[GEMM_A], 0xff, dtype_size(p->desc.dtype), b.stream)));
    for (int i = 0; i < n && all != NAN_LOST; i++) {
        TRY_TO(done, st, try_one(&fate, p, &b, &candidate[i]));
        all = fate == NAN_UNASKED ? all : fate;
    }
    *out = all == NAN_KEPT ? NAN_KEPT : NAN_LOST;
done:
    gemm_bench_close(d, &b);
    return st;
}

static Status probe(NanFate *out, GpuDevice *d, DType dtype, DType dtype_c)
{
    GpuGemm g = small_product(dtype, dtype_c);
    cublasLtMatmulHeuristicResult_t found[GEMM_CANDIDATES];
    GemmPlan *p;
    int n = 0;
    Status st;

    TRY(gemm_describe(d, &g, &p));
    if (!(st = gemm_ask(p, found, &n)))
        st = try_all(out, p, found, n);
    plan_free(&p->plan);
    return st;
}

Status gemm_relu_keeps_nan(GpuDevice *d, DType dtype, DType dtype_c)
{
    NanFate *fate = &d->relu_nan[dtype][dtype_c];

    if (*fate == NAN_UNASKED)
        TRY(probe(fate, d, dtype, dtype_c));
    if (*fate == NAN_LOST)
        return FAIL(E_UNSUPPORTED, "%s: cublasLt's Relu of a product of %s into %s makes a number of a NaN", d->label,
                    dtype_name(dtype), dtype_name(dtype_c));
    return ST_OK;
}
