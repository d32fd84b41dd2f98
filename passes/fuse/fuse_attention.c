/* fuse-attention: softmax(scale * Q K^T + mask) V becomes one ScaledDotProductAttention or one PackedAttention.
 *
 * The scores of every query against every key then never reach memory.  The pass recognises a Softmax along the last
 * axis, whose result only one product with V reads.  In front of it stand these, in any order, each with one reader:
 *
 *   product Q K^T       once; its factors may be scaled too
 *   scale               Mul or Div by a constant, in front of masks or behind them
 *   a causal mask       Where by a constant, or Add of one, checked element by element, or of the formula that
 * Attention is lowered to (graph/ops/transformer.c) another mask        Add of a tensor that fits the scores, or one
 * Where with a number.  It must depend on data alone: the node gives it no gradient, so a trained bias is left
 *
 * A causal mask may have any number up to -10^4 in place of -inf, because the exponential of such a score is zero
 * beside that of the query's own key.  That fails if another mask may hide the own key as well.  Then an added causal
 * mask is added like any other, and a number that Where chose becomes the node's `later`.  The pass leaves a choice in
 * front of an added mask, or beside another choice.  Where(IsNaN(p), 0, p) of the probabilities is fused too (`safe`).
 * Dropout of the probabilities is left, and so are forms that no fused kernel computes.
 *
 * Q, K and V are traced behind the Transposes, Reshapes, Slices and Splits that made them (graph/ir/views.h).  If the
 * three are the whole of one tensor, the result of one projection, PackedAttention reads that tensor, and the gradient
 * is one tensor as well.  Otherwise each is read as [B, T, H, D], which most models transpose from.  Transposes behind
 * the node that exchange heads and tokens again are removed likewise.  The pass runs before autodiff, so that the
 * gradient is fused too. */
#include <math.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/readers.h"
#include "graph/ir/rewrite.h"
#include "graph/ops/attention.gen.h"
#include "graph/ops/attention.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/select.gen.h"
#include "graph/ops/softmax.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"
#include "passes/pass.h"

enum { MASKS = 2 };
static const double HIDDEN = -1e4; /* a masked score is at most this */

typedef struct {
    Graph *g;
    Uses uses;     /* from before the pass */
    bool *trained; /* [value] does it depend on a state? */
    Draft draft;
} Fuse;

/* A mask v that is added `times` times. */
typedef struct {
    ValueId v;
    double times;
} Added;

typedef struct {
    ValueId q, k, v; /* the operands as the products read them */
    Node *last;      /* the product with V */
    bool k_rows;     /* k is [.., Tk, D], not [.., D, Tk] */
    double scale;
    bool causal, safe;
    bool soft; /* causal by one mask of finite numbers: by_add, or if that is none, Where with by_where */
    Added by_add;
    double by_where;
    double later; /* the score of later keys, as the node's attribute */
    int n_added;
    Added added[MASKS];
    ValueId chosen; /* a bool mask or none: where it is not `chosen_is`, a score is `fill` */
    bool chosen_is;
    double fill;
    Shape scores;
} Found;

/* An operand [batch, head, token, depth], as sizes and steps through the elements of `base`.  Axes of size 1 step 0. */
typedef struct {
    ValueId v, base;
    int rank;
    bool transposed; /* v is [.., D, T] */
    int64_t offset, size[4], step[4];
} Heads;

/* ---- reading the pattern ---- */

static ValueId input(const Fuse *f, const Node *n, int i) { return rewrite_in(f->g, n->in[i]); }

/* Does n scale an input *x by a constant number, and keep its shape?  Multiplies *scale. */
static bool is_scaling(const Fuse *f, const Node *n, ValueId *x, double *scale)
{
    const Graph *g = f->g;
    double c;
    const int at = n->op == &op_Mul || n->op == &op_Div ? const_input(g, n, &c) : -1;

    if (at < 0 || (n->op == &op_Div && at == 0) || !shape_eq(in_value(g, n, 1 - at)->shape, value(g, n->out[0])->shape))
        return false;
    *scale *= n->op == &op_Div ? 1 / c : c;
    *x = input(f, n, 1 - at);
    return true;
}

/* The value that v is a multiple of; multiplies *scale. */
static ValueId peel_scale(const Fuse *f, ValueId v, double *scale)
{
    Node *n;

    while ((n = inner_maker(&f->uses, v)) && is_scaling(f, n, &v, scale))
        ;
    return v;
}

/* The constant of v, [1, ..., Tq, Tk] as the scores; NULL: it is none. */
static const Tensor *constant_mask(const Graph *g, ValueId v, const Shape *scores)
{
    const Tensor *t = has_value(v) ? value_const(g, v) : NULL;
    int r = t ? t->shape.rank : 0;

    if (r < 2 || t->shape.dim[r - 2] != scores->dim[scores->rank - 2] ||
        t->shape.dim[r - 1] != scores->dim[scores->rank - 1])
        return NULL;
    return shape_count(&t->shape, 0, r - 2) == 1 ? t : NULL;
}

/* Times `times`, is element [i, j] of the mask `seen` for j <= i, and `hidden` for j > i? */
static bool is_causal(const Tensor *t, double times, bool (*seen)(double), bool (*hidden)(double))
{
    int64_t cols = t->shape.dim[t->shape.rank - 1];

    for (int64_t n = 0; n < tensor_numel(t); n++) {
        double x = t->dtype == DT_BOOL ? (double)((const unsigned char *)t->data)[n] : tensor_float(t, n) * times;

        if (n % cols <= n / cols ? !seen(x) : !hidden(x))
            return false;
    }
    return true;
}

static bool is_zero(double x) { return x == 0; }
static bool is_set(double x) { return x != 0; }
static bool is_hidden(double x) { return x <= HIDDEN; }
static bool is_gone(double x) { return x == -INFINITY; }

/* Does a Where with a finite number hide later keys? */
static bool chose_later(const Found *m) { return m->soft && !has_value(m->by_add.v); }

/* Records a causal mask: of -inf (`gone`), or of finite numbers, `add` or `number`, which count beside another mask.
 * False: a Where behind it would show later keys again, or there is another finite one. */
static bool take_causal(Found *m, bool gone, Added add, double number)
{
    if ((has_value(m->chosen) && m->fill != -INFINITY) || (!gone && m->soft) || chose_later(m))
        return false;
    m->soft = m->causal ? m->soft && !gone : !gone;
    m->causal = true;
    if (m->soft && !gone) {
        m->by_add = add;
        m->by_where = number;
    }
    return true;
}

/* May v be a mask of the node?  It fits the scores, and does not depend on a trained state. */
static bool fits_scores(const Fuse *f, ValueId v, const Shape *scores)
{
    const Shape *s = has_value(v) && v.i < f->uses.n_value ? value(f->g, v)->shape : NULL;

    if (!s || !shape_known(s) || s->rank > scores->rank || f->trained[v.i])
        return false;
    for (int i = 1; i <= s->rank; i++)
        if (s->dim[s->rank - i] != 1 && s->dim[s->rank - i] != scores->dim[scores->rank - i])
            return false;
    return true;
}

static bool fuse_attention_is_number(const Graph *g, ValueId v, double is)
{
    double number;

    return value_const_number(g, v, &number) && number == is;
}

/* Is the mask Where(Trilu(Expand(true)), 0, -inf) of [Tq, Tk]?  A causal Attention is lowered to it; it may be too
 * large to be folded. */
static bool is_causal_formula(const Fuse *f, ValueId mask, const Shape *scores)
{
    const Graph *g = f->g;
    const Tensor *one;
    const Node *where = value(g, mask)->producer, *tril, *all;
    const Shape all_keys = SHAPE(scores->dim[scores->rank - 2], scores->dim[scores->rank - 1]);

    if (!where || where->op != &op_Where || !fuse_attention_is_number(g, where->in[1], 0) ||
        !fuse_attention_is_number(g, where->in[2], -INFINITY))
        return false;
    tril = in_value(g, where, 0)->producer;
    if (!tril || tril->op != &op_Trilu || node_int(tril, "upper") ||
        (has_in(tril, 1) && !fuse_attention_is_number(g, tril->in[1], 0)))
        return false;
    all = in_value(g, tril, 0)->producer;
    if (!all || all->op != &op_Expand || !(one = value_const(g, all->in[0])))
        return false;
    return tensor_numel(one) == 1 && tensor_int(one, 0) && shape_eq(value(g, mask)->shape, &all_keys);
}

/* Records the mask that n adds to the scores *x. */
static bool take_add(const Fuse *f, Found *m, const Node *n, ValueId *x)
{
    const Graph *g = f->g;

    for (int data = 0; data < 2; data++) {
        const ValueId mask = input(f, n, 1 - data);
        const Tensor *t = constant_mask(g, mask, &m->scores);

        if (!inner_maker(&f->uses, n->in[data]) || !shape_eq(in_value(g, n, data)->shape, &m->scores) ||
            !fits_scores(f, mask, &m->scores))
            continue;
        *x = input(f, n, data);
        if (t && dtype_is_float(t->dtype) && is_causal(t, m->scale, is_zero, is_hidden))
            return take_causal(m, is_causal(t, m->scale, is_zero, is_gone), (Added){ mask, m->scale }, 0);
        if (m->scale > 0 && is_causal_formula(f, mask, &m->scores))
            return take_causal(m, true, (Added){ mask, m->scale }, 0);
        if (m->n_added == MASKS || has_value(m->chosen) || chose_later(m))
            return false;
        m->added[m->n_added++] = (Added){ mask, m->scale };
        return true;
    }
    return false;
}

/* Records the mask c of Where(c, x, number) or Where(c, number, x). */
static bool take_where(const Fuse *f, Found *m, const Node *n, ValueId *x)
{
    const Graph *g = f->g;
    const ValueId mask = input(f, n, 0);
    double fill;
    int data;

    if (value_const_number(g, n->in[2], &fill))
        data = 1;
    else if (value_const_number(g, n->in[1], &fill))
        data = 2;
    else
        return false;
    const Tensor *t = constant_mask(g, mask, &m->scores);

    fill *= m->scale;
    if (isnan(fill) || !shape_eq(in_value(g, n, data)->shape, &m->scores) || !fits_scores(f, mask, &m->scores))
        return false;
    *x = input(f, n, data);
    if (t && is_hidden(fill) && (data == 1 ? is_causal(t, 1, is_set, is_zero) : is_causal(t, 1, is_zero, is_set)))
        return take_causal(m, is_gone(fill), (Added){ .times = 0 }, fill);
    if (has_value(m->chosen) || m->n_added || m->soft)
        return false;
    m->chosen = mask;
    m->chosen_is = data == 1;
    m->fill = fill;
    return true;
}

static bool flag(const Node *n, const char *name) { return n->op == &op_BatchMatMul && node_int(n, name); }

/* The product with V behind the Softmax, from the left; *safe: with Where(IsNaN(p), 0, p) between.  NULL: there is
 * another reader. */
static Node *product_behind(const Fuse *f, const Node *softmax, bool *safe)
{
    const Uses *u = &f->uses;
    ValueId p = softmax->out[0];
    Node *n = uses_count(u, p) == 2 && !u->ends[p.i] ? u->reader[u->first[p.i] + 1].n : NULL;

    *safe = n && n->op == &op_Where && value_eq(n->in[2], p) && fuse_attention_is_number(f->g, n->in[1], 0);
    if (*safe) {
        const Node *is_nan = inner_maker(u, n->in[0]);

        *safe = is_nan && is_nan->op == &op_IsNaN && value_eq(is_nan->in[0], p);
    }
    p = *safe ? n->out[0] : p;
    n = only_reader(u, p);
    if (!n || node_int(softmax, "axis") != in_value(f->g, softmax, 0)->shape->rank - 1 || node_int(softmax, "flatten"))
        return NULL;
    if ((n->op != &op_MatMul && n->op != &op_BatchMatMul) || !value_eq(n->in[0], p) || flag(n, "transA") ||
        flag(n, "transB"))
        return NULL;
    return n->op == &op_BatchMatMul && node_float(n, "alpha") != 1 ? NULL : n;
}

/* Are q, k and v of three or four axes, with one depth and agreeing sizes? */
static bool shapes_fit(const Graph *g, const Found *m)
{
    const Shape *q = value(g, m->q)->shape, *k = value(g, m->k)->shape, *v = value(g, m->v)->shape;
    const int r = q->rank, depth = m->k_rows ? r - 1 : r - 2, keys = m->k_rows ? r - 2 : r - 1;

    if ((r != 3 && r != 4) || k->rank != r || v->rank != r)
        return false;
    for (int i = 0; i < r - 2; i++)
        if (q->dim[i] != k->dim[i] || q->dim[i] != v->dim[i])
            return false;
    return k->dim[depth] == q->dim[r - 1] && v->dim[r - 1] == q->dim[r - 1] && k->dim[keys] == v->dim[r - 2] &&
           shape_numel(q) && shape_numel(v);
}

/* Reads the pattern around a Softmax, from the product with V back to Q K^T. */
static bool fuse_attention_find(const Fuse *f, const Node *softmax, Found *m)
{
    bool safe;
    Node *last = product_behind(f, softmax, &safe), *n;
    ValueId x;

    *m = (Found){ .last = last, .scale = 1, .fill = -INFINITY, .later = -INFINITY, .safe = safe };
    if (!last)
        return false;
    m->scores = *in_value(f->g, softmax, 0)->shape;
    for (x = input(f, softmax, 0); (n = inner_maker(&f->uses, x));) {
        if (n->op == &op_MatMul || n->op == &op_BatchMatMul)
            break;
        if (n->op == &op_Add     ? !take_add(f, m, n, &x)
            : n->op == &op_Where ? !take_where(f, m, n, &x)
                                 : !is_scaling(f, n, &x, &m->scale))
            return false;
    }
    if (!n || flag(n, "transA"))
        return false;
    m->k_rows = flag(n, "transB");
    if (n->op == &op_BatchMatMul)
        m->scale *= node_float(n, "alpha");
    m->q = peel_scale(f, input(f, n, 0), &m->scale);
    m->k = peel_scale(f, input(f, n, 1), &m->scale);
    m->v = input(f, last, 1);
    if (!isfinite(m->scale) || !shapes_fit(f->g, m))
        return false;
    if (!m->soft || (!m->n_added && !has_value(m->chosen)))
        return true;
    /* Beside another mask finite numbers count: an added mask is added like any, a chosen number becomes `later`. */
    if (has_value(m->chosen) || (!chose_later(m) && m->n_added == MASKS))
        return false;
    if (chose_later(m)) {
        m->later = m->by_where;
        return true;
    }
    m->added[m->n_added++] = m->by_add;
    m->causal = false;
    return true;
}

/* ---- operands in memory ---- */

/* Makes `axis` of the view axis `as` of the operand.  False: it has more than one digit. */
static bool read_axis(Heads *o, const Strided *s, int axis, int as)
{
    Digit d;
    int n = strided_axis(s, axis, 1, &d);

    o->size[as] = n > 0 ? d.size : 1;
    o->step[as] = n > 0 ? d.step : 0;
    return n >= 0;
}

/* Reads the sizes and steps of an operand.  With three axes, the first counts samples, or heads of samples. */
static bool read_operand(Heads *o, const Fuse *f, ValueId v, bool transposed)
{
    const int rank = value(f->g, v)->shape->rank;
    Strided s;
    Digit d[2];
    int n;

    *o = (Heads){ .v = v, .rank = rank, .transposed = transposed };
    strided_of(&s, &o->base, f->g, v);
    o->offset = s.offset;
    if (!read_axis(o, &s, transposed ? rank - 1 : rank - 2, 2) ||
        !read_axis(o, &s, transposed ? rank - 2 : rank - 1, 3))
        return false;
    if (rank == 4)
        return read_axis(o, &s, 0, 0) && read_axis(o, &s, 1, 1);
    n = strided_axis(&s, 0, 2, d);
    for (int i = 0; i < 2; i++) {
        o->size[i] = i < n ? d[i].size : 1;
        o->step[i] = i < n ? d[i].step : 0;
    }
    return n >= 0;
}

static bool steps(const Heads *o, int axis, int64_t step) { return o->size[axis] == 1 || o->step[axis] == step; }

/* PackedAttention's attributes of Q, K and V within one tensor, by the steps of the first operand: are a head's three
 * side by side, and do tokens come before samples? */
static bool is_interleaved(const Heads *o) { return o->size[1] > 1 && o->step[1] == 3 * o->size[3]; }

static bool is_tokens_first(const Heads *o)
{
    const int64_t width = 3 * o->size[1] * o->size[3];

    return o->size[0] > 1 && o->size[2] > 1 && o->step[0] == width && o->step[2] != width;
}

/* Elements from one of the three to the next. */
static int64_t unit_of(const Heads *o) { return o->size[3] * (is_interleaved(o) ? 1 : o->size[1]); }

/* Are the three the whole of one base?  Sets `order`, their places there. */
static bool is_packed(int64_t order[3], const Heads o[3], const Graph *g)
{
    const int64_t *n = o->size, width = 3 * n[1] * n[3], unit = unit_of(o);
    const bool tokens_first = is_tokens_first(o);
    unsigned seen = 0;

    for (int i = 0; i < 3; i++) {
        if (!value_eq(o[i].base, o->base) || memcmp(o[i].size, n, sizeof o->size) ||
            memcmp(o[i].step, o->step, sizeof o->step) || o[i].offset < 0 || o[i].offset % unit ||
            o[i].offset / unit > 2)
            return false;
        order[i] = o[i].offset / unit;
        seen |= 1u << order[i];
    }
    return seen == 7 && steps(o, 3, 1) && steps(o, 1, n[3] * (is_interleaved(o) ? 3 : 1)) &&
           steps(o, 2, width * (tokens_first ? n[0] : 1)) && steps(o, 0, width * (tokens_first ? 1 : n[2])) &&
           shape_numel(value(g, o->base)->shape) == n[0] * n[2] * width;
}

/* ---- writing the node ---- */

/* v with its axes permuted, read from before the Transposes that made it. */
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
        v = rewrite_in(g, n->in[0]);
    }
    for (int i = 0; i < rank; i++)
        if (p[i] != i)
            return emit_transpose(g, v, rank, p);
    return v;
}

static ValueId shaped(Graph *g, ValueId v, Shape s) { return emit_reshape(g, v, &s); }

/* The operand as [B, T, H, D]. */
static ValueId to_tokens(Graph *g, const Heads *o)
{
    static const int64_t heads[2][4] = { { 0, 2, 1, 3 }, { 0, 3, 1, 2 } }, single[2][3] = { { 0, 1, 2 }, { 0, 2, 1 } };
    const int64_t *n = o->size;

    if (g->status)
        return NO_VALUE;
    if (o->rank == 3 && n[1] == 1) {
        const ValueId v = permuted(g, o->v, 3, single[o->transposed]);

        return EMIT(g, Unsqueeze, NULL, v, emit_ints(g, 1, (int64_t[]){ 2 }));
    }
    if (o->offset == 0 && steps(o, 3, 1) && steps(o, 1, n[3]) && steps(o, 2, n[1] * n[3]) &&
        steps(o, 0, n[2] * n[1] * n[3]) && shape_numel(value(g, o->base)->shape) == n[0] * n[1] * n[2] * n[3])
        return shaped(g, o->base, SHAPE(n[0], n[2], n[1], n[3]));
    if (o->rank == 4)
        return permuted(g, o->v, 4, heads[o->transposed]);
    return permuted(g,
                    o->transposed ? shaped(g, o->v, SHAPE(n[0], n[1], n[3], n[2]))
                                  : shaped(g, o->v, SHAPE(n[0], n[1], n[2], n[3])),
                    4, heads[o->transposed]);
}

/* The mask of four axes.  The scores are [B, H, Tq, Tk], or with three axes [B H, Tq, Tk]. */
static ValueId to_mask(Graph *g, ValueId v, int rank, const Heads *q)
{
    const Shape *s = value(g, v)->shape;
    int64_t front[MAX_RANK] = { 0, 1, 2, 3 };

    if (rank == 3 && s->rank == 3 && s->dim[0] != 1 && q->size[1] > 1)
        return shaped(g, v, SHAPE(q->size[0], q->size[1], s->dim[1], s->dim[2]));
    if (rank == 3 && s->rank == 3)
        front[0] = 1;
    return s->rank == 4 ? v : EMIT(g, Unsqueeze, NULL, v, emit_ints(g, 4 - s->rank, front));
}

/* The node's mask: the chosen one, or the sum of those added; NO_VALUE: none. */
static ValueId emit_mask(Graph *g, const Found *m, const Heads *q)
{
    const DType dtype = value(g, m->q)->dtype;
    ValueId sum = NO_VALUE;

    if (has_value(m->chosen))
        return to_mask(g, m->chosen_is ? m->chosen : EMIT(g, Not, NULL, m->chosen), m->scores.rank, q);
    for (int i = 0; i < m->n_added && !g->status; i++) {
        const Added *a = &m->added[i];
        ValueId v = a->times == 1 ? a->v : EMIT(g, Mul, NULL, a->v, emit_scalar(g, dtype, a->times));

        if (!g->status)
            v = to_mask(g, v, m->scores.rank, q);
        sum = i ? EMIT(g, Add, NULL, sum, v) : v;
    }
    return sum;
}

/* Drafts the attention node in place of the product with V: PackedAttention with the operands in that order, which the
 * draft keeps; `order` NULL: they are apart. */
static void draft_node(Draft *d, const Found *m, const Heads o[3], const int64_t *order)
{
    Graph *g = d->g;
    const int64_t *n = o->size, width = 3 * n[1] * n[3];

    draft_begin(d, m->last, order ? &op_PackedAttention : &op_ScaledDotProductAttention);
    draft_clear(d);
    if (order)
        draft_in(d, 0, shaped(g, o->base, is_tokens_first(o) ? SHAPE(n[2], n[0], width) : SHAPE(n[0], n[2], width)));
    for (int i = 0; i < 3 && !order; i++)
        draft_in(d, i, to_tokens(g, &o[i]));
    draft_in(d, attention_mask(&d->node), emit_mask(g, m, o));
    draft_new_out(d, 0, m->last->out[0], ".tokens");
    draft_new_out(d, 1, m->last->out[0], ".log_sums");
    draft_attrs(d, ATTRS(INT("causal", m->causal), FLOAT("later", m->later), FLOAT("scale", m->scale),
                         FLOAT("fill", m->fill), INT("safe", m->safe)));
    if (order)
        draft_attrs(d, ATTRS(INT("heads", o->size[1]), INT("interleaved", is_interleaved(o)),
                             INT("tokens_first", is_tokens_first(o)), INTS("order", 3, order)));
}

/* Does the target compute the node in the types that passes/train/precision.c will give it?  Temporarily replaces the
 * inputs by values of these types. */
static bool fits_low(Draft *d)
{
    Graph *g = d->g;
    const DType low = d->target->precision;
    ValueId in[4];
    const int n_in = d->node.n_in;
    bool fits;

    for (int i = 0; i < n_in; i++) {
        in[i] = d->node.in[i];
        if (low != DT_NONE && has_value(in[i]) && value(g, in[i])->dtype == DT_FLOAT32)
            draft_in(d, i, graph_add_value(g, V_TEMP, value(g, in[i])->name, low, value(g, in[i])->shape));
    }
    fits = draft_is_supported(d);
    for (int i = 0; i < n_in; i++)
        draft_in(d, i, in[i]);
    return fits;
}

/* Replaces views of `result`, which reads y by the steps s, by reshapes of y where they have y's elements in order. */
static void read_through(const Fuse *f, ValueId result, const Strided *s, ValueId y)
{
    Graph *g = f->g;
    const Uses *u = &f->uses;

    for (uint32_t i = u->first[result.i]; i < u->first[result.i + 1] && !g->status; i++) {
        const Node *n = u->reader[i].n;
        Strided t = *s;

        if (u->reader[i].in || n->n_out != 1 || !node_strided(g, n, 0, &t))
            continue;
        if (strided_is_rows(&t) && shape_numel(value(g, n->out[0])->shape) == shape_numel(value(g, y)->shape))
            graph_replace(g, n->out[0], emit_reshape(g, y, value(g, n->out[0])->shape));
        else
            read_through(f, n->out[0], &t, y);
    }
}

/* Reads each operand as its own [B, T, D] or [B, H, T, D], when the three do not agree in samples and heads. */
static void take_as_they_are(const Graph *g, const Found *m, Heads o[3])
{
    const ValueId v[] = { m->q, m->k, m->v };

    for (int i = 0; i < 3; i++) {
        const Shape *s = value(g, v[i])->shape;
        const bool transposed = i == 1 && !m->k_rows;
        const int r = s->rank;

        o[i] = (Heads){ .v = v[i], .base = v[i], .rank = r, .transposed = transposed, .offset = -1 };
        o[i].size[0] = s->dim[0];
        o[i].size[1] = r == 4 ? s->dim[1] : 1;
        o[i].size[2] = s->dim[transposed ? r - 1 : r - 2];
        o[i].size[3] = s->dim[transposed ? r - 2 : r - 1];
    }
}

static bool fuse_attention_rewrite(Fuse *f, const Found *m)
{
    static const int64_t back[2][4] = { { 0, 2, 1, 3 }, { 1, 2, 0, 3 } };
    Graph *g = f->g;
    Draft *d = &f->draft;
    const ValueId result = m->last->out[0];
    Heads o[3];
    ValueId by, base;
    Strided s;
    int64_t order[3];
    bool packed, tokens_first;

    for (int i = 0; i < m->n_added; i++)
        if (value(g, m->added[i].v)->dtype != value(g, m->q)->dtype)
            return false;
    if (!read_operand(&o[0], f, m->q, false) || !read_operand(&o[1], f, m->k, !m->k_rows) ||
        !read_operand(&o[2], f, m->v, false) || o[0].size[0] != o[1].size[0] || o[0].size[1] != o[1].size[1] ||
        o[0].size[0] != o[2].size[0] || o[0].size[1] != o[2].size[1])
        take_as_they_are(g, m, o);
    packed = target_fuses(d->target, &op_PackedAttention) && is_packed(order, o, g);
    tokens_first = packed && is_tokens_first(o);
    draft_node(d, m, o, packed ? order : NULL);
    if (!fits_low(d))
        return false;
    draft_apply(d);
    if (!g->status)
        g->status = node_infer(g, m->last);
    if (g->status)
        return false;
    by = m->last->out[0]; /* [B, T, H, D] or [T, B, H, D], to the shape of the product's result */
    if (o->rank == 3 && o->size[1] == 1 && !tokens_first)
        by = EMIT(g, Squeeze, NULL, by, emit_ints(g, 1, (int64_t[]){ 2 }));
    else {
        by = emit_transpose(g, by, 4, back[tokens_first]);
        if (o->rank == 3 && !g->status)
            by = shaped(g, by, SHAPE(o->size[0] * o->size[1], o->size[2], o->size[3]));
    }
    if (g->status)
        return false;
    graph_replace(g, result, by);
    strided_of(&s, &base, g, by);
    read_through(f, result, &s, m->last->out[0]);
    return true;
}

/* ---- entry ---- */

/* Sets f->trained. */
static Status find_trained(Fuse *f, Arena *a)
{
    const Graph *g = f->g;

    if (!(f->trained = ARENA_NEW(a, bool, g->n_value)))
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value; i++)
        f->trained[i] = g->value[i]->kind == V_STATE;
    FOR_NODES(g, n) {
        bool trained = false;

        for (int k = 0; k < n->n_in; k++)
            trained |= f->trained[n->in[k].i];
        for (int k = 0; k < n->n_out; k++)
            f->trained[n->out[k].i] = trained && has_out(n, k);
    }
    return ST_OK;
}

static Status fuse_attention_run(Graph *g, PassCtx *ctx)
{
    const uint32_t n_node = g->n_node;
    Fuse f = { .g = g };
    Found m;

    if (!target_fuses(build_target(ctx->opt), &op_ScaledDotProductAttention))
        return ST_OK;
    TRY(uses_find(&f.uses, g, ctx->scratch));
    TRY(find_trained(&f, ctx->scratch));
    TRY(rewrite_begin(g, ctx->scratch));
    pass_draft(&f.draft, g, ctx);
    for (uint32_t i = 0; i < n_node && !g->status; i++) {
        rewrite_read(g, g->node[i]);
        if (g->node[i]->op == &op_Softmax && fuse_attention_find(&f, g->node[i], &m))
            ctx->n_changed += fuse_attention_rewrite(&f, &m);
    }
    TRY(rewrite_end(g));
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_fuse_attention = { .name = "fuse-attention",
                                   .summary = "merge softmax(scale Q K^T + mask) V into one node",
                                   .run = fuse_attention_run };
