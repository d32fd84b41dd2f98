/* Nodes that compute EmbeddingBag for all bags at once.
 *
 * If all bags have one length L, their starts are Range(0, N * L, L): the rows become [N, L, d] and are reduced along
 * L, so that a batch of bags can be split.  Otherwise a running sum numbers the bags: a mark of 1 is added at each
 * bag's first row and after the last bag, so that rows of the first bag get 1; rows with 0 or N + 1 belong to no bag.
 *
 *     starts 0 2 2, five rows: marks 1 0 2 0 0 (1), running sum 1 1 3 3 3: bag 2 is empty */
#include <math.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/onnx/embedding_bag.h"
#include "graph/ops/arg.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/scatter.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

typedef struct {
    Importer *im;
    Graph *g;
    const Bags *b;
    ValueId n, rows;                /* number of bags, a scalar; [T, d] */
    ValueId total;                  /* T, a scalar */
    ValueId kept;                   /* [T], bool: rows that are no padding; NO_VALUE: all rows count */
    ValueId zero, one;              /* scalars */
    ValueId zeros, ones, two, rest; /* 0, 1, 2 and -1, vectors of one element */
} Reduce;

/* Emits a node.  Do not nest: C leaves the order of evaluation open, and the order of nodes must not depend on it. */
#define NODE(g, Op, attrs, ...) import_emit((g), &op_##Op, (attrs), EMIT_N(__VA_ARGS__), (ValueId[]){ __VA_ARGS__ })
#define JOINED ATTRS(INT("axis", 0))

static ValueId vector(Reduce *r, ValueId scalar) { return NODE(r->g, Reshape, NULL, scalar, r->rest); }

static ValueId length(Reduce *r, ValueId x)
{
    const ValueId shape = NODE(r->g, Shape, NULL, x);

    return NODE(r->g, Gather, ATTRS(INT("axis", 0)), shape, r->zero);
}

static ValueId like(Graph *g, double v, ValueId x)
{
    const ValueId number = emit_scalar(g, DT_FLOAT32, v);

    return NODE(g, CastLike, NULL, number, x);
}

static ValueId rows_between(Reduce *r, ValueId x, ValueId from, ValueId to)
{
    return NODE(r->g, Slice, NULL, x, from, to, r->zeros);
}

/* The neutral element of the reduction. */
static double neutral(const Bags *b) { return b->reduce == BAG_MAX ? -INFINITY : 0; }

/* Finishes a bag's result from x, the maximum or sum of `counted` rows: a mean is divided, an empty bag set to 0. */
static ValueId finished(Reduce *r, ValueId x, ValueId counted)
{
    Graph *g = r->g;
    const bool max = r->b->reduce == BAG_MAX;
    ValueId other;

    if (r->b->reduce == BAG_SUM || (max && !r->b->zero_if_empty))
        return x;
    if (max) {
        counted = NODE(g, Cast, ATTRS(INT("to", DT_BOOL)), counted);
        other = like(g, 0, x);
        return NODE(g, Where, NULL, counted, x, other);
    }
    other = like(g, 1, x);
    if (r->b->zero_if_empty)
        counted = NODE(g, Max, NULL, counted, other);
    return NODE(g, Div, NULL, x, counted);
}

/* ---- bags of one length ---- */

/* The range 0, ..., (x - y)^2 - 1 is empty if they are equal.  known_size finds its length if that is the same for two
 * choices of all open sizes. */
bool bags_equal(Importer *im, ValueId x, ValueId y)
{
    Graph *g = im->g;
    const ValueId zero = emit_scalar(g, DT_INT64, 0), one = emit_scalar(g, DT_INT64, 1);
    ValueId v = NODE(g, Sub, NULL, x, y);
    int64_t size;

    v = NODE(g, Mul, NULL, v, v);
    v = NODE(g, ReduceSum, ATTRS(INT("keepdims", 0)), v);
    v = NODE(g, Range, NULL, zero, v, one);
    if (g->status || known_size(&size, im, v, 0)) {
        status_clear();
        return false;
    }
    return !size;
}

/* Are these bags of one length that fill all rows? */
static bool regular(Reduce *r)
{
    const Bags *b = r->b;
    ValueId n;

    if (!has_value(b->starts) || b->first.c)
        return false;
    n = length(r, b->starts);
    return bags_equal(r->im, n, r->n) && bags_equal(r->im, b->ends, r->total) &&
           bags_equal(r->im, NODE(r->g, Mul, NULL, n, b->each), r->total);
}

/* Reshapes [T, d] (`rows`) to [N, L, d], or [T] to [N, L]. */
static ValueId in_bags(Reduce *r, ValueId x, ValueId each, bool rows)
{
    Graph *g = r->g;
    int64_t number;
    const ValueId one = known_number(&number, r->im, each) ? emit_ints(g, 1, &number) : vector(r, each);
    ValueId shape;

    if (rows) {
        x = NODE(g, Unsqueeze, NULL, x, r->ones);
        shape = NODE(g, Concat, JOINED, r->rest, one, r->zeros);
    } else {
        shape = NODE(g, Concat, JOINED, r->rest, one);
    }
    return NODE(g, Reshape, NULL, x, shape);
}

/* Reduces bags that all have `each` rows. */
static ValueId reduce_regular(Reduce *r, ValueId each)
{
    Graph *g = r->g;
    const Bags *b = r->b;
    const Attr *drop = ATTRS(INT("keepdims", 0));
    const int64_t two = 2;
    ValueId x = in_bags(r, r->rows, each, true), kept, counted, none;

    if (!has_value(r->kept))
        return b->reduce == BAG_SUM    ? NODE(g, ReduceSum, drop, x, r->ones)
               : b->reduce == BAG_MEAN ? NODE(g, ReduceMean, drop, x, r->ones)
                                       : NODE(g, ReduceMax, drop, x, r->ones);
    kept = in_bags(r, r->kept, each, false);
    none = emit_ints(g, 1, &two);
    kept = NODE(g, Unsqueeze, NULL, kept, none);
    counted = NODE(g, CastLike, NULL, kept, x);
    counted = NODE(g, ReduceSum, drop, counted, r->ones);
    none = like(g, neutral(b), x);
    x = NODE(g, Where, NULL, kept, x, none);
    x = b->reduce == BAG_MAX ? NODE(g, ReduceMax, drop, x, r->ones) : NODE(g, ReduceSum, drop, x, r->ones);
    return finished(r, x, counted);
}

/* ---- bags of any length ---- */

/* A tensor full of v: [n, d] (`rows`) or [n]. */
static ValueId filled(Reduce *r, ValueId n, bool rows, double v)
{
    Graph *g = r->g;
    ValueId x;

    if (rows) {
        x = NODE(g, Shape, ATTRS(INT("start", 1)), r->rows);
        n = NODE(g, Concat, JOINED, n, x);
    }
    x = like(g, v, r->rows);
    return NODE(g, Expand, NULL, x, n);
}

/* The first rows of all bags, and the end of the last one: [n + 1]. */
static ValueId bounds(Reduce *r)
{
    Graph *g = r->g;
    const BagPosition *first = &r->b->first;
    const ValueId from = emit_ints(g, 1, &first->c), n = vector(r, r->n), last = NODE(g, Add, NULL, from, n);
    ValueId x = rows_between(r, first->vector, from, last), end;

    if (r->b->last_to_end) {
        end = vector(r, r->total);
    } else {
        end = NODE(g, Add, NULL, last, r->ones);
        end = rows_between(r, first->vector, last, end);
    }
    end = NODE(g, CastLike, NULL, end, x);
    x = NODE(g, Concat, JOINED, x, end);
    return NODE(g, Cast, ATTRS(INT("to", DT_INT64)), x);
}

/* Replaces a bound that is less than its predecessor by T + 2, an index out of range, so that the run fails: such bags
 * would overlap. */
static ValueId ascending(Reduce *r, ValueId at)
{
    Graph *g = r->g;
    const ValueId n = vector(r, r->n), behind = NODE(g, Add, NULL, vector(r, r->total), r->two),
                  first = rows_between(r, at, r->zeros, r->ones), before = rows_between(r, at, r->zeros, n),
                  after = rows_between(r, at, r->ones, NODE(g, Add, NULL, n, r->ones));
    const ValueId falls = NODE(g, Less, NULL, after, before), bounded = NODE(g, Where, NULL, falls, behind, after);

    return NODE(g, Concat, JOINED, first, bounded);
}

/* The number of each row's bag, [T, 1]. */
static ValueId bag_of_rows(Reduce *r)
{
    Graph *g = r->g;
    const ValueId total = vector(r, r->total), at = ascending(r, bounds(r));
    const Attr *add = ATTRS(INT("axis", 0), STRING("reduction", "add"));
    ValueId marks = NODE(g, Add, NULL, total, r->ones), mark;

    marks = NODE(g, Expand, NULL, r->zero, marks);
    mark = NODE(g, Shape, NULL, at);
    mark = NODE(g, Expand, NULL, r->one, mark);
    marks = NODE(g, ScatterElements, add, marks, at, mark);
    if (!g->status)
        graph_rename(g, marks, "ascending_offsets"); /* explains the run's message about offsets that are not */
    marks = NODE(g, CumSum, NULL, marks, r->zero);
    marks = rows_between(r, marks, r->zeros, total);
    if (has_value(r->kept))
        marks = NODE(g, Where, NULL, r->kept, marks, r->zero);
    return NODE(g, Unsqueeze, NULL, marks, r->ones);
}

/* Reduces bags of any length. */
static ValueId reduce_any(Reduce *r)
{
    Graph *g = r->g;
    const bool max = r->b->reduce == BAG_MAX;
    const Attr *add = ATTRS(STRING("reduction", "add")), *how = max ? ATTRS(STRING("reduction", "max")) : add;
    const ValueId bag = bag_of_rows(r), n = vector(r, r->n), end = NODE(g, Add, NULL, n, r->ones);
    const ValueId with_both = NODE(g, Add, NULL, end, r->ones);
    ValueId x = filled(r, with_both, true, neutral(r->b)), counted, each;

    x = NODE(g, ScatterND, how, x, bag, r->rows);
    x = rows_between(r, x, r->ones, end);
    counted = filled(r, with_both, false, 0);
    each = vector(r, r->total);
    each = filled(r, each, false, 1);
    counted = NODE(g, ScatterND, add, counted, bag, each);
    counted = rows_between(r, counted, r->ones, end);
    return finished(r, x, NODE(g, Unsqueeze, NULL, counted, r->ones));
}

/* ---- all ---- */

/* Sets Value.ordered of the model's inputs that the rows depend on: they hold all samples' rows, bag after bag. */
static Status mark_ordered(Reduce *r)
{
    Graph *g = r->g;
    bool *seen = ARENA_NEW(r->im->scratch, bool, g->n_value);

    if (!seen)
        return FAIL_NOMEM();
    memset(seen, 0, g->n_value * sizeof *seen);
    seen[r->rows.i] = true;
    for (uint32_t k = g->n_node; k-- > 0;) {
        const Node *n = g->node[k];
        bool read = false;

        for (int o = 0; n->op && o < n->n_out; o++)
            read |= seen[n->out[o].i];
        for (int i = 0; read && !(n->op->flags & OPF_SHAPE_ONLY) && i < n->n_in; i++)
            seen[n->in[i].i] = true;
    }
    for (int i = 0; i < g->n_input; i++)
        value(g, g->input[i])->ordered |= seen[g->input[i].i];
    return ST_OK;
}

/* The rows that are no padding, as bools [T]; NO_VALUE: all.  A negative index counts from the end of the table. */
static ValueId kept_rows(Reduce *r, const Bags *b)
{
    Graph *g = r->g;
    ValueId negative, x;

    if (!has_value(b->tested))
        return NO_VALUE;
    x = NODE(g, CastLike, NULL, r->zero, b->tested);
    negative = NODE(g, Less, NULL, b->tested, x);
    x = NODE(g, CastLike, NULL, b->count, b->tested);
    x = NODE(g, Add, NULL, b->tested, x);
    x = NODE(g, Where, NULL, negative, x, b->tested);
    negative = NODE(g, CastLike, NULL, b->pad, x);
    x = NODE(g, Equal, NULL, x, negative);
    return NODE(g, Not, NULL, x);
}

Status bags_reduce(ValueId *out, Importer *im, const Bags *b, ValueId n)
{
    static const int64_t rest = -1, zero = 0, one = 1, two = 2;
    Graph *g = im->g;
    Reduce r = { .im = im, .g = g, .b = b, .n = n, .rows = b->rows };
    ValueId each;

    TRY(spend_nodes(im, 64));
    r.zero = emit_scalar(g, DT_INT64, 0);
    r.one = emit_scalar(g, DT_INT64, 1);
    r.zeros = emit_ints(g, 1, &zero);
    r.ones = emit_ints(g, 1, &one);
    r.two = emit_ints(g, 1, &two);
    r.rest = emit_ints(g, 1, &rest);
    if (has_value(b->indices))
        r.rows = NODE(g, Gather, ATTRS(INT("axis", 0)), b->rows, b->indices);
    if (has_value(b->weights)) {
        each = NODE(g, Unsqueeze, NULL, b->weights, r.ones);
        r.rows = NODE(g, Mul, NULL, r.rows, each);
    }
    r.total = length(&r, r.rows);
    r.kept = kept_rows(&r, b);
    TRY(g->status);
    if (regular(&r)) {
        *out = reduce_regular(&r, b->each);
        return g->status;
    }
    TRY(mark_ordered(&r));
    *out = reduce_any(&r);
    return g->status;
}
