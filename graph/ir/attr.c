/* Attributes of nodes: access, changes, comparison.
 *
 * Lists of attributes are immutable and shared: all nodes of a graph with equal lists (copies of a node, nodes with
 * only default values) point to one.  A change gives the node another list. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/hash_table.h"
#include "graph/ir/body.h"
#include "graph/ir/op.h"

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

/* ---- the table of a graph's lists, each of which a nameless attribute ends ---- */

static bool is_list(const void *item, const void *key)
{
    const Attr *a = item, *b = key;

    for (; a->name && b->name; a++, b++)
        if (a->type != b->type || strcmp(a->name, b->name) || !attr_same(a, b))
            return false;
    return !a->name && !b->name;
}

/* The graph's list that equals `list`, of n attributes, added if it has none; NULL on failure (g->status). */
static const Attr *attr_share(Graph *g, const Attr *list, int n)
{
    uint64_t h = HASH_BEGIN;
    const Attr *own;
    Attr *copy;

    for (int i = 0; i < n; i++)
        h = hash_int(h, (int64_t)attr_hash(&list[i]));
    if (!hash_table_reserve(&g->attrs, g->arena)) {
        graph_fail_nomem(g);
        return NULL;
    }
    if ((own = hash_table_find(&g->attrs, h, is_list, list)))
        return own;
    if (!(copy = ARENA_NEW(g->arena, Attr, n + 1)))
        graph_fail_nomem(g);
    for (int i = 0; copy && i < n; i++)
        if (!attr_copy(g, &copy[i], &list[i]))
            graph_fail_nomem(g);
    if (g->status)
        return NULL;
    hash_table_add(&g->attrs, h, copy);
    return copy;
}

/* ---- changing ---- */

enum { FEW = 16 }; /* lists shorter than this are built on the stack */

/* Room for n attributes and the nameless one that ends them: `few` where that is enough.  NULL: out of memory
 * (g->status). */
static Attr *room_for(Graph *g, Attr few[FEW], int n)
{
    Attr *room = n < FEW ? few : malloc(((size_t)n + 1) * sizeof *room);

    if (!room)
        graph_fail_nomem(g);
    return room;
}

static Attr *find_in(Attr *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return &list[i];
    return NULL;
}

/* Gives the node a list, which has room for the end. */
static void set_list(Graph *g, Node *node, Attr *list, int n)
{
    const Attr *shared;

    list[n] = (Attr){ .name = NULL };
    shared = n ? attr_share(g, list, n) : NULL;
    if (g->status)
        return;
    node->attr = shared;
    node->n_attr = n;
}

/* Sets n attributes; those of other names stay. */
static void set_each(Graph *g, Node *node, const Attr *from, int n)
{
    Attr few[FEW], *list = room_for(g, few, node->n_attr + n), *old;
    int count = node->n_attr;

    if (!list)
        return;
    if (count)
        memcpy(list, node->attr, (size_t)count * sizeof *list);
    for (int i = 0; i < n; i++) {
        old = find_in(list, count, from[i].name);
        *(old ? old : &list[count++]) = from[i];
    }
    set_list(g, node, list, count);
    if (list != few)
        free(list);
}

void node_set_attrs(Graph *g, Node *n, const Attr *list)
{
    int count = 0;

    while (list && list[count].name)
        count++;
    if (!g->status && count)
        set_each(g, n, list, count);
}

void node_set_attr(Graph *g, Node *n, const Attr *a) { node_set_attrs(g, n, (Attr[]){ *a, { .name = NULL } }); }

void node_copy_attrs(Graph *g, Node *n, const Node *from)
{
    if (!g->status && from->n_attr)
        set_each(g, n, from->attr, from->n_attr);
}

void node_set_defaults(Graph *g, Node *n)
{
    Attr few[FEW], *lacking;
    int count = 0;

    for (const AttrDecl *d = n->op->attrs; d && d->name; d++)
        count += !node_attr(n, d->name);
    if (g->status || !count || !(lacking = room_for(g, few, count)))
        return;
    count = 0;
    for (const AttrDecl *d = n->op->attrs; d && d->name; d++)
        if (!node_attr(n, d->name))
            lacking[count++] = (Attr){ .name = d->name, .type = d->type, .i = d->i, .f = d->f, .s = d->s };
    set_each(g, n, lacking, count);
    if (lacking != few)
        free(lacking);
}

void node_remove_attr(Graph *g, Node *n, const char *name)
{
    Attr few[FEW], *list;

    if (g->status || !node_attr(n, name) || !(list = room_for(g, few, n->n_attr)))
        return;
    memcpy(list, n->attr, (size_t)n->n_attr * sizeof *list);
    *find_in(list, n->n_attr, name) = list[n->n_attr - 1];
    set_list(g, n, list, n->n_attr - 1);
    if (list != few)
        free(list);
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

static uint64_t hash_tensor(uint64_t h, const Tensor *t)
{
    enum { MAX_HASHED = 256 };
    size_t bytes = tensor_bytes(t);

    return bytes ? hash_bytes(hash_int(h, (int64_t)bytes), t->data, bytes < MAX_HASHED ? bytes : MAX_HASHED) : h;
}

uint64_t attr_hash(const Attr *a)
{
    uint64_t h = hash_text(hash_int(HASH_BEGIN, a->n), a->name);

    switch (a->type) {
    case A_INT: return hash_int(h, a->i);
    case A_FLOAT: return hash_bytes(h, &a->f, sizeof a->f);
    case A_STRING: return hash_text(h, a->s);
    case A_INTS: return a->n ? hash_bytes(h, a->ints, (size_t)a->n * sizeof *a->ints) : h;
    case A_FLOATS: return a->n ? hash_bytes(h, a->floats, (size_t)a->n * sizeof *a->floats) : h;
    case A_STRINGS: return a->n ? hash_text(h, a->strings[0]) : h;
    case A_TENSOR: return a->tensor ? hash_tensor(h, a->tensor) : h;
    case A_GRAPH: return a->graph ? hash_int(h, (int64_t)body_hash(a->graph)) : h;
    default: return h;
    }
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
    case A_STRINGS:
        for (int i = 0; i < a->n; i++)
            if (strcmp(a->strings[i], b->strings[i]))
                return false;
        return true;
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
