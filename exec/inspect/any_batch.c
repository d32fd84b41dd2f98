/* What is built for one size of batches is written for that size: shapes, numbers of elements that means divide by,
 * tensors of ones.  Which of its constants, and how they follow the size, is seen by building three times: two graphs
 * that differ in constants alone say by which functions of the size; those are computed from an input's shape instead.
 * The third graph must be the one that the result becomes at its size, node by node, to rounding.
 *
 * The sizes are primes, and none that layers like to have: a graph is not to hold the size where it only seems so. */
#include "exec/inspect/any_batch.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/view.gen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/inspect/match_graphs.h"
#include "exec/run/interp.h"
#include "graph/ir/emit.h"
#include "passes/simplify/fold.h"

enum { WORLDS = 3 };
static const int64_t sizes[WORLDS] = { 29, 31, 37 };

/* A number that follows the size n: by * n + plus, or 1 over that, or by / n. */
typedef struct {
    enum { LINEAR, INVERSE, SHARE } kind;
    double by, plus;
} Function;

/* A constant and what is computed in its place. */
typedef struct {
    const Tensor *at[WORLDS];
    ValueId computed;
} Replaced;

typedef struct {
    Graph *g[WORLDS]; /* g[0] becomes the result */
    Arena *scratch;
    Match match[WORLDS]; /* of g[0] with the others */
    Problems wrong;
    ValueId sized; /* the input whose `axis` is the batch's */
    int axis;
    ValueId size; /* int64 0-d, of the result */
    Replaced *done;
    size_t n_done, cap_done;
} AnyBatch;

/* ---- inputs ---- */

static const Shape *shape_at(const AnyBatch *r, int world, ValueId v)
{
    const uint32_t twin = world ? r->match[world].twin[v.i] : v.i;
    const ValueId called = twin ? (ValueId){ twin } : graph_find(r->g[world], value(r->g[0], v)->name);

    return has_value(called) ? value(r->g[world], called)->shape : value(r->g[0], v)->shape;
}

static bool dim_differs(const AnyBatch *r, ValueId v, int axis)
{
    return shape_at(r, 0, v)->dim[axis] != shape_at(r, 1, v)->dim[axis];
}

static bool dim_is_size(const AnyBatch *r, ValueId v, int axis)
{
    for (int k = 0; k < WORLDS; k++)
        if (shape_at(r, k, v)->dim[axis] != sizes[k])
            return false;
    return true;
}

/* The first input that is read; without one the batch has no part in the graph. */
static void find_size(AnyBatch *r)
{
    for (int i = r->g[0]->n_input - 1; i >= 0; i--)
        for (int a = value(r->g[0], r->g[0]->input[i])->shape->rank - 1; a >= 0; a--)
            if (dim_is_size(r, r->g[0]->input[i], a)) {
                r->sized = r->g[0]->input[i];
                r->axis = a;
            }
}

/* ---- functions ---- */

static double linear(const double at[WORLDS], double *plus)
{
    const double by = (at[1] - at[0]) / (double)(sizes[1] - sizes[0]);

    *plus = at[0] - by * (double)sizes[0];
    return by;
}

static double any_batch_compute(const Function *f, double n)
{
    if (f->kind == SHARE)
        return f->by / n;
    return f->kind == INVERSE ? 1 / (f->by * n + f->plus) : f->by * n + f->plus;
}

static bool describes(const Function *f, const double at[WORLDS], double slack)
{
    for (int k = 0; k < WORLDS; k++)
        if (!(fabs(any_batch_compute(f, (double)sizes[k]) - at[k]) <= slack * fabs(at[k])))
            return false;
    return true;
}

/* Integers, or the same to the last bits. */
static bool find_function(Function *f, const double at[WORLDS], double slack)
{
    double inverse[WORLDS];
    bool whole = slack > 0;

    f->kind = LINEAR;
    f->by = linear(at, &f->plus);
    if (describes(f, at, slack))
        return true;
    for (int k = 0; k < WORLDS && whole; k++) {
        inverse[k] = nearbyint(1 / at[k]);
        whole = at[k] != 0 && fabs(inverse[k]) < 1e15;
    }
    f->kind = INVERSE;
    if (whole && ((f->by = linear(inverse, &f->plus)), describes(f, at, slack)))
        return true;
    *f = (Function){ .kind = SHARE, .by = at[0] * (double)sizes[0] };
    return whole && describes(f, at, slack);
}

/* ---- what is computed ---- */

static ValueId size_of_batch(AnyBatch *r)
{
    Graph *g = r->g[0];

    if (!has_value(r->size)) {
        const ValueId shape = EMIT(g, Shape, NULL, r->sized);

        r->size = EMIT(g, Gather, ATTRS(INT("axis", 0)), shape, emit_scalar(g, DT_INT64, r->axis));
    }
    return r->size;
}

static ValueId emit_number(AnyBatch *r, DType t, const Function *f)
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

/* Integers, each by its own function, which is linear. */
static ValueId emit_ints_of(AnyBatch *r, const Tensor *const at[WORLDS])
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
        int64_t x[WORLDS], step;

        for (int k = 0; k < WORLDS; k++)
            x[k] = tensor_int(at[k], i);
        if (__builtin_sub_overflow(x[1], x[0], &step) || step % (sizes[1] - sizes[0]))
            return NO_VALUE;
        step /= sizes[1] - sizes[0];
        tensor_set_int(by, i, step);
        tensor_set_int(plus, i, x[0] - step * sizes[0]);
        if (step * sizes[2] + tensor_int(plus, i) != x[2])
            return NO_VALUE;
    }
    n = EMIT(g, Mul, NULL, size_of_batch(r), graph_add_const_nocopy(g, "per_sample", by));
    n = EMIT(g, Add, NULL, n, graph_add_const_nocopy(g, "rest", plus));
    return emit_cast(g, n, at[0]->dtype);
}

/* One number throughout, in shapes that may follow the size as well. */
static ValueId emit_filled(AnyBatch *r, const Tensor *const at[WORLDS])
{
    Graph *g = r->g[0];
    const DType t = at[0]->dtype;
    const double slack = t == DT_FLOAT64 ? 0x1p-50 : t == DT_FLOAT32 ? 0x1p-21 : dtype_is_float(t) ? 0x1p-7 : 0;
    const Tensor *shape[WORLDS];
    double x[WORLDS];
    Function f;
    ValueId y, as;

    for (int k = 0; k < WORLDS; k++) {
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
    if (!find_function(&f, x, slack))
        return NO_VALUE;
    y = f.by == 0 ? emit_scalar(g, t, f.plus) : emit_number(r, t, &f);
    if (!at[0]->shape.rank)
        return y;
    as = tensor_same(shape[0], shape[1]) ? graph_add_const(g, "shape", shape[0]) : emit_ints_of(r, shape);
    return has_value(as) ? EMIT(g, Expand, NULL, y, as) : NO_VALUE;
}

/* The only axis of several elements; -1. */
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

/* Is it from, from + step ... along one axis? */
static bool counts(const Tensor *t, int axis, int64_t from, int64_t step)
{
    if (only_axis(&t->shape) != axis || !t->data)
        return false;
    for (int64_t i = 0; i < tensor_numel(t); i++)
        if (tensor_float(t, i) != (double)(from + i * step))
            return false;
    return true;
}

/* Whole numbers that count from one by steps, as far as the size says. */
static ValueId emit_count(AnyBatch *r, const Tensor *const at[WORLDS], int axis)
{
    Graph *g = r->g[0];
    const int64_t from = tensor_int(at[0], 0), step = tensor_int(at[0], 1) - from;
    Shape one = shape_scalar(), as = at[0]->shape;
    const Tensor *end[WORLDS];
    ValueId y;

    for (int k = 0; k < WORLDS; k++) {
        Tensor *e = tensor_create(r->scratch, DT_INT64, &one);

        if (!e) {
            graph_fail_nomem(g);
            return NO_VALUE;
        }
        if (!counts(at[k], axis, from, step))
            return NO_VALUE;
        tensor_set_int(e, 0, from + tensor_numel(at[k]) * step);
        end[k] = e;
    }
    if (!step || !has_value(y = emit_ints_of(r, end)))
        return NO_VALUE;
    y = EMIT(g, Range, NULL, emit_scalar(g, DT_INT64, (double)from), y, emit_scalar(g, DT_INT64, (double)step));
    as.dim[axis] = -1;
    if (as.rank > 1)
        y = EMIT(g, Reshape, NULL, y, emit_shape_const(g, &as));
    return emit_cast(g, y, at[0]->dtype);
}

static ValueId emit_constant(AnyBatch *r, const Tensor *const at[WORLDS])
{
    const int axis = only_axis(&at[0]->shape);
    bool alike = dtype_is_int(at[0]->dtype) && at[0]->data;

    for (int k = 1; k < WORLDS; k++)
        alike &= shape_eq(&at[0]->shape, &at[k]->shape) && at[0]->dtype == at[k]->dtype;
    if (alike)
        return emit_ints_of(r, at);
    return axis >= 0 && tensor_numel(at[0]) > 1 && !tensor_is_filled(at[0]) ? emit_count(r, at, axis)
                                                                            : emit_filled(r, at);
}

/* ---- the graph ---- */

static bool all_same(const Tensor *const at[WORLDS]) { return tensor_same(at[0], at[1]) && tensor_same(at[0], at[2]); }

static Status find_replaced(AnyBatch *r, const Tensor *const at[WORLDS], ValueId *out)
{
    Replaced *grown, d = { .computed = NO_VALUE };

    for (size_t i = 0; i < r->n_done; i++) {
        bool same = true;

        for (int k = 0; k < WORLDS; k++)
            same &= tensor_same(r->done[i].at[k], at[k]);
        if (same) {
            *out = r->done[i].computed;
            return ST_OK;
        }
    }
    *out = d.computed = emit_constant(r, at);
    TRY(r->g[0]->status);
    memcpy(d.at, at, sizeof d.at);
    if (!(grown = arena_grow(r->scratch, r->done, sizeof d, r->n_done, &r->cap_done)))
        return FAIL_NOMEM();
    r->done = grown;
    r->done[r->n_done++] = d;
    return ST_OK;
}

static Status replace_constants(AnyBatch *r, Node *n)
{
    const Node *twin[WORLDS] = { n };

    for (int k = 1; k < WORLDS; k++)
        if (!(twin[k] = match_node(&r->match[k], n)))
            return ST_OK;
    for (int i = 0; i < n->n_in; i++) {
        const Tensor *at[WORLDS];
        ValueId by;

        if (!has_value(n->in[i]) || in_value(r->g[0], n, i)->kind != V_CONST)
            continue;
        for (int k = 0; k < WORLDS; k++)
            at[k] = in_value(r->g[k], twin[k], i)->init;
        if (all_same(at))
            continue;
        TRY(find_replaced(r, at, &by));
        if (has_value(by))
            node_set_input(r->g[0], n, i, by);
        else
            problems_add(&r->wrong, "%s: input %d", node_text(r->g[0], n), i);
    }
    return r->g[0]->status;
}

/* Sizes that follow the batch's are not said, or by its name. */
static Status open_dims(AnyBatch *r, ValueId id, const char *symbol)
{
    Value *v = value(r->g[0], id);
    Shape s = *v->shape;
    const char **name = ARENA_NEW(r->g[0]->arena, const char *, s.rank + 1);

    if (!name)
        return FAIL_NOMEM();
    for (int a = 0; a < s.rank; a++) {
        name[a] = dim_is_size(r, id, a) ? symbol : NULL;
        s.dim[a] = dim_differs(r, id, a) ? -1 : s.dim[a];
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

static Status any_batch_make(AnyBatch *r)
{
    const uint32_t n_node = r->g[0]->n_node;

    for (int k = 1; k < WORLDS; k++) {
        r->match[k] = (Match){ .a = r->g[0], .b = r->g[k], .wrong = &r->wrong };
        TRY(match_graphs(&r->match[k], r->scratch));
    }
    if (r->wrong.n)
        return ST_OK;
    find_size(r);
    if (!has_value(r->sized))
        return ST_OK;
    for (uint32_t i = 0; i < n_node; i++)
        if (r->g[0]->node[i]->op)
            TRY(replace_constants(r, r->g[0]->node[i]));
    return graph_sort(r->g[0]);
}

/* ---- the check ---- */

static Status any_batch_settle(Graph *g, PassCtx *ctx)
{
    FOR_NODES(g, n) {
        TRY(node_infer(g, n));
        if (fold_possible(g, n))
            TRY(fold_node(g, ctx, n, INT64_MAX));
    }
    return g->status;
}

static Status check_copy(AnyBatch *r, Graph *copy)
{
    PassCtx ctx = { .scratch = r->scratch, .eval = interp_node };
    Graph *built = r->g[WORLDS - 1];
    Match m = { .a = copy, .b = built, .wrong = &r->wrong, .equal = true };

    for (int i = 0; i < copy->n_input; i++) {
        const ValueId twin = graph_find(built, value(copy, copy->input[i])->name);

        value_set_shape(copy, value(copy, copy->input[i]), value(built, twin)->shape);
    }
    TRY(any_batch_settle(copy, &ctx));
    TRY(any_batch_settle(built, &ctx));
    return match_graphs(&m, r->scratch);
}

/* At the third size it is what was built for that. */
static Status any_batch_check(AnyBatch *r)
{
    Graph *copy;
    Status st;

    TRY(graph_clone_lending(&copy, r->g[0]));
    st = check_copy(r, copy);
    graph_free(copy);
    return st;
}

static Status work(AnyBatch *r, const char *symbol)
{
    TRY(any_batch_make(r));
    if (!r->wrong.n && has_value(r->sized)) {
        TRY(any_batch_check(r));
        TRY(open_interface(r, symbol));
    }
    return problems_fail(&r->wrong, E_UNSUPPORTED,
                         "these follow the size of the batch in no way that can be written (give --batch-size for a "
                         "file of one size)");
}

Status any_batch(Graph **out, BuildAtBatch *build, void *user, const char *symbol, Report *report)
{
    AnyBatch r = { .scratch = arena_create() };
    Status st = r.scratch ? ST_OK : FAIL_NOMEM();

    for (int k = 0; k < WORLDS && !st; k++)
        st = build(&r.g[k], user, sizes[k], k ? NULL : report);
    if (!st)
        st = work(&r, symbol);
    if (!st)
        *out = r.g[0];
    for (int k = st ? 0 : 1; k < WORLDS; k++)
        graph_free(r.g[k]);
    free(r.wrong.text); /* of another failure on the way */
    arena_free(r.scratch);
    return st;
}
