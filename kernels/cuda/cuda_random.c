/* Dropout and random tensors (kernels/cuda/device/random.cu): the same draws as on the CPU, however the batch is
 * split. */
#include <stdlib.h>

#include "graph/ops/random.gen.h"
#include "kernels/cuda/device/random.h"
#include "kernels/cuda/rows.h"
#include "kernels/ref/random_draw.h"

typedef struct {
    RandomBox box;
    unsigned blocks;
    GpuKernel *kernel;
} Plan;

/* Elements of a group: whole accesses of 16 bytes and whole blocks of Philox. */
static int64_t group_of(DType t) { return cuda_chunk(t) < 4 ? 4 : cuda_chunk(t); }

static int64_t groups_of(const RandomBox *p, int64_t size)
{
    const int64_t offset = p->outer == 1 || p->global_row % size == 0 ? p->global_start % size : size - 1;

    return (p->row + offset + size - 1) / size;
}

static RandomBox cuda_random_box_of(const Node *n, const Shape *s, DType t)
{
    const PhiloxSpan span = random_span(n, s);
    RandomBox p = { .outer = span.outer,
                    .row = span.row,
                    .global_row = span.global_row,
                    .global_start = span.global_start,
                    .seed = (uint64_t)node_int(n, "seed"),
                    .key = (uint32_t)node_int(n, "key") };

    p.groups = groups_of(&p, group_of(t));
    return p;
}

static Status cuda_random_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool dropout = n->op == &op_RandomDropout;
    const Value *y = value(g, n->out[0]);
    const double ratio = dropout ? node_float(n, "ratio") : 0;
    Plan *p = calloc(1, sizeof *p);
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->box = cuda_random_box_of(n, y->shape, y->dtype);
    p->box.threshold = philox_threshold(ratio);
    p->box.scale = dropout_scale(ratio);
    p->box.normal = !dropout && node_int(n, "normal");
    p->box.a = dropout ? 0 : node_float(n, "a");
    p->box.b = dropout ? 0 : node_float(n, "b");
    p->blocks = cuda_blocks(p->box.outer * p->box.groups, RANDOM_THREADS, MOST_BLOCKS);
    if ((st = cuda_kernel(&p->kernel, ctx, dropout ? "random_dropout" : "random_numbers", y->dtype))) {
        free(p);
        return st;
    }
    *state = p;
    return ST_OK;
}

static Status run_dropout(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Plan *p = state;

    if (!tensor_numel(out))
        return ST_OK;
    return cuda_launch(ctx, p->kernel, p->blocks, RANDOM_THREADS, 0,
                       CUDA_ARGS(&p->box, (void *)&in[0].data, (void *)&in[1].data, &out[0].data, &out[1].data));
}

static Status run_numbers(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Plan *p = state;

    if (!tensor_numel(out))
        return ST_OK;
    return cuda_launch(ctx, p->kernel, p->blocks, RANDOM_THREADS, 0,
                       CUDA_ARGS(&p->box, (void *)&in[0].data, &out[0].data));
}

DEFINE_KERNEL(cuda_random_dropout, .op = &op_RandomDropout, .dtypes = DTYPES_FLOAT, .prepare = cuda_random_prepare,
              .run = run_dropout, .release = free);
DEFINE_KERNEL(cuda_random, .op = &op_Random, .prepare = cuda_random_prepare, .run = run_numbers, .release = free);
