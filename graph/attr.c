/* Attributes and inputs of nodes: reading, and changing with copies in the graph's arena. */
#include <assert.h>
#include <string.h>

#include "graph/base/hash.h"
#include "graph/body.h"
#include "graph/op.h"

static bool attr_copy(Graph *g, Attr *to, const Attr *from)
{
    Arena *a = g->arena;

    *to = *from;
    to->name = arena_strdup(a, from->name);
    if (from->type == A_STRING && from->s)
        to->s = arena_strdup(a, from->s);
    if (from->type == A_INTS)
        to->ints = arena_memdup(a, from->ints, (size_t)from->n * sizeof *from->ints);
    if (from->type == A_FLOATS)
        to->floats = arena_memdup(a, from->floats, (size_t)from->n * sizeof *from->floats);
    if (from->type == A_STRINGS) {
        const char **list = ARENA_NEW(a, const char *, from->n);

        for (int i = 0; list && i < from->n; i++)
            if (!(list[i] = arena_strdup(a, from->strings[i])))
                return false;
        to->strings = list;
    }
    if (from->type == A_TENSOR && from->tensor)
        to->tensor = tensor_copy(a, from->tensor);
    if (from->type == A_GRAPH)
        to->graph = body_share(g, from->graph);
    return to->name && (from->type != A_STRING || !from->s || to->s) && (from->type != A_INTS || to->ints) &&
           (from->type != A_FLOATS || to->floats) && (from->type != A_STRINGS || to->strings) &&
           (from->type != A_TENSOR || !from->tensor || to->tensor) &&
           (from->type != A_GRAPH || !from->graph || to->graph);
}

const Attr *node_attr(const Node *n, const char *name)
{
    for (int i = 0; i < n->n_attr; i++)
        if (!strcmp(n->attr[i].name, name))
            return &n->attr[i];
    return NULL;
}

static const Attr *declared(const Node *n, const char *name, AttrType type)
{
    const Attr *a = node_attr(n, name);

    assert(a && a->type == type);
    (void)type;
    return a;
}

int64_t node_int(const Node *n, const char *name) { return declared(n, name, A_INT)->i; }
double node_float(const Node *n, const char *name) { return declared(n, name, A_FLOAT)->f; }
const char *node_string(const Node *n, const char *name) { return declared(n, name, A_STRING)->s; }

const int64_t *node_ints(const Node *n, const char *name, int *count)
{
    const Attr *a = declared(n, name, A_INTS);

    *count = a->n;
    return a->ints;
}

const Graph *node_graph(const Node *n, const char *name) { return declared(n, name, A_GRAPH)->graph; }

/* Room for one more: for all that the operator declares, and by doubling where a file brings others. */
static bool reserve(Graph *g, Node *n)
{
    int room = 0;
    Attr *grown;

    if (n->n_attr < n->cap_attr)
        return true;
    for (const AttrDecl *d = n->op ? n->op->attrs : NULL; d && d->name; d++)
        room++;
    room = room > n->n_attr ? room : 2 * n->n_attr + 1;
    if (!(grown = ARENA_NEW(g->arena, Attr, room)))
        return false;
    if (n->n_attr)
        memcpy(grown, n->attr, (size_t)n->n_attr * sizeof *grown);
    n->attr = grown;
    n->cap_attr = room;
    return true;
}

void node_set_attr(Graph *g, Node *n, const Attr *a)
{
    Attr *old = (Attr *)node_attr(n, a->name);

    if (g->status)
        return;
    if (!old) {
        if (!reserve(g, n)) {
            graph_fail_nomem(g);
            return;
        }
        old = &n->attr[n->n_attr++];
    }
    if (!attr_copy(g, old, a))
        graph_fail_nomem(g);
}

void node_set_int(Graph *g, Node *n, const char *name, int64_t v) { node_set_attr(g, n, &(Attr)INT(name, v)); }

void node_set_ints(Graph *g, Node *n, const char *name, int count, const int64_t *v)
{
    node_set_attr(g, n, &(Attr)INTS(name, count, v));
}

void node_set_string(Graph *g, Node *n, const char *name, const char *v)
{
    node_set_attr(g, n, &(Attr)STRING(name, v));
}

void node_remove_attr(Node *n, const char *name)
{
    Attr *a = (Attr *)node_attr(n, name);

    if (a)
        *a = n->attr[--n->n_attr];
}

void node_set_input(Graph *g, Node *n, int i, ValueId v)
{
    if (g->status)
        return;
    if (i >= n->n_in) {
        ValueId *grown = ARENA_NEW(g->arena, ValueId, i + 1);

        if (!grown) {
            graph_fail_nomem(g);
            return;
        }
        if (n->n_in)
            memcpy(grown, n->in, (size_t)n->n_in * sizeof *grown);
        n->in = grown;
        n->n_in = i + 1;
    }
    n->in[i] = v;
}

/* ---- comparing ---- */

uint64_t attr_hash(const Attr *a)
{
    uint64_t h = hash_text(hash_int(HASH_BEGIN, a->n), a->name);

    switch (a->type) {
    case A_INT: return hash_int(h, a->i);
    case A_FLOAT: return hash_bytes(h, &a->f, sizeof a->f);
    case A_STRING: return hash_text(h, a->s);
    case A_INTS: return a->n ? hash_bytes(h, a->ints, (size_t)a->n * sizeof *a->ints) : h;
    case A_FLOATS: return a->n ? hash_bytes(h, a->floats, (size_t)a->n * sizeof *a->floats) : h;
    case A_GRAPH: return a->graph ? hash_int(h, (int64_t)body_hash(a->graph)) : h;
    default: return h;
    }
}

static bool strings_same(const Attr *a, const Attr *b)
{
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->strings[i], b->strings[i]))
            return false;
    return true;
}

bool attr_same(const Attr *a, const Attr *b)
{
    if (a->n != b->n || (a->type != b->type && a->n))
        return false;
    switch (a->type) {
    case A_INT: return a->i == b->i;
    case A_FLOAT: return !memcmp(&a->f, &b->f, sizeof a->f);
    case A_STRING: return a->s && b->s ? !strcmp(a->s, b->s) : a->s == b->s;
    case A_INTS: return !a->n || !memcmp(a->ints, b->ints, (size_t)a->n * sizeof *a->ints);
    case A_FLOATS: return !a->n || !memcmp(a->floats, b->floats, (size_t)a->n * sizeof *a->floats);
    case A_STRINGS: return strings_same(a, b);
    case A_TENSOR: return a->tensor && b->tensor ? tensor_same(a->tensor, b->tensor) : a->tensor == b->tensor;
    case A_GRAPH: return a->graph && b->graph ? body_same(a->graph, b->graph) : a->graph == b->graph;
    default: return true;
    }
}

bool attrs_same(const Node *a, const Node *b)
{
    if (a->n_attr != b->n_attr)
        return false;
    for (int i = 0; i < a->n_attr; i++) {
        const Attr *other = node_attr(b, a->attr[i].name);

        if (!other || !attr_same(&a->attr[i], other))
            return false;
    }
    return true;
}
