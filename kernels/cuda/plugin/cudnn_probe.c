/* A test on the device: does a cuDNN plan with a Relu keep a NaN?
 *
 * Its documentation says that Relu is max(x, 0), which leaves open whether a NaN stays one or becomes 0, and the
 * attribute that once chose is without effect.  Here it must stay (gemm_probe.c says why).  So a plan with a Relu is
 * run once before it is taken, on memory of its own: the bias NaN (all bits set, in every type), all else 0, so that
 * all of the result, 0 before, has to be NaN. Looked at are its first and its last elements: of the tiles that an
 * engine works in these are the whole ones and those that the end cuts off. */
#include "kernels/cuda/plugin/cudnn_tune.h"

enum { LOOKED_AT = 1 << 20 }; /* bytes at either end */

static size_t cudnn_probe_bytes_of(const CudnnPlan *p, int buffer)
{
    for (int i = 0; i < p->n; i++)
        if (p->bind[i].kind == BIND_BUFFER && p->bind[i].buffer == buffer)
            return p->bind[i].bytes;
    return 0;
}

static Status cudnn_probe_look(bool *out, const CudnnBench *b, const CudnnPlan *p, const CudnnRequest *r)
{
    const size_t all = cudnn_probe_bytes_of(p, r->nan_out), n = all < LOOKED_AT ? all : LOOKED_AT;
    const char *at = b->buffer[r->nan_out];

    TRY(memory_all_nan(out, b->stream, at, n, r->dtype));
    return *out ? memory_all_nan(out, b->stream, at + all - n, n, r->dtype) : ST_OK;
}

Status cudnn_keeps_nan(bool *out, CudnnPlan *plan, const CudnnRequest *r)
{
    GpuDevice *d = plan->plan.device;
    CudnnBench b = { .device = d };
    Status st;

    TRY_TO(done, st, cudnn_bench_open(&b, &plan, 1));
    TRY_TO(done, st,
           cudart_check(
               d, "cudaMemsetAsync",
               cudaMemsetAsync(b.buffer[r->nan_in], 0xff, cudnn_probe_bytes_of(plan, r->nan_in), b.stream->stream)));
    TRY_TO(done, st, plan->plan.is->run(&plan->plan, b.stream, b.buffer, b.workspace));
    TRY_TO(done, st, cudnn_probe_look(out, &b, plan, r));
done:
    cudnn_bench_close(&b);
    return st;
}
