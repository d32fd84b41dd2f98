/* Batch normalisation: statistics and sums of the gradient by chunks (device/channel_sums.cuh), the rest element by
 * element.
 *
 * Data with one position per channel, [N, C], counts as stored channels last.  Statistics, scale and bias may be
 * float32 where the data has 16 bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ops/batchnorm.gen.h"
#include "kernels/cuda/cuda_move.h"
#include "kernels/ref/batch_norm.h"

/* SUM_BLOCKS: multiprocessors of the device for which sums with the channels last are laid out, one block for each. */
enum { BLOCKS = 1024, COLUMNS = 32, CHUNK_ELEMENTS = 4096, CHUNK_ROWS = 64, SUM_BLOCKS = 132 };

/* The kernels' Given: the numbers of each channel; sums that are not of a Relu read the mean alone. */
typedef struct {
    const void *mean, *var, *scale, *bias;
} ApplyGiven;
typedef struct {
    const void *mean, *var, *scale, *sums, *count, *bias;
    void *dscale, *dbias;
} InputGiven;
typedef struct {
    const void *mean, *var;
    void *next_mean, *next_var;
    double keep, take;
    bool unbiased;
} Running;
/* The results of statistics: the row, or the others. */
typedef struct {
    double *row;
    void *mean, *var, *count;
    Running running;
} Outcome;

/* Kernels: [reads whole vectors]. */
typedef struct {
    ChannelBox box;     /* units and parts of single elements */
    bool last, relu;    /* relu: dy is that of the Relu behind */
    bool dscale, dbias; /* wanted */
    size_t size;
    int64_t numel;
    int threads;     /* of a block of sums over channels that are last; 0: no sums */
    MergePlan merge; /* of BatchNormMoments and BatchNormMerge */
    GpuKernel *kernel[2];
} State;

/* ---- geometry ---- */

/* Chunks that fill the device, each with work for a block. */
static int chunks_of(const ChannelBox *box, bool last)
{
    int64_t rows = box->outer * box->inner, wide = last ? (box->channels + 127) / 128 : box->channels, chunks;
    int64_t most = rows / (last ? CHUNK_ROWS : CHUNK_ELEMENTS) + 1;

    chunks = 2 * BLOCKS / (wide ? wide : 1);
    chunks = chunks < most ? chunks : most;
    return chunks < 1 ? 1 : (int)chunks;
}

static void read_box(State *s, const Graph *g, const Node *n, const Value *x)
{
    const Shape *d = x->shape;
    ChannelBox *b = &s->box;

    s->relu = n->op == &op_BatchNormGradStats ? has_in(n, 5) : n->op == &op_BatchNormGradInput && has_in(n, 7);
    s->dscale = n->op == &op_BatchNormGradInput && has_out(n, 1);
    s->dbias = n->op == &op_BatchNormGradInput && has_out(n, 2);
    s->size = dtype_size(x->dtype);
    s->numel = shape_numel(d);
    b->channels = d->dim[1];
    b->inner = shape_count(d, 2, d->rank);
    b->outer = d->dim[0];
    b->count = (double)(b->outer * b->inner);
    s->last = b->inner == 1 || x->layout == LAYOUT_CHANNELS_LAST;
    if (s->last) {
        b->outer *= b->inner;
        b->inner = 1;
    }
    b->chunks = chunks_of(b, s->last);
    if (n->n_in > 2 && has_in(n, 2))
        b->wide = dtype_size(in_value(g, n, 2)->dtype) > s->size;
    if (node_attr(n, "epsilon"))
        b->epsilon = node_float(n, "epsilon");
}

static int64_t vector_of(const State *s, uint64_t addresses)
{
    int64_t v = 16 / (int64_t)s->size, run = s->last ? s->box.channels : s->box.inner;

    return run % v == 0 && unit_of(addresses) == 16 ? v : 1;
}

/* The box in units of v elements; a chunk is of a channel's units or of rows. */
static ChannelBox cuda_batchnorm_box_of(const State *s, int64_t v)
{
    ChannelBox b = s->box;

    b.units = s->last ? b.outer : b.outer * (b.inner / v);
    b.part = (b.units + b.chunks - 1) / b.chunks;
    b.by_run = divisor_of(b.inner / v);
    b.by_channels = divisor_of(b.channels);
    return b;
}

/* Threads of a block over channels and rows: side by side, at most as many as the channels have units of v. */
static int64_t columns_of(const State *s, int64_t v)
{
    int64_t columns = 1, most = s->threads && v > 1 ? NORM_COLUMNS : COLUMNS;

    while (columns < most && columns * v < s->box.channels)
        columns *= 2;
    return columns;
}

static void last_grid(const State *s, int64_t v, unsigned grid[3], unsigned block[3])
{
    const int64_t columns = columns_of(s, v);

    block[0] = (unsigned)columns;
    block[1] = (unsigned)((s->threads ? s->threads : NORM_THREADS) / columns);
    grid[0] = (unsigned)((s->box.channels + columns * v - 1) / (columns * v));
    grid[1] = (unsigned)s->box.chunks;
    grid[2] = block[2] = 1;
}

/* Chunks of sums over channels that are last: one wave of blocks, whose threads have a row each. */
static int sum_chunks(const State *s)
{
    const int64_t v = vector_of(s, 0), columns = columns_of(s, v), lines = s->threads / columns,
                  wide = (s->box.channels + columns * v - 1) / (columns * v), most = (s->box.outer + lines - 1) / lines;
    int64_t chunks = wide < SUM_BLOCKS ? SUM_BLOCKS / wide : 1;

    chunks = chunks < most ? chunks : most;
    return chunks < 1 ? 1 : (int)chunks;
}

static Status launch_chunks(const KernelCtx *ctx, const State *s, const ChannelBox *b, int64_t v, void *const *args)
{
    unsigned grid[3] = { (unsigned)(b->channels * b->chunks), 1, 1 }, block[3] = { NORM_THREADS, 1, 1 };

    if (s->last)
        last_grid(s, v, grid, block);
    TRY_CUDA(ctx, launch(ctx->stream, s->kernel[v > 1], grid, block, 0, args));
    return ST_OK;
}

/* Units and rows are counted in 31 bits. */
static bool fits(const Graph *g, const Node *n) { return shape_numel(in_value(g, n, 0)->shape) < INT32_MAX; }

/* "norm_<what>_first_v_<dtype>" and the other kernels. */
static Status cuda_batchnorm_find_kernels(State *s, const KernelCtx *ctx, const char *first, const char *last, DType t)
{
    char name[64];

    for (int v = 0; v < 2; v++) {
        snprintf(name, sizeof name, "%s_%c", s->last ? last : first, v ? 'v' : '1');
        TRY(cuda_kernel(&s->kernel[v], ctx, name, t));
    }
    return ST_OK;
}

static Status make_state(State **out, KernelCtx *ctx, const Graph *g, const Node *n, const char *first,
                         const char *last)
{
    const Value *x = in_value(g, n, 0);
    State *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    read_box(s, g, n, x);
    if ((st = cuda_batchnorm_find_kernels(s, ctx, first, last, x->dtype))) {
        free(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

/* With room for what chunks leave, two numbers of at most 8 bytes for each channel, and a ticket for each channel that
 * counts the blocks that have come to their end. */
static Status make_sums(void **state, KernelCtx *ctx, const Graph *g, const Node *n, const char *first,
                        const char *last, int threads)
{
    State *s;
    size_t need;

    TRY(make_state(&s, ctx, g, n, first, last));
    s->threads = threads;
    if (s->last)
        s->box.chunks = sum_chunks(s);
    need = (size_t)s->box.chunks * 2 * (size_t)s->box.channels * sizeof(double);
    ctx->scratch_bytes = need > ctx->scratch_bytes ? need : ctx->scratch_bytes;
    ctx->table_bytes = (size_t)s->box.channels * sizeof(uint32_t);
    *state = s;
    return ST_OK;
}

/* Every launch leaves its tickets at 0 again. */
static void clear_tickets(void *table, const void *state, const Tensor *in, const Tensor *out)
{
    const State *s = state;

    (void)in;
    (void)out;
    memset(table, 0, (size_t)s->box.channels * sizeof(uint32_t));
}

/* ---- statistics ---- */

static Status prepare_stats(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return make_sums(state, ctx, g, n, "norm_stats_first", "norm_stats_last",
                     dtype_size(in_value(g, n, 0)->dtype) == 2 ? NORM_STATS_THREADS : NORM_SUMS_THREADS);
}

static Status launch_stats(KernelCtx *ctx, const State *s, const void *x, Outcome *outcome)
{
    int64_t v = vector_of(s, (uintptr_t)x);
    ChannelBox b = cuda_batchnorm_box_of(s, v);

    return launch_chunks(ctx, s, &b, v, CUDA_ARGS(&b, outcome, &ctx->scratch, &ctx->table, &x));
}

static Status run_stats(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    Outcome outcome = { .row = out[0].data };

    if (s->numel)
        return launch_stats(ctx, s, in[0].data, &outcome);
    TRY_CUDA(ctx, runtime.zero(ctx->stream, out[0].data, tensor_bytes(&out[0])));
    return ST_OK;
}

static MergePlan merge_of(const Node *n)
{
    return (MergePlan){ .keep = node_float(n, "keep"),
                        .take = node_float(n, "take"),
                        .unbiased = node_int(n, "unbiased"),
                        .running = { has_in(n, 1), has_in(n, 2) } };
}

static Running running_of(const MergePlan *p, const Tensor *in, const Tensor *out)
{
    return (Running){ .mean = p->running[0] ? in[1].data : NULL,
                      .var = p->running[1] ? in[2].data : NULL,
                      .next_mean = p->running[0] ? out[3].data : NULL,
                      .next_var = p->running[1] ? out[4].data : NULL,
                      .keep = p->keep,
                      .take = p->take,
                      .unbiased = p->unbiased };
}

static Status prepare_moments(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    State *s;

    TRY(prepare_stats(state, ctx, g, n));
    s = *state;
    s->merge = merge_of(n);
    return ST_OK;
}

static Status run_moments(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    Outcome outcome = { NULL, out[0].data, out[1].data, out[2].data, running_of(&s->merge, in, out) };

    return launch_stats(ctx, s, in[0].data, &outcome);
}

static Status cuda_batchnorm_prepare_sums(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool relu = has_in(n, 5);

    return make_sums(state, ctx, g, n, relu ? "norm_sums_relu_first" : "norm_sums_first",
                     relu ? "norm_sums_relu_last" : "norm_sums_last", NORM_SUMS_THREADS);
}

static Status run_sums(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    const void *x = in[0].data, *dy = in[1].data, *var = in[3].data;
    ApplyGiven given =
        s->relu ? (ApplyGiven){ in[2].data, var, in[4].data, in[5].data } : (ApplyGiven){ .mean = in[2].data };
    int64_t v = vector_of(s, (uintptr_t)x | (uintptr_t)dy);
    ChannelBox b = cuda_batchnorm_box_of(s, v);

    if (!s->numel && tensor_bytes(&out[0]))
        TRY_CUDA(ctx, runtime.zero(ctx->stream, out[0].data, tensor_bytes(&out[0])));
    if (!s->numel)
        return ST_OK;
    return launch_chunks(ctx, s, &b, v, CUDA_ARGS(&b, &out[0].data, &ctx->scratch, &ctx->table, &var, &given, &x, &dy));
}

/* ---- element by element ---- */

static Status run_map(const KernelCtx *ctx, const State *s, void *given, void *y, const void *x, const void *dy)
{
    int64_t v = vector_of(s, (uintptr_t)x | (uintptr_t)y | (uintptr_t)dy);
    ChannelBox b = cuda_batchnorm_box_of(s, v);

    if (!s->numel)
        return ST_OK;
    if (s->last)
        return launch_chunks(ctx, s, &b, v, CUDA_ARGS(&b, given, &y, &x, &dy));
    b.units = s->numel / v;
    return cuda_launch(ctx, s->kernel[v > 1], cuda_blocks(b.units, NORM_THREADS * NORM_GROUP, INT32_MAX), NORM_THREADS,
                       0, CUDA_ARGS(&b, given, &y, &x, &dy));
}

static Status prepare_apply(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    State *s;

    TRY(make_state(&s, ctx, g, n, "norm_apply_first", "norm_apply_last"));
    *state = s;
    return ST_OK;
}

static Status run_apply(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    ApplyGiven given = { in[1].data, in[2].data, in[3].data, in[4].data };

    return run_map(ctx, state, &given, out[0].data, in[0].data, NULL);
}

static Status run_inference(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    ApplyGiven given = { in[3].data, in[4].data, in[1].data, in[2].data };

    return run_map(ctx, state, &given, out[0].data, in[0].data, NULL);
}

/* The sums [2, C] of dy and of dy xhat as gradients of bias and scale; either may be unwanted. */
static Status split_sums(const KernelCtx *ctx, const Tensor *sums, void *dscale, void *dbias)
{
    const size_t half = tensor_bytes(sums) / 2;

    if (dbias)
        TRY(move_same(ctx, dbias, sums->data, half));
    return dscale ? move_same(ctx, dscale, (const char *)sums->data + half, half) : ST_OK;
}

static Status cuda_batchnorm_prepare_input(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool relu = has_in(n, 7);
    State *s;

    TRY(make_state(&s, ctx, g, n, relu ? "norm_input_relu_first" : "norm_input_first",
                   relu ? "norm_input_relu_last" : "norm_input_last"));
    *state = s;
    return ST_OK;
}

static Status cuda_batchnorm_run_input(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    InputGiven given = { in[2].data,
                         in[3].data,
                         in[4].data,
                         in[5].data,
                         in[6].data,
                         s->relu ? in[7].data : NULL,
                         s->dscale ? out[1].data : NULL,
                         s->dbias ? out[2].data : NULL };

    if (!s->numel)
        return split_sums(ctx, &in[5], given.dscale, given.dbias);
    return run_map(ctx, s, &given, out[0].data, in[0].data, in[1].data);
}

/* ---- merging replicas' rows, gradients of scale and bias ---- */

static Status prepare_merge(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    State *s = calloc(1, sizeof *s);
    Status st;

    (void)g;
    if (!s)
        return FAIL_NOMEM();
    s->merge = merge_of(n);
    if ((st = cuda_kernel(&s->kernel[0], ctx, "norm_merge", (DType)node_int(n, "dtype")))) {
        free(s);
        return st;
    }
    *state = s;
    return ST_OK;
}

static Status cuda_batchnorm_run_merge(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    int64_t rows = in[0].shape.dim[0], channels = in[0].shape.dim[1] / 2;
    const State *s = state;
    const void *x = in[0].data;
    Running running = running_of(&s->merge, in, out);

    return cuda_launch(ctx, s->kernel[0], cuda_blocks(channels, 128, 1 << 16), 128, 0,
                       CUDA_ARGS(&x, &rows, &channels, &out[0].data, &out[1].data, &out[2].data, &running));
}

static Status run_params(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)state;
    return split_sums(ctx, &in[0], out[0].data, out[1].data);
}

/* In the type that sums of x are taken in; an empty batch has no statistics that a block could write. */
static bool fits_moments(const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    const DType t = x->dtype == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32;

    return fits(g, n) && shape_numel(x->shape) > 0 && (DType)node_int(n, "dtype") == t;
}

static bool fits_inference(const Graph *g, const Node *n) { return !node_int(n, "training_mode") && fits(g, n); }

#define SUMS .tabulate = clear_tickets, NORM
#define NORM .dtypes = DTYPES_FLOAT, .layouts = kernel_channels_last, .supports = fits, .release = free

DEFINE_KERNEL(cuda_batch_normalization, .op = &op_BatchNormalization, .dtypes = DTYPES_FLOAT,
              .layouts = kernel_channels_last, .supports = fits_inference, .prepare = prepare_apply,
              .run = run_inference, .release = free);
DEFINE_KERNEL(cuda_batch_norm_stats, .op = &op_BatchNormStats, SUMS, .prepare = prepare_stats, .run = run_stats);
DEFINE_KERNEL(cuda_batch_norm_moments, .op = &op_BatchNormMoments, .dtypes = DTYPES_FLOAT,
              .layouts = kernel_channels_last, .supports = fits_moments, .prepare = prepare_moments,
              .tabulate = clear_tickets, .run = run_moments, .release = free);
DEFINE_KERNEL(cuda_batch_norm_merge, .op = &op_BatchNormMerge, .prepare = prepare_merge,
              .run = cuda_batchnorm_run_merge, .release = free);
DEFINE_KERNEL(cuda_batch_norm_apply, .op = &op_BatchNormApply, NORM, .prepare = prepare_apply, .run = run_apply);
DEFINE_KERNEL(cuda_batch_norm_grad_stats, .op = &op_BatchNormGradStats, SUMS, .prepare = cuda_batchnorm_prepare_sums,
              .run = run_sums);
DEFINE_KERNEL(cuda_batch_norm_grad_input, .op = &op_BatchNormGradInput, NORM, .prepare = cuda_batchnorm_prepare_input,
              .run = cuda_batchnorm_run_input);
DEFINE_KERNEL(cuda_batch_norm_grad_params, .op = &op_BatchNormGradParams, .dtypes = DTYPES_FLOAT, .run = run_params);
