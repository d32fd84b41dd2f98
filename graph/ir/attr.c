/* Attributes of nodes: access, changes, comparison.
 *
 * Lists of attributes are immutable and shared: all nodes of a graph with equal lists (copies of a node, nodes with
 * only default values) point to one.  A change gives the node another list. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/hash.h"
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

/* ---- the table of a graph's lists ---- */

struct AttrTable {
    struct {
        const Attr *list;
        int n;
    } * slot; /* open addressing */
    uint32_t n, cap;
};

static bool lists_same(const Attr *a, const Attr *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i].type != b[i].type || strcmp(a[i].name, b[i].name) || !attr_same(&a[i], &b[i]))
            return false;
    return true;
}

/* The slot of an equal list, or the free slot for it. */
static uint32_t attr_slot_of(const struct AttrTable *t, const Attr *list, int n)
{
    uint64_t h = HASH_BEGIN;
    uint32_t i;

    for (int k = 0; k < n; k++)
        h = hash_int(h, (int64_t)attr_hash(&list[k]));
    i = (uint32_t)h & (t->cap - 1);
    while (t->slot[i].list && !(t->slot[i].n == n && lists_same(t->slot[i].list, list, n)))
        i = (i + 1) & (t->cap - 1);
    return i;
}

static bool attr_reserve(Graph *g)
{
    struct AttrTable *t = g->attrs, old;

    if (!t && !(t = g->attrs = ARENA_NEW(g->arena, struct AttrTable, 1)))
        return false;
    if (t->n * 2 < t->cap)
        return true;
    old = *t;
    t->cap = old.cap ? old.cap * 2 : 16;
    if (!(t->slot = arena_array(g->arena, sizeof *t->slot, t->cap))) {
        *t = old;
        return false;
    }
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slot[i].list)
            t->slot[attr_slot_of(t, old.slot[i].list, old.slot[i].n)] = old.slot[i];
    arena_give_back(g->arena, old.slot, old.cap * sizeof *old.slot);
    return true;
}

/* The graph's list that equals `list`, added if it has none; NULL on failure (g->status). */
static const Attr *attr_share(Graph *g, const Attr *list, int n)
{
    Attr *copy;
    uint32_t at;

    if (!attr_reserve(g)) {
        graph_fail_nomem(g);
        return NULL;
    }
    at = attr_slot_of(g->attrs, list, n);
    if (g->attrs->slot[at].list)
        return g->attrs->slot[at].list;
    if (!(copy = ARENA_NEW(g->arena, Attr, n)))
        graph_fail_nomem(g);
    for (int i = 0; copy && i < n; i++)
        if (!attr_copy(g, &copy[i], &list[i]))
            graph_fail_nomem(g);
    if (g->status)
        return NULL;
    g->attrs->slot[at].list = copy;
    g->attrs->slot[at].n = n;
    g->attrs->n++;
    return copy;
}

/* ---- changing ---- */

enum { FEW = 16 }; /* lists up to this length are built on the stack */

/* Room for n attributes: `few` where that is enough.  NULL: out of memory (g->status). */
static Attr *room_for(Graph *g, Attr few[FEW], int n)
{
    Attr *room = n <= FEW ? few : malloc((size_t)n * sizeof *room);

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

/* Gives the node a list. */
static void set_list(Graph *g, Node *node, const Attr *list, int n)
{
    const Attr *shared = n ? attr_share(g, list, n) : NULL;

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
