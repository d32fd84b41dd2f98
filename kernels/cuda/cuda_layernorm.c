/* LayerNormalization and its gradient on rows (kernels/cuda/device/layernorm.cu).  Scale and bias may be float32 where
 * the data has 16 bits; so are their gradients then. */
#include <stdio.h>
#include <stdlib.h>

#include "graph/ops/layernorm.gen.h"
#include "kernels/cuda/rows.h"
#include "kernels/ref/layer_norm.h"

/* Are scale and bias, input `i`, of more bits than the data? */
static int is_wide(const Graph *g, const Node *n, int i)
{
    return dtype_size(in_value(g, n, i)->dtype) > dtype_size(in_value(g, n, 0)->dtype);
}

/* ---- forward ---- */

typedef struct {
    LayerNorm norm;
    int wide;
    GpuKernel *lanes1, *lanes4, *block, *over;
    WholeRows whole;
} Forward;

static Status forward_kernels(Forward *p, const KernelCtx *ctx, DType t)
{
    TRY(cuda_kernel(&p->lanes1, ctx, "layernorm_lanes1", t));
    TRY(cuda_kernel(&p->lanes4, ctx, "layernorm_lanes4", t));
    TRY(cuda_kernel(&p->block, ctx, "layernorm_block", t));
    TRY(cuda_whole_rows(&p->whole, ctx, "layernorm", t, p->norm.rows, p->norm.n));
    return cuda_kernel(&p->over, ctx, "layernorm_long", t);
}

static Status cuda_layernorm_prepare_forward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    Forward *p = calloc(1, sizeof *p);
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->norm = layer_norm_read(g, n);
    p->wide = is_wide(g, n, 1);
    if ((st = forward_kernels(p, ctx, x->dtype))) {
        free(p);
        return st;
    }
    *state = p;
    return ST_OK;
}

static bool forward_whole(const Forward *p, const Tensor *in, const Tensor *out)
{
    return p->whole.kernel && !cuda_offset(in[0].data, in[0].dtype) && !cuda_offset(in[1].data, in[1].dtype) &&
           !(p->norm.has_bias && cuda_offset(in[2].data, in[2].dtype)) && !cuda_offset(out[0].data, out[0].dtype);
}

static Status cuda_layernorm_run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Forward *p = state;
    RowLaunch l = cuda_rows(in[0].data, in[0].dtype, p->norm.rows, p->norm.n);
    GpuKernel *k = l.lanes ? l.per_thread == 1 ? p->lanes1 : p->lanes4 : l.per_thread ? p->block : p->over;
    void *bias = p->norm.has_bias ? in[2].data : NULL, *mean = p->norm.has_mean ? out[1].data : NULL,
         *inv = p->norm.has_inv ? out[2].data : NULL;

    if (!p->norm.rows)
        return ST_OK;
    if (forward_whole(p, in, out)) {
        k = p->whole.kernel;
        l.blocks = p->whole.blocks;
        l.threads = p->whole.threads;
    }
    return cuda_launch(ctx, k, l.blocks, l.threads, 0,
                       CUDA_ARGS((void *)&in[0].data, (void *)&in[1].data, &bias, (void *)&p->wide, &out[0].data, &mean,
                                 &inv, (void *)&p->norm.rows, (void *)&p->norm.n, (void *)&p->norm.epsilon, &l.lanes));
}

DEFINE_KERNEL(cuda_layer_normalization, .op = &op_LayerNormalization, .dtypes = DTYPES_FLOAT,
              .supports = layer_norm_full_size, .prepare = cuda_layernorm_prepare_forward,
              .run = cuda_layernorm_run_forward, .release = free);

/* ---- backward ---- */

enum {
    PARTS = 396,        /* blocks that sum up parameter gradients: three to each multiprocessor of an H100 */
    FEW_PARTS = 264,    /* two, where a thread has many registers */
    WARP_THREADS = 128, /* of a block whose warps have a row each */
    SUM_THREADS = 32,   /* that share a column of partial sums */
    PLACES = 2,         /* rows that a warp has in shared memory at once */
    TENSORS = 3         /* the first: x, dy and the added tensor */
};

typedef struct {
    LayerNorm norm;
    int64_t parts;
    size_t acc;
    unsigned threads;
    size_t shared, wide_shared; /* bytes of a block */
    int wide_scale;
    GpuKernel *narrow, *wide, *sums; /* wide: tensors begin on 16-byte boundaries, n is of whole chunks */
} Backward;

/* n elements, rounded up to a chunk for each lane. */
static size_t lanes_whole(int64_t n, DType t)
{
    const int64_t all = WARP_SIZE * cuda_chunk(t);

    return (size_t)((n + all - 1) / all * all);
}

/* A warp's kernel for rows of whole chunks: the one that holds just so many a lane, where there is one. */
static Status find_wide_warps(Backward *p, const KernelCtx *ctx, DType t)
{
    const int64_t chunks = p->norm.n / cuda_chunk(t), each = (chunks + WARP_SIZE - 1) / WARP_SIZE;
    int64_t held;
    size_t rows;
    char name[64];

    p->wide_shared = p->shared;
    if (t == DT_FLOAT64)
        return cuda_kernel(&p->wide, ctx, "layernorm_grad_wide_warps", t);
    if (!each)
        return ST_OK;
    if (each > (dtype_size(t) == 2 ? 3 : 4))
        p->parts = p->parts < FEW_PARTS ? p->parts : FEW_PARTS;
    held = each > 4 ? (each + 1) / 2 * 2 : each;
    snprintf(name, sizeof name, "layernorm_grad_whole%d", (int)held);
    TRY(cuda_kernel(&p->wide, ctx, name, t));
    rows = WARP_THREADS * PLACES * TENSORS * 16 * (size_t)held;
    p->wide_shared = p->shared > rows ? p->shared : rows;
    return cuda_check(ctx, cuda_driver(ctx)->kernel_shared(p->wide, p->wide_shared));
}

/* A warp holds a row of up to 32 elements a thread, a block one of 8 (half as many of float64); longer ones go through
 * memory. */
static Status choose_backward(Backward *p, const KernelCtx *ctx, DType t)
{
    const int64_t held = t == DT_FLOAT64 ? 4 : 8, each = held * WARP_SIZE;

    if (p->norm.n <= 4 * each) {
        p->threads = WARP_THREADS;
        p->parts = (p->norm.rows + WARP_THREADS / WARP_SIZE - 1) / (WARP_THREADS / WARP_SIZE);
        p->shared = WARP_THREADS / WARP_SIZE * 2 * lanes_whole(p->norm.n, t) * p->acc;
        TRY(cuda_kernel(&p->narrow, ctx, "layernorm_grad_warps", t));
        TRY(find_wide_warps(p, ctx, t));
    } else {
        p->parts = p->norm.rows;
        p->threads =
            p->norm.n <= ROW_THREADS * held ? (unsigned)((p->norm.n + each - 1) / each * WARP_SIZE) : ROW_THREADS;
        if (p->norm.n <= ROW_THREADS * held) {
            TRY(cuda_kernel(&p->narrow, ctx, "layernorm_grad_blocks", t));
            TRY(cuda_kernel(&p->wide, ctx, "layernorm_grad_wide_blocks", t));
        } else {
            TRY(cuda_kernel(&p->narrow, ctx, "layernorm_grad_long", t));
        }
    }
    p->parts = p->parts < PARTS ? p->parts : PARTS;
    return cuda_kernel(&p->sums, ctx, "layernorm_grad_sums", t);
}

static Status cuda_layernorm_prepare_backward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    Backward *p = calloc(1, sizeof *p);
    size_t bytes;
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->norm = layer_norm_read(g, n);
    p->wide_scale = is_wide(g, n, 2);
    p->acc = x->dtype == DT_FLOAT64 ? sizeof(double) : sizeof(float);
    if ((st = choose_backward(p, ctx, x->dtype))) {
        free(p);
        return st;
    }
    *state = p;
    bytes = (size_t)p->parts * 2 * (size_t)p->norm.n * p->acc;
    ctx->scratch_bytes = bytes > ctx->scratch_bytes ? bytes : ctx->scratch_bytes;
    return ST_OK;
}

static void *added_to(const Backward *p, const Tensor *in)
{
    return p->norm.has_added ? in[LAYER_NORM_GRAD_ADDED].data : NULL;
}

static bool on_boundaries(const Backward *p, const Tensor *in, const Tensor *out)
{
    const DType t = in[0].dtype;
    const bool even =
        p->norm.n % cuda_chunk(t) == 0 && !cuda_offset(out[0].data, t) && !cuda_offset(added_to(p, in), t);

    return even && !cuda_offset(in[0].data, t) && !cuda_offset(in[1].data, t) && !cuda_offset(in[2].data, t);
}

static Status cuda_layernorm_run_backward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Backward *p = state;
    const bool wide = p->wide && on_boundaries(p, in, out);
    const unsigned grid[3] = { (unsigned)((2 * p->norm.n + WARP_SIZE - 1) / WARP_SIZE), 1, 1 },
                   block[3] = { WARP_SIZE, SUM_THREADS, 1 };
    void *added = added_to(p, in);

    if (!p->norm.n)
        return ST_OK;
    if (p->norm.rows)
        TRY(cuda_launch(ctx, wide ? p->wide : p->narrow, (unsigned)p->parts, p->threads,
                        wide ? p->wide_shared : p->shared,
                        CUDA_ARGS((void *)&in[0].data, (void *)&in[1].data, (void *)&in[2].data, (void *)&p->wide_scale,
                                  &added, &out[0].data, &ctx->scratch, (void *)&p->norm.rows, (void *)&p->norm.n,
                                  (void *)&p->norm.epsilon)));
    TRY_CUDA(ctx, launch(ctx->stream, p->sums, grid, block, 0,
                         CUDA_ARGS(&ctx->scratch, &out[1].data, &out[2].data, (void *)&p->parts, (void *)&p->norm.n,
                                   (void *)&p->wide_scale)));
    return ST_OK;
}

DEFINE_KERNEL(cuda_layer_norm_grad, .op = &op_LayerNormGrad, .dtypes = DTYPES_FLOAT,
              .prepare = cuda_layernorm_prepare_backward, .run = cuda_layernorm_run_backward, .release = free);
