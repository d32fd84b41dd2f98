/* Collectives in one thread, every part in one memory: copies, and sums by the tree of graph/reduce_tree.h. */
#include "graph/collective.h"
#include "graph/reduce_tree.h"
#include "kernels/ref/ref.h"

/* ---- copies ---- */

typedef struct {
    int axis;
    int n_parts;
} AxisState;

static Status prepare_axis(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    AxisState *s = calloc(1, sizeof *s);

    (void)ctx, (void)g;
    if (!s)
        return FAIL_NOMEM();
    s->axis = exchange_of(n).axis;
    s->n_parts = n->n_out;
    *state = s;
    return ST_OK;
}

/* Copies rows of `part` to or from their place in `whole`, which begins `offset` bytes into each of its rows. */
static size_t copy_part(const Tensor *part, const Tensor *whole, int axis, size_t offset, bool gather)
{
    size_t size = dtype_size(whole->dtype), wide, row;
    int64_t rows = shape_count(&whole->shape, 0, axis);

    wide = (size_t)shape_count(&whole->shape, axis, whole->shape.rank) * size;
    row = (size_t)shape_count(&part->shape, axis, part->shape.rank) * size;
    for (int64_t i = 0; row && i < rows; i++) {
        char *w = (char *)whole->data + (size_t)i * wide + offset, *p = (char *)part->data + (size_t)i * row;

        memcpy(gather ? w : p, gather ? p : w, row);
    }
    return row;
}

static Status run_scatter(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const AxisState *s = state;
    size_t offset = 0;

    (void)ctx;
    for (int i = 0; i < s->n_parts; i++)
        offset += copy_part(&out[i], &in[0], s->axis, offset, false);
    return ST_OK;
}

typedef struct {
    AxisState axis;
    int n_out;
} GatherState;

static Status prepare_gather(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    GatherState *s = calloc(1, sizeof *s);

    (void)ctx, (void)g;
    if (!s)
        return FAIL_NOMEM();
    s->axis = (AxisState){ exchange_of(n).axis, n->n_in };
    s->n_out = n->n_out;
    *state = s;
    return ST_OK;
}

static void copy_whole(Tensor *to, const Tensor *from)
{
    if (tensor_bytes(from))
        memcpy(to->data, from->data, tensor_bytes(from));
}

static Status run_all_gather(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const GatherState *s = state;
    size_t offset = 0;

    (void)ctx;
    for (int i = 0; i < s->axis.n_parts; i++)
        offset += copy_part(&in[i], &out[0], s->axis.axis, offset, true);
    for (int i = 1; i < s->n_out; i++)
        copy_whole(&out[i], &out[0]);
    return ST_OK;
}

static Status run_broadcast(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const GatherState *s = state;

    (void)ctx;
    for (int i = 0; i < s->n_out; i++)
        copy_whole(&out[i], &in[0]);
    return ST_OK;
}

DEFINE_KERNEL(ref_scatter, .op = &op_Scatter, .prepare = prepare_axis, .run = run_scatter, .release = free);
DEFINE_KERNEL(ref_all_gather, .op = &op_AllGather, .prepare = prepare_gather, .run = run_all_gather, .release = free);
DEFINE_KERNEL(ref_broadcast, .op = &op_Broadcast, .prepare = prepare_gather, .run = run_broadcast, .release = free);

/* ---- sums ---- */

enum { BLOCK = 512, MAX_ELEMENT = 8 }; /* elements added at a time: a stack of blocks stays in the cache */

typedef struct {
    int n_tensors, n_parts, n_copies; /* n_copies: outputs per tensor of AllReduce, parts of ReduceScatter */
    int axis;
    int program[]; /* 2 n_parts - 1 steps */
} SumState;

static Status prepare_sum(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Exchange e = exchange_of(n);
    SumState *s = calloc(1, sizeof *s + (size_t)(2 * e.parts) * sizeof(int));
    size_t need = (size_t)TREE_DEPTH * BLOCK * MAX_ELEMENT;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->n_tensors = e.tensors;
    s->n_parts = e.parts;
    s->n_copies = e.copies;
    s->axis = e.axis;
    if (e.split)
        need += tensor_bytes(&(Tensor){ in_value(g, n, 0)->dtype, in_value(g, n, 0)->shape, NULL });
    ctx->scratch_bytes = ctx->scratch_bytes > need ? ctx->scratch_bytes : need;
    if ((st = reduce_tree_program(s->program, e.span, e.parts))) {
        free(s);
        return st;
    }
    *state = s;
    return ST_OK;
}

/* out = the sum of n elements of the parts, block by block on a stack of blocks. */
#define SUM(fn, T)                                                                                 \
    static void fn(const SumState *s, void *scratch, const Tensor *in, void *out)                  \
    {                                                                                              \
        int64_t n = tensor_numel(&in[0]);                                                          \
        T(*stack)[BLOCK] = scratch;                                                                \
                                                                                                   \
        for (int64_t at = 0; at < n; at += BLOCK) {                                                \
            size_t len = (size_t)(n - at < BLOCK ? n - at : BLOCK);                                \
            int top = 0;                                                                           \
                                                                                                   \
            for (int i = 0; i < 2 * s->n_parts - 1; i++) {                                         \
                if (s->program[i] != TREE_ADD) {                                                   \
                    memcpy(stack[top++], (const T *)in[s->program[i]].data + at, len * sizeof(T)); \
                    continue;                                                                      \
                }                                                                                  \
                top--;                                                                             \
                for (size_t k = 0; k < len; k++)                                                   \
                    stack[top - 1][k] = (T)(stack[top - 1][k] + stack[top][k]);                    \
            }                                                                                      \
            memcpy((T *)out + at, stack[0], len * sizeof(T));                                      \
        }                                                                                          \
    }
SUM(sum_f32, float)
SUM(sum_f64, double)
/* Two's complement: unsigned addition gives the signed sum's bits, and never overflows in C's sense. */
SUM(sum_8, uint8_t)
SUM(sum_16, uint16_t)
SUM(sum_32, uint32_t)
SUM(sum_64, uint64_t)

static void sum(const SumState *s, void *scratch, const Tensor *in, void *out)
{
    size_t size = dtype_size(in[0].dtype);

    if (in[0].dtype == DT_FLOAT32)
        sum_f32(s, scratch, in, out);
    else if (in[0].dtype == DT_FLOAT64)
        sum_f64(s, scratch, in, out);
    else
        (size == 1 ? sum_8 : size == 2 ? sum_16 : size == 4 ? sum_32 : sum_64)(s, scratch, in, out);
}

static Status run_all_reduce(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const SumState *s = state;

    for (int t = 0; t < s->n_tensors; t++, in += s->n_parts, out += s->n_copies) {
        sum(s, ctx->scratch, in, out[0].data);
        for (int d = 1; d < s->n_copies; d++)
            copy_whole(&out[d], &out[0]);
    }
    return ST_OK;
}

static Status run_reduce_scatter(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const SumState *s = state;
    Tensor whole = { in[0].dtype, in[0].shape, (char *)ctx->scratch + (size_t)TREE_DEPTH * BLOCK * MAX_ELEMENT };
    size_t offset = 0;

    sum(s, ctx->scratch, in, whole.data);
    for (int i = 0; i < s->n_copies; i++)
        offset += copy_part(&out[i], &whole, s->axis, offset, false);
    return ST_OK;
}

DEFINE_KERNEL(ref_all_reduce, .op = &op_AllReduce, .prepare = prepare_sum, .run = run_all_reduce, .release = free);
DEFINE_KERNEL(ref_reduce_scatter, .op = &op_ReduceScatter, .prepare = prepare_sum, .run = run_reduce_scatter,
              .release = free);
