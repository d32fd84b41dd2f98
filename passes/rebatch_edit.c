/* The changes that take a model to another batch size (rebatch.h), made in a trial by constants of one size, and in the
 * model by nodes that read the batch size off an input: 0 or -1 in a Reshape where that says it too. */
#include "passes/rebatch.h"

#include <string.h>

#include "graph/base/arena.h"
#include "graph/emit.h"
#include "passes/readers.h"

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

static bool one_number(const Tensor *t)
{
    size_t size = dtype_size(t->dtype);

    for (int64_t i = 1; i < tensor_numel(t); i++)
        if (memcmp(t->data, (const char *)t->data + (size_t)i * size, size))
            return false;
    return true;
}

bool rows_equal_too(const Tensor *t, int at, int axis)
{
    return axis != at && t->shape.dim[axis] > 1 && dtype_is_float(t->dtype) && !one_number(t) && rows_equal(t, axis);
}

/* ---- in a trial ---- */

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

static Tensor *count_on(Arena *a, const Tensor *t, int64_t step, int64_t n)
{
    Shape s = SHAPE(n);
    Tensor *out = tensor_create(a, t->dtype, &s);

    for (int64_t i = 0; out && i < n; i++)
        tensor_set_int(out, i, i * step);
    return out;
}

static Status edit_element(World *w, const Edit *e, int64_t b0)
{
    Node *n = w->g->node[e->node];
    const Tensor *old = value_const(w->g, n->in[e->in]);
    Tensor *t;

    if (!old || e->at >= tensor_numel(old)) /* a change in front of the node may have made another list of it */
        return FAIL(E_UNSUPPORTED, "%s: input %d has no element %d", node_text(w->g, n), e->in, e->at);
    if (!(t = tensor_copy(w->g->arena, old)))
        return FAIL_NOMEM();
    tensor_set_int(t, e->at, e->size / b0 * w->batch);
    node_set_input(w->g, n, e->in, graph_add_const_nocopy(w->g, "", t));
    return w->g->status;
}

Status edit_world(World *w, const Edit *e, int64_t b0)
{
    Value *v;
    Tensor *t;

    if (e->kind == EDIT_ELEMENT)
        return edit_element(w, e, b0);
    v = value(w->g, e->value);
    t = e->kind == EDIT_ROWS ? repeat_rows(w->g->arena, v->init, e->at, w->batch)
                             : count_on(w->g->arena, v->init, e->size, w->batch);
    if (!t)
        return FAIL_NOMEM();
    v->init = t;
    v->shape = t->shape;
    return ST_OK;
}

/* ---- in the model ---- */

typedef struct {
    Graph *g;
    ValueId input;
    int axis;
} Batch;

/* [times · batch], int64. */
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

static ValueId as_type(Graph *g, ValueId v, DType dtype)
{
    return dtype == DT_INT64 ? v : EMIT(g, Cast, ATTRS(INT("to", dtype)), v);
}

/* The integers with the batch, `times` over, in the place of element `at`. */
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

/* A Reshape says "as the input's" or "what remains" where that is the batch. */
static bool reshape_target(int64_t *list, int n, const Edit *e, const Node *reshape, const World *known, bool open)
{
    const Shape *y = &value(known[0].g, reshape->out[0])->shape;
    bool copied = true;
    int remains = -1;

    for (int i = 0; i < n; i++)
        remains = list[i] == -1 ? i : remains;
    for (int i = 0; i < 2; i++) {
        const Shape *from = &value(known[i].g, reshape->in[0])->shape, *to = &value(known[i].g, reshape->out[0])->shape;

        copied &= e->at < from->rank && from->dim[e->at] == to->dim[e->at];
    }
    if (copied && !node_int(reshape, "allowzero")) {
        list[e->at] = 0;
        return true;
    }
    if (remains >= 0 && open)
        return false;
    if (remains >= 0)
        list[remains] = y->dim[remains];
    for (int i = 0; i < n; i++)
        if (list[i] == 0)
            return false; /* an empty one leaves nothing to divide by; a copied one stays beside the batch */
    list[e->at] = -1;
    return true;
}

static Status element_in_model(const Batch *b, const Edit *e, int64_t b0, const World *known, bool open)
{
    Graph *g = b->g;
    Node *n = g->node[e->node];
    const Tensor *t = value_const(known->g, known->g->node[e->node]->in[e->in]);
    int64_t list[MAX_RANK];
    int count = (int)tensor_numel(t);
    ValueId v;

    for (int i = 0; i < count; i++)
        list[i] = tensor_int(t, i);
    if (n->op == &op_Reshape && reshape_target(list, count, e, n, known, open))
        v = emit_ints(g, count, list);
    else if (!t->shape.rank)
        v = as_type(g, emit_batch_scalar(b, e->size / b0), t->dtype);
    else
        v = as_type(g, emit_with_batch(b, count, list, e->at, e->size / b0), t->dtype);
    if (!g->status)
        node_set_input(g, n, e->in, v);
    return g->status;
}

static Status replace_for_readers(Graph *g, ValueId old, ValueId by)
{
    Arena *a = arena_create_beside(g->arena);
    ValueId *list = a ? ARENA_NEW(a, ValueId, old.i + 1) : NULL;
    Status st = list ? ST_OK : FAIL_NOMEM();

    if (list) {
        list[old.i] = by;
        st = readers_redirect(g, list, old.i + 1);
    }
    arena_free(a);
    return st;
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
    v->shape = row->shape;
    wide = EMIT(g, Expand, NULL, e->value, emit_with_batch(b, row->shape.rank, sizes, e->at, 1));
    TRY(g->status);
    return replace_for_readers(g, e->value, wide);
}

static Status range_in_model(const Batch *b, const Edit *e)
{
    Graph *g = b->g;
    ValueId limit = emit_batch_scalar(b, e->size), from = emit_scalar(g, DT_INT64, 0);
    ValueId counted = EMIT(g, Range, NULL, from, limit, emit_scalar(g, DT_INT64, (double)e->size));

    counted = as_type(g, counted, value(g, e->value)->dtype);
    TRY(g->status);
    return replace_for_readers(g, e->value, counted);
}

Status edit_model(Graph *g, const Edit *e, int64_t b0, const World *known, bool open, ValueId batch_input,
                  int batch_axis)
{
    Batch b = { g, batch_input, batch_axis };

    if (e->kind == EDIT_ELEMENT)
        return element_in_model(&b, e, b0, known, open);
    return e->kind == EDIT_ROWS ? rows_in_model(&b, e) : range_in_model(&b, e);
}
