/* Bodies: construction, types, comparison, and the table by which the nodes of a graph share them. */
#include "graph/ir/body.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/base/hash.h"
#include "graph/ir/op.h"

/* ---- building ---- */

ValueId body_input(Graph *body, const char *name)
{
    Shape unknown = shape_unknown();

    return graph_add_input(body, name, DT_NONE, &unknown);
}

ValueId body_add_like(Graph *body, const Node *x, const ValueId *in, const char *name)
{
    Node *n = graph_add_node(body, x->op, name, NULL, x->n_in, in, 1, &name);

    if (n)
        node_copy_attrs(body, n, x);
    return body->status ? NO_VALUE : n->out[0];
}

void body_return(Graph *body, ValueId v)
{
    char name[16];

    snprintf(name, sizeof name, "%d", body->n_output);
    graph_add_output(body, name, v);
}

void body_drop_output(Graph *body, int i)
{
    for (body->n_output--; i < body->n_output; i++)
        body->output[i].value = body->output[i + 1].value;
}

/* ---- using ---- */

Status body_instance(Graph **out, const Graph *body, const Graph *g, int n, const ValueId *in)
{
    Graph *copy;
    Status st = ST_OK;

    if (body->n_input != n)
        return FAIL(E_MODEL, "its body has %d inputs, expected %d", body->n_input, n);
    TRY(graph_clone_lending(&copy, body));
    for (int i = 0; i < n; i++) {
        Value *x = value(copy, copy->input[i]);

        x->dtype = value(g, in[i])->dtype;
        x->shape = value(g, in[i])->shape;
        x->layout = value(g, in[i])->layout;
    }
    FOR_NODES(copy, x)
        st = st ? st : node_infer(copy, x);
    if ((st = st ? st : copy->status))
        graph_free(copy);
    else
        *out = copy;
    return st;
}

Status body_inline(ValueId *out, Graph *g, const Graph *body, const ValueId *in)
{
    ValueId *copy = ARENA_NEW(g->arena, ValueId, body->n_value); /* by value id of the body */

    if (!copy)
        return graph_fail_nomem(g);
    for (int i = 0; i < body->n_input; i++)
        copy[body->input[i].i] = in[i];
    for (uint32_t i = 1; i < body->n_value; i++)
        if (body->value[i]->kind == V_CONST)
            copy[i] = graph_add_const(g, "const", body->value[i]->init);
    TRY(g->status);
    FOR_NODES(body, x) {
        ValueId *read = ARENA_NEW(g->arena, ValueId, (size_t)x->n_in), y;

        if (!read)
            return graph_fail_nomem(g);
        for (int i = 0; i < x->n_in; i++)
            read[i] = has_in(x, i) ? copy[x->in[i].i] : NO_VALUE;
        y = body_add_like(g, x, read, NULL);
        TRY(g->status);
        copy[x->out[0].i] = y;
        TRY(node_infer(g, value(g, y)->producer));
    }
    for (int i = 0; i < body->n_output; i++)
        out[i] = copy[body->output[i].value.i];
    return g->status;
}

int body_operators(char text[BODY_TEXT], const Graph *body)
{
    int used = 0;

    *text = '\0';
    FOR_NODES(body, x) {
        if (used + (int)strlen(x->op->name) + 8 > BODY_TEXT)
            return used + snprintf(text + used, (size_t)(BODY_TEXT - used), ", ...");
        used += snprintf(text + used, (size_t)(BODY_TEXT - used), "%s%s", used ? ", " : "", x->op->name);
    }
    return used;
}

/* ---- checks ---- */

Status node_check_present(const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (!has_in(n, i))
            return FAIL(E_MODEL, "input %d is absent", i);
    for (int i = 0; i < n->n_out; i++)
        if (!has_out(n, i))
            return FAIL(E_MODEL, "output %d is absent", i);
    return ST_OK;
}

Status body_check_elementwise(const Graph *body)
{
    FOR_NODES(body, x)
        if (!x->op->elementwise || x->n_out != 1)
            return FAIL(E_MODEL, "%s in its body is not elementwise", node_text(body, x));
    return ST_OK;
}

/* ---- comparing ---- */

uint64_t body_hash(const Graph *body)
{
    uint64_t h = hash_int(hash_int(HASH_BEGIN, body->n_input), body->n_output);

    FOR_NODES(body, x) {
        uint64_t attrs = 0; /* a sum: their order does not matter */

        h = hash_int(hash_text(h, x->op->name), x->n_in);
        for (int i = 0; i < x->n_attr; i++)
            attrs += attr_hash(&x->attr[i]);
        h = hash_int(h, (int64_t)attrs);
    }
    return h;
}

typedef struct {
    const Graph *a, *b;
    ValueId *pair; /* [values of a] its counterpart in b */
} Comparison;

/* Makes y the counterpart of x; false: their types differ. */
static bool body_pair(Comparison *c, ValueId x, ValueId y)
{
    const Value *v = value(c->a, x), *w = value(c->b, y);

    c->pair[x.i] = y;
    if (!has_value(x) || !has_value(y))
        return has_value(x) == has_value(y);
    return v->kind == w->kind && v->dtype == w->dtype && shape_eq(v->shape, w->shape) && v->layout == w->layout;
}

/* Is y the counterpart of x?  Constants are compared where they are read first. */
static bool same_use(Comparison *c, ValueId x, ValueId y)
{
    const Tensor *s, *t;

    if (!has_value(x) || has_value(c->pair[x.i]) || !(s = value_const(c->a, x)))
        return value_eq(c->pair[x.i], y);
    return (t = value_const(c->b, y)) && tensor_same(s, t) && body_pair(c, x, y);
}

static bool same_node(Comparison *c, const Node *x, const Node *y)
{
    if (!x->op || x->op != y->op || x->n_in != y->n_in || x->n_out != y->n_out || !attrs_same(x, y))
        return false;
    for (int i = 0; i < x->n_in; i++)
        if (!same_use(c, x->in[i], y->in[i]))
            return false;
    for (int i = 0; i < x->n_out; i++)
        if (!body_pair(c, x->out[i], y->out[i]))
            return false;
    return true;
}

bool body_same(const Graph *a, const Graph *b)
{
    Comparison c = { a, b, NULL };
    bool same = true;

    if (a == b)
        return true;
    if (a->n_input != b->n_input || a->n_output != b->n_output || a->n_node != b->n_node ||
        !(c.pair = calloc(a->n_value, sizeof *c.pair)))
        return false;
    for (int i = 0; same && i < a->n_input; i++)
        same = body_pair(&c, a->input[i], b->input[i]);
    for (uint32_t i = 0; same && i < a->n_node; i++)
        same = same_node(&c, a->node[i], b->node[i]);
    for (int i = 0; same && i < a->n_output; i++)
        same = same_use(&c, a->output[i].value, b->output[i].value);
    free(c.pair);
    return same;
}

/* ---- sharing ---- */

struct BodyTable {
    const Graph **slot; /* open addressing */
    uint32_t n, cap;
};

/* The slot of an equal body, or the free slot for it. */
static uint32_t body_slot_of(const struct BodyTable *t, const Graph *body)
{
    uint32_t i = (uint32_t)body_hash(body) & (t->cap - 1);

    while (t->slot[i] && !body_same(t->slot[i], body))
        i = (i + 1) & (t->cap - 1);
    return i;
}

static bool body_reserve(Graph *g)
{
    struct BodyTable *t = g->bodies, old;

    if (!t && !(t = g->bodies = ARENA_NEW(g->arena, struct BodyTable, 1)))
        return false;
    if (t->n * 2 < t->cap)
        return true;
    old = *t;
    t->cap = old.cap ? old.cap * 2 : 16;
    if (!(t->slot = ARENA_NEW(g->arena, const Graph *, t->cap))) {
        *t = old;
        return false;
    }
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slot[i])
            t->slot[body_slot_of(t, old.slot[i])] = old.slot[i];
    return true;
}

const Graph *body_share(Graph *g, const Graph *body)
{
    uint32_t at;

    if (!body || body->arena == g->arena || g->status)
        return body;
    if (!body_reserve(g)) {
        graph_fail_nomem(g);
        return NULL;
    }
    at = body_slot_of(g->bodies, body);
    if (!g->bodies->slot[at] && (g->bodies->slot[at] = graph_copy_inside(g, body)))
        g->bodies->n++;
    return g->bodies->slot[at];
}
