/* The edits of rebatch.h.  In a trial model an edit is a constant for one batch size.  In the model it is nodes that
 * read the batch size off an input, or 0 or -1 in the target of a Reshape. */
#include <string.h>

#include "graph/base/arena.h"
#include "graph/ir/emit.h"
#include "graph/ir/rewrite.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/view.gen.h"
#include "passes/model/rebatch.h"
#include "passes/options/batch.h"
#include "passes/simplify/infer_shapes.h"

/* ---- trial models ---- */

Status trial_open(TrialModel *w, const Graph *g, const BuildOptions *opt, int64_t batch, int64_t open)
{
    const BatchOptions *given = batch_options(opt);

    *w = (TrialModel){ NULL, batch };
    TRY(graph_clone_lending(&w->g, g));
    bind_batch_axes(w->g, opt, batch);
    for (int i = 0; i < w->g->n_input; i++) {
        Value *v = value(w->g, w->g->input[i]);
        Shape s = *v->shape;

        for (int k = 0; k < given->n_input_shape; k++)
            for (int a = 0; a < s.rank && !strcmp(given->input_shape[k].name, v->name); a++)
                if (s.dim[a] < 0 && a < given->input_shape[k].shape.rank)
                    s.dim[a] = given->input_shape[k].shape.dim[a];
        for (int a = 0; a < s.rank; a++)
            if (s.dim[a] < 0)
                s.dim[a] = open;
        value_set_shape(w->g, v, &s);
        if (shape_known(v->shape))
            TRY(status_prefix(shape_check(v->shape, 8), "input '%s'", v->name));
    }
    return ST_OK;
}

/* ---- equal rows ---- */

bool rows_equal(const Tensor *t, int axis)
{
    size_t row = (size_t)shape_count(&t->shape, axis + 1, t->shape.rank) * dtype_size(t->dtype);
    int64_t n = t->shape.dim[axis];

    for (int64_t i = 0; i < shape_count(&t->shape, 0, axis); i++)
        for (int64_t k = 1; k < n; k++)
            if (memcmp((const char *)t->data + (size_t)(i * n) * row, (const char *)t->data + (size_t)(i * n + k) * row,
                       row))
                return false;
    return true;
}

bool rows_equal_too(const Tensor *t, int at, int axis)
{
    return axis != at && t->shape.dim[axis] > 1 && dtype_is_float(t->dtype) && !tensor_is_filled(t) &&
           rows_equal(t, axis);
}

bool counts_on(const Tensor *t, int64_t *step)
{
    if (!dtype_is_int(t->dtype) || tensor_numel(t) < 2 || (*step = tensor_int(t, 1)) <= 0)
        return false;
    for (int64_t i = 0; i < tensor_numel(t); i++)
        if (tensor_int(t, i) != i * *step)
            return false;
    return true;
}

/* ---- in a trial model ---- */

/* A copy of t, in which the first row along `axis` is repeated n times. */
static Tensor *repeat_rows(Arena *a, const Tensor *t, int axis, int64_t n)
{
    Shape s = t->shape;
    size_t row = (size_t)shape_count(&s, axis + 1, s.rank) * dtype_size(t->dtype), wide = row * (size_t)s.dim[axis];
    int64_t blocks = shape_count(&s, 0, axis);
    Tensor *out;

    s.dim[axis] = n;
    if (!(out = tensor_create(a, t->dtype, &s)))
        return NULL;
    for (int64_t i = 0; row && i < blocks; i++)
        for (int64_t k = 0; k < n; k++)
            memcpy((char *)out->data + (size_t)(i * n + k) * row, (const char *)t->data + (size_t)i * wide, row);
    return out;
}

/* Index `part` of row [front, 0, behind] in the list for b0. */
static int64_t first_of(const Tensor *t, const RowList *l, int64_t b0, int64_t front, int64_t behind, int part)
{
    return tensor_int(t, (front * b0 * l->behind + behind) * l->width + part);
}

static Status edit_list(TrialModel *w, const Edit *e, int64_t b0)
{
    Node *n = w->g->node[e->node];
    const Tensor *old = value_const(w->g, n->in[e->in]);
    const RowList *l = &e->list;
    Shape s;
    Tensor *t;
    int64_t at = 0;

    if (!old || tensor_numel(old) != l->front * b0 * l->behind * l->width)
        return FAIL(E_UNSUPPORTED, "%s: input %d is another list", node_text(w->g, n), e->in);
    s = old->shape;
    s.dim[e->at] = s.dim[e->at] / b0 * w->batch;
    if (!(t = tensor_create(w->g->arena, old->dtype, &s)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < l->front; i++)
        for (int64_t k = 0; k < w->batch; k++)
            for (int64_t j = 0; j < l->behind; j++)
                for (int p = 0; p < l->width; p++) {
                    const int64_t first = first_of(old, l, b0, i, j, p), whole = b0 * l->step;

                    tensor_set_int(t, at++,
                                   p == l->part ? first / whole * w->batch * l->step + k * l->step + first % whole
                                                : first);
                }
    node_set_input(w->g, n, e->in, graph_add_const_nocopy(w->g, "", t));
    return w->g->status;
}

static Status edit_element(TrialModel *w, const Edit *e, int64_t b0)
{
    Node *n = w->g->node[e->node];
    const Tensor *old = value_const(w->g, n->in[e->in]);
    int64_t size;
    Tensor *t;

    if (!old || e->at >= tensor_numel(old)) /* a change in front of the node may have made another list of it */
        return FAIL(E_UNSUPPORTED, "%s: input %d has no element %d", node_text(w->g, n), e->in, e->at);
    if (__builtin_mul_overflow(e->size / b0, w->batch, &size))
        return FAIL(E_UNSUPPORTED, "%s: element %d of input %d, %lld, is too large at another batch size",
                    node_text(w->g, n), e->at, e->in, (long long)e->size);
    if (!(t = tensor_copy(w->g->arena, old)))
        return FAIL_NOMEM();
    tensor_set_int(t, e->at, size);
    node_set_input(w->g, n, e->in, graph_add_const_nocopy(w->g, "", t));
    return w->g->status;
}

Status trial_edit(TrialModel *w, const Edit *e, int64_t b0)
{
    Value *v;
    Tensor *t;

    if (e->kind == EDIT_ELEMENT)
        return edit_element(w, e, b0);
    if (e->kind == EDIT_LIST)
        return edit_list(w, e, b0);
    v = value(w->g, e->value);
    t = repeat_rows(w->g->arena, v->init, e->at, w->batch);
    for (int64_t i = 0; t && e->kind == EDIT_RANGE && i < w->batch; i++)
        tensor_set_int(t, i, i * e->size);
    if (!t)
        return FAIL_NOMEM();
    v->init = t;
    value_set_shape(w->g, v, &t->shape);
    return w->g->status;
}

/* ---- in the model ---- */

/* The input and axis that the batch size is read off. */
typedef struct {
    Graph *g;
    ValueId input;
    int axis;
} Batch;

/* times * batch, int64 [1]. */
static ValueId emit_batch(const Batch *b, int64_t times)
{
    Graph *g = b->g;
    int64_t axis = b->axis;
    ValueId dims = EMIT(g, Shape, NULL, b->input), which = emit_ints(g, 1, &axis), size;

    size = EMIT(g, Gather, ATTRS(INT("axis", 0)), dims, which);
    return times == 1 ? size : EMIT(g, Mul, NULL, size, emit_ints(g, 1, &times));
}

static ValueId emit_batch_scalar(const Batch *b, int64_t times)
{
    int64_t zero = 0;
    ValueId size = emit_batch(b, times);

    return EMIT(b->g, Squeeze, NULL, size, emit_ints(b->g, 1, &zero));
}

/* Reshapes v to *s, but for the size of `axis`, which takes the elements that remain. */
static ValueId as_axis(Graph *g, ValueId v, const Shape *s, int axis)
{
    Shape open = *s;

    open.dim[axis] = -1;
    return EMIT(g, Reshape, NULL, v, emit_ints(g, open.rank, open.dim));
}

static ValueId as_type(Graph *g, ValueId v, DType dtype)
{
    return dtype == DT_INT64 ? v : EMIT(g, Cast, ATTRS(INT("to", dtype)), v);
}

/* The integers, with times * batch in the place of element `at`. */
static ValueId emit_with_batch(const Batch *b, int n, const int64_t *list, int at, int64_t times)
{
    ValueId part[3];
    int count = 0;

    if (at > 0)
        part[count++] = emit_ints(b->g, at, list);
    part[count++] = emit_batch(b, times);
    if (at + 1 < n)
        part[count++] = emit_ints(b->g, n - at - 1, list + at + 1);
    return count == 1 ? part[0] : emit(b->g, &op_Concat, ATTRS(INT("axis", 0)), count, part);
}

/* Makes element e->at of a Reshape target 0 (copied) or -1 (the rest) where that gives the batch.  False: neither does.
 * `open`: sizes besides the batch are open. */
static bool reshape_target(int64_t *list, int n, const Edit *e, const Node *reshape, const TrialModel *known, bool open)
{
    const Shape *y = value(known[0].g, reshape->out[0])->shape;
    bool copied = true;
    int rest = -1;

    for (int i = 0; i < n; i++)
        rest = list[i] == -1 ? i : rest;
    for (int i = 0; i < 2; i++) {
        const Node *there = known[i].g->node[e->node]; /* the model's may read nodes that another edit emitted */
        const Shape *from = value(known[i].g, there->in[0])->shape, *to = value(known[i].g, there->out[0])->shape;

        copied &= e->at < from->rank && from->dim[e->at] == to->dim[e->at];
    }
    if (copied && !node_int(reshape, "allowzero")) {
        list[e->at] = 0;
        return true;
    }
    if (rest >= 0 && open)
        return false;
    if (rest >= 0)
        list[rest] = y->dim[rest];
    for (int i = 0; i < n; i++)
        if (list[i] == 0)
            return false; /* an empty axis leaves -1 undefined; a copied one stays beside the batch */
    list[e->at] = -1;
    return true;
}

/* Elements [from, to) of a computed list of integers. */
static ValueId emit_part(Graph *g, ValueId list, int64_t from, int64_t to)
{
    const ValueId begin = emit_ints(g, 1, &from);

    return EMIT(g, Slice, NULL, list, begin, emit_ints(g, 1, &to));
}

/* A list that the model computes, perhaps of open sizes, in which element e->at follows the batch: it is divided by b0
 * and multiplied by the batch.  `other` has the list for other open sizes.  An element that is the same there is a
 * number of the file; it becomes a constant times the batch. */
static ValueId computed_element(const Batch *b, const Edit *e, int64_t b0, const Tensor *t, const Graph *other)
{
    Graph *g = b->g;
    const Tensor *there = in_const(other, other->node[e->node], e->in);
    ValueId list = emit_cast(g, g->node[e->node]->in[e->in], DT_INT64), part[3], size;
    const int rank = t->shape.rank, n = (int)tensor_numel(t);
    int count = 0;

    if (there && tensor_numel(there) == n && tensor_int(there, e->at) == e->size)
        size = rank ? emit_batch(b, e->size / b0) : emit_batch_scalar(b, e->size / b0);
    else {
        size = rank ? emit_part(g, list, e->at, e->at + 1) : list;
        size = EMIT(g, Div, NULL, size, emit_scalar(g, DT_INT64, (double)b0));
        size = EMIT(g, Mul, NULL, size, rank ? emit_batch(b, 1) : emit_batch_scalar(b, 1));
    }
    if (e->at > 0)
        part[count++] = emit_part(g, list, 0, e->at);
    part[count++] = size;
    if (e->at + 1 < n)
        part[count++] = emit_part(g, list, e->at + 1, n);
    return count == 1 ? size : emit(g, &op_Concat, ATTRS(INT("axis", 0)), count, part);
}

static Status element_in_model(const Batch *b, const Edit *e, int64_t b0, const TrialModel *known, const Graph *other)
{
    Graph *g = b->g;
    Node *n = g->node[e->node];
    const Tensor *t = value_const(known->g, known->g->node[e->node]->in[e->in]);
    int64_t list[MAX_RANK];
    int count = (int)tensor_numel(t);
    ValueId v;

    for (int i = 0; i < count; i++)
        list[i] = tensor_int(t, i);
    if (other && !in_const(g, n, e->in))
        v = as_type(g, computed_element(b, e, b0, t, other), t->dtype);
    else if (op_reshapes(n->op) && reshape_target(list, count, e, n, known, other))
        v = emit_ints(g, count, list);
    else if (!t->shape.rank)
        v = as_type(g, emit_batch_scalar(b, e->size / b0), t->dtype);
    else
        v = as_type(g, emit_with_batch(b, count, list, e->at, e->size / b0), t->dtype);
    if (!g->status)
        node_set_input(g, n, e->in, v);
    return g->status;
}

static Status rows_in_model(const Batch *b, const Edit *e)
{
    Graph *g = b->g;
    Value *v = value(g, e->value);
    const Tensor *whole = v->init;
    Tensor *row = repeat_rows(g->arena, whole, e->at, 1);
    int64_t sizes[MAX_RANK];
    ValueId wide;

    for (int i = 0; i < whole->shape.rank; i++) {
        sizes[i] = 1;
        if (row && rows_equal_too(whole, e->at, i)) {
            sizes[i] = whole->shape.dim[i];
            row = repeat_rows(g->arena, row, i, 1);
        }
    }
    if (!row)
        return FAIL_NOMEM();
    v->init = row;
    value_set_shape(g, v, &row->shape);
    wide = EMIT(g, Expand, NULL, e->value, emit_with_batch(b, row->shape.rank, sizes, e->at, 1));
    graph_redirect(g, e->value, wide);
    return g->status;
}

/* The indices of sample k in a batch of n are term0 * k + term1 * n + term2.  This returns one of the three terms, a
 * constant [front, 1, behind, width]. */
static ValueId list_term(Graph *g, const Edit *e, const Tensor *t, int64_t b0, int term)
{
    const RowList *l = &e->list;
    Shape s = SHAPE(l->front, 1, l->behind, l->width);
    Tensor *out = tensor_create(g->arena, DT_INT64, &s);
    int64_t whole = b0 * l->step, at = 0;

    for (int64_t i = 0; out && i < l->front; i++)
        for (int64_t j = 0; j < l->behind; j++)
            for (int p = 0; p < l->width; p++) {
                int64_t first = first_of(t, l, b0, i, j, p);
                int64_t of[3] = { l->step, first / whole * l->step, first % whole }, other[3] = { 0, 0, first };

                tensor_set_int(out, at++, p == l->part ? of[term] : other[term]);
            }
    return out ? graph_add_const_nocopy(g, "", out) : NO_VALUE;
}

/* Replaces the list by term0 * [0, 1 ... batch - 1] + term1 * batch + term2 (list_term). */
static Status list_in_model(const Batch *b, const Edit *e, int64_t b0, const TrialModel *known)
{
    Graph *g = b->g;
    Node *n = g->node[e->node];
    const Tensor *t = value_const(known->g, known->g->node[e->node]->in[e->in]);
    ValueId from = emit_scalar(g, DT_INT64, 0), limit = emit_batch_scalar(b, 1);
    ValueId sample = EMIT(g, Range, NULL, from, limit, emit_scalar(g, DT_INT64, 1)), size = emit_batch(b, 1), term[3];
    const Shape column = SHAPE(1, b0, 1, 1);

    sample = as_axis(g, sample, &column, 1);
    for (int i = 0; i < 3; i++)
        if (!has_value(term[i] = list_term(g, e, t, b0, i)))
            return FAIL_NOMEM();
    sample = EMIT(g, Mul, NULL, sample, term[0]);
    size = EMIT(g, Mul, NULL, size, term[1]);
    sample = EMIT(g, Add, NULL, sample, size);
    sample = EMIT(g, Add, NULL, sample, term[2]);
    sample = as_type(g, as_axis(g, sample, &t->shape, e->at), t->dtype);
    if (!g->status)
        node_set_input(g, n, e->in, sample);
    return g->status;
}

Status edit_model(Graph *g, const Edit *e, int64_t b0, const TrialModel *known, const Graph *other, ValueId batch_input,
                  int batch_axis)
{
    Batch b = { g, batch_input, batch_axis };
    ValueId limit, from, counted;

    if (e->kind == EDIT_ELEMENT)
        return element_in_model(&b, e, b0, known, other);
    if (e->kind == EDIT_LIST)
        return list_in_model(&b, e, b0, known);
    if (e->kind == EDIT_ROWS)
        return rows_in_model(&b, e);
    limit = emit_batch_scalar(&b, e->size);
    from = emit_scalar(g, DT_INT64, 0);
    counted = EMIT(g, Range, NULL, from, limit, emit_scalar(g, DT_INT64, (double)e->size));
    if (value(g, e->value)->init->shape.rank > 1)
        counted = as_axis(g, counted, &value(g, e->value)->init->shape, e->at);
    graph_redirect(g, e->value, as_type(g, counted, value(g, e->value)->dtype));
    return g->status;
}
