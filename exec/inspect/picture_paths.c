/* The layer of every node: a path of scopes, "h.0.attn.c_attn".
 *
 * A node of the forward pass has the path of the parameter that it reads, or of its module, or of the scope in its own
 * name ("/layer1/layer1.0/relu/Relu").  One without any of these belongs to the scope of its neighbours.  The other
 * phases have nodes named after those of the forward pass: "gradient of conv1.weight". */
#include <string.h>

#include "exec/inspect/layer_name.h"
#include "exec/inspect/picture_tree.h"
#include "graph/base/hash.h"
#include "graph/ir/op.h"

/* The path of a node or state of that name. */
typedef struct {
    const char *name, *path;
} Named;

typedef struct {
    const Graph *g;
    const char **path; /* by node index; NULL: not known yet */
    HashTable named;
    Arena *a;
} Paths;

/* ---- paths by name ---- */

static bool is_named(const void *item, const void *key) { return !strcmp(((const Named *)item)->name, key); }

static const char *find_path(const Paths *s, const char *name)
{
    const Named *x = s->named.n ? hash_table_find(&s->named, hash_text(0, name), is_named, name) : NULL;

    return x ? x->path : NULL;
}

static Status add_path(Paths *s, const char *name, const char *path)
{
    Named *x;

    if (find_path(s, name))
        return ST_OK;
    if (!hash_table_reserve(&s->named, s->a) || !(x = ARENA_NEW(s->a, Named, 1)))
        return FAIL_NOMEM();
    *x = (Named){ name, path };
    hash_table_add(&s->named, hash_text(0, name), x);
    return ST_OK;
}

/* "conv1" of "conv1.weight"; "" of a name without a point. */
static const char *scope_of(Arena *a, const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot ? arena_printf(a, "%.*s", (int)(dot - name), name) : "";
}

/* What a node's name tells of its path: "conv1" of "all-reduce of gradient of conv1.weight" and of "conv1@r0".  NULL:
 * nothing. */
static const char *path_by_name(const Paths *s, const char *name)
{
    const char *of = name, *path;
    char *bare, *copy, scope[MOST_LAYER_NAME];

    for (const char *next; (next = strstr(of, " of "));)
        of = next + 4;
    if ((path = find_path(s, of)))
        return path;
    if (!(bare = arena_strdup(s->a, of)))
        return NULL;
    if ((copy = strrchr(bare, '@')))
        *copy = '\0';
    if ((path = find_path(s, bare)))
        return path;
    return layer_name_scope(scope, bare) ? arena_strdup(s->a, scope) : NULL;
}

/* ---- the forward pass ---- */

/* The state that the node reads, itself or by way of a node of one input, such as a cast; NULL: none with a path. */
static const Value *state_of(const Graph *g, const Node *n)
{
    for (int deep = 0; deep < 2; deep++)
        for (int i = 0; i < n->n_in; i++) {
            const Value *v = has_value(n->in[i]) ? value(g, n->in[i]) : NULL;
            const Node *from = v ? v->producer : NULL;

            if (deep && from && from->n_in == 1 && has_value(from->in[0]))
                v = value(g, from->in[0]);
            if (v && v->kind == V_STATE && strchr(value_logical_name(v), '.'))
                return v;
        }
    return NULL;
}

/* NULL: nothing says. */
static const char *own_path(const Paths *s, const Node *n)
{
    const Value *v = state_of(s->g, n);
    char scope[MOST_LAYER_NAME];

    if (v)
        return scope_of(s->a, value_logical_name(v));
    if (n->module && *n->module)
        return n->module;
    if (!n->name)
        return NULL;
    if (strstr(n->name, " of "))
        return path_by_name(s, n->name);
    if (layer_name_scope(scope, n->name))
        return arena_strdup(s->a, scope);
    if (strchr(n->name, '.') && !strpbrk(n->name, " ("))
        return n->name;
    return find_path(s, n->name);
}

/* ---- neighbours ---- */

size_t picture_common_scope(const char *x, const char *y)
{
    size_t n = 0;

    for (size_t i = 0;; i++) {
        const bool ends = (!x[i] || x[i] == '.') && (!y[i] || y[i] == '.');

        if (ends)
            n = i;
        if (!x[i] || x[i] != y[i])
            return n;
    }
}

/* The nodes without paths of a lane between two that have some. */
typedef struct {
    const uint32_t *node;
    int n;
} Run;

/* The bytes of `prev` up to its first number behind the common scope of n bytes; n: it has none. */
static size_t numbered_scope(const char *prev, size_t n)
{
    for (size_t at = n + (prev[n] == '.'), end; prev[at]; at = end + (prev[end] == '.')) {
        end = at + strcspn(prev + at, ".");
        if (strspn(prev + at, "0123456789") >= end - at)
            return end;
    }
    return n;
}

/* How many nodes of both runs have the same operators, from their beginnings on. */
static int alike(const Graph *g, const Run *x, const Run *y)
{
    int n = 0;

    while (n < x->n && n < y->n && g->node[x->node[n]]->op == g->node[y->node[n]]->op)
        n++;
    return n;
}

/* Gives paths to a run between nodes of paths `prev` and `next`: the scope of both.  But where a numbered block ends,
 * its last addition belongs to the block, h.0, not to h.  Behind the last of several blocks only so much belongs to it
 * as did to the one before: *ending, which is the run at the end of that block. */
static Status fill_run(Paths *s, const Run *run, const char *prev, const char *next, Run *ending)
{
    const size_t common = picture_common_scope(prev, next), end = numbered_scope(prev, common);
    const char *shared = common ? arena_printf(s->a, "%.*s", (int)common, prev) : "", *inner = shared;
    const char *at = next + common + (next[common] == '.');
    const bool sibling = end > common && strspn(at, "0123456789") >= strcspn(at, ".") && *at;
    const int most = end > common && !sibling && ending->n ? alike(s->g, run, ending) : run->n;

    if (end > common)
        inner = arena_printf(s->a, "%.*s", (int)end, prev);
    if (!shared || !inner)
        return FAIL_NOMEM();
    if (sibling)
        *ending = *run;
    for (int i = 0; i < run->n; i++)
        s->path[run->node[i]] = i < most ? inner : shared;
    return ST_OK;
}

/* Gives paths to nodes without one in place[0..n), which lie in one phase and in one lane. */
static Status fill_lane(Paths *s, const Place *place, const int *at, int n)
{
    uint32_t *node = ARENA_NEW(s->a, uint32_t, n + 1);
    Run run = { node, 0 }, ending = { NULL, 0 };
    const char *last = NULL;

    if (!node)
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++) {
        const uint32_t k = place[at[i]].node;

        if (!s->path[k]) {
            node[i] = k;
            run.n++;
            continue;
        }
        if (last && run.n)
            TRY(fill_run(s, &run, last, s->path[k], &ending));
        run = (Run){ node + i + 1, 0 };
        last = s->path[k];
    }
    for (int i = 0; i < n; i++)
        if (!s->path[place[at[i]].node])
            s->path[place[at[i]].node] = "";
    return ST_OK;
}

/* The same for all lanes. */
static Status fill_between(Paths *s, const Place *place, int n, int lanes)
{
    int *at = ARENA_NEW(s->a, int, n + 1), *first = ARENA_NEW(s->a, int, lanes + 2);

    if (!at || !first)
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++)
        first[place[i].lane + 1]++;
    for (int i = 0; i <= lanes; i++)
        first[i + 1] += first[i];
    for (int i = n; i-- > 0;) /* now the ends of the lanes, which become their beginnings */
        at[--first[place[i].lane + 1]] = i;
    for (int i = 0; i < lanes; i++)
        TRY(fill_lane(s, place, at + first[i + 1], first[i + 2] - first[i + 1]));
    return ST_OK;
}

/* ---- all ---- */

/* The nodes of one phase. */
static Status phase_paths(Paths *s, const Picture *p, const Place *place, int n)
{
    for (int i = 0; i < n; i++) {
        const Node *x = s->g->node[place[i].node];

        if (place[i].lane == p->n_lane)
            s->path[x->index] = "";
        else if (place->phase == PHASE_FORWARD)
            s->path[x->index] = own_path(s, x);
        else if (x->name)
            s->path[x->index] = path_by_name(s, x->name);
    }
    TRY(fill_between(s, place, n, p->n_lane));
    for (int i = 0; i < n; i++)
        if (s->g->node[place[i].node]->name && place[i].lane != p->n_lane)
            TRY(add_path(s, s->g->node[place[i].node]->name, s->path[place[i].node]));
    for (int i = 0; i < n; i++) { /* collectives are named after nodes of their own phase, too */
        const Node *x = s->g->node[place[i].node];
        const char *path = place[i].lane == p->n_lane && x->name ? path_by_name(s, x->name) : NULL;

        s->path[x->index] = path ? path : s->path[x->index];
    }
    return ST_OK;
}

Status picture_paths(const char ***out, const Picture *p, const Place *place, int n, Arena *a)
{
    Paths s = { .g = p->g, .a = a, .path = ARENA_NEW(a, const char *, p->g->n_node) };

    if (!s.path)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < p->g->n_value; i++) {
        const Value *v = p->g->value[i];

        if (v && v->kind == V_STATE && strncmp(value_logical_name(v), "dpexec.", 7) != 0) {
            const char *name = value_logical_name(v), *scope = scope_of(a, name);

            TRY(scope ? add_path(&s, name, scope) : FAIL_NOMEM());
            if (*scope && v->trainable) /* "gradient of bn1", and nodes that are called bn1 */
                TRY(add_path(&s, scope, scope));
        }
    }
    for (int i = 0, k; i < n; i = k) {
        for (k = i; k < n && place[k].phase == place[i].phase; k++)
            continue;
        TRY(phase_paths(&s, p, place + i, k - i));
    }
    for (int i = 0; i < n; i++)
        if (!s.path[place[i].node])
            return FAIL_NOMEM();
    *out = s.path;
    return ST_OK;
}
