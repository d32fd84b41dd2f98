/* Fused with a sum: the program and the sum of one of its values as one generated kernel
 * (kernels/cuda/device/fused_sum.h), which walks its elements as a reduction does (kernels/cuda/axes.h).  Parts that
 * several blocks leave are added up by the kernel that does it for ReduceSum. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/fused.h"
#include "graph/ops/reduce.h"
#include "kernels/cuda/axes.h"
#include "kernels/cuda/fused.h"
#include "kernels/cuda/generate.h"

typedef struct {
    GpuModule *module;
    GpuKernel *kernel, *part;
    const CudaDriver *driver;
    ReductionPlan plan;
    int n_pointer, of[GENERATED_POINTERS], n_out, vector;
    size_t align[GENERATED_POINTERS], shared;
    uint32_t number[];
} Launch;

/* ---- what is summed ---- */

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
    unsigned mask = count ? 0 : (1u << x->shape.rank) - 1;

    for (int i = 0; i < count; i++)
        mask |= 1u << (axis[i] < 0 ? axis[i] + x->shape.rank : axis[i]);
    if (!dtype_is_float(x->dtype) || !axes_keep_order(x, y, mask))
        return FAIL(E_UNSUPPORTED, "%s: no kernel for such a sum", node_text(g, n));
    s->axes = axes_merge(x, mask);
    s->inner = s->axes.n ? s->axes.dim[s->axes.n - 1] : 1;
    s->from = x->dtype;
    s->to = y->dtype;
    return ST_OK;
}

/* The caller frees s->body. */
static Status read_sum(Summed *s, const Graph *g, const Node *n)
{
    Status st;

    TRY(fused_kernel_body(&s->body, g, n));
    if ((st = find_axes(s, g, n)))
        graph_free(s->body);
    return st;
}

static Status generate(Generated *k, const Summed *s)
{
    return generate_sum(k, s->body, s->to, !s->axes.n || !s->axes.reduced[s->axes.n - 1], s->inner);
}

static bool supports(const Graph *g, const Node *n)
{
    Generated *k;
    Summed s;
    bool fits;

    if (!fused_sums(n) || !(k = calloc(1, sizeof *k)))
        return false;
    if ((fits = !read_sum(&s, g, n))) {
        fits = !generate(k, &s);
        graph_free(s.body);
    }
    free(k->source);
    free(k);
    return fits;
}

/* ---- preparing ---- */

static void release(void *state)
{
    Launch *l = state;

    if (l && l->module)
        l->driver->module_free(l->module);
    free(l);
}

/* The bytes of what is summed up. */
static size_t sum_bytes(const Summed *s) { return s->from == DT_FLOAT64 ? sizeof(double) : sizeof(float); }

static void plan_launch(Launch *l, const Summed *s, const Generated *k)
{
    reduction_plan(&l->plan, &s->axes, k->vector, k->vector);
    l->plan.r.chunks = l->plan.columns ? 0 : reduction_chunks(l->plan.r.n, 0, k->vector);
    if (l->plan.columns)
        l->shared = (size_t)l->plan.x * l->plan.y * (size_t)k->vector * sum_bytes(s);
}

static Launch *create_launch(const Generated *k, const Summed *s, int n_out)
{
    Launch *l = calloc(1, sizeof *l + sizeof *k->number * (size_t)k->n_number);

    if (!l)
        return NULL;
    l->n_pointer = k->n_pointer;
    l->n_out = n_out;
    l->vector = k->vector;
    memcpy(l->of, k->of, sizeof l->of);
    memcpy(l->align, k->align, sizeof l->align);
    memcpy(l->number, k->number, sizeof *k->number * (size_t)k->n_number);
    plan_launch(l, s, k);
    return l;
}

static Status find_kernels(Launch *l, KernelCtx *ctx, const Generated *k, const Summed *s)
{
    size_t parts = l->plan.r.parts, bytes = parts > 1 ? (size_t)l->plan.r.outputs * parts * sum_bytes(s) : 0;

    l->driver = cuda_driver(ctx);
    if (!l->plan.r.outputs)
        return ST_OK;
    if (ctx->scratch_bytes < bytes)
        ctx->scratch_bytes = bytes;
    if (parts > 1)
        TRY(cuda_kernel(&l->part, ctx, s->to == s->from ? "reduce_sum_parts" : "reduce_sum_wide_parts", s->from));
    TRY_CUDA(ctx, compile(ctx->gpu, k->source, k->name, &l->module));
    TRY_CUDA(ctx, module_kernel(l->module, k->name, &l->kernel));
    return ST_OK;
}

static Status prepare_sum(Launch **out, KernelCtx *ctx, Generated *k, const Summed *s, int n_out)
{
    Launch *l;
    Status st;

    TRY(generate(k, s));
    if (!(l = create_launch(k, s, n_out)))
        return FAIL_NOMEM();
    if ((st = find_kernels(l, ctx, k, s)))
        release(l);
    else
        *out = l;
    return st;
}

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Generated *k;
    Launch *l = NULL;
    Summed s;
    Status st;

    TRY(read_sum(&s, g, n));
    st = (k = calloc(1, sizeof *k)) ? prepare_sum(&l, ctx, k, &s, n->n_out) : FAIL_NOMEM();
    if (k)
        free(k->source);
    free(k);
    graph_free(s.body);
    *state = l;
    return st;
}

/* ---- running ---- */

static Status launch_sum(const KernelCtx *ctx, const Launch *l, void **args)
{
    const ReductionPlan *p = &l->plan;
    const unsigned grid[3] = { p->columns ? reduction_column_blocks(p, l->vector) : reduction_run_blocks(p), 1, 1 };
    const unsigned block[3] = { p->columns ? p->x : REDUCTION_THREADS, p->columns ? p->y : 1, 1 };

    TRY_CUDA(ctx, launch(ctx->stream, l->kernel, grid, block, l->shared, args));
    return ST_OK;
}

static Status run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Launch *l = state;
    void *pointer[GENERATED_POINTERS], *args[GENERATED_POINTERS + 6], *y = out[l->n_out - 1].data;
    int aligned = 1, n = l->n_pointer;

    if (!l->plan.r.outputs)
        return ST_OK;
    for (int i = 0; i < n; i++) {
        pointer[i] = l->of[i] >= 0 ? in[l->of[i]].data : out[-1 - l->of[i]].data;
        args[i] = &pointer[i];
        aligned = aligned && (uintptr_t)pointer[i] % l->align[i] == 0;
    }
    args[n] = &y;
    args[n + 1] = &ctx->scratch;
    args[n + 2] = &l->plan.r;
    args[n + 3] = &l->plan.lanes;
    args[n + 4] = &aligned;
    args[n + 5] = l->number;
    TRY(launch_sum(ctx, l, args));
    return l->plan.r.parts == 1 ? ST_OK : reduction_add_parts(ctx, &l->plan, l->part, ctx->scratch, y);
}

DEFINE_KERNEL(cuda_fused_sum, .op = &op_Fused, .layouts = kernel_channels_last, .supports = supports,
              .prepare = prepare, .run = run, .release = release);
