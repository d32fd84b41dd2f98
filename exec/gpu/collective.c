/* Collectives between accelerators: the device's data is packed into its bucket, one operation of the communicator runs
 * over the bucket, and the results are unpacked.
 *
 * A bucket is one flat message for any number of tensors and replicas, such as the gradients of a bucket_gradients node
 * or the batch-norm statistics of all local replicas.  Partial sums that one device holds are added there first.  Where
 * the graph could not add them by Add nodes, they form no subtree of graph/tensor/reduce_tree.h; then, as with the
 * communicator's own order of adding, bits may differ from the CPU's by rounding.  With two devices of one part each
 * there is a single addition, and the bits are equal.  Devices may hold different amounts, so chunks of a gather or a
 * scatter are as large as the largest device's.
 *
 * With `by_tree` the partial sums themselves are gathered, and every device adds all of them by the tree.  The bits
 * then depend on the replicas alone, at the price of more bytes on the wire and in the bucket.
 *
 * Buckets are registered with the communicator, tensors are not, and one collective must not mix them.  So all its
 * devices work in their buckets, or all directly on the tensors; each derives which from the plan of all. */
#include "exec/gpu/collective.h"

#include <stdlib.h>

#include "exec/device/plugin.h"
#include "graph/tensor/layout.h"
#include "graph/tensor/reduce_tree.h"
#include "kernels/exchange.h"

typedef struct {
    int device;
    size_t offset; /* in the device's chunk */
    size_t bytes;
} Part;

struct GpuCollective {
    Exchange x;
    DType dtype;
    int device, n_device;
    bool shared, direct; /* direct: works on the tensors, without a bucket */
    bool by_tree;        /* gathers the parts of a sum and adds them by the tree */
    int n_in, n_out;
    int root;            /* the device of a broadcast's input */
    Part *part;          /* of a gather or by_tree: the inputs; of a scatter: the outputs; of an all-to-all: the inputs'
                          * devices alone */
    Part *to;            /* of an all-to-all: [n_in][n_out] the output's device, and where in the chunk between the two
                          * devices the input's share of the output lies */
    size_t chunk;        /* bytes that one device puts into a gather or gets from a scatter */
    size_t *place;       /* [n_tensor] of a sum: offsets in the bucket */
    size_t total, count; /* of a sum: bytes of all tensors; elements up to the end of the last */
    Tensor *packed;      /* [n_tensor] of a sum: the tensors in the bucket */
    bool *held;          /* [n_tensor] of a sum: this device holds a part */
    int *program;        /* by_tree: reduce_tree_program */
    Tensor *pair;        /* by_tree, [n_in]: the two parts of each tensor that are added next */
    const Kernel *kernel; /* adds the device's own parts; by_tree: two parts */
    void *state;
};

/* ---- creation ---- */

/* The device that holds a value. */
static int holder(const GpuCollective *c, const MemoryPlan *plan, ValueId v)
{
    const MemRef *r = &plan->value[v.i];

    return r->kind == MEM_ARENA || r->kind == MEM_STATE ? r->device % c->n_device : c->device;
}

/* How many of n values the device holds. */
static int count_held(const GpuCollective *c, const MemoryPlan *plan, int n, const ValueId *v, int device)
{
    int held = 0;

    for (int i = 0; i < n; i++) {
        const MemRef *r = &plan->value[v[i].i];
        bool placed = r->kind == MEM_ARENA || r->kind == MEM_STATE;

        held += placed ? r->device % c->n_device == device : r->kind != MEM_NONE;
    }
    return held;
}

/* Whether the collective works on the tensors themselves: a sum of one tensor of which every participating device has
 * one part and one output, or a broadcast of which every device has an output.  The answer is the same on all of them.
 */
static bool is_direct(const GpuCollective *c, const Node *n, const MemoryPlan *plan)
{
    bool sum = exchange_reduces(&c->x);

    if (sum ? c->x.tensors != 1 : !exchange_distributes(&c->x) || c->x.split)
        return false;
    for (int d = 0; d < c->n_device; d++) {
        int copies = count_held(c, plan, n->n_out, n->out, d);

        if (!c->shared && d != c->device)
            continue;
        if (sum ? copies != 1 || count_held(c, plan, n->n_in, n->in, d) != 1 : !copies)
            return false;
    }
    return true;
}

/* Places the values of each device side by side in the device's chunk. */
static Status place_parts(GpuCollective *c, const Graph *g, const MemoryPlan *plan, int n, const ValueId *v)
{
    size_t *used = calloc((size_t)c->n_device, sizeof *used);

    if (!used || !(c->part = calloc((size_t)n, sizeof *c->part))) {
        free(used);
        return FAIL_NOMEM();
    }
    for (int i = 0; i < n; i++) {
        c->part[i] = (Part){ holder(c, plan, v[i]), 0, value_bytes(g, v[i]) };
        c->part[i].offset = used[c->part[i].device];
        used[c->part[i].device] += c->by_tree ? plan_aligned(plan, c->part[i].bytes) : c->part[i].bytes;
    }
    for (int d = 0; d < c->n_device; d++)
        c->chunk = used[d] > c->chunk ? used[d] : c->chunk;
    c->chunk = plan_aligned(plan, c->chunk);
    free(used);
    return ST_OK;
}

/* For an all-to-all: places the shares that each device has of each other's outputs side by side in the chunk between
 * the two. */
static Status place_boxes(GpuCollective *c, const Graph *g, const MemoryPlan *plan, const Node *n)
{
    const size_t devices = (size_t)c->n_device, out = (size_t)n->n_out;
    size_t *used = calloc(devices * devices, sizeof *used);

    c->part = calloc((size_t)n->n_in, sizeof *c->part);
    c->to = calloc((size_t)n->n_in * out, sizeof *c->to);
    if (!used || !c->part || !c->to) {
        free(used);
        return FAIL_NOMEM();
    }
    for (int i = 0; i < n->n_in; i++) {
        c->part[i].device = holder(c, plan, n->in[i]);
        for (int o = 0; o < n->n_out; o++) {
            const Tensor from = { .shape = *in_value(g, n, i)->shape }, to = { .shape = *value(g, n->out[o])->shape };
            const Shape box = box_of(&from, &to, c->x.cut);
            Part *p = &c->to[(size_t)i * out + (size_t)o];
            size_t *at = &used[(size_t)c->part[i].device * devices];

            *p = (Part){ holder(c, plan, n->out[o]), 0, layout_bytes(c->dtype, LAYOUT_ROWS, &box) };
            at += p->device;
            p->offset = *at;
            *at += plan_aligned(plan, p->bytes);
            c->chunk = *at > c->chunk && p->device != c->part[i].device ? *at : c->chunk;
        }
    }
    free(used);
    return ST_OK;
}

/* Places the sums in the bucket, and prepares the kernel that computes the device's share of them. */
static Status collective_prepare_sum(GpuCollective *c, KernelCtx *ctx, const Graph *g, const Node *n,
                                     const MemoryPlan *plan)
{
    c->place = calloc((size_t)c->x.tensors, sizeof *c->place);
    c->packed = calloc((size_t)c->x.tensors, sizeof *c->packed);
    c->held = calloc((size_t)c->x.tensors, sizeof *c->held);
    if (!c->place || !c->packed || !c->held)
        return FAIL_NOMEM();
    for (int t = 0; t < c->x.tensors; t++) {
        const Value *v = in_value(g, n, t * c->x.parts);

        c->packed[t] = (Tensor){ v->dtype, *v->shape, NULL };
        c->place[t] = c->total;
        c->count = (c->total + tensor_bytes(&c->packed[t])) / dtype_size(c->dtype);
        c->total += plan_aligned(plan, tensor_bytes(&c->packed[t]));
        for (int i = 0; i < c->x.parts; i++)
            c->held[t] |= holder(c, plan, n->in[t * c->x.parts + i]) == c->device;
    }
    if (!(c->kernel = kernel_find(kernels_cuda, kernels_cuda_len, g, n)))
        return FAIL(E_UNSUPPORTED, "%s: no kernel adds up %s", node_text(g, n), dtype_name(c->dtype));
    return c->kernel->prepare(&c->state, ctx, g, n);
}

/* Whether the order of adding matters: with one part on each of two devices there is only one order. */
static bool needs_tree(const GpuCollective *c) { return c->x.sum && c->shared && c->x.parts > 2; }

static Status collective_prepare(GpuCollective *c, size_t *bucket_bytes, KernelCtx *ctx, const Graph *g, const Node *n,
                                 const MemoryPlan *plan)
{
    size_t all;

    if (c->x.sum)
        TRY(collective_prepare_sum(c, ctx, g, n, plan));
    c->by_tree = c->by_tree && needs_tree(c);
    if (c->by_tree) {
        c->program = calloc(2 * (size_t)c->x.parts, sizeof *c->program);
        c->pair = calloc((size_t)n->n_in, sizeof *c->pair);
        if (!c->program || !c->pair)
            return FAIL_NOMEM();
        for (int i = 0; i < n->n_in; i++)
            c->pair[i] = (Tensor){ in_value(g, n, i)->dtype, *in_value(g, n, i)->shape, NULL };
        TRY(reduce_tree_program(c->program, c->x.span, c->x.parts));
        TRY(place_parts(c, g, plan, n->n_in, n->in));
    } else if (exchange_resplits(&c->x))
        TRY(place_boxes(c, g, plan, n));
    else if (c->x.joined)
        TRY(place_parts(c, g, plan, n->n_in, n->in));
    else if (c->x.split)
        TRY(place_parts(c, g, plan, n->n_out, n->out));
    if (exchange_distributes(&c->x))
        c->root = holder(c, plan, n->in[0]);
    c->direct = !c->by_tree && is_direct(c, n, plan);
    all = c->chunk * (size_t)c->n_device;
    if (c->direct)
        *bucket_bytes = 0;
    else if (c->by_tree)
        *bucket_bytes = c->chunk + all;
    else if (c->x.sum)
        *bucket_bytes = c->x.split && c->shared ? c->total + all + c->chunk : c->total;
    else if (exchange_resplits(&c->x))
        *bucket_bytes = c->shared ? 2 * all : 0;
    else if (c->x.joined)
        *bucket_bytes = c->shared ? c->chunk + all : 0;
    else
        *bucket_bytes = c->shared && !c->x.split ? value_bytes(g, n->in[0]) : 0;
    return ST_OK;
}

Status gpu_collective_create(GpuCollective **out, size_t *bucket_bytes, KernelCtx *ctx, const Graph *g, const Node *n,
                             const MemoryPlan *plan, const GpuSharing *sharing)
{
    GpuCollective *c = calloc(1, sizeof *c);
    Status st;

    if (!c)
        return FAIL_NOMEM();
    c->x = exchange_of(n);
    c->dtype = in_value(g, n, 0)->dtype;
    c->device = sharing->device;
    c->n_device = sharing->n_device;
    c->shared = sharing->shared;
    c->by_tree = sharing->by_tree;
    c->n_in = n->n_in;
    c->n_out = n->n_out;
    if ((st = collective_prepare(c, bucket_bytes, ctx, g, n, plan))) {
        gpu_collective_free(c);
        return st;
    }
    *out = c;
    return ST_OK;
}

void gpu_collective_free(GpuCollective *c)
{
    if (!c)
        return;
    if (c->kernel && c->kernel->release && c->state)
        c->kernel->release(c->state);
    free(c->part);
    free(c->to);
    free(c->place);
    free(c->packed);
    free(c->held);
    free(c->program);
    free(c->pair);
    free(c);
}

bool gpu_collective_has_order(const GpuCollective *c) { return !c->by_tree && needs_tree(c); }

/* ---- copies ---- */

static Status copy(const KernelCtx *ctx, void *to, const void *from, size_t bytes)
{
    return bytes && to != from ? runtime_check(ctx->runtime, ctx->runtime->copy(ctx->stream, to, from, bytes)) : ST_OK;
}

/* Copies between a part, dense at `at`, and its rows in `whole` (at `base`), *offset bytes into each row.  `gather`:
 * into the rows.  Adds the part's bytes in a row to *offset. */
static Status move_part(const KernelCtx *ctx, const Tensor *part, void *at, const Tensor *whole, void *base, int axis,
                        bool gather, size_t *offset)
{
    const Piece p = piece_of(part, whole, axis);
    char *w = (char *)base + *offset;

    *offset += p.row;
    if (!p.row || !p.rows || !at || w == at)
        return ST_OK;
    if (p.rows == 1)
        return copy(ctx, gather ? (void *)w : at, gather ? at : (void *)w, p.row);
    return runtime_check(ctx->runtime,
                         ctx->runtime->copy_rows(ctx->stream, gather ? (void *)w : at, gather ? p.wide : p.row,
                                                 gather ? at : (void *)w, gather ? p.row : p.wide, p.row, p.rows));
}

/* ---- the operations ---- */

/* Computes the device's share of every sum, in the bucket. */
static Status pack_sums(GpuCollective *c, const KernelCtx *ctx, char *bucket, const Tensor *in)
{
    KernelCtx own = *ctx;

    for (int t = 0; t < c->x.tensors; t++) {
        size_t bytes = tensor_bytes(&c->packed[t]);

        c->packed[t].data = bucket + c->place[t];
        if (!c->held[t] && bytes)
            TRY(runtime_check(ctx->runtime, ctx->runtime->zero(ctx->stream, c->packed[t].data, bytes)));
    }
    return c->kernel->run(&own, c->state, in, c->packed);
}

/* Copies the sums from the bucket to the device's outputs. */
static Status unpack_sums(GpuCollective *c, const KernelCtx *ctx, Tensor *out)
{
    for (int t = 0; t < c->x.tensors; t++)
        for (int d = 0; d < c->x.copies; d++)
            if (out[t * c->x.copies + d].data)
                TRY(copy(ctx, out[t * c->x.copies + d].data, c->packed[t].data, tensor_bytes(&c->packed[t])));
    return ST_OK;
}

/* Gathers all parts on every device and adds them in place by the tree.  Each sum lies where its lower part lay, so the
 * whole sum lies where the first part did. */
static Status sum_by_tree(GpuCollective *c, const KernelCtx *ctx, GpuComm *comm, char *bucket, const Tensor *in)
{
    char *all = bucket + c->chunk;
    KernelCtx own = *ctx;
    int stack[TREE_DEPTH], top = 0;

    for (int i = 0; i < c->n_in; i++)
        if (c->part[i].device == c->device)
            TRY(copy(ctx, bucket + c->part[i].offset, in[i].data, c->part[i].bytes));
    if (c->chunk)
        TRY(runtime_check(ctx->runtime, ctx->runtime->all_gather(comm, ctx->stream, bucket, all, c->chunk)));
    for (int s = 0; s < 2 * c->x.parts - 1; s++) {
        int low, high;

        if (c->program[s] != TREE_ADD) {
            stack[top++] = c->program[s];
            continue;
        }
        high = stack[--top];
        low = stack[top - 1];
        for (int i = 0; i < c->n_in; i++) {
            const Part *p = &c->part[i];
            int k = i % c->x.parts;

            c->pair[i].data = k == low || k == high ? all + c->chunk * (size_t)p->device + p->offset : NULL;
            if (k == low)
                c->packed[i / c->x.parts].data = c->pair[i].data;
        }
        TRY(c->kernel->run(&own, c->state, c->pair, c->packed));
    }
    return ST_OK;
}

/* The data of the first tensor that the device holds; NULL: it holds none. */
static void *first_held(const Tensor *t, int n)
{
    for (int i = 0; i < n; i++)
        if (t[i].data)
            return t[i].data;
    return NULL;
}

static Status all_reduce(GpuCollective *c, const KernelCtx *ctx, GpuComm *comm, void *bucket, const Tensor *in,
                         Tensor *out)
{
    const void *from = first_held(in, c->n_in);
    void *to = first_held(out, c->n_out);

    if (c->direct)
        return comm ? runtime_check(ctx->runtime,
                                    ctx->runtime->all_reduce_sum(comm, ctx->stream, from, to, c->count, c->dtype))
                    : copy(ctx, to, from, tensor_bytes(in));
    if (c->by_tree) {
        TRY(sum_by_tree(c, ctx, comm, bucket, in));
        return unpack_sums(c, ctx, out);
    }
    TRY(pack_sums(c, ctx, bucket, in));
    if (comm)
        TRY(runtime_check(ctx->runtime,
                          ctx->runtime->all_reduce_sum(comm, ctx->stream, bucket, bucket, c->count, c->dtype)));
    return unpack_sums(c, ctx, out);
}

static Status all_gather(GpuCollective *c, const KernelCtx *ctx, GpuComm *comm, char *bucket, const Tensor *in,
                         Tensor *out)
{
    char *all = comm ? bucket + c->chunk : NULL;

    for (int i = 0; comm && i < c->n_in; i++)
        if (c->part[i].device == c->device)
            TRY(copy(ctx, bucket + c->part[i].offset, in[i].data, c->part[i].bytes));
    if (comm && c->chunk)
        TRY(runtime_check(ctx->runtime, ctx->runtime->all_gather(comm, ctx->stream, bucket, all, c->chunk)));
    for (int o = 0; o < c->n_out; o++) {
        size_t offset = 0;

        for (int i = 0; i < c->n_in && out[o].data; i++) {
            const Part *p = &c->part[i];
            bool own = p->device == c->device;

            TRY(move_part(ctx, &in[i], own ? in[i].data : all + c->chunk * (size_t)p->device + p->offset, &out[o],
                          out[o].data, c->x.axis, true, &offset));
        }
    }
    return ST_OK;
}

/* Copies a box between two tensors, from `from_at` along `cut` to `to_at` along `axis`. */
static Status copy_box(const KernelCtx *ctx, const Shape *box, const Tensor *to, int axis, int64_t to_at,
                       const Tensor *from, int cut, int64_t from_at)
{
    const Box b = box_lines(box, to, axis, to_at, from, cut, from_at);

    for (size_t k = 0; b.row && b.rows && k < b.rounds; k++)
        TRY(runtime_check(ctx->runtime,
                          ctx->runtime->copy_rows(ctx->stream, (char *)to->data + b.to + k * b.to_round, b.to_wide,
                                                  (const char *)from->data + b.from + k * b.from_round, b.from_wide,
                                                  b.row, b.rows)));
    return ST_OK;
}

/* Moves the share that input i has of output o: directly, where this device holds both; otherwise into the bucket, or
 * with `came`, after the exchange, out of it. */
static Status move_box(const GpuCollective *c, const KernelCtx *ctx, char *bucket, bool came, const Tensor *in,
                       int64_t from_at, const Tensor *out, int64_t to_at, const Part *to, int from)
{
    const Shape box = box_of(in, out, c->x.cut);
    const bool sends = from == c->device, receives = to->device == c->device;
    Tensor packed = { in->dtype, box, NULL };

    if (!to->bytes || (sends && receives ? came : came ? !receives : !sends))
        return ST_OK;
    if (sends && receives)
        return copy_box(ctx, &box, out, c->x.axis, to_at, in, c->x.cut, from_at);
    packed.data = bucket + c->chunk * (size_t)(came ? c->n_device + from : to->device) + to->offset;
    return came ? copy_box(ctx, &box, out, c->x.axis, to_at, &packed, c->x.cut, 0)
                : copy_box(ctx, &box, &packed, c->x.axis, 0, in, c->x.cut, from_at);
}

static Status move_boxes(const GpuCollective *c, const KernelCtx *ctx, char *bucket, bool came, const Tensor *in,
                         const Tensor *out)
{
    int64_t from_at = 0;

    for (int o = 0; o < c->n_out; from_at += out[o++].shape.dim[c->x.cut]) {
        int64_t to_at = 0;

        for (int i = 0; i < c->n_in; to_at += in[i++].shape.dim[c->x.axis])
            TRY(move_box(c, ctx, bucket, came, &in[i], from_at, &out[o], to_at,
                         &c->to[(size_t)i * (size_t)c->n_out + (size_t)o], c->part[i].device));
    }
    return ST_OK;
}

static Status all_to_all(const GpuCollective *c, const KernelCtx *ctx, GpuComm *comm, char *bucket, const Tensor *in,
                         const Tensor *out)
{
    TRY(move_boxes(c, ctx, bucket, false, in, out));
    if (!comm || !c->chunk)
        return ST_OK;
    TRY(runtime_check(ctx->runtime, ctx->runtime->all_to_all(comm, ctx->stream, bucket,
                                                             bucket + c->chunk * (size_t)c->n_device, c->chunk)));
    return move_boxes(c, ctx, bucket, true, in, out);
}

/* Splits the sum into the devices' chunks, or, without chunks, directly into the outputs. */
static Status cut_sum(const GpuCollective *c, const KernelCtx *ctx, char *chunks, Tensor *out)
{
    size_t offset = 0;

    for (int o = 0; o < c->n_out; o++) {
        const Part *p = chunks ? &c->part[o] : NULL;

        TRY(move_part(ctx, &out[o], chunks ? chunks + c->chunk * (size_t)p->device + p->offset : out[o].data,
                      &c->packed[0], c->packed[0].data, c->x.axis, false, &offset));
    }
    return ST_OK;
}

static Status reduce_scatter(GpuCollective *c, const KernelCtx *ctx, GpuComm *comm, char *bucket, const Tensor *in,
                             Tensor *out)
{
    char *chunks = bucket + c->total, *own = chunks + c->chunk * (size_t)c->n_device;
    size_t size = dtype_size(c->dtype);

    if (c->by_tree) {
        TRY(sum_by_tree(c, ctx, comm, bucket, in));
        return cut_sum(c, ctx, NULL, out);
    }
    TRY(pack_sums(c, ctx, bucket, in));
    TRY(cut_sum(c, ctx, comm ? chunks : NULL, out));
    if (!comm)
        return ST_OK;
    if (c->chunk)
        TRY(runtime_check(ctx->runtime,
                          ctx->runtime->reduce_scatter_sum(comm, ctx->stream, chunks, own, c->chunk / size, c->dtype)));
    for (int o = 0; o < c->n_out; o++)
        if (c->part[o].device == c->device && out[o].data)
            TRY(copy(ctx, out[o].data, own + c->part[o].offset, c->part[o].bytes));
    return ST_OK;
}

/* Broadcasts the input of the device `root`. */
static Status broadcast(const GpuCollective *c, const KernelCtx *ctx, GpuComm *comm, void *bucket, const Tensor *in,
                        Tensor *out)
{
    size_t bytes = tensor_bytes(in);
    bool root = c->root == c->device;
    void *at = c->direct ? first_held(out, c->n_out) : bucket;
    const void *from = !root ? NULL : c->direct ? in[0].data : bucket;

    if (!bytes)
        return ST_OK;
    if (comm && root && !c->direct)
        TRY(copy(ctx, bucket, in[0].data, bytes));
    if (comm)
        TRY(runtime_check(ctx->runtime, ctx->runtime->broadcast(comm, ctx->stream, from, at, bytes, c->root)));
    for (int o = 0; o < c->n_out; o++)
        if (out[o].data)
            TRY(copy(ctx, out[o].data, comm ? at : in[0].data, bytes));
    return ST_OK;
}

Status gpu_collective_run(GpuCollective *c, const KernelCtx *ctx, GpuComm *comm, void *bucket, const Tensor *in,
                          Tensor *out)
{
    size_t offset = 0;

    if (exchange_reduces(&c->x))
        return all_reduce(c, ctx, comm, bucket, in, out);
    if (c->x.sum)
        return reduce_scatter(c, ctx, comm, bucket, in, out);
    if (exchange_resplits(&c->x))
        return all_to_all(c, ctx, comm, bucket, in, out);
    if (c->x.joined)
        return all_gather(c, ctx, comm, bucket, in, out);
    if (!c->x.split)
        return broadcast(c, ctx, comm, bucket, in, out);
    for (int o = 0; o < c->n_out; o++)
        TRY(move_part(ctx, &out[o], out[o].data, in, in->data, c->x.axis, false, &offset));
    return ST_OK;
}
