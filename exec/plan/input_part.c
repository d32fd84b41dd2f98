/* The pieces are read off the Scatter nodes: what they do is all that is done to an input that is split. */
#include "exec/plan/input_part.h"

#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"

static bool is_local(int device, int n_device, int first, int n_local)
{
    return device % n_device >= first && device % n_device < first + n_local;
}

/* The pieces that go to these devices; where none does, an empty one. */
static InputPart part_of(const Graph *g, const Node *n, const Exchange *e, int n_device, int first, int n_local)
{
    const Shape *whole = in_value(g, n, 0)->shape;
    InputPart w = { .read = true, .axis = e->axis, .apart = shape_count(whole, 0, e->axis) != 1 };
    int64_t at = 0;
    bool any = false;

    for (int o = 0; o < n->n_out; o++) {
        int64_t count = value(g, n->out[o])->shape->dim[e->axis];

        if (is_local(exchange_device(e, o), n_device, first, n_local)) {
            w.from = any ? w.from : at;
            w.to = at + count;
            any = true;
        }
        at += count;
    }
    return w;
}

/* Notes a reader of an input.  A second reader, or one that does not scatter it, reads all of it. */
static void read_by(InputPart *w, const Graph *g, const Node *n, int n_device, int first, int n_local)
{
    const Exchange e = exchange_of(n);
    const bool once = !w->read;

    *w = once && exchange_distributes(&e) && e.split ? part_of(g, n, &e, n_device, first, n_local)
                                                     : (InputPart){ .read = true, .axis = -1 };
}

static void give_whole(InputPart *w, const Value *v)
{
    w->given = *v->shape;
    w->skip = 0;
    w->bytes = tensor_bytes(&(Tensor){ v->dtype, w->given, NULL });
    w->partly = false;
}

Status input_parts_find(InputPart **out, Arena *a, const Graph *g, int n_device, int first, int n_local)
{
    InputPart *w = ARENA_NEW(a, InputPart, g->n_value);

    if (!w)
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_input; i++)
        w[g->input[i].i].axis = -1;
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (has_value(n->in[i]) && value(g, n->in[i])->kind == V_INPUT)
                read_by(&w[n->in[i].i], g, n, n_device, first, n_local);
    for (int i = 0; i < g->n_output; i++)
        if (value(g, g->output[i].value)->kind == V_INPUT)
            w[g->output[i].value.i] = (InputPart){ .read = true, .axis = -1 };
    for (int i = 0; i < g->n_update; i++)
        if (value(g, g->update[i].next)->kind == V_INPUT)
            w[g->update[i].next.i] = (InputPart){ .read = true, .axis = -1 };
    for (int i = 0; i < g->n_input; i++)
        give_whole(&w[g->input[i].i], value(g, g->input[i]));
    *out = w;
    return ST_OK;
}

Status input_part_give(InputPart *w, const Value *v, const GivenPart *part, int k)
{
    const int axis = part ? part->axis[k] : -1;
    const bool partly = axis >= 0 && axis < v->shape->rank && (part->from > 0 || part->to < v->shape->dim[axis]);

    if (partly && w->read && w->axis != axis)
        return FAIL(
            E_INVALID,
            "input '%s' is given in parts along axis %d, and the step %s: --batch-input says where the batch is",
            v->name, axis, w->axis < 0 ? "reads all of it" : "splits it along another");
    if (partly && w->read && (w->from != part->from || w->to != part->to))
        return FAIL(E_INTERNAL, "input '%s': samples %lld to %lld are given, %lld to %lld are read", v->name,
                    (long long)part->from, (long long)part->to, (long long)w->from, (long long)w->to);
    if (partly || w->partly)
        give_whole(w, v);
    if (!partly)
        return ST_OK;
    w->given.dim[axis] = part->to - part->from;
    w->skip = (size_t)part->from * (size_t)shape_count(v->shape, axis + 1, v->shape->rank) * dtype_size(v->dtype);
    w->bytes = tensor_bytes(&(Tensor){ v->dtype, w->given, NULL });
    w->partly = true;
    return ST_OK;
}

void *input_part_at(const InputPart *w, void *data, size_t offset, size_t bytes)
{
    if (w->apart)
        return offset ? NULL : data; /* its pieces are no views of it */
    return data && offset >= w->skip && offset + bytes <= w->skip + w->bytes ? (char *)data + (offset - w->skip) : NULL;
}

void input_part_spread(const InputPart *w, void *whole, const void *given, const Value *v)
{
    const size_t unit = (size_t)shape_count(v->shape, w->axis + 1, v->shape->rank) * dtype_size(v->dtype),
                 wide = (size_t)v->shape->dim[w->axis] * unit, row = (size_t)(w->to - w->from) * unit;

    for (size_t at = 0; row && at * row < w->bytes; at++)
        memcpy((char *)whole + at * wide + (size_t)w->from * unit, (const char *)given + at * row, row);
}

int64_t input_part_element(const InputPart *w, const Value *v, int64_t i)
{
    const int axis = w->axis;
    int64_t unit, row;

    if (shape_eq(&w->given, v->shape))
        return i;
    unit = shape_count(v->shape, axis + 1, v->shape->rank);
    row = w->given.dim[axis] * unit;
    return i / row * v->shape->dim[axis] * unit + w->from * unit + i % row;
}
