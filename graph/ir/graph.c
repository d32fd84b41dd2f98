/* Construction, change and copies of graphs.  Everything lives in the graph's arena. */
#include "graph/ir/graph.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "graph/base/arena.h"
#include "graph/ir/name_table.h"
#include "graph/ir/op.h"

/* ---- life ---- */

Graph *graph_create(const char *name) { return graph_create_within(name, NULL); }

static const Shape no_shape = { .rank = -1 };

static Graph *create_in(Arena *a, const char *name)
{
    Graph *g = a ? ARENA_NEW(a, Graph, 1) : NULL;
    Value *none = a ? ARENA_NEW(a, Value, 1) : NULL;

    if (!g || !none)
        return NULL;
    g->arena = a;
    g->name = arena_strdup(a, name);
    g->producer = g->producer_version = "";
    g->names = names_create(a);
    if (!g->name || !g->names || !(g->value = arena_grow(a, NULL, sizeof *g->value, 0, &g->cap_value)))
        return NULL;
    /* The value of NO_VALUE has neither type nor shape; formulas run to their end with it when memory has run out. */
    *none = (Value){ .name = "", .shape = &no_shape, .replica = -1, .device = -1 };
    g->value[0] = none;
    g->n_value = 1;
    return g;
}

Graph *graph_create_within(const char *name, MemoryBudget *b)
{
    Arena *a = arena_create_within(b);
    Graph *g = create_in(a, name);

    if (!g)
        arena_free(a);
    return g;
}

void graph_free(Graph *g)
{
    if (g && !g->is_body)
        arena_free(g->arena);
}

/* ---- values ---- */

#define PUSH(g, array, count, cap, item)                                                                      \
    do {                                                                                                      \
        void *grown_ = arena_grow((g)->arena, (g)->array, sizeof *(g)->array, (size_t)(g)->count, &(g)->cap); \
        if (!grown_) {                                                                                        \
            graph_fail_nomem(g);                                                                              \
            break;                                                                                            \
        }                                                                                                     \
        (g)->array = grown_;                                                                                  \
        (g)->array[(g)->count++] = (item);                                                                    \
    } while (0)

void value_set_shape(Graph *g, Value *v, const Shape *s)
{
    if (!(v->shape = shapes_share(&g->shapes, g->arena, s))) {
        v->shape = &no_shape;
        graph_fail_nomem(g);
    }
}

ValueId graph_add_value(Graph *g, ValueKind kind, const char *name, DType dtype, const Shape *shape)
{
    Value *v;
    ValueId id = { g->n_value };

    if (g->status)
        return NO_VALUE;
    if (!name || !(v = ARENA_NEW(g->arena, Value, 1))) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    v->name = graph_unique_name(g, name);
    v->kind = kind;
    v->dtype = dtype;
    value_set_shape(g, v, shape);
    v->replica = v->device = -1;
    PUSH(g, value, n_value, cap_value, v);
    if (!g->status)
        names_put(g, id.i);
    return g->status ? NO_VALUE : id;
}

ValueId graph_add_input(Graph *g, const char *name, DType dtype, const Shape *shape)
{
    ValueId v = graph_add_value(g, V_INPUT, name, dtype, shape);

    if (has_value(v))
        PUSH(g, input, n_input, cap_input, v);
    return v;
}

ValueId graph_add_const_nocopy(Graph *g, const char *name, const Tensor *t)
{
    ValueId v = graph_add_value(g, V_CONST, name, t->dtype, &t->shape);

    if (has_value(v))
        value(g, v)->init = t;
    return v;
}

ValueId graph_add_const(Graph *g, const char *name, const Tensor *t)
{
    const Tensor *copy = g->status ? NULL : tensor_copy(g->arena, t);

    if (!copy) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    return graph_add_const_nocopy(g, name, copy);
}

void value_make_temp(Value *v)
{
    v->kind = V_TEMP;
    v->producer = NULL;
    v->init = NULL;
    v->shard = NULL;
    v->layout = LAYOUT_ROWS;
    v->trainable = v->undecayed = v->transient = v->partial = false;
    v->matrix = 0;
}

ValueId graph_add_state(Graph *g, const char *name, const Tensor *init, bool trainable)
{
    ValueId v = graph_add_const(g, name, init);

    if (has_value(v)) {
        value(g, v)->kind = V_STATE;
        value(g, v)->trainable = trainable;
    }
    return v;
}

void graph_add_output(Graph *g, const char *name, ValueId v)
{
    Output o = { .name = g->status ? "" : name ? arena_strdup(g->arena, name) : NULL, .value = v };

    if (!o.name)
        graph_fail_nomem(g);
    if (!g->status)
        PUSH(g, output, n_output, cap_output, o);
}

void graph_remove_output(Graph *g, const char *name)
{
    for (int i = 0; i < g->n_output; i++)
        if (!strcmp(g->output[i].name, name)) {
            memmove(&g->output[i], &g->output[i + 1], (size_t)(g->n_output - i - 1) * sizeof *g->output);
            g->n_output--;
            return;
        }
}

void graph_add_update(Graph *g, ValueId state, ValueId next)
{
    Update u = { state, next };

    if (!g->status)
        PUSH(g, update, n_update, cap_update, u);
}

void graph_rename(Graph *g, ValueId v, const char *name)
{
    if (!name)
        graph_fail_nomem(g);
    if (g->status || !has_value(v) || !strcmp(value(g, v)->name, name))
        return;
    name = names_is_retired(g, name) ? arena_strdup(g->arena, name) : graph_unique_name(g, name);
    if (!name)
        graph_fail_nomem(g);
    if (g->status)
        return;
    names_retire(g, v.i);
    value(g, v)->name = name;
    names_put(g, v.i);
}

ValueId graph_output(const Graph *g, const char *name)
{
    for (int i = 0; i < g->n_output; i++)
        if (!strcmp(g->output[i].name, name))
            return g->output[i].value;
    return NO_VALUE;
}

bool graph_is_step(const Graph *g)
{
    FOR_NODES(g, n)
        if (n->device >= 0 || n->replica >= 0)
            return true;
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];

        if (v->kind == V_STATE || v->device >= 0 || v->replica >= 0 || v->layout != LAYOUT_ROWS || v->logical)
            return true;
    }
    return false;
}

uint32_t *graph_count_uses(const Graph *g, Arena *a)
{
    uint32_t *uses = ARENA_NEW(a, uint32_t, g->n_value);

    if (!uses)
        return NULL;
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            uses[n->in[i].i]++;
    for (int i = 0; i < g->n_output; i++)
        uses[g->output[i].value.i]++;
    for (int i = 0; i < g->n_update; i++)
        uses[g->update[i].next.i]++;
    uses[0] = 0;
    return uses;
}

const Tensor *value_const(const Graph *g, ValueId v)
{
    const Value *x = has_value(v) ? value(g, v) : NULL;

    return x && x->kind == V_CONST && !x->next ? x->init : NULL;
}

bool value_const_number(const Graph *g, ValueId v, double *out)
{
    const Tensor *t = value_const(g, v);

    if (!t || tensor_numel(t) != 1 || !(dtype_is_float(t->dtype) || dtype_is_int(t->dtype)))
        return false;
    *out = tensor_float(t, 0);
    return true;
}

Status value_const_ints(const Graph *g, ValueId v, int64_t *out, int max, int *n)
{
    const Tensor *t = value_const(g, v);
    int64_t count;

    if (!t)
        return FAIL(E_UNSUPPORTED, "value '%s' must be a constant", has_value(v) ? value(g, v)->name : "");
    count = tensor_numel(t);
    if (!dtype_is_int(t->dtype) || t->shape.rank > 1 || count > max)
        return FAIL(E_SHAPE, "value '%s' must be a vector of at most %d integers", value(g, v)->name, max);
    for (int64_t i = 0; i < count; i++)
        out[i] = tensor_int(t, i);
    *n = (int)count;
    return ST_OK;
}

/* ---- nodes ---- */

static void add_outputs(Graph *g, Node *n, int n_out, const char *const *out_names)
{
    Shape unknown = shape_unknown();

    for (int i = 0; i < n_out && !g->status; i++) {
        const char *given = out_names ? out_names[i] : NULL;
        char made[96];

        if (given && !*given)
            continue; /* "": an absent optional output */
        snprintf(made, sizeof made, "%s_%u%s", n->op->name, n->index,
                 i ? (char[]){ '.', (char)('0' + i % 10), 0 } : "");
        n->out[i] = graph_add_value(g, V_TEMP, given ? given : made, DT_NONE, &unknown);
        if (has_value(n->out[i])) {
            value(g, n->out[i])->producer = n;
            value(g, n->out[i])->out_index = i;
        }
    }
}

/* Appends a node without attributes; `name` lives as long as the graph. */
static Node *append_node(Graph *g, const OpDef *op, const char *name, int n_in, const ValueId *in, int n_out)
{
    Node *n = ARENA_NEW(g->arena, Node, 1);

    if (!name || !n || !(n->in = ARENA_NEW(g->arena, ValueId, n_in)) ||
        !(n->out = ARENA_NEW(g->arena, ValueId, n_out))) {
        graph_fail_nomem(g);
        return NULL;
    }
    n->op = op;
    n->name = name;
    n->replica = n->device = -1;
    n->index = g->n_node;
    n->phase = g->phase;
    n->n_in = n_in;
    n->n_out = n_out;
    if (n_in)
        memcpy(n->in, in, (size_t)n_in * sizeof *in);
    PUSH(g, node, n_node, cap_node, n);
    return g->status ? NULL : n;
}

void graph_begin_purpose(Graph *g, Phase phase, const char *purpose)
{
    g->phase = phase;
    g->purpose = purpose;
}

Node *graph_add_node(Graph *g, const OpDef *op, const char *name, const Attr *attrs, int n_in, const ValueId *in,
                     int n_out, const char *const *out_names)
{
    Node *n;

    if (g->status)
        return NULL;
    name = name && *name ? arena_strdup(g->arena, name)
           : g->purpose  ? g->purpose
                         : arena_printf(g->arena, "%s_%u", op->name, g->n_node);
    if (!(n = append_node(g, op, name, n_in, in, n_out)))
        return NULL;
    node_set_attrs(g, n, attrs);
    add_outputs(g, n, n_out, out_names);
    return g->status ? NULL : n;
}

Node *graph_add_node_like(Graph *g, const Node *of, int n_in, const ValueId *in, int n_out,
                          const char *const *out_names)
{
    Node *n = g->status ? NULL : append_node(g, of->op, of->name, n_in, in, n_out);

    if (!n)
        return NULL;
    n->attr = of->attr;
    n->n_attr = of->n_attr;
    n->phase = of->phase;
    add_outputs(g, n, n_out, out_names);
    return g->status ? NULL : n;
}

void graph_renew_node(Graph *g, Node *n, const ValueId *in, const char *const *out_names)
{
    const Shape unknown = shape_unknown();

    if (!g->status && !g->placeholder && !(g->placeholder = ARENA_NEW(g->arena, Node, 1)))
        graph_fail_nomem(g);
    if (g->status)
        return;
    g->node[n->index] = g->placeholder;
    n->index = g->n_node;
    n->replica = n->device = -1;
    if (n->n_in)
        memcpy(n->in, in, (size_t)n->n_in * sizeof *in);
    PUSH(g, node, n_node, cap_node, n);
    for (int i = 0; i < n->n_out; i++) {
        Value *v = value(g, n->out[i]);

        if (!has_out(n, i))
            continue;
        graph_rename(g, n->out[i], out_names[i]);
        *v = (Value){ .name = v->name, .producer = n, .out_index = i, .kind = V_TEMP, .replica = -1, .device = -1 };
        value_set_shape(g, v, &unknown);
    }
}

void graph_remove(Graph *g, Node *n)
{
    (void)g;
    n->op = NULL;
}

/* ---- copying ---- */

/* Copies a text into the arena of `to`; NULL for NULL. */
static const char *clone_text(Graph *to, const char *text)
{
    const char *copy = text ? arena_strdup(to->arena, text) : NULL;

    if (text && !copy)
        graph_fail_nomem(to);
    return copy;
}

const char *const *graph_copy_symbols(Graph *to, const char *const *from)
{
    const char **names = from ? ARENA_NEW(to->arena, const char *, MAX_RANK) : NULL;

    if (from && !names)
        graph_fail_nomem(to);
    for (int i = 0; names && i < MAX_RANK; i++)
        names[i] = clone_text(to, from[i]);
    return names;
}

static ValueId clone_value(Graph *to, const Graph *g, ValueId v, bool lend)
{
    const Value *from = value(g, v);
    ValueId id = graph_add_value(to, from->kind, from->name, from->dtype, from->shape);
    Value *copy, own;

    if (!has_value(id))
        return id;
    assert(id.i == v.i);
    copy = value(to, id);
    own = *copy;
    *copy = *from;
    copy->name = own.name[0] ? own.name : from->name;
    copy->shape = own.shape;
    copy->producer = NULL;
    copy->init = copy->integers = NULL;
    copy->logical = clone_text(to, from->logical);
    copy->folded_from = clone_text(to, from->folded_from);
    copy->next = clone_text(to, from->next);
    copy->dim_param = graph_copy_symbols(to, from->dim_param);
    if (from->shard && !(copy->shard = arena_memdup(to->arena, from->shard, sizeof *from->shard)))
        graph_fail_nomem(to);
    if (from->init && !(copy->init = lend ? from->init : tensor_copy(to->arena, from->init)))
        graph_fail_nomem(to);
    if (from->integers && !(copy->integers = lend ? from->integers : tensor_copy(to->arena, from->integers)))
        graph_fail_nomem(to);
    return id;
}

/* Copies the file's metadata of the node's origin. */
static void clone_origin(Graph *to, Node *n, const Node *from)
{
    const char **names = from->n_read_as ? ARENA_NEW(to->arena, const char *, from->n_read_as) : NULL;
    bool ok = names || !from->n_read_as;

    for (int i = 0; names && i < from->n_read_as; i++)
        if (from->read_as[i])
            ok &= (names[i] = arena_strdup(to->arena, from->read_as[i])) != NULL;
    if (from->module)
        ok &= (n->module = arena_strdup(to->arena, from->module)) != NULL;
    n->call = clone_text(to, from->call);
    n->lost_detach = from->lost_detach;
    n->read_as = names;
    n->n_read_as = from->n_read_as;
    if (!ok)
        graph_fail_nomem(to);
}

static void clone_node(Graph *to, const Node *from)
{
    Node *n = graph_add_node(to, from->op, from->name, NULL, from->n_in, from->in, 0, NULL);

    if (!n)
        return;
    node_copy_attrs(to, n, from);
    n->out = arena_memdup(to->arena, from->out, (size_t)from->n_out * sizeof *from->out);
    n->n_out = n->out ? from->n_out : 0;
    if (!n->out)
        graph_fail_nomem(to);
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]))
            value(to, n->out[i])->producer = n;
    n->replica = from->replica;
    n->device = from->device;
    n->phase = from->phase;
    clone_origin(to, n, from);
}

/* Copies g into `to`, an empty graph; lend: the data of constants stay g's. */
static Status clone_into(Graph *to, const Graph *g, bool lend)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        clone_value(to, g, (ValueId){ i }, lend);
    FOR_NODES(g, n)
        clone_node(to, n);
    for (int i = 0; i < g->n_input; i++)
        PUSH(to, input, n_input, cap_input, g->input[i]);
    for (int i = 0; i < g->n_output; i++) {
        graph_add_output(to, g->output[i].name, g->output[i].value);
        if (to->status)
            continue;
        to->output[i].dim_param = graph_copy_symbols(to, g->output[i].dim_param);
        to->output[i].batch_axis = g->output[i].batch_axis;
        to->output[i].resized = g->output[i].resized;
        to->output[i].new_size = g->output[i].new_size;
    }
    for (int i = 0; i < g->n_update; i++)
        graph_add_update(to, g->update[i].state, g->update[i].next);
    to->producer = arena_strdup(to->arena, g->producer);
    to->producer_version = arena_strdup(to->arena, g->producer_version);
    to->batch_found = g->batch_found;
    to->only_batch = g->only_batch;
    to->only_why = g->only_why ? arena_strdup(to->arena, g->only_why) : NULL;
    to->signature = clone_text(to, g->signature);
    if (!to->producer || !to->producer_version || (g->only_why && !to->only_why))
        graph_fail_nomem(to);
    return to->status;
}

static Status clone(Graph **out, const Graph *g, bool lend, MemoryBudget *b)
{
    Graph *to = g->status ? NULL : graph_create_within(g->name, b);
    Status st;

    if (!to)
        return g->status ? g->status : FAIL_NOMEM();
    if (!lend && !arena_hold(to->arena, g->arena))
        graph_fail_nomem(to);
    if ((st = clone_into(to, g, true)))
        graph_free(to);
    else
        *out = to;
    return st;
}

Graph *graph_copy_inside(Graph *to, const Graph *g)
{
    Graph *copy = to->status || g->status ? NULL : create_in(to->arena, g->name);

    if (!copy) {
        to->status = to->status ? to->status : g->status ? g->status : FAIL_NOMEM();
        return NULL;
    }
    copy->is_body = true;
    to->status = clone_into(copy, g, false);
    return to->status ? NULL : copy;
}

Status graph_clone_within(Graph **out, const Graph *g, MemoryBudget *b) { return clone(out, g, false, b); }

Status graph_clone(Graph **out, const Graph *g) { return clone(out, g, false, arena_budget(g->arena)); }

Status graph_clone_lending(Graph **out, const Graph *g) { return clone(out, g, true, arena_budget(g->arena)); }

size_t value_bytes(const Graph *g, ValueId v)
{
    const Value *x = value(g, v);

    return layout_bytes(x->dtype, x->layout, x->shape);
}

Layout node_layout(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) && in_value(g, n, i)->layout != LAYOUT_ROWS)
            return in_value(g, n, i)->layout;
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i) && value(g, n->out[i])->layout != LAYOUT_ROWS)
            return value(g, n->out[i])->layout;
    return LAYOUT_ROWS;
}
