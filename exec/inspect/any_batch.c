/* Makes one graph for batches of any size from graphs that are each built for one size.
 *
 * A graph for one size has that size in its shapes, in the counts that means divide by, in tensors of ones.  So the
 * graph is built three times, for three sizes.  The first two graphs may differ in constants alone.  Each constant that
 * differs is fitted by a function of the size, and nodes that compute the function from an input's shape replace it.
 * For example 1/29 and 1/31 become 1 / n.  The third graph checks the result: at its size, both must be equal node by
 * node, up to rounding.
 *
 * The sizes are primes that layers rarely have, so that a width is not mistaken for the batch size. */
#include "exec/inspect/any_batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/inspect/match_graphs.h"
#include "exec/run/interp.h"
#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/view.gen.h"
#include "passes/simplify/fold.h"

enum { N_SIZES = 3 };
static const int64_t sizes[N_SIZES] = { 29, 31, 37 };

/* A function of the batch size n: by * n + plus (LINEAR), 1 / (by * n + plus) (INVERSE) or by / n (SHARE). */
typedef struct {
    enum { LINEAR, INVERSE, SHARE } kind;
    double by, plus;
} SizeFunction;

/* A constant, as each of the graphs has it, and the value that is computed in its place. */
typedef struct {
    const Tensor *at[N_SIZES];
    ValueId computed;
} Replaced;

typedef struct {
    Graph *g[N_SIZES]; /* g[0] becomes the result */
    Arena *scratch;
    Match match[N_SIZES]; /* [k] of g[0] with g[k] */
    Problems wrong;
    ValueId batch_input; /* its axis `axis` is the batch's; NO_VALUE: no input has one */
    int axis;
    ValueId size; /* int64 scalar: the batch size, computed in g[0]; NO_VALUE: not emitted yet */
    Replaced *replaced;
    size_t n_replaced, cap_replaced;
} AnyBatch;

/* ---- inputs ---- */

/* The shape in graph k of the value that corresponds to v of g[0]: the matched one, or one of the same name. */
static const Shape *shape_at(const AnyBatch *r, int k, ValueId v)
{
    const uint32_t twin = k ? r->match[k].twin[v.i] : v.i;
    const ValueId found = twin ? (ValueId){ twin } : graph_find(r->g[k], value(r->g[0], v)->name);

    return has_value(found) ? value(r->g[k], found)->shape : value(r->g[0], v)->shape;
}

static bool dim_is_size(const AnyBatch *r, ValueId v, int axis)
{
    for (int k = 0; k < N_SIZES; k++)
        if (shape_at(r, k, v)->dim[axis] != sizes[k])
            return false;
    return true;
}

/* ---- functions ---- */

/* The line through the first two points; the third is checked by fits(). */
static double fit_line(const double at[N_SIZES], double *plus)
{
    const double by = (at[1] - at[0]) / (double)(sizes[1] - sizes[0]);

    *plus = at[0] - by * (double)sizes[0];
    return by;
}

static double size_function_at(const SizeFunction *f, double n)
{
    if (f->kind == SHARE)
        return f->by / n;
    return f->kind == INVERSE ? 1 / (f->by * n + f->plus) : f->by * n + f->plus;
}

static bool fits(const SizeFunction *f, const double at[N_SIZES], double slack)
{
    for (int k = 0; k < N_SIZES; k++)
        if (!(fabs(size_function_at(f, (double)sizes[k]) - at[k]) <= slack * fabs(at[k])))
            return false;
    return true;
}

/* Finds the function that takes the values at[] at sizes[], each to a relative error of `slack`; 0: exactly, which
 * admits LINEAR alone.  False: none of the three does. */
static bool fit_function(SizeFunction *f, const double at[N_SIZES], double slack)
{
    double inverse[N_SIZES];
    bool whole = slack > 0;

    f->kind = LINEAR;
    f->by = fit_line(at, &f->plus);
    if (fits(f, at, slack))
        return true;
    for (int k = 0; k < N_SIZES && whole; k++) {
        inverse[k] = nearbyint(1 / at[k]);
        whole = at[k] != 0 && fabs(inverse[k]) < 1e15;
    }
    f->kind = INVERSE;
    if (whole && ((f->by = fit_line(inverse, &f->plus)), fits(f, at, slack)))
        return true;
    *f = (SizeFunction){ .kind = SHARE, .by = at[0] * (double)sizes[0] };
    return whole && fits(f, at, slack);
}

/* ---- emitting ---- */

/* The batch size as a value of g[0], emitted once. */
static ValueId size_of_batch(AnyBatch *r)
{
    Graph *g = r->g[0];

    if (!has_value(r->size)) {
        const ValueId shape = EMIT(g, Shape, NULL, r->batch_input);

        r->size = EMIT(g, Gather, ATTRS(INT("axis", 0)), shape, emit_scalar(g, DT_INT64, r->axis));
    }
    return r->size;
}

/* f(batch size) as a scalar of type t. */
static ValueId emit_function(AnyBatch *r, DType t, const SizeFunction *f)
{
    Graph *g = r->g[0];
    const DType in = dtype_is_float(t) ? t : DT_INT64;
    ValueId n = emit_cast(g, size_of_batch(r), in);

    if (f->kind == SHARE)
        return EMIT(g, Div, NULL, emit_scalar(g, in, f->by), n);
    if (f->by != 1)
        n = EMIT(g, Mul, NULL, n, emit_scalar(g, in, f->by));
    if (f->plus != 0)
        n = EMIT(g, Add, NULL, n, emit_scalar(g, in, f->plus));
    return f->kind == INVERSE ? EMIT(g, Div, NULL, emit_scalar(g, in, 1), n) : emit_cast(g, n, t);
}

/* Integers, each a linear function of the batch size; NO_VALUE when one is not. */
static ValueId emit_ints_of(AnyBatch *r, const Tensor *const at[N_SIZES])
{
    Graph *g = r->g[0];
    Tensor *by = tensor_create(g->arena, DT_INT64, &at[0]->shape);
    Tensor *plus = tensor_create(g->arena, DT_INT64, &at[0]->shape);
    ValueId n;

    if (!by || !plus) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < tensor_numel(by); i++) {
        int64_t x[N_SIZES], step;

        for (int k = 0; k < N_SIZES; k++)
            x[k] = tensor_int(at[k], i);
        if (__builtin_sub_overflow(x[1], x[0], &step) || step % (sizes[1] - sizes[0]))
            return NO_VALUE;
        step /= sizes[1] - sizes[0];
        tensor_set_int(by, i, step);
        tensor_set_int(plus, i, x[0] - step * sizes[0]);
        if (step * sizes[2] + tensor_int(plus, i) != x[2])
            return NO_VALUE;
    }
    n = size_of_batch(r);
    n = EMIT(g, Mul, NULL, n, graph_add_const_nocopy(g, "per_sample", by));
    n = EMIT(g, Add, NULL, n, graph_add_const_nocopy(g, "rest", plus));
    return emit_cast(g, n, at[0]->dtype);
}

/* A tensor filled with one number; the number and the shape may both follow the batch size.  NO_VALUE: it is no such
 * tensor. */
static ValueId emit_filled(AnyBatch *r, const Tensor *const at[N_SIZES])
{
    Graph *g = r->g[0];
    const DType t = at[0]->dtype;
    const double slack = t == DT_FLOAT64 ? 0x1p-50 : t == DT_FLOAT32 ? 0x1p-21 : dtype_is_float(t) ? 0x1p-7 : 0;
    const Tensor *shape[N_SIZES];
    double x[N_SIZES];
    SizeFunction f;
    ValueId y, as;

    for (int k = 0; k < N_SIZES; k++) {
        const int rank = at[k]->shape.rank;
        const Shape list = SHAPE(rank);
        Tensor *s;

        if (!tensor_numel(at[k]) || !tensor_is_filled(at[k]) || rank != at[0]->shape.rank)
            return NO_VALUE;
        x[k] = tensor_float(at[k], 0);
        if (!(s = tensor_create(r->scratch, DT_INT64, &list))) {
            graph_fail_nomem(g);
            return NO_VALUE;
        }
        for (int a = 0; a < rank; a++)
            tensor_set_int(s, a, at[k]->shape.dim[a]);
        shape[k] = s;
    }
    if (!fit_function(&f, x, slack))
        return NO_VALUE;
    y = f.by == 0 ? emit_scalar(g, t, f.plus) : emit_function(r, t, &f);
    if (!at[0]->shape.rank)
        return y;
    as = tensor_same(shape[0], shape[1]) ? graph_add_const(g, "shape", shape[0]) : emit_ints_of(r, shape);
    return has_value(as) ? EMIT(g, Expand, NULL, y, as) : NO_VALUE;
}

/* The only axis with more than one element; -1: none or several. */
static int only_axis(const Shape *s)
{
    int axis = -1;

    for (int a = 0; a < s->rank; a++) {
        if (s->dim[a] == 1)
            continue;
        if (axis >= 0)
            return -1;
        axis = a;
    }
    return axis;
}

/* An arithmetic sequence, such as 0, 1, 2 ..., along `axis`, whose length follows the batch size.  NO_VALUE: it is no
 * such tensor. */
static ValueId emit_count(AnyBatch *r, const Tensor *const at[N_SIZES], int axis)
{
    Graph *g = r->g[0];
    const int64_t from = tensor_int(at[0], 0), step = tensor_int(at[0], 1) - from;
    Shape one = shape_scalar(), as = at[0]->shape;
    const Tensor *end[N_SIZES];
    ValueId first, y;

    for (int k = 0; k < N_SIZES; k++) {
        Tensor *e = tensor_create(r->scratch, DT_INT64, &one);

        if (!e) {
            graph_fail_nomem(g);
            return NO_VALUE;
        }
        if (only_axis(&at[k]->shape) != axis || !at[k]->data)
            return NO_VALUE;
        for (int64_t i = 0; i < tensor_numel(at[k]); i++)
            if (tensor_float(at[k], i) != (double)(from + i * step))
                return NO_VALUE;
        tensor_set_int(e, 0, from + tensor_numel(at[k]) * step);
        end[k] = e;
    }
    if (!step || !has_value(y = emit_ints_of(r, end)))
        return NO_VALUE;
    first = emit_scalar(g, DT_INT64, (double)from);
    y = EMIT(g, Range, NULL, first, y, emit_scalar(g, DT_INT64, (double)step));
    as.dim[axis] = -1;
    if (as.rank > 1)
        y = EMIT(g, Reshape, NULL, y, emit_shape_const(g, &as));
    return emit_cast(g, y, at[0]->dtype);
}

/* Nodes that compute at[] from the batch size; NO_VALUE: no function of it is found. */
static ValueId emit_constant(AnyBatch *r, const Tensor *const at[N_SIZES])
{
    const int axis = only_axis(&at[0]->shape);
    bool ints_of_one_shape = dtype_is_int(at[0]->dtype) && at[0]->data;

    for (int k = 1; k < N_SIZES; k++)
        ints_of_one_shape &= shape_eq(&at[0]->shape, &at[k]->shape) && at[0]->dtype == at[k]->dtype;
    if (ints_of_one_shape)
        return emit_ints_of(r, at);
    return axis >= 0 && tensor_numel(at[0]) > 1 && !tensor_is_filled(at[0]) ? emit_count(r, at, axis)
                                                                            : emit_filled(r, at);
}

/* ---- the graph ---- */

static bool all_same(const Tensor *const at[N_SIZES]) { return tensor_same(at[0], at[1]) && tensor_same(at[0], at[2]); }

/* The value to read in place of the constant at[]: emitted once for all readers of equal constants.  NO_VALUE: the
 * constant follows the size in no way that can be written. */
static Status replace_constant(AnyBatch *r, const Tensor *const at[N_SIZES], ValueId *out)
{
    Replaced *grown, d = { .computed = NO_VALUE };

    for (size_t i = 0; i < r->n_replaced; i++) {
        bool same = true;

        for (int k = 0; k < N_SIZES; k++)
            same &= tensor_same(r->replaced[i].at[k], at[k]);
        if (same) {
            *out = r->replaced[i].computed;
            return ST_OK;
        }
    }
    *out = d.computed = emit_constant(r, at);
    TRY(r->g[0]->status);
    memcpy(d.at, at, sizeof d.at);
    if (!(grown = arena_grow(r->scratch, r->replaced, sizeof d, r->n_replaced, &r->cap_replaced)))
        return FAIL_NOMEM();
    r->replaced = grown;
    r->replaced[r->n_replaced++] = d;
    return ST_OK;
}

/* Lets node n of g[0] read computed values where its constants differ between the graphs. */
static Status replace_constants(AnyBatch *r, Node *n)
{
    const Node *twin[N_SIZES] = { n };

    for (int k = 1; k < N_SIZES; k++)
        if (!(twin[k] = match_node(&r->match[k], n)))
            return ST_OK;
    for (int i = 0; i < n->n_in; i++) {
        const Tensor *at[N_SIZES];
        ValueId by;

        if (!has_value(n->in[i]) || in_value(r->g[0], n, i)->kind != V_CONST)
            continue;
        for (int k = 0; k < N_SIZES; k++)
            at[k] = in_value(r->g[k], twin[k], i)->init;
        if (all_same(at))
            continue;
        TRY(replace_constant(r, at, &by));
        if (has_value(by))
            node_set_input(r->g[0], n, i, by);
        else
            problems_add(&r->wrong, "%s: input %d", node_text(r->g[0], n), i);
    }
    return r->g[0]->status;
}

/* Opens the dimensions that follow the batch size: those equal to it get its name, the others stay unnamed. */
static Status open_dims(AnyBatch *r, ValueId id, const char *symbol)
{
    Value *v = value(r->g[0], id);
    Shape s = *v->shape;
    const char **name = ARENA_NEW(r->g[0]->arena, const char *, s.rank + 1);

    if (!name)
        return FAIL_NOMEM();
    for (int a = 0; a < s.rank; a++) {
        name[a] = dim_is_size(r, id, a) ? symbol : NULL;
        if (shape_at(r, 0, id)->dim[a] != shape_at(r, 1, id)->dim[a])
            s.dim[a] = -1;
    }
    v->dim_param = name;
    value_set_shape(r->g[0], v, &s);
    return ST_OK;
}

static Status open_interface(AnyBatch *r, const char *symbol)
{
    Graph *g = r->g[0];

    if (!(symbol = arena_strdup(g->arena, symbol ? symbol : "batch")))
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_output; i++)
        if (!value(g, g->output[i].value)->dim_param)
            TRY(open_dims(r, g->output[i].value, symbol));
    for (int i = 0; i < g->n_input; i++)
        if (!value(g, g->input[i])->dim_param)
            TRY(open_dims(r, g->input[i], symbol));
    return g->status;
}

/* Turns g[0] into the graph for any size.  Leaves it alone where no input has a batch axis: then the batch has no part
 * in the graph. */
static Status any_batch_make(AnyBatch *r)
{
    Graph *g = r->g[0];
    const uint32_t n_node = g->n_node;

    for (int k = 1; k < N_SIZES; k++) {
        r->match[k] = (Match){ .a = g, .b = r->g[k], .wrong = &r->wrong };
        TRY(match_graphs(&r->match[k], r->scratch));
    }
    if (r->wrong.n)
        return ST_OK;
    for (int i = g->n_input - 1; i >= 0; i--) /* backwards: the first that fits stays */
        for (int a = value(g, g->input[i])->shape->rank - 1; a >= 0; a--)
            if (dim_is_size(r, g->input[i], a)) {
                r->batch_input = g->input[i];
                r->axis = a;
            }
    if (!has_value(r->batch_input))
        return ST_OK;
    for (uint32_t i = 0; i < n_node; i++)
        if (g->node[i]->op)
            TRY(replace_constants(r, g->node[i]));
    return graph_sort(g);
}

/* ---- the check ---- */

static Status infer_and_fold(Graph *g, PassCtx *ctx)
{
    FOR_NODES(g, n) {
        TRY(node_infer(g, n));
        if (fold_possible(g, n))
            TRY(fold_node(g, ctx, n, INT64_MAX));
    }
    return g->status;
}

/* Compares the result, at the third size, with the graph that was built for that size. */
static Status any_batch_check(AnyBatch *r)
{
    PassCtx ctx = { .scratch = r->scratch, .eval = interp_node };
    Graph *copy, *built = r->g[N_SIZES - 1];
    Match m;
    Status st;

    TRY(graph_clone_lending(&copy, r->g[0]));
    for (int i = 0; i < copy->n_input; i++) {
        const ValueId twin = graph_find(built, value(copy, copy->input[i])->name);

        value_set_shape(copy, value(copy, copy->input[i]), value(built, twin)->shape);
    }
    m = (Match){ .a = copy, .b = built, .wrong = &r->wrong, .equal = true };
    if (!(st = infer_and_fold(copy, &ctx)) && !(st = infer_and_fold(built, &ctx)))
        st = match_graphs(&m, r->scratch);
    graph_free(copy);
    return st;
}

Status any_batch(Graph **out, BuildAtBatch *build, const Graph *model, BuildParts *parts, const void *user,
                 const char *symbol, Report *report)
{
    AnyBatch r = { .scratch = arena_create() };
    Status st = r.scratch ? ST_OK : FAIL_NOMEM();

    for (int k = 0; k < N_SIZES && !st; k++) {
        parts->batch.batch = sizes[k];
        st = build(&r.g[k], model, parts, user, k ? NULL : report);
    }
    if (!st)
        st = any_batch_make(&r);
    if (!st && !r.wrong.n && has_value(r.batch_input) && !(st = any_batch_check(&r)))
        st = open_interface(&r, symbol);
    if (!st)
        st = problems_fail(&r.wrong, E_UNSUPPORTED,
                           "these inputs of nodes follow the batch size by no known function (give --batch-size to "
                           "write a graph of one size)");
    if (!st)
        *out = r.g[0];
    for (int k = st ? 0 : 1; k < N_SIZES; k++)
        graph_free(r.g[k]);
    problems_free(&r.wrong); /* not taken by problems_fail when something else failed first */
    arena_free(r.scratch);
    return st;
}
