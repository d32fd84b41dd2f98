/* chunk-loss: computes and differentiates a cross-entropy's scores a chunk of rows at a time.
 *
 * The scores of a language model, [tokens, vocabulary], are its largest tensor, and nothing but the loss reads them:
 *
 *   scores = hidden weight                                for each chunk k of the rows of hidden and target
 *   num, den, logs = CrossEntropySum(scores, target)        scores_k = hidden_k weight
 *   d = CrossEntropyGrad(dy, scores, target, logs)   ->     num_k, _, logs_k = CrossEntropySum(scores_k, target_k)
 *   d_hidden = d weight^T                                   d_k = CrossEntropyGrad(dy, scores_k, target_k, logs_k)
 *   d_weight = hidden^T d                                   d_hidden_k = d_k weight^T
 *                                                           d_weight_k = hidden_k^T d_k + d_weight_(k-1)
 *                                                         num = sum of num_k; d_hidden = Concat(d_hidden_k)
 *
 * One chunk's scores are alive at a time.  d_k needs dy, which is 1 / den as a rule: the denominator is counted from
 * the targets first.  Gradients of 16 bits are added up in float32.  An evaluation has the forward half alone.
 *
 * Legal if each row of the scores is a row of hidden times a matrix (plus a row), only the loss and its gradient read
 * the scores, only products and sums over rows read that gradient, and the other inputs of these and dy depend on the
 * scores by the denominator alone.  Sums over rows have another order: bits change.  The pass runs after partition:
 * each replica cuts its own rows, and the denominator is summed over replicas.  It runs before place-host, layout and
 * fuse-product, which see its nodes. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/readers.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/branch.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/cross_entropy.gen.h"
#include "graph/ops/loss.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/product.gen.h"
#include "graph/ops/product.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.gen.h"
#include "passes/options/memory.h"
#include "passes/pass.h"
#include "passes/report.h"

enum {
    WHOLE_BYTES = 512 << 20,
    CHUNK_BYTES = 256 << 20,
    ACCELERATOR_ROWS = 2048,
    CPU_ROWS = 256,
    MOST_CHUNKS = 1024,
    MOST_READERS = 8
};

typedef enum { BY_ROWS, OVER_ROWS, SUM_OF_ROWS } ReaderKind;

/* A node that reads the gradient of the scores. */
typedef struct {
    Node *n, *cast; /* cast: the conversion to float32 that alone reads n's result, or NULL */
    ReaderKind kind;
    int operand;    /* of a product: the gradient's number */
    ValueId done;   /* its result for the present chunk */
    ValueId so_far; /* OVER_ROWS, SUM_OF_ROWS: the sum over the chunks up to now */
    ValueId *part;  /* BY_ROWS: [chunks] */
} GradReader;

typedef struct {
    Graph *g;
    PassCtx *ctx;
    Uses uses;
    bool *from_scores; /* [node] computed from the scores */
    Node **gone;
    int n_gone;                       /* views of the scores and of their gradient */
    Node *product, *add, *sum, *grad; /* add: of a row to the product, or NULL; grad: or NULL */
    int row;                          /* the input of `add` that is the row */
    ValueId added;                    /* the row, [columns] */
    ValueId hidden, hidden_k;         /* as [rows, columns]; the chunk's part of it */
    GradReader reader[MOST_READERS];
    int n_reader;
    int64_t rows, chunk;
} Loss;

/* ---- recognition ---- */

static bool transposed(const Node *n, const char *attr) { return node_attr(n, attr) && node_int(n, attr); }

static bool chunk_loss_is_product(const Node *n)
{
    return n && (n->op == &op_MatMul || n->op == &op_BatchMatMul || n->op == &op_Gemm);
}

static bool is_row(const Graph *g, ValueId v, int64_t columns)
{
    const Shape *s = value(g, v)->shape;

    return s->rank >= 1 && shape_rows(s) == 1 && shape_columns(s) == columns;
}

/* Are the rows of n's result the rows of its first operand, times one matrix? */
static bool maps_rows(const Graph *g, const Node *n)
{
    return in_value(g, n, 0)->shape->rank >= 2 && in_value(g, n, 1)->shape->rank == 2 && !transposed(n, "transA");
}

static bool read_product(Loss *l, ValueId scores)
{
    const Graph *g = l->g;
    const int64_t columns = shape_columns(value(g, scores)->shape);
    Node *n = maker(g, scores);

    for (int i = 0; n && n->op == &op_Add && i < 2 && !l->add; i++)
        if (chunk_loss_is_product(inner_maker(&l->uses, n->in[i])) && is_row(g, n->in[1 - i], columns) &&
            shape_eq(in_value(g, n, i)->shape, value(g, scores)->shape)) {
            l->add = n;
            l->row = 1 - i;
        }
    n = l->add ? maker(g, l->add->in[1 - l->row]) : n;
    if (!chunk_loss_is_product(n) || !maps_rows(g, n) || (has_in(n, 2) && !is_row(g, n->in[2], columns)))
        return false;
    l->product = n;
    return same_place(n, l->sum);
}

/* Does `take` accept every reader of v except views of its rows? */
static bool chunk_loss_follow(Loss *l, ValueId v, bool (*take)(Loss *, Reader))
{
    const Uses *u = &l->uses;
    const int64_t columns = shape_columns(value(l->g, v)->shape);

    for (int at = l->n_gone;; v = l->gone[at++]->out[0]) {
        if (u->ends[v.i])
            return false;
        for (uint32_t i = u->first[v.i]; i < u->first[v.i + 1]; i++) {
            const Reader r = u->reader[i];

            if (!same_place(r.n, l->sum))
                return false;
            if (is_view(r.n) && !r.in && shape_columns(value(l->g, r.n->out[0])->shape) == columns)
                l->gone[l->n_gone++] = r.n;
            else if (!take(l, r))
                return false;
        }
        if (at == l->n_gone)
            return true;
    }
}

static bool take_scores(Loss *l, Reader r)
{
    const Node *sum = l->sum, *n = r.n;

    if (n == sum)
        return true;
    if (l->grad || n->op != &op_CrossEntropyGrad || r.in != 1 || !value_eq(n->in[1], sum->in[0]) ||
        !value_eq(n->in[2], sum->in[1]) || !value_eq(n->in[3], sum->out[2]) ||
        node_int(n, "ignore_index") != node_int(sum, "ignore_index") ||
        node_float(n, "label_smoothing") != node_float(sum, "label_smoothing"))
        return false;
    l->grad = r.n;
    return true;
}

static bool sums_rows(const Graph *g, const Node *n)
{
    const int rank = in_value(g, n, 0)->shape->rank;
    unsigned mask;

    return n->op == &op_ReduceSum && (!has_in(n, 1) || value_const(g, n->in[1])) && !reduce_axes(&mask, g, n) &&
           mask == (1u << (rank - 1)) - 1;
}

/* Is it a product that contracts the rows of both its operands? */
static bool contracts_rows(const Graph *g, const Node *n)
{
    return in_value(g, n, 0)->shape->rank == 2 && in_value(g, n, 1)->shape->rank == 2 && transposed(n, "transA") &&
           !transposed(n, "transB");
}

static bool take_gradient(Loss *l, Reader r)
{
    const Graph *g = l->g;
    GradReader *out = &l->reader[l->n_reader];
    Node *cast;

    if (l->n_reader == MOST_READERS)
        return false;
    *out = (GradReader){ .n = r.n, .operand = r.in };
    if (sums_rows(g, r.n))
        out->kind = SUM_OF_ROWS;
    else if (!chunk_loss_is_product(r.n) || has_in(r.n, 2) || value_eq(r.n->in[0], r.n->in[1]))
        return false;
    else if (contracts_rows(g, r.n))
        out->kind = OVER_ROWS;
    else if (r.in == 0 && maps_rows(g, r.n))
        out->kind = BY_ROWS;
    else
        return false;
    cast = only_reader(&l->uses, r.n->out[0]);
    if (out->kind != BY_ROWS && cast && cast->op == &op_Cast && node_int(cast, "to") == DT_FLOAT32 &&
        same_place(cast, r.n))
        out->cast = cast;
    l->n_reader++;
    return true;
}

/* Marks the nodes that are computed from the scores other than by the denominator. */
static void mark_from_scores(Loss *l)
{
    const Graph *g = l->g;

    FOR_NODES(g, n) {
        l->from_scores[n->index] = n == l->product;
        for (int i = 0; i < n->n_in && !l->from_scores[n->index]; i++) {
            const Node *p = value_eq(n->in[i], l->sum->out[1]) ? NULL : maker(g, n->in[i]);

            l->from_scores[n->index] = p && l->from_scores[p->index];
        }
    }
}

static bool is_early(const Loss *l, ValueId v) { return !maker(l->g, v) || !l->from_scores[maker(l->g, v)->index]; }

/* Are all inputs of the chunks computed without the scores? */
static bool is_apart(Loss *l)
{
    bool apart = is_early(l, l->sum->in[1]) && (!l->grad || is_early(l, l->grad->in[0])) &&
                 (!l->add || is_early(l, l->add->in[l->row]));

    for (int i = 0; i < l->n_reader; i++)
        if (l->reader[i].kind != SUM_OF_ROWS)
            apart &= is_early(l, l->reader[i].n->in[1 - l->reader[i].operand]);
    return apart;
}

/* Can the target add up the chunks' sums over rows? */
static bool is_added(const Loss *l)
{
    return dtype_size(in_value(l->g, l->sum, 0)->dtype) > 2 || target_fuses(build_target(l->ctx->opt), &op_Product);
}

static bool recognise(Loss *l)
{
    const Graph *g = l->g;
    const Shape *s = in_value(g, l->sum, 0)->shape;
    const ValueId scores = skip_views(g, l->sum->in[0]);

    if (s->rank != 2 || !read_product(l, scores) || !chunk_loss_follow(l, scores, take_scores) ||
        uses_count(&l->uses, l->sum->out[2]) != (l->grad != NULL))
        return false;
    if (l->grad && (!is_added(l) || !chunk_loss_follow(l, l->grad->out[0], take_gradient)))
        return false;
    mark_from_scores(l);
    return is_apart(l);
}

/* ---- how large chunks are ---- */

/* Rows of a chunk; all rows: the scores stay whole.  More than MOST_CHUNKS make no sense.  Below ACCELERATOR_ROWS
 * products of a GPU lose more time than the memory is worth. */
static int64_t chunk_rows(const PassCtx *ctx, const Value *scores)
{
    const MemoryOptions *memory = memory_options(ctx->opt);
    const int64_t rows = scores->shape->dim[0], row = scores->shape->dim[1] * (int64_t)dtype_size(scores->dtype);
    const int64_t least = (rows + MOST_CHUNKS - 1) / MOST_CHUNKS;
    int64_t n = build_target(ctx->opt)->accelerator ? ACCELERATOR_ROWS : CPU_ROWS;

    if (memory->chunk_rows > 0)
        return least > memory->chunk_rows ? least : memory->chunk_rows;
    if (rows * row < WHOLE_BYTES)
        return rows;
    while (n < rows && 2 * n * row <= CHUNK_BYTES)
        n *= 2;
    return n < rows ? n : rows;
}

/* ---- emission ---- */

static void begin_like(Loss *l, const Node *like) { graph_begin_purpose(l->g, (Phase)like->phase, like->name); }

/* Adds a node like n with other inputs; NULL: g->status. */
static Node *chunk_loss_emit_like(Loss *l, const Node *n, const ValueId *in)
{
    Node *made = graph_add_node_like(l->g, n, n->n_in, in, n->n_out, NULL);

    begin_like(l, n);
    if (made && !l->g->status)
        l->g->status = node_infer(l->g, made);
    return l->g->status ? NULL : made;
}

static ValueId emit_rows(Loss *l, ValueId v, int64_t from, int64_t to)
{
    const ValueId begin = emit_ints(l->g, 1, &from);

    return EMIT(l->g, Slice, NULL, v, begin, emit_ints(l->g, 1, &to));
}

/* The number of targets that are not ignored, which is the denominator. */
static ValueId emit_count(Loss *l)
{
    Graph *g = l->g;
    const ValueId target = l->sum->in[1];
    const DType t = value(g, target)->dtype;
    int64_t ignored = node_int(l->sum, "ignore_index");
    const Shape scalar = shape_scalar();
    ValueId none, y;

    if (t == DT_INT32 && ignored != (int32_t)ignored)
        ignored = INT32_MIN;
    none = t == DT_INT32 ? emit_scalar(g, t, (double)ignored) : emit_ints(g, 1, &ignored);
    y = EMIT(g, Not, NULL, EMIT(g, Equal, NULL, target, none));
    return g->status ? NO_VALUE : emit_sum_to_shape(g, emit_cast(g, y, value(g, l->sum->out[1])->dtype), &scalar);
}

static ValueId emit_sum(Graph *g, ValueId so_far, ValueId v)
{
    return has_value(so_far) ? EMIT(g, Add, NULL, so_far, v) : v;
}

/* A product of the chunk's rows that adds the product of the chunks before. */
static ValueId emit_over_rows(Loss *l, const GradReader *r, ValueId d, int64_t from, int64_t to)
{
    Graph *g = l->g;
    const ValueId other = r->n->in[1 - r->operand];
    const bool known = value_eq(skip_views(g, other), skip_views(g, l->hidden)) &&
                       shape_eq(value(g, other)->shape, value(g, l->hidden)->shape);
    const ValueId rows = known ? l->hidden_k : emit_rows(l, other, from, to);
    const ValueId a = r->operand ? rows : d, b = r->operand ? d : rows;
    const double alpha = node_attr(r->n, "alpha") ? node_float(r->n, "alpha") : 1;

    if (target_fuses(build_target(l->ctx->opt), &op_Product)) {
        const ValueId in[] = { a, b, NO_VALUE, NO_VALUE, r->so_far };

        return emit(g, &op_Product, ATTRS(INT("transA", 1), FLOAT("alpha", alpha), INT("wide", 1)),
                    has_value(r->so_far) ? PRODUCT_ADDED + 1 : PRODUCT_B + 1, in);
    }
    return emit(g, &op_Gemm, ATTRS(INT("transA", 1), FLOAT("alpha", alpha)), has_value(r->so_far) ? 3 : 2,
                (const ValueId[]){ a, b, r->so_far });
}

/* Emits reader r for the chunk, whose scores have the gradient d. */
static void emit_reader(Loss *l, GradReader *r, ValueId d, int64_t from, int64_t to)
{
    Graph *g = l->g;

    begin_like(l, r->n);
    if (r->kind == BY_ROWS) {
        const Node *n = chunk_loss_emit_like(l, r->n, (const ValueId[]){ d, r->n->in[1] });

        r->done = r->part[from / l->chunk] = n ? n->out[0] : NO_VALUE;
    } else if (r->kind == OVER_ROWS) {
        r->done = r->so_far = emit_over_rows(l, r, d, from, to);
    } else {
        ValueId sum = emit_reduce_sum(g, d, 1, (int64_t[]){ 0 }, false);

        if (!g->status && dtype_size(value(g, sum)->dtype) == 2)
            sum = emit_cast(g, sum, DT_FLOAT32);
        r->done = r->so_far = g->status ? NO_VALUE : emit_sum(g, r->so_far, sum);
    }
}

/* Puts the rest of hidden behind a gate that opens with an element of the chunk's last result: that of its gradient's
 * last reader, or the loss.  Without it the products of all chunks could run first, as they do while a denominator that
 * other replicas count is missing. */
static void gate_hidden(Loss *l, ValueId num)
{
    Graph *g = l->g;
    const Shape scalar = shape_scalar();
    const int64_t ones[MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 }, zeros[MAX_RANK] = { 0 };
    ValueId v = l->n_reader ? l->reader[l->n_reader - 1].done : num;
    int rank;

    if (g->status)
        return;
    if ((rank = value(g, v)->shape->rank)) {
        const ValueId begin = emit_ints(g, rank, zeros);

        v = EMIT(g, Slice, NULL, v, begin, emit_ints(g, rank, ones));
    }
    if (!g->status)
        v = emit_cast(g, emit_reshape(g, v, &scalar), DT_BOOL);
    if (!g->status)
        l->hidden = EMIT(g, Gate, NULL, l->hidden, v);
}

/* Emits rows [from, to) and adds their numerator to *num. */
static Status emit_chunk(Loss *l, ValueId *num, int64_t from, int64_t to)
{
    Graph *g = l->g;
    const Node *p = l->product, *n;
    ValueId in[3] = { NO_VALUE, p->in[1], has_in(p, 2) ? p->in[2] : NO_VALUE }, x, target;

    begin_like(l, p);
    in[0] = l->hidden_k = emit_rows(l, l->hidden, from, to);
    if (!(n = chunk_loss_emit_like(l, p, in)))
        return g->status;
    x = n->out[0];
    if (l->add && (n = chunk_loss_emit_like(
                       l, l->add, l->row ? (const ValueId[]){ x, l->added } : (const ValueId[]){ l->added, x })))
        x = n->out[0];
    begin_like(l, l->sum);
    target = emit_rows(l, l->sum->in[1], from, to);
    if (!(n = chunk_loss_emit_like(l, l->sum, (const ValueId[]){ x, target })))
        return g->status;
    *num = emit_sum(g, *num, n->out[0]);
    if (l->grad && (n = chunk_loss_emit_like(l, l->grad, (const ValueId[]){ l->grad->in[0], x, target, n->out[2] })))
        for (int i = 0; i < l->n_reader && !g->status; i++)
            emit_reader(l, &l->reader[i], n->out[0], from, to);
    if (to < l->rows)
        gate_hidden(l, *num);
    return g->status;
}

/* Replaces the reader's result by that of all chunks. */
static void replace_reader(Loss *l, const GradReader *r)
{
    Graph *g = l->g;
    const ValueId out = (r->cast ? r->cast : r->n)->out[0];
    const int n = (int)((l->rows + l->chunk - 1) / l->chunk);
    ValueId y = r->so_far;

    begin_like(l, r->n);
    if (r->kind == BY_ROWS)
        y = emit(g, &op_Concat, ATTRS(INT("axis", 0)), n, r->part);
    if (!g->status)
        y = emit_cast(g, emit_reshape(g, y, value(g, out)->shape), value(g, out)->dtype);
    if (!g->status)
        graph_replace(g, out, y);
}

/* Puts the nodes from number `before` on onto the device and replica of the loss. */
static void chunk_loss_place(Loss *l, uint32_t before)
{
    for (uint32_t i = before; i < l->g->n_node; i++) {
        Node *n = l->g->node[i];

        n->replica = l->sum->replica;
        n->device = l->sum->device;
        for (int o = 0; o < n->n_out; o++) {
            value(l->g, n->out[o])->replica = n->replica;
            value(l->g, n->out[o])->device = n->device;
        }
    }
}

static void remove_all(Loss *l)
{
    for (int i = 0; i < l->n_gone; i++)
        graph_remove(l->g, l->gone[i]);
    for (int i = 0; i < l->n_reader; i++) {
        graph_remove(l->g, l->reader[i].n);
        if (l->reader[i].cast)
            graph_remove(l->g, l->reader[i].cast);
    }
    graph_remove(l->g, l->product);
    graph_remove(l->g, l->sum);
    if (l->add)
        graph_remove(l->g, l->add);
    if (l->grad)
        graph_remove(l->g, l->grad);
}

static Status chunk_loss_rewrite(Loss *l)
{
    Graph *g = l->g;
    const Shape *s = in_value(g, l->product, 0)->shape;
    const Shape matrix = SHAPE(l->rows, shape_columns(s)),
                row = SHAPE(shape_columns(value(g, l->product->out[0])->shape));
    const uint32_t before = g->n_node;
    ValueId num = NO_VALUE, den;

    for (int i = 0; i < l->n_reader; i++)
        if (!(l->reader[i].part = ARENA_NEW(l->ctx->scratch, ValueId, (size_t)(l->rows / l->chunk + 1))))
            return FAIL_NOMEM();
    begin_like(l, l->sum);
    den = emit_count(l);
    TRY(g->status);
    graph_replace(g, l->sum->out[1], den);
    begin_like(l, l->product);
    l->hidden = emit_reshape(g, l->product->in[0], &matrix);
    if (l->add)
        l->added = emit_reshape(g, l->add->in[l->row], &row);
    for (int64_t from = 0; from < l->rows; from += l->chunk)
        TRY(emit_chunk(l, &num, from, from + l->chunk < l->rows ? from + l->chunk : l->rows));
    graph_replace(g, l->sum->out[0], num);
    for (int i = 0; i < l->n_reader && !g->status; i++)
        replace_reader(l, &l->reader[i]);
    TRY(g->status);
    chunk_loss_place(l, before);
    remove_all(l);
    l->ctx->n_changed++;
    return graph_sort(g);
}

/* ---- entry ---- */

static Status chunk_loss_visit(Graph *g, PassCtx *ctx, Node *sum)
{
    Loss l = { .g = g, .ctx = ctx, .sum = sum, .rows = in_value(g, sum, 0)->shape->dim[0] };

    l.chunk = chunk_rows(ctx, in_value(g, sum, 0));
    if (l.chunk >= l.rows)
        return ST_OK;
    l.from_scores = ARENA_NEW(ctx->scratch, bool, g->n_node);
    l.gone = ARENA_NEW(ctx->scratch, Node *, g->n_node);
    if (!l.from_scores || !l.gone)
        return FAIL_NOMEM();
    TRY(uses_find(&l.uses, g, ctx->scratch));
    if (recognise(&l))
        return chunk_loss_rewrite(&l);
    return report_note(ctx->report, NOTE_OTHER, in_value(g, sum, 0)->name,
                       "these scores stay whole in spite of --chunk-loss: they are not rows times one matrix, or more "
                       "than their cross-entropy reads them");
}

static Status chunk_loss_run(Graph *g, PassCtx *ctx)
{
    Node **sum = ARENA_NEW(ctx->scratch, Node *, g->n_node + 1);
    int n_sum = 0;

    if (!memory_options(ctx->opt)->chunk_rows)
        return ST_OK;
    if (!sum)
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        if (n->op == &op_CrossEntropySum)
            sum[n_sum++] = n;
    for (int i = 0; i < n_sum; i++)
        TRY(chunk_loss_visit(g, ctx, sum[i]));
    return g->status;
}

const Pass pass_chunk_loss = { .name = "chunk-loss",
                               .summary = "compute large scores of a cross-entropy in chunks of rows",
                               .run = chunk_loss_run };
