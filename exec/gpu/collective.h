/* One device's part in a collective, as work for its stream. */
#ifndef DPX_GPU_COLLECTIVE_H
#define DPX_GPU_COLLECTIVE_H

#include "exec/backend.h"
#include "passes/plan_memory.h"

typedef struct GpuCollective GpuCollective;

/* For device `device` of `n_device`, on its thread; `shared`: all devices take part, else what it reads is its own.
 * `bucket_bytes` receives the bytes of the bucket that running it needs. */
Status gpu_collective_create(GpuCollective **out, size_t *bucket_bytes, KernelCtx *ctx, const Graph *g, const Node *n,
                             const MemoryPlan *plan, int device, int n_device, bool shared) CHECKED;
void gpu_collective_free(GpuCollective *c);         /* NULL is legal */
/* Gives the work to ctx->stream.  in, out: all of the node's tensors, with data NULL where another device holds them; `comm`:
 * NULL unless shared. */
Status gpu_collective_run(GpuCollective *c, const KernelCtx *ctx, GpuComm *comm, void *bucket, const Tensor *in, Tensor *out) CHECKED;

#endif
