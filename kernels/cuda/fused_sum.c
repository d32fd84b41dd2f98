/* Fused with a sum: the program and the sum of one of its values as one generated kernel
 * (kernels/cuda/device/fused_sum.h), which walks its elements as a reduction does (kernels/cuda/axes.h).  Parts that
 * several blocks leave are added up by the kernel that does it for ReduceSum. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/fused.h"
#include "graph/ops/fused.gen.h"
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

typedef struct {
    Graph *body;
    Axes axes;
    DType from, to;
    int64_t inner;
} Summed;

static Status find_axes(Summed *s, const Graph *g, const Node *n)
{
    const Value *x = value(s->body, s->body->output[n->n_out - 1].value), *y = value(g, n->out[n->n_out - 1]);
    int count;
    const int64_t *axis = node_ints(n, "axes", &count);
    unsigned mask = count ? 0 : (1u << x->shape->rank) - 1;

    for (int i = 0; i < count; i++)
        mask |= 1u << (axis[i] < 0 ? axis[i] + x->shape->rank : axis[i]);
    if (!dtype_is_float(x->dtype) || !axes_keep_order(x, y, mask))
        return FAIL(E_UNSUPPORTED, "%s: no kernel for such a sum", node_text(g, n));
    s->axes = axes_merge(x, mask);
    s->inner = s->axes.n ? s->axes.dim[s->axes.n - 1] : 1;
    s->from = x->dtype;
    s->to = y->dtype;
    return ST_OK;
}

/* The caller frees s->body, also after a failure. */
static Status read_sum(Summed *s, const Graph *g, const Node *n)
{
    TRY(fused_kernel_body(&s->body, g, n));
    return find_axes(s, g, n);
}

static Status fused_sum_generate(Generated *k, const Summed *s)
{
    return generate_sum(k, s->body, s->to, !s->axes.n || !s->axes.reduced[s->axes.n - 1], s->inner);
}

static bool fused_sum_supports(const Graph *g, const Node *n)
{
    Generated *k = fused_sums(n) ? calloc(1, sizeof *k) : NULL;
    Summed s = { 0 };
    const bool fits = k && !read_sum(&s, g, n) && !fused_sum_generate(k, &s);

    generated_free(k);
    graph_free(s.body);
    return fits;
}

/* ---- preparing ---- */

/* The bytes of the summed output. */
static size_t sum_bytes(const Summed *s) { return s->from == DT_FLOAT64 ? sizeof(double) : sizeof(float); }

static void plan_launch(Launch *l, const Summed *s, const Generated *k)
{
    reduction_plan(&l->plan, &s->axes, k->vector, k->vector);
    l->plan.r.chunks = l->plan.columns ? 0 : reduction_chunks(l->plan.r.n, 0, k->vector);
    if (l->plan.columns)
        l->shared = (size_t)l->plan.x * l->plan.y * (size_t)k->vector * sum_bytes(s);
}

static Status fused_sum_find_kernels(Launch *l, KernelCtx *ctx, const Generated *k, const Summed *s)
{
    size_t parts = l->plan.r.parts, bytes = parts > 1 ? (size_t)l->plan.r.outputs * parts * sum_bytes(s) : 0;

    if (ctx->scratch_bytes < bytes)
        ctx->scratch_bytes = bytes;
    if (l->plan.r.outputs && parts > 1)
        TRY(cuda_kernel(&l->part, ctx, s->to == s->from ? "reduce_sum_parts" : "reduce_sum_wide_parts", s->from));
    return generated_compile(&l->code, ctx, k, l->plan.r.outputs);
}

static Status fused_sum_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Generated *k = calloc(1, sizeof *k);
    Launch *l = calloc(1, sizeof *l);
    Summed s = { 0 };
    Status st = k && l ? read_sum(&s, g, n) : FAIL_NOMEM();

    if (!st && !(st = fused_sum_generate(k, &s))) {
        l->n_out = n->n_out;
        l->vector = k->vector;
        plan_launch(l, &s, k);
        st = fused_sum_find_kernels(l, ctx, k, &s);
    }
    if (st)
        generated_release(l);
    else
        *state = l;
    generated_free(k);
    graph_free(s.body);
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
