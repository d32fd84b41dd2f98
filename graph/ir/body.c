/* Bodies: construction, comparison, and the table by which the nodes of a graph share them. */
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

/* ---- text ---- */

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

/* Makes y, a value of b, the counterpart of x, a value of a; false: their types differ.  `pair` holds the counterparts
 * by value of a. */
static bool body_pair(ValueId *pair, const Graph *a, const Graph *b, ValueId x, ValueId y)
{
    const Value *v = value(a, x), *w = value(b, y);

    pair[x.i] = y;
    if (!has_value(x) || !has_value(y))
        return has_value(x) == has_value(y);
    return v->kind == w->kind && v->dtype == w->dtype && shape_eq(v->shape, w->shape) && v->layout == w->layout;
}

/* Is y the counterpart of x?  Constants are compared where they are read first. */
static bool same_use(ValueId *pair, const Graph *a, const Graph *b, ValueId x, ValueId y)
{
    const Tensor *s, *t;

    if (!has_value(x) || has_value(pair[x.i]) || !(s = value_const(a, x)))
        return value_eq(pair[x.i], y);
    return (t = value_const(b, y)) && tensor_same(s, t) && body_pair(pair, a, b, x, y);
}

static bool same_node(ValueId *pair, const Graph *a, const Graph *b, const Node *x, const Node *y)
{
    if (!x->op || x->op != y->op || x->n_in != y->n_in || x->n_out != y->n_out || !attrs_same(x, y))
        return false;
    for (int i = 0; i < x->n_in; i++)
        if (!same_use(pair, a, b, x->in[i], y->in[i]))
            return false;
    for (int i = 0; i < x->n_out; i++)
        if (!body_pair(pair, a, b, x->out[i], y->out[i]))
            return false;
    return true;
}

bool body_same(const Graph *a, const Graph *b)
{
    ValueId *pair;
    bool same = true;

    if (a == b)
        return true;
    if (a->n_input != b->n_input || a->n_output != b->n_output || a->n_node != b->n_node ||
        !(pair = calloc(a->n_value, sizeof *pair)))
        return false;
    for (int i = 0; same && i < a->n_input; i++)
        same = body_pair(pair, a, b, a->input[i], b->input[i]);
    for (uint32_t i = 0; same && i < a->n_node; i++)
        same = same_node(pair, a, b, a->node[i], b->node[i]);
    for (int i = 0; same && i < a->n_output; i++)
        same = same_use(pair, a, b, a->output[i].value, b->output[i].value);
    free(pair);
    return same;
}

/* ---- sharing ---- */

static bool is_body(const void *item, const void *key) { return body_same(item, key); }

const Graph *body_share(Graph *g, const Graph *body)
{
    const Graph *own;
    uint64_t h;

    if (!body || body->arena == g->arena || g->status)
        return body;
    if (!hash_table_reserve(&g->bodies, g->arena)) {
        graph_fail_nomem(g);
        return NULL;
    }
    h = body_hash(body);
    if (!(own = hash_table_find(&g->bodies, h, is_body, body)) && (own = graph_copy_inside(g, body)))
        hash_table_add(&g->bodies, h, own);
    return own;
}
