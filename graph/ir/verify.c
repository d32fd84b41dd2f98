/* The verifier: one walk over values, nodes, updates and outputs.  The walk fills `defined` node by node, so it finds a
 * use before the definition.  Values that nothing defines are dead, as passes keep ids; they are no error. */
#include "graph/ir/verify.h"

#include <string.h>

#include "graph/ir/op.h"

#define BROKEN(...) FAIL(E_INTERNAL, __VA_ARGS__)

/* ---- values ---- */

static Status check_init(const Value *v)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (!v->init)
        return BROKEN("'%s' has no data", v->name);
    if (v->init->dtype != v->dtype || !shape_eq(&v->init->shape, v->shape))
        return BROKEN("'%s' is %s%s, its data %s%s", v->name, dtype_name(v->dtype), shape_text(v->shape, a),
                      dtype_name(v->init->dtype), shape_text(&v->init->shape, b));
    if (!shape_known(v->shape))
        return BROKEN("'%s' holds data of unknown shape %s", v->name, shape_text(v->shape, a));
    if (!v->init->data && v->kind != V_STATE && tensor_bytes(v->init))
        return BROKEN("'%s' has no data", v->name);
    return ST_OK;
}

static Status check_shard(const Value *v)
{
    const Shard *s = v->shard;
    char text[SHAPE_TEXT];

    if (v->kind != V_STATE || v->shape->rank != 1 || v->layout != LAYOUT_ROWS || v->partial)
        return BROKEN("'%s' is marked as a piece, but is no state of one axis that lies row after row", v->name);
    if (!shape_known(&s->whole) || shape_check(&s->whole, dtype_size(v->dtype)) || s->from < 0 ||
        v->shape->dim[0] > shape_numel(&s->whole) || s->from > shape_numel(&s->whole) - v->shape->dim[0])
        return BROKEN("'%s' has elements from %lld of %s, which has no %lld of them", v->name, (long long)s->from,
                      shape_text(&s->whole, text), (long long)v->shape->dim[0]);
    return ST_OK;
}

static Status check_value(const Graph *g, uint32_t i)
{
    const Value *v = g->value[i];

    if (!v || !v->name || !*v->name)
        return BROKEN("value %u has no name", i);
    if (graph_find(g, v->name).i != i)
        return BROKEN("two values are called '%s', or it was renamed without graph_rename", v->name);
    if (v->shape->rank < -1 || v->shape->rank > MAX_RANK)
        return BROKEN("'%s' has rank %d", v->name, v->shape->rank);
    if (shape_known(v->shape))
        TRY(status_prefix(shape_check(v->shape, dtype_size(v->dtype)), "'%s'", v->name));
    if (v->kind != V_TEMP && v->producer)
        return BROKEN("'%s' is no temporary, but has a producer", v->name);
    if (v->layout != LAYOUT_ROWS && (!shape_known(v->shape) || !layout_holds(v->layout, v->shape)))
        return BROKEN("'%s' cannot be stored %s", v->name, layout_name(v->layout));
    if (v->kind != V_STATE && (v->trainable || v->undecayed || v->matrix || v->transient || v->partial))
        return BROKEN("'%s' is no state, but marked trainable, undecayed, a matrix, transient or partial", v->name);
    if (v->shard)
        TRY(check_shard(v));
    if (v->kind == V_CONST || v->kind == V_STATE)
        TRY(check_init(v));
    return ST_OK;
}

/* ---- nodes ---- */

static bool is_list(AttrType t) { return t == A_INTS || t == A_FLOATS || t == A_STRINGS; }

static Status check_attrs(const Graph *g, const Node *n)
{
    int declared = 0;

    for (const AttrDecl *d = n->op->attrs; d && d->name; d++) {
        const Attr *a = node_attr(n, d->name);

        if (!a)
            return BROKEN("%s: attribute '%s' is missing", node_text(g, n), d->name);
        if (a->type != d->type && !(a->n == 0 && is_list(a->type) && is_list(d->type)))
            return BROKEN("%s: attribute '%s' has the wrong type", node_text(g, n), d->name);
        declared++;
    }
    if (declared != n->n_attr)
        return BROKEN("%s: %d attributes, %d are declared", node_text(g, n), n->n_attr, declared);
    return ST_OK;
}

static Status verify_check_body(const Graph *g, const Graph *body)
{
    if (!body->is_body || body->arena != g->arena)
        return BROKEN("it does not live in the arena of its node's graph");
    if (body->n_update || !body->n_output)
        return BROKEN(body->n_update ? "it has updates" : "it returns nothing");
    for (uint32_t i = 1; i < body->n_value; i++) {
        const Value *v = body->value[i];

        if (v->kind == V_STATE || v->replica >= 0 || v->device >= 0)
            return BROKEN("'%s' in it is a state, or has a place", v->name);
    }
    FOR_NODES(body, x)
        if (x->replica >= 0 || x->device >= 0)
            return BROKEN("%s in it has a place", node_text(body, x));
    return graph_verify(body);
}

/* Checks the node's outputs, and marks them as defined. */
static Status check_definitions(bool *defined, const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        const Value *v;

        if (!has_value(n->out[i]))
            continue;
        if (n->out[i].i >= g->n_value)
            return BROKEN("%s: output %d is value %u of %u", n->name, i, n->out[i].i, g->n_value);
        v = value(g, n->out[i]);
        if (defined[n->out[i].i])
            return BROKEN("%s assigns '%s' a second time", node_text(g, n), v->name);
        if (v->kind != V_TEMP || v->producer != n || v->out_index != i)
            return BROKEN("%s: '%s' has another producer than output %d of the node", node_text(g, n), v->name, i);
        defined[n->out[i].i] = true;
    }
    return ST_OK;
}

static bool is_listed(const OpDef *op)
{
    for (int i = 0; i < op_list_len; i++)
        if (op_list[i] == op)
            return true;
    return false;
}

static Status check_node(bool *defined, const Graph *g, const Node *n, uint32_t index)
{
    const OpDef *op = n->op;

    if (!is_listed(op) && !op->infer)
        return BROKEN("node %s has an unknown operator", n->name ? n->name : "");
    if (!n->name)
        return BROKEN("%s %u has no name", op->name, index);
    if (n->index != index)
        return BROKEN("%s: index %u at position %u", node_text(g, n), n->index, index);
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i].i >= g->n_value)
            return BROKEN("%s: input %d is value %u of %u", node_text(g, n), i, n->in[i].i, g->n_value);
        if (has_value(n->in[i]) && !defined[n->in[i].i])
            return BROKEN("%s uses '%s' before it is defined", node_text(g, n), value(g, n->in[i])->name);
    }
    TRY(check_definitions(defined, g, n));
    if (n->n_in < op->in_min || (op->in_max >= 0 && n->n_in > op->in_max))
        return BROKEN("%s: %d inputs, expected %d to %d", node_text(g, n), n->n_in, op->in_min, op->in_max);
    if (n->n_out < op->out_min || (op->out_max >= 0 && n->n_out > op->out_max))
        return BROKEN("%s: %d outputs, expected %d to %d", node_text(g, n), n->n_out, op->out_min, op->out_max);
    for (int i = 0; i < op->in_min; i++)
        if (!has_value(n->in[i]))
            return BROKEN("%s: required input %d is absent", node_text(g, n), i);
    for (int i = 0; i < op->out_min; i++)
        if (!has_value(n->out[i]) && op_requires_output(op, i))
            return BROKEN("%s: required output %d is absent", node_text(g, n), i);
    for (int i = 0; i < n->n_attr; i++)
        if (n->attr[i].type == A_GRAPH && n->attr[i].graph)
            TRY(status_prefix(verify_check_body(g, n->attr[i].graph), "%s: body '%s'", node_text(g, n),
                              n->attr[i].name));
    return check_attrs(g, n);
}

/* ---- updates and outputs ---- */

/* `updated` marks states, by value, that earlier updates name. */
static Status check_update(bool *updated, const bool *defined, const Graph *g, Update u)
{
    const Value *s, *next;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (!has_value(u.state) || !has_value(u.next) || u.state.i >= g->n_value || u.next.i >= g->n_value)
        return BROKEN("an update lacks its state or its value");
    s = value(g, u.state);
    next = value(g, u.next);
    if (s->kind != V_STATE && (s->kind != V_CONST || graph_is_step(g)))
        return BROKEN("'%s' is updated, but is no state", s->name);
    if (updated[u.state.i])
        return BROKEN("state '%s' is updated twice", s->name);
    updated[u.state.i] = true;
    if (!defined[u.next.i])
        return BROKEN("state '%s' is updated by '%s', which nothing defines", s->name, next->name);
    if (s->kind == V_CONST || next->dtype == DT_NONE)
        return ST_OK; /* an update in a model, whose types may not be known yet */
    if (s->dtype != next->dtype || !shape_eq(s->shape, next->shape))
        return BROKEN("state '%s' %s%s is updated by '%s' %s%s", s->name, dtype_name(s->dtype), shape_text(s->shape, a),
                      next->name, dtype_name(next->dtype), shape_text(next->shape, b));
    return ST_OK;
}

static Status check_output(const bool *defined, const Graph *g, int i)
{
    const Output *o = &g->output[i];

    if (!o->name)
        return BROKEN("output %d has no name", i);
    if (!has_value(o->value) || o->value.i >= g->n_value || !defined[o->value.i])
        return BROKEN("output '%s' is not defined", o->name);
    for (int k = 0; k < i; k++)
        if (!strcmp(g->output[k].name, o->name))
            return BROKEN("two outputs are called '%s'", o->name);
    return ST_OK;
}

/* `defined` and `updated` have room for a mark of each value, and are zeroed. */
static Status check_graph(const Graph *g, bool *defined, bool *updated)
{
    for (uint32_t i = 1; i < g->n_value; i++) {
        TRY(check_value(g, i));
        defined[i] = g->value[i]->kind == V_CONST || g->value[i]->kind == V_STATE;
    }
    for (int i = 0; i < g->n_input; i++) {
        uint32_t id = g->input[i].i;

        if (!id || id >= g->n_value || g->value[id]->kind != V_INPUT)
            return BROKEN("input %d of the graph is no input value", i);
        if (defined[id])
            return BROKEN("'%s' is listed twice as an input", g->value[id]->name);
        defined[id] = true;
    }
    FOR_NODES(g, n)
        TRY(check_node(defined, g, n, i_n));
    for (int i = 0; i < g->n_update; i++)
        TRY(check_update(updated, defined, g, g->update[i]));
    for (int i = 0; i < g->n_output; i++)
        TRY(check_output(defined, g, i));
    return ST_OK;
}

Status graph_verify(const Graph *g)
{
    bool *defined, *updated;
    Arena *scratch;
    Status st;

    if (g->status)
        return g->status;
    if (!(scratch = arena_create_beside(g->arena)))
        return FAIL_NOMEM();
    defined = ARENA_NEW(scratch, bool, g->n_value);
    updated = ARENA_NEW(scratch, bool, g->n_value);
    st = defined && updated ? check_graph(g, defined, updated) : FAIL_NOMEM();
    arena_free(scratch);
    return st;
}
