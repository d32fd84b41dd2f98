/* One device's part in a collective, as work for its stream. */
#ifndef DPX_GPU_COLLECTIVE_H
#define DPX_GPU_COLLECTIVE_H

#include "graph/ir/collective.h"
#include "kernels/backend.h"
#include "passes/plan/plan_memory.h"

typedef struct GpuCollective GpuCollective;

/* Who takes part, and how sums are added. */
typedef struct {
    int device, n_device; /* this one, of all */
    bool shared;          /* all devices take part, else what it reads is its own */
    bool by_tree;         /* in the order of graph/tensor/reduce_tree.h, else in the communicator's */
} GpuSharing;

/* On the device's thread.  `bucket_bytes` receives the bytes of the bucket that running it needs. */
Status gpu_collective_create(GpuCollective **out, size_t *bucket_bytes, KernelCtx *ctx, const Graph *g, const Node *n,
                             const MemoryPlan *plan, const GpuSharing *sharing) CHECKED;
void gpu_collective_free(GpuCollective *c); /* NULL is legal */
/* Does the order of adding depend on the devices, for want of by_tree? */
bool gpu_collective_has_order(const GpuCollective *c);
/* Gives the work to ctx->stream.  in, out: all of the node's tensors, with data NULL where another device holds them;
 * `comm`: NULL unless shared. */
Status gpu_collective_run(GpuCollective *c, const KernelCtx *ctx, GpuComm *comm, void *bucket, const Tensor *in,
                          Tensor *out) CHECKED;

#endif
