/* fuse-attention: softmax(scale * Q K^T + mask) V becomes one ScaledDotProductAttention.
 *
 * The scores of every query against every key then never reach memory.  Recognised is a Softmax along the last axis
 * whose result feeds one product with V and nothing else, behind
 *
 *   product Q K^T; or its factors scaled        scale: Mul or Div by a constant, on the product or on Q and K
 *   optionally a causal mask                    Where by a constant, or Add of one, checked element by element
 *
 * in this order, each value with a single reader.  A masked score may be any number up to -10^4 in place of -inf: its
 * exponential is zero beside scores that are not.  What is anything else (dropout of the probabilities, a mask that
 * depends on data, a bias) is left alone, and so is what no fused kernel computes.  The new node wants [B, T, H, D],
 * which is what models transpose from: Transposes that undo each other are left out.  Before autodiff, so that the
 * gradient is fused too. */
#include <math.h>

#include "graph/emit.h"
#include "graph/rewrite.h"
#include "passes/pass.h"

enum { DEPTH_STEP = 8, DEPTH_MOST = 128 }; /* of what fused kernels take */
static const double HIDDEN = -1e4;         /* a masked score is at most this */

typedef struct {
    Graph *g;
    const uint32_t *uses;
    uint32_t n_value, n_node; /* from before the pass */
    uint32_t *transpose;      /* [value] 1 + a Transpose that reads it, 0: none; the others follow */
    uint32_t *next;           /* by node */
} Fuse;

typedef struct {
    ValueId q, kt, v, out;
    double scale;
    bool causal;
} Found;

/* ---- reading the pattern ---- */

/* The node that makes `v`, when that has one reader alone. */
static Node *inner(const Fuse *f, ValueId v)
{
    return has_value(v) && v.i < f->n_value && f->uses[v.i] == 1 ? value(f->g, v)->producer : NULL;
}

/* Whether n multiplies or divides one input by a constant number, and leaves its shape. */
static bool is_scaling(const Graph *g, const Node *n, ValueId *x, double *scale)
{
    double c;
    int data;

    if (n->op == &op_Mul && value_const_number(g, n->in[0], &c))
        data = 1;
    else if ((n->op == &op_Mul || n->op == &op_Div) && value_const_number(g, n->in[1], &c))
        data = 0;
    else
        return false;
    if (!shape_eq(&in_value(g, n, data)->shape, &value(g, n->out[0])->shape))
        return false;
    *scale *= n->op == &op_Div ? 1 / c : c;
    *x = n->in[data];
    return true;
}

static ValueId peel_scale(const Fuse *f, ValueId v, double *scale)
{
    Node *n;

    while ((n = inner(f, v)) && is_scaling(f->g, n, &v, scale))
        ;
    return v;
}

/* A constant [1, ..., Tq, Tk] that fits the scores. */
static const Tensor *mask_of(const Graph *g, ValueId v, const Shape *scores)
{
    const Tensor *t = has_value(v) ? value_const(g, v) : NULL;
    int r = t ? t->shape.rank : 0;

    if (r < 2 || t->shape.dim[r - 2] != scores->dim[scores->rank - 2] ||
        t->shape.dim[r - 1] != scores->dim[scores->rank - 1])
        return NULL;
    return shape_count(&t->shape, 0, r - 2) == 1 ? t : NULL;
}

/* Is element [i, j] of the mask `seen` for j <= i, and `hidden` for j > i? */
static bool is_causal(const Tensor *t, bool (*seen)(double), bool (*hidden)(double))
{
    int64_t cols = t->shape.dim[t->shape.rank - 1];

    for (int64_t n = 0; n < tensor_numel(t); n++) {
        double x = t->dtype == DT_BOOL ? (double)((const unsigned char *)t->data)[n] : tensor_float(t, n);

        if (n % cols <= n / cols ? !seen(x) : !hidden(x))
            return false;
    }
    return true;
}

static bool is_zero(double x) { return x == 0; }
static bool is_set(double x) { return x != 0; }
static bool is_hidden(double x) { return x <= HIDDEN; }

static bool all_hidden(const Graph *g, ValueId v)
{
    const Tensor *t = has_value(v) ? value_const(g, v) : NULL;

    for (int64_t i = 0; t && i < tensor_numel(t); i++)
        if (!dtype_is_float(t->dtype) || !is_hidden(tensor_float(t, i)))
            return false;
    return t && tensor_numel(t) > 0;
}

/* Whether n hides the scores of later keys, and of them alone; *x: the scores. */
static bool is_mask(const Graph *g, const Node *n, ValueId *x)
{
    const Shape *scores = &value(g, n->out[0])->shape;
    const Tensor *t;
    int data;

    if (n->op == &op_Add) {
        data = value_const(g, n->in[0]) ? 1 : 0;
        if (!(t = mask_of(g, n->in[1 - data], scores)) || !dtype_is_float(t->dtype) ||
            !is_causal(t, is_zero, is_hidden))
            return false;
    } else if (n->op == &op_Where) {
        if (!(t = mask_of(g, n->in[0], scores)) || t->dtype != DT_BOOL)
            return false;
        data = is_causal(t, is_set, is_zero) ? 1 : 2;
        if ((data == 2 && !is_causal(t, is_zero, is_set)) || !all_hidden(g, n->in[3 - data]))
            return false;
    } else
        return false;
    *x = n->in[data];
    return shape_eq(&value(g, *x)->shape, scores);
}

/* Softmax along the last axis, then one product from the left. */
static Node *product_behind(const Fuse *f, const Node *softmax)
{
    const Shape *s = &in_value(f->g, softmax, 0)->shape;

    if (node_int(softmax, "axis") != s->rank - 1 || node_int(softmax, "flatten") || f->uses[softmax->out[0].i] != 1)
        return NULL;
    for (uint32_t i = 0; i < f->n_node; i++) {
        Node *n = f->g->node[i];

        if (n->op == &op_MatMul && value_eq(n->in[0], softmax->out[0]))
            return n;
    }
    return NULL;
}

static bool shapes_fit(const Graph *g, const Found *m)
{
    const Shape *q = &value(g, m->q)->shape, *k = &value(g, m->kt)->shape, *v = &value(g, m->v)->shape;
    int r = q->rank;
    int64_t depth = r == 3 || r == 4 ? q->dim[r - 1] : 0;

    if (!depth || k->rank != r || v->rank != r || depth % DEPTH_STEP || depth > DEPTH_MOST)
        return false;
    for (int i = 0; i < r - 2; i++)
        if (q->dim[i] != k->dim[i] || q->dim[i] != v->dim[i])
            return false;
    return k->dim[r - 2] == depth && v->dim[r - 1] == depth && k->dim[r - 1] == v->dim[r - 2] && shape_numel(q) &&
           shape_numel(v);
}

static bool find(const Fuse *f, const Node *softmax, Found *m)
{
    Node *behind = product_behind(f, softmax), *n;
    ValueId x = softmax->in[0];

    *m = (Found){ .scale = 1 };
    if (!behind)
        return false;
    if ((n = inner(f, x)) && is_mask(f->g, n, &x))
        m->causal = true;
    x = peel_scale(f, x, &m->scale);
    if (!(n = inner(f, x)) || n->op != &op_MatMul)
        return false;
    m->q = peel_scale(f, n->in[0], &m->scale);
    m->kt = peel_scale(f, n->in[1], &m->scale);
    m->v = behind->in[1];
    m->out = behind->out[0];
    return isfinite(m->scale) && shapes_fit(f->g, m);
}

/* ---- writing the node ---- */

static bool is_identity(int rank, const int64_t *perm)
{
    for (int i = 0; i < rank; i++)
        if (perm[i] != i)
            return false;
    return true;
}

/* v with its axes permuted, from before the Transposes that made it. */
static ValueId permuted(Graph *g, ValueId v, int rank, const int64_t *perm)
{
    int64_t p[MAX_RANK], before[MAX_RANK];
    const Node *n;
    int count;

    for (int i = 0; i < rank; i++)
        p[i] = perm[i];
    while (!g->status && (n = value(g, v)->producer) && n->op == &op_Transpose) {
        for (int i = 0; i < rank; i++)
            before[i] = node_ints(n, "perm", &count)[p[i]];
        for (int i = 0; i < rank; i++)
            p[i] = before[i];
        v = n->in[0];
    }
    return is_identity(rank, p) ? v : emit_transpose(g, v, rank, p);
}

/* [B, H, T, D] or [B, T, D] as [B, T, H, D]; `transposed`: the last two axes come exchanged. */
static ValueId to_tokens(Graph *g, ValueId v, bool transposed)
{
    static const int64_t heads[2][4] = { { 0, 2, 1, 3 }, { 0, 3, 1, 2 } }, single[2][3] = { { 0, 1, 2 }, { 0, 2, 1 } };

    if (g->status)
        return NO_VALUE;
    if (value(g, v)->shape.rank == 4)
        return permuted(g, v, 4, heads[transposed]);
    return EMIT(g, Unsqueeze, NULL, permuted(g, v, 3, single[transposed]), emit_ints(g, 1, (int64_t[]){ 2 }));
}

static Status find_transposes(Fuse *f, Arena *a)
{
    f->transpose = ARENA_NEW(a, uint32_t, f->n_value);
    f->next = ARENA_NEW(a, uint32_t, f->n_node);
    if (!f->transpose || !f->next)
        return FAIL_NOMEM();
    for (uint32_t i = f->n_node; i-- > 0;)
        if (f->g->node[i]->op == &op_Transpose) {
            f->next[i] = f->transpose[f->g->node[i]->in[0].i];
            f->transpose[f->g->node[i]->in[0].i] = i + 1;
        }
    return ST_OK;
}

/* Everything that reads the result `out`, now y, transposed reads it from the source instead. */
static void read_through(const Fuse *f, ValueId out, ValueId y)
{
    Graph *g = f->g;

    for (uint32_t i = f->transpose[out.i]; i && !g->status; i = f->next[i - 1]) {
        const Node *n = g->node[i - 1];
        int count;

        graph_replace(g, n->out[0], permuted(g, y, 4, node_ints(n, "perm", &count)));
    }
}

static void rewrite(const Fuse *f, const Found *m)
{
    static const int64_t back[] = { 0, 2, 1, 3 };
    Graph *g = f->g;
    int rank = value(g, m->q)->shape.rank;
    ValueId q = to_tokens(g, m->q, false), k = to_tokens(g, m->kt, true), v = to_tokens(g, m->v, false), y[2], by;

    EMIT_MULTI(g, ScaledDotProductAttention, ATTRS(INT("causal", m->causal), FLOAT("scale", m->scale)), 2, y, q, k, v);
    if (g->status)
        return;
    by = rank == 4 ? emit_transpose(g, y[0], 4, back) : EMIT(g, Squeeze, NULL, y[0], emit_ints(g, 1, (int64_t[]){ 2 }));
    if (g->status)
        return;
    graph_replace(g, m->out, by);
    if (rank == 4)
        read_through(f, m->out, by);
}

static Status run(Graph *g, PassCtx *ctx)
{
    Fuse f = { .g = g, .n_value = g->n_value, .n_node = g->n_node };
    Found m;

    if (!target_fuses(&ctx->opt->backend, &op_ScaledDotProductAttention))
        return ST_OK;
    if (!(f.uses = graph_count_uses(g, ctx->scratch)))
        return FAIL_NOMEM();
    TRY(find_transposes(&f, ctx->scratch));
    TRY(rewrite_begin(g, ctx->scratch));
    for (uint32_t i = 0; i < f.n_node && !g->status; i++) {
        rewrite_read(g, g->node[i]);
        if (g->node[i]->op == &op_Softmax && find(&f, g->node[i], &m)) {
            rewrite(&f, &m);
            ctx->n_changed++;
        }
    }
    TRY(rewrite_end(g));
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_fuse_attention = { .name = "fuse-attention",
                                   .summary = "merge softmax(scale Q K^T + causal mask) V into one node",
                                   .run = run };
