/* Reference kernels of collectives, in one thread and one memory: copies, and sums by the tree of
 * graph/tensor/reduce_tree.h. */
#include "graph/ir/collective.h"
#include "graph/ops/collective.gen.h"
#include "graph/tensor/reduce_tree.h"
#include "kernels/exchange.h"
#include "kernels/ref/ref.h"

/* ---- copies ---- */

/* The state of all kernels but the sums is the Exchange. */
static Status prepare_copies(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Exchange e = exchange_of(n);

    (void)ctx, (void)g;
    return kernel_state(state, &e, sizeof e);
}

/* Copies the part to (join) or from its place in the whole, `offset` bytes into each row along `axis`.  Returns the
 * bytes of the part's rows: the next part lies so much further. */
static size_t copy_part(const Tensor *part, const Tensor *whole, int axis, size_t offset, bool join)
{
    const Piece p = piece_of(part, whole, axis);

    piece_copy(&p, part, whole, offset, join);
    return p.row;
}

static Status run_scatter(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Exchange *e = state;
    size_t offset = 0;

    (void)ctx;
    for (int i = 0; i < e->copies; i++)
        offset += copy_part(&out[i], &in[0], e->cut, offset, false);
    return ST_OK;
}

static void copy_whole(Tensor *to, const Tensor *from)
{
    if (tensor_bytes(from))
        memcpy(to->data, from->data, tensor_bytes(from));
}

static Status run_all_gather(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Exchange *e = state;

    (void)ctx;
    for (int t = 0; t < e->tensors; t++, in += e->parts, out += e->copies) {
        size_t offset = 0;

        for (int i = 0; i < e->parts; i++)
            offset += copy_part(&in[i], &out[0], e->axis, offset, true);
        for (int i = 1; i < e->copies; i++)
            copy_whole(&out[i], &out[0]);
    }
    return ST_OK;
}

static Status run_broadcast(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Exchange *e = state;

    (void)ctx;
    for (int i = 0; i < e->copies; i++)
        copy_whole(&out[i], &in[0]);
    return ST_OK;
}

static Status run_all_to_all(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Exchange *e = state;
    int64_t from_at = 0;

    (void)ctx;
    for (int o = 0; o < e->copies; o++) {
        int64_t to_at = 0;

        for (int i = 0; i < e->parts; i++) {
            const Shape box = box_of(&in[i], &out[o], e->cut);

            box_copy(&box, &out[o], e->axis, to_at, &in[i], e->cut, from_at);
            to_at += in[i].shape.dim[e->axis];
        }
        from_at += out[o].shape.dim[e->cut];
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_all_to_all, .op = &op_AllToAll, .prepare = prepare_copies, .run = run_all_to_all, .release = free);
DEFINE_KERNEL(ref_scatter, .op = &op_Scatter, .prepare = prepare_copies, .run = run_scatter, .release = free);
DEFINE_KERNEL(ref_all_gather, .op = &op_AllGather, .prepare = prepare_copies, .run = run_all_gather, .release = free);
DEFINE_KERNEL(ref_broadcast, .op = &op_Broadcast, .prepare = prepare_copies, .run = run_broadcast, .release = free);

/* ---- sums ---- */

typedef struct {
    Exchange e;
    size_t space;  /* bytes of exchange_sum's work space; behind it ReduceScatter keeps the sum of a tensor */
    int program[]; /* 2 * e.parts - 1 steps (reduce_tree_program) */
} SumState;

static Status ref_collective_prepare_sum(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Exchange e = exchange_of(n);
    SumState *s = calloc(1, sizeof *s + (size_t)(2 * e.parts) * sizeof(int));
    const DType type = in_value(g, n, 0)->dtype;
    size_t most = 0;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->e = e;
    if ((st = reduce_tree_program(s->program, e.span, e.parts))) {
        free(s);
        return st;
    }
    for (int t = 0; t < e.tensors && e.split; t++)
        most = value_bytes(g, n->in[t * e.parts]) > most ? value_bytes(g, n->in[t * e.parts]) : most;
    s->space = exchange_sum_bytes(s->program, e.parts, type);
    ctx->scratch_bytes = s->space + most;
    *state = s;
    return ST_OK;
}

static void sum(const SumState *s, void *space, const Tensor *in, void *out)
{
    int64_t n = tensor_numel(in);
    size_t size = dtype_size(in->dtype);

    for (int64_t at = 0; at < n; at += SUM_BLOCK) {
        size_t len = (size_t)(n - at < SUM_BLOCK ? n - at : SUM_BLOCK);
        const void *sum_of = exchange_sum(s->program, s->e.parts, space, in, at, len);

        if ((char *)out + (size_t)at * size != sum_of) /* a single part in place is its own sum */
            memcpy((char *)out + (size_t)at * size, sum_of, len * size);
    }
}

static Status run_all_reduce(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const SumState *s = state;

    for (int t = 0; t < s->e.tensors; t++, in += s->e.parts, out += s->e.copies) {
        sum(s, ctx->scratch, in, out[0].data);
        for (int d = 1; d < s->e.copies; d++)
            copy_whole(&out[d], &out[0]);
    }
    return ST_OK;
}

static Status run_reduce_scatter(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const SumState *s = state;

    for (int t = 0; t < s->e.tensors; t++, in += s->e.parts, out += s->e.copies) {
        Tensor whole = { in[0].dtype, in[0].shape, (char *)ctx->scratch + s->space };
        size_t offset = 0;

        sum(s, ctx->scratch, in, whole.data);
        for (int i = 0; i < s->e.copies; i++)
            offset += copy_part(&out[i], &whole, s->e.cut, offset, false);
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_all_reduce, .op = &op_AllReduce, .prepare = ref_collective_prepare_sum, .run = run_all_reduce,
              .release = free);
DEFINE_KERNEL(ref_reduce_scatter, .op = &op_ReduceScatter, .prepare = ref_collective_prepare_sum,
              .run = run_reduce_scatter, .release = free);
