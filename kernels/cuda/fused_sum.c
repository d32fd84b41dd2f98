/* Fused with a sum: the program and the sum of one of its values as one generated kernel
 * (kernels/cuda/device/fused_sum.h), which walks its elements as a reduction does (kernels/cuda/axes.h).  Parts that
 * several blocks leave are added up by the kernel that does it for ReduceSum. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/fused.gen.h"
#include "graph/ops/fused.h"
#include "graph/ops/reduce.h"
#include "kernels/cuda/axes.h"
#include "kernels/cuda/cuda_fused.h"
#include "kernels/cuda/cuda_generate.h"

typedef struct {
    GeneratedCode code;
    GpuKernel *part;
    ReductionPlan plan;
    int n_out, vector;
    size_t shared;
} Launch;

/* ---- the summed output ---- */

static const Value *summed(const Graph *body) { return value(body, body->output[body->n_output - 1].value); }

static const Value *sum_of(const Graph *g, const Node *n) { return value(g, n->out[n->n_out - 1]); }

/* The body, which the caller frees, also after a failure; the axes of the output that is summed. */
static Status read_sum(Graph **body, Axes *axes, const Graph *g, const Node *n)
{
    const Value *x;
    int count;
    const int64_t *axis = node_ints(n, "axes", &count);
    unsigned mask = 0;

    TRY(fused_kernel_body(body, g, n));
    x = summed(*body);
    for (int i = 0; i < count; i++)
        mask |= 1u << (axis[i] < 0 ? axis[i] + x->shape->rank : axis[i]);
    if (!count)
        mask = (1u << x->shape->rank) - 1;
    if (!dtype_is_float(x->dtype) || !axes_keep_order(x, sum_of(g, n), mask))
        return FAIL(E_UNSUPPORTED, "%s: no kernel for such a sum", node_text(g, n));
    *axes = axes_merge(x, mask);
    return ST_OK;
}

/* Into the type `to`. */
static Status fused_sum_generate(Generated *k, const Graph *body, const Axes *a, DType to)
{
    return generate_sum(k, body, to, !a->n || !a->reduced[a->n - 1], a->n ? a->dim[a->n - 1] : 1);
}

/* Out of memory counts as supported: preparing, which needs as much, then reports it. */
static bool fused_sum_supports(const Graph *g, const Node *n)
{
    Generated *k;
    Graph *body = NULL;
    Axes axes = { 0 };
    Status st;

    if (!fused_sums(n))
        return false;
    k = calloc(1, sizeof *k);
    st = k ? read_sum(&body, &axes, g, n) : FAIL_NOMEM();
    st = st ? st : fused_sum_generate(k, body, &axes, sum_of(g, n)->dtype);
    generated_free(k);
    graph_free(body);
    return !st || st == E_NOMEM;
}

/* ---- preparing ---- */

/* The bytes of a sum. */
static size_t sum_bytes(DType from) { return from == DT_FLOAT64 ? sizeof(double) : sizeof(float); }

static void plan_launch(Launch *l, const Axes *axes, DType from, int vector)
{
    reduction_plan(&l->plan, axes, vector, vector);
    l->vector = vector;
    l->plan.r.chunks = l->plan.columns ? 0 : reduction_chunks(l->plan.r.n, 0, vector);
    if (l->plan.columns)
        l->shared = (size_t)l->plan.x * l->plan.y * (size_t)vector * sum_bytes(from);
}

/* For sums of type `from` into type `to`. */
static Status fused_sum_find_kernels(Launch *l, KernelCtx *ctx, const Generated *k, DType from, DType to)
{
    size_t parts = l->plan.r.parts, bytes = parts > 1 ? (size_t)l->plan.r.outputs * parts * sum_bytes(from) : 0;

    if (ctx->scratch_bytes < bytes)
        ctx->scratch_bytes = bytes;
    if (l->plan.r.outputs && parts > 1)
        TRY(cuda_kernel(&l->part, ctx, to == from ? "reduce_sum_parts" : "reduce_sum_wide_parts", from));
    return generated_compile(&l->code, ctx, k, l->plan.r.outputs);
}

static Status fused_sum_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Generated *k = calloc(1, sizeof *k);
    Launch *l = calloc(1, sizeof *l);
    const DType to = sum_of(g, n)->dtype;
    Graph *body = NULL;
    Axes axes = { 0 };
    Status st = k && l ? read_sum(&body, &axes, g, n) : FAIL_NOMEM();

    if (!st && !(st = fused_sum_generate(k, body, &axes, to))) {
        const DType from = summed(body)->dtype;

        l->n_out = n->n_out;
        plan_launch(l, &axes, from, k->vector);
        st = fused_sum_find_kernels(l, ctx, k, from, to);
    }
    if (st)
        generated_release(l);
    else
        *state = l;
    generated_free(k);
    graph_free(body);
    return st;
}

/* ---- running ---- */

static Status launch_sum(const KernelCtx *ctx, const Launch *l, void **args)
{
    const ReductionPlan *p = &l->plan;
    const unsigned grid[3] = { p->columns ? reduction_column_blocks(p, l->vector) : reduction_run_blocks(p), 1, 1 };
    const unsigned block[3] = { p->columns ? p->x : REDUCTION_THREADS, p->columns ? p->y : 1, 1 };

    TRY_CUDA(ctx, launch(ctx->stream, l->code.kernel, grid, block, l->shared, args));
    return ST_OK;
}

static Status fused_sum_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Launch *l = state;
    void *pointer[GENERATED_POINTERS], *args[GENERATED_POINTERS + 6], *y = out[l->n_out - 1].data;
    int aligned, n = l->code.n_pointer;

    if (!l->plan.r.outputs)
        return ST_OK;
    aligned = generated_bind(&l->code, in, out, pointer, args);
    args[n] = &y;
    args[n + 1] = &ctx->scratch;
    args[n + 2] = &l->plan.r;
    args[n + 3] = &l->plan.lanes;
    args[n + 4] = &aligned;
    args[n + 5] = l->code.number;
    TRY(launch_sum(ctx, l, args));
    return l->plan.r.parts == 1 ? ST_OK : reduction_add_parts(ctx, &l->plan, l->part, ctx->scratch, y);
}

DEFINE_KERNEL(cuda_fused_sum, .op = &op_Fused, .layouts = kernel_channels_last, .supports = fused_sum_supports,
              .prepare = fused_sum_prepare, .run = fused_sum_run, .release = generated_release);
