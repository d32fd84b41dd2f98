/* One device's part in a collective, as work for its stream. */
#ifndef DPX_GPU_COLLECTIVE_H
#define DPX_GPU_COLLECTIVE_H

#include "graph/ir/collective.h"
#include "kernels/backend.h"
#include "passes/plan/plan_memory.h"

typedef struct GpuCollective GpuCollective;

/* Which devices take part, and how sums are added. */
typedef struct {
    int device, n_device; /* this device, of all */
    bool shared;          /* all devices take part; false: this device holds all inputs that it needs */
    bool by_tree;         /* sums are added in the order of graph/tensor/reduce_tree.h, else in the communicator's */
} GpuSharing;

/* Prepares the collective, on the device's thread.  *bucket_bytes: the size of the bucket that it needs. */
Status gpu_collective_create(GpuCollective **out, size_t *bucket_bytes, KernelCtx *ctx, const Graph *g, const Node *n,
                             const MemoryPlan *plan, const GpuSharing *sharing) CHECKED;
void gpu_collective_free(GpuCollective *c); /* NULL is legal */
/* Whether the order of adding depends on the devices, because by_tree is not set. */
bool gpu_collective_has_order(const GpuCollective *c);
/* Gives the work to ctx->stream.  in, out: all of the node's tensors; data is NULL where another device holds them.
 * `comm` is NULL unless the collective is shared. */
Status gpu_collective_run(GpuCollective *c, const KernelCtx *ctx, GpuComm *comm, void *bucket, const Tensor *in,
                          Tensor *out) CHECKED;

#endif
