/* Bodies: construction, text, checks, comparison, and the table by which the nodes of a graph share them. */
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

/* Values move and names stay, because body_return names outputs by position. */
void body_drop_output(Graph *body, int i)
{
    for (body->n_output--; i < body->n_output; i++)
        body->output[i].value = body->output[i + 1].value;
}

/* ---- text ---- */

int body_operators(char text[BODY_TEXT], const Graph *body)
{
    const int rest = 8; /* ", " before a name, and ", ..." with its NUL behind it */
    int used = 0;

    *text = '\0';
    FOR_NODES(body, x) {
        if (used + (int)strlen(x->op->name) + rest > BODY_TEXT)
            return used + snprintf(text + used, (size_t)(BODY_TEXT - used), ", ...");
        used += snprintf(text + used, (size_t)(BODY_TEXT - used), "%s%s", used ? ", " : "", x->op->name);
    }
    return used;
}

/* ---- checks: callers put the node's name before the messages ---- */

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
        if (!x->op->elementwise)
            return FAIL(E_MODEL, "%s in its body is not elementwise", node_text(body, x));
        else if (x->n_out != 1)
            return FAIL(E_MODEL, "%s in its body has %d outputs, expected one", node_text(body, x), x->n_out);
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

/* Makes y, a value of b, the counterpart of x, a value of a.  `pair` holds the counterparts by value of a.  False:
 * their kinds, types, shapes or layouts differ, or only one is absent. */
static bool body_pair(ValueId *pair, const Graph *a, const Graph *b, ValueId x, ValueId y)
{
    const Value *v = value(a, x), *w = value(b, y);

    pair[x.i] = y;
    if (!has_value(x) || !has_value(y))
        return has_value(x) == has_value(y);
    return v->kind == w->kind && v->dtype == w->dtype && shape_eq(v->shape, w->shape) && v->layout == w->layout;
}

/* Is y the counterpart of x?  A constant gets its counterpart, an equal constant, where it is read first. */
static bool pair_use(ValueId *pair, const Graph *a, const Graph *b, ValueId x, ValueId y)
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
        if (!pair_use(pair, a, b, x->in[i], y->in[i]))
            return false;
    for (int i = 0; i < x->n_out; i++)
        if (!body_pair(pair, a, b, x->out[i], y->out[i]))
            return false;
    return true;
}

/* Out of memory: false, so that equal bodies are merely not shared. */
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
        same = pair_use(pair, a, b, a->output[i].value, b->output[i].value);
    free(pair);
    return same;
}

/* ---- sharing ---- */

static bool equal_body(const void *item, const void *key) { return body_same(item, key); }

const Graph *body_share(Graph *g, const Graph *body)
{
    const Graph *own;
    uint64_t h;

    if (!body || body->arena == g->arena)
        return body;
    if (g->status)
        return NULL;
    if (!hash_table_reserve(&g->bodies, g->arena)) {
        graph_fail_nomem(g);
        return NULL;
    }
    h = body_hash(body);
    if (!(own = hash_table_find(&g->bodies, h, equal_body, body)) && (own = graph_copy_inside(g, body)))
        hash_table_add(&g->bodies, h, own);
    return own;
}
