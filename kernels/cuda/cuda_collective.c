/* The local half of a sum over devices: the parts of every tensor that one device holds, added up into one tensor each.
 *
 * Called by the executor with in[t * parts + i].data NULL where another device holds that part, and out[t] where the
 * device's share of tensor t goes; tensors of which it holds nothing are left alone.  Parts are added by increasing
 * replica. */
#include <stdlib.h>

#include "graph/ir/collective.h"
#include "graph/ops/collective.gen.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/device/collective.h"

enum { THREADS = 256, PER_THREAD = 16, MOST_BLOCKS = 1024 };

typedef struct {
    GpuKernel *kernel;
    int n_tensor, n_part;
} State;

/* Sums of bits: the sign of an integer makes no difference. */
static DType signed_type(DType t)
{
    switch (t) {
    case DT_UINT8: return DT_INT8;
    case DT_UINT16: return DT_INT16;
    case DT_UINT32: return DT_INT32;
    case DT_UINT64: return DT_INT64;
    default: return t;
    }
}

static Status cuda_collective_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    State *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->n_tensor = exchange_of(n).tensors;
    s->n_part = exchange_of(n).parts;
    if ((st = cuda_kernel(&s->kernel, ctx, "add_parts", signed_type(in_value(g, n, 0)->dtype)))) {
        free(s);
        return st;
    }
    *state = s;
    return ST_OK;
}

/* The next sum of tensor t after `round` of them; false: it is complete. */
static bool next_entry(PartEntry *e, const State *s, const Tensor *in, Tensor *out, int t, int round)
{
    const Tensor *part = in + t * s->n_part;
    int seen = 0;

    *e = (PartEntry){ NULL, NULL, out[t].data, tensor_numel(part) };
    for (int i = 0; i < s->n_part; i++) {
        if (!part[i].data)
            continue;
        if (seen == 0)
            e->a = round ? out[t].data : part[i].data;
        if (seen == round + 1) {
            e->b = part[i].data;
            return true;
        }
        seen++;
    }
    return seen == 1 && !round && e->a != e->out;
}

static Status cuda_collective_launch(const KernelCtx *ctx, const State *s, PartTable *table, int n)
{
    long long most = 0;
    unsigned grid[3] = { 1, (unsigned)n, 1 };
    const unsigned block[3] = { THREADS, 1, 1 };

    if (!n)
        return ST_OK;
    for (int i = 0; i < n; i++)
        most = table->at[i].n > most ? table->at[i].n : most;
    grid[0] = cuda_blocks(most, THREADS * PER_THREAD, MOST_BLOCKS);
    TRY_CUDA(ctx, launch(ctx->stream, s->kernel, grid, block, 0, CUDA_ARGS(table)));
    return ST_OK;
}

static Status cuda_collective_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    PartTable table;
    bool more = true;

    for (int round = 0; more; round++) {
        int n = 0;

        more = false;
        for (int t = 0; t < s->n_tensor; t++) {
            if (!next_entry(&table.at[n], s, in, out, t, round))
                continue;
            more = true;
            if (++n == PART_ENTRIES) {
                TRY(cuda_collective_launch(ctx, s, &table, n));
                n = 0;
            }
        }
        TRY(cuda_collective_launch(ctx, s, &table, n));
    }
    return ST_OK;
}

DEFINE_KERNEL(cuda_all_reduce, .op = &op_AllReduce, .layouts = kernel_channels_last,
              .dtypes = DTYPES_FLOAT | DTYPES_INT, .prepare = cuda_collective_prepare, .run = cuda_collective_run,
              .release = free);
DEFINE_KERNEL(cuda_reduce_scatter, .op = &op_ReduceScatter, .dtypes = DTYPES_FLOAT | DTYPES_INT,
              .prepare = cuda_collective_prepare, .run = cuda_collective_run, .release = free);
