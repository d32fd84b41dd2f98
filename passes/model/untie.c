/* untie: one tensor that an exporter made of several equal parameters becomes several again.
 *
 * PyTorch's default exporter keeps one initializer of several equal ones.  All LayerNorm weights of a fresh network are
 * ones, and copies of a layer begin equal, so training one tensor would train another network.  The older exporter does
 * the same out of training mode, and leaves an Identity for each removed name.
 *
 * The file shows which parameter a reader meant: the name under which it reads the tensor (Node.read_as), or its module
 * (Node.module) and input.  Further evidence shows whether parameters were merged or are truly shared:
 *
 * - Values.  Parameters of different modules that are filled with one number began equal, and are several.  Other
 *   numbers are random: two modules have them in common only if one is a copy of the other, or if they share the
 *   parameter.
 * - Order.  A module's own parameters come before those of its parts, and the first of equal tensors gives the name. So
 *   a module that reads a tensor named after one of its parts reads the part's parameter.
 * - Names.  Copies are siblings (layers.0.w, layers.1.w).  The exporter keeps the first name of equal tensors; a
 *   parameter that siblings share has the last one's.
 *
 * Files that a simplifier rewrote have other evidence (merged_copies.c).  A module that is called twice reads the same
 * name twice, and keeps its one tensor.  A tensor without evidence stays tied, and a note says so; --untie PATTERN
 * unties it nevertheless. */
#include <fnmatch.h>
#include <string.h>

#include "graph/ir/readers.h"
#include "passes/model/merged_copies.h"
#include "passes/model/tie_twins.h"
#include "passes/names.h"
#include "passes/options/parameters.h"
#include "passes/pass.h"
#include "passes/report.h"

typedef struct {
    Node *n;
    int in;
    const char *key; /* the parameter that the reader means */
    bool by_name;    /* the reader reads the tensor under that name */
    bool merged;     /* a simplifier merged the key's tensor with this one (merged_copies.c) */
    int next;        /* the next edge of the group; -1: none */
} Edge;

/* Readers that mean the same parameter. */
typedef struct {
    const char *key;
    bool by_name, merged;
    bool apart;      /* gets a tensor of its own */
    bool joined;     /* its edges belong to an earlier group now */
    int first, last; /* its edges */
} Group;

/* A hash table of texts with a number for each, with open addressing. */
typedef struct {
    Arena *arena;
    const char **key;
    int *number;
    size_t n, cap;
} Index;

/* A module that is the same as another, as a shared tensor of random numbers shows. */
typedef struct {
    const char *module;
    int next; /* -1: none */
} Partner;

enum { SEVERAL = 1, ONE = 2, MOST_LISTED = 16 };

/* The kinds of tensors, in the order in which they are examined: the first give evidence for the others. */
typedef enum { RANDOM, FILLED, UNNAMED } Turn;

typedef struct {
    Graph *g;
    PassCtx *ctx;
    Edge *edge; /* the readers of value i are edge[first[i] .. first[i + 1]) */
    const uint32_t *first;
    const Meant *meant; /* for each edge */
    Index pair;         /* "layers.0:layers.1": SEVERAL (copies of each other) or ONE (one module) or both */
    Index partnered;    /* by module: 1 + index of its first partner */
    Partner *partner;
    size_t n_partner, cap_partner;
    bool *matched; /* [n_untie] */
} Untie;

/* ---- texts ---- */

static size_t untie_slot_of(const Index *x, const char *key)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    size_t i;

    for (const char *p = key; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    for (i = (h ^ h >> 32) & (x->cap - 1); x->key[i] && strcmp(x->key[i], key); i = (i + 1) & (x->cap - 1))
        ;
    return i;
}

/* The number of `key`; NULL: there is none. */
static int *index_find(const Index *x, const char *key)
{
    size_t i = x->cap ? untie_slot_of(x, key) : 0;

    return x->cap && x->key[i] ? &x->number[i] : NULL;
}

/* *out: the number of `key`, 0 for a new one.  The index keeps `key`. */
static Status index_add(int **out, Index *x, const char *key)
{
    size_t i;

    if (x->n * 2 >= x->cap) {
        Index old = *x;

        x->cap = old.cap ? old.cap * 2 : 16;
        x->key = ARENA_NEW(x->arena, const char *, x->cap);
        x->number = ARENA_NEW(x->arena, int, x->cap);
        if (!x->key || !x->number)
            return FAIL_NOMEM();
        for (size_t k = 0; k < old.cap; k++)
            if (old.key[k]) {
                i = untie_slot_of(x, old.key[k]);
                x->key[i] = old.key[k];
                x->number[i] = old.number[k];
            }
    }
    i = untie_slot_of(x, key);
    x->n += !x->key[i];
    x->key[i] = key;
    *out = &x->number[i];
    return ST_OK;
}

/* ---- readers ---- */

static Status list_edges(Untie *u)
{
    uint32_t n;
    Meant *meant;
    SimplifierTrace t;
    Uses r;

    TRY(uses_find(&r, u->g, u->ctx->scratch));
    TRY(trace_read(&t, u->g, u->ctx->scratch));
    TRY(copies_find(&meant, u->g, &r, &t, u->ctx->scratch));
    TRY(copies_warn(u->g, &r, meant, &t, u->ctx));
    u->meant = meant;
    n = r.first[u->g->n_value];
    if (!(u->edge = ARENA_NEW(u->ctx->scratch, Edge, n)))
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < n; i++)
        u->edge[i] = (Edge){ .n = r.reader[i].n, .in = r.reader[i].in };
    u->first = r.first;
    return ST_OK;
}

/* The reader in the module that the tensor is named after; of several, the one that reads it at the input of that name.
 */
static const Edge *home_edge(const Edge *e, uint32_t n, const char *name)
{
    const Edge *home = NULL;

    for (uint32_t i = 0; i < n; i++) {
        const char *place = place_name(e[i].n, e[i].in), *module = e[i].n->module;
        const size_t owner = names_last(name) == name ? 0 : (size_t)(names_last(name) - name - 1);

        if (!module || strlen(module) != owner || strncmp(name, module, owner) != 0)
            continue;
        if (!home || (place && !strcmp(place, names_last(name))))
            home = &e[i];
    }
    return home;
}

/* Sets key, by_name and merged of the tensor's readers. */
static Status find_keys(Untie *u, Edge *e, uint32_t n, const char *name)
{
    const Edge *home = home_edge(e, n, name);

    for (uint32_t i = 0; i < n; i++) {
        const Node *reader = e[i].n;
        bool like_home = home && reader->op == home->n->op && e[i].in == home->in;
        const char *place = like_home ? NULL : place_name(reader, e[i].in);

        e[i].by_name = e[i].in < reader->n_read_as && reader->read_as[e[i].in];
        e[i].merged = !e[i].by_name && u->meant[&e[i] - u->edge].name;
        if (e[i].merged)
            e[i].key = u->meant[&e[i] - u->edge].name;
        else if (e[i].by_name)
            e[i].key = reader->read_as[e[i].in];
        else if (!reader->module)
            e[i].key = name;
        else if (!(e[i].key = arena_printf(u->ctx->scratch, "%s%s%s", reader->module, *reader->module ? "." : "",
                                           place ? place : names_last(name))))
            return FAIL_NOMEM();
    }
    return ST_OK;
}

/* Groups the readers by key, in the order of their first readers.  *at: 1 + index of a group, by key. */
static Status list_groups(Untie *u, Group **out, int *n_out, Index *at, Edge *e, uint32_t n)
{
    Group *group = ARENA_NEW(u->ctx->scratch, Group, n);
    int count = 0;

    if (!group)
        return FAIL_NOMEM();
    for (int i = 0; i < (int)n; i++) {
        Group *of;
        int *k;

        TRY(index_add(&k, at, e[i].key));
        if (!*k) {
            *k = ++count;
            group[count - 1] = (Group){ .key = e[i].key, .first = i, .last = i };
        }
        of = &group[*k - 1];
        of->by_name |= e[i].by_name;
        of->merged |= e[i].merged;
        if (of->last != i)
            e[of->last].next = i;
        of->last = i;
    }
    *out = group;
    *n_out = count;
    return ST_OK;
}

/* ---- evidence ---- */

static Status pair_key(char **out, const Untie *u, const char *a, const char *b, const size_t prefix[2])
{
    *out = arena_printf(u->ctx->scratch, "%.*s:%.*s", (int)prefix[0], a, (int)prefix[1], b);
    return *out ? ST_OK : FAIL_NOMEM();
}

static Status add_partner(Untie *u, const char *of, size_t len, const char *module, size_t module_len)
{
    Arena *scratch = u->ctx->scratch;
    Partner *grown = arena_grow(scratch, u->partner, sizeof *grown, u->n_partner, &u->cap_partner);
    const char *whose = arena_printf(scratch, "%.*s", (int)len, of),
               *other = arena_printf(scratch, "%.*s", (int)module_len, module);
    int *first;

    if (!grown || !whose || !other)
        return FAIL_NOMEM();
    u->partner = grown;
    TRY(index_add(&first, &u->partnered, whose));
    u->partner[u->n_partner++] = (Partner){ other, *first - 1 };
    *first = (int)u->n_partner;
    return ST_OK;
}

static Status remember_pair(Untie *u, const char *a, const char *b, const size_t prefix[2], bool one)
{
    char *key[2];
    int *shown, before;

    TRY(pair_key(&key[0], u, a, b, prefix));
    TRY(pair_key(&key[1], u, b, a, (const size_t[2]){ prefix[1], prefix[0] }));
    TRY(index_add(&shown, &u->pair, key[0]));
    before = *shown;
    *shown |= one ? ONE : SEVERAL;
    TRY(index_add(&shown, &u->pair, key[1]));
    *shown |= one ? ONE : SEVERAL;
    if (!one || before & ONE)
        return ST_OK;
    TRY(add_partner(u, a, prefix[0], b, prefix[1]));
    return add_partner(u, b, prefix[1], a, prefix[0]);
}

/* *out: the evidence about the modules of these parameters, ONE, SEVERAL, both or 0. */
static Status shown_of(int *out, const Untie *u, const char *a, const char *b)
{
    size_t prefix[2];
    const int *found;
    char *key;
    int order;

    *out = 0;
    if (!u->pair.n || !names_siblings(a, b, &order, prefix))
        return ST_OK;
    TRY(pair_key(&key, u, a, b, prefix));
    found = index_find(&u->pair, key);
    *out = found ? *found : 0;
    return ST_OK;
}

/* Is the first name in a part of the second name's module? */
static bool in_part_of(const char *part, const char *whole)
{
    size_t p = (size_t)(names_last(part) - part), w = (size_t)(names_last(whole) - whole);

    return p > w && !strncmp(part, whole, w);
}

/* Sets apart of the groups, for a tensor that has a parameter's name. */
static Status judge_named(Untie *u, const Value *v, Group *group, int n)
{
    bool filled = tensor_is_filled(v->init);

    for (int k = 0; k < n; k++) {
        size_t prefix[2];
        int order, shown;
        bool sibling = names_siblings(v->name, group[k].key, &order, prefix);

        if (!strcmp(group[k].key, v->name))
            continue;
        TRY(shown_of(&shown, u, v->name, group[k].key));
        if (group[k].merged)
            group[k].apart = true;
        else if (sibling)
            group[k].apart = group[k].by_name || (order < 0 && !(shown & ONE));
        else
            group[k].apart = filled && (group[k].by_name || !in_part_of(v->name, group[k].key));
        if (sibling && !filled)
            TRY(remember_pair(u, v->name, group[k].key, prefix, !group[k].apart));
    }
    return ST_OK;
}

/* *out: the first group before group k that is apart, and whose module is the same as group k's by the evidence; -1:
 * none. */
static Status find_same(int *out, const Untie *u, const Index *at, const Group *group, int k)
{
    const char *key = group[k].key;

    *out = -1;
    for (size_t len = strcspn(key, "."); key[len]; len += 1 + strcspn(key + len + 1, ".")) {
        char *module = arena_printf(u->ctx->scratch, "%.*s", (int)len, key);
        const int *first = module ? index_find(&u->partnered, module) : NULL;

        if (!module)
            return FAIL_NOMEM();
        for (int p = first ? *first - 1 : -1; p >= 0; p = u->partner[p].next) {
            char *other = arena_printf(u->ctx->scratch, "%s%s", u->partner[p].module, key + len);
            const int *m = other ? index_find(at, other) : NULL;

            if (!other)
                return FAIL_NOMEM();
            if (m && *m - 1 < k && group[*m - 1].apart && (*out < 0 || *m - 1 < *out))
                *out = *m - 1;
        }
    }
    return ST_OK;
}

/* Groups that are apart from the tensor's own may be one parameter: joins them. */
static Status join_groups(const Untie *u, const Index *at, Edge *e, Group *group, int n_group)
{
    for (int k = 1, m; k < n_group && u->n_partner; k++) {
        if (!group[k].apart)
            continue;
        TRY(find_same(&m, u, at, group, k));
        if (m < 0)
            continue;
        e[group[m].last].next = group[k].first;
        group[m].last = group[k].last;
        group[k].apart = false;
        group[k].joined = true;
    }
    return ST_OK;
}

/* ---- the change ---- */

/* Marks the --untie patterns that match the name as used. */
static void mark_matched(Untie *u, const char *name)
{
    const ParameterOptions *parameters = parameter_options(u->ctx->opt);

    for (int i = 0; i < parameters->n_untie; i++)
        u->matched[i] |= !fnmatch(parameters->untie[i], name, 0);
}

/* Gives the edges from `first` on a copy of the tensor, called `name`. */
static Status split_off(Untie *u, ValueId from, Edge *e, int first, const char *name)
{
    ValueId v = graph_add_const_nocopy(u->g, name, value(u->g, from)->init);

    TRY(u->g->status);
    value(u->g, v)->origin = value(u->g, from)->origin;
    value(u->g, v)->evidence = value(u->g, from)->evidence;
    value(u->g, v)->folded_from = value(u->g, from)->folded_from;
    for (int i = first; i >= 0; i = e[i].next)
        node_set_input(u->g, e[i].n, e[i].in, v);
    u->ctx->n_changed++;
    return u->g->status;
}

/* --untie without evidence: gives each reading node its own tensor. */
static Status split_all(Untie *u, ValueId v, Edge *e, int n)
{
    bool any = false;

    for (int i = 1; i < n; i++) {
        e[i - 1].next = -1;
        if (e[i].n == e[i - 1].n)
            e[i - 1].next = i;
    }
    for (int i = 1; i < n; i++)
        if (e[i].n != e[i - 1].n) {
            TRY(split_off(u, v, e, i, value(u->g, v)->name));
            any = true;
        }
    if (!any)
        return ST_OK;
    mark_matched(u, value(u->g, v)->name);
    return report_note(u->ctx->report, NOTE_OTHER, value(u->g, v)->name,
                       "untied, as asked: each node that reads it has its own");
}

/* *out: the keys of the groups that are apart, or of those that are not, MOST_LISTED at most. */
static Status list_keys(const char **out, Untie *u, const Value *v, const Group *group, int n, bool apart)
{
    const char *list = "";
    int count = 0;

    for (int k = 0; k < n; k++) {
        if (group[k].apart != apart || !strcmp(group[k].key, v->name) || group[k].joined || ++count > MOST_LISTED)
            continue;
        if (!(list = arena_printf(u->ctx->scratch, "%s%s%s", list, *list ? ", " : "", group[k].key)))
            return FAIL_NOMEM();
    }
    *out = count > MOST_LISTED ? arena_printf(u->ctx->scratch, "%s and %d more", list, count - MOST_LISTED) : list;
    return *out ? ST_OK : FAIL_NOMEM();
}

static Status untie_note(Untie *u, const Value *v, const Group *group, int n, bool asked)
{
    const char *apart, *tied;

    TRY(list_keys(&apart, u, v, group, n, true));
    TRY(list_keys(&tied, u, v, group, n, false));
    if (*apart)
        TRY(report_note(u->ctx->report, NOTE_OTHER, v->name, "the file has one tensor for this and %s: %s", apart,
                        asked ? "untied, as asked"
                              : "equal when it was written, they are parameters of different modules, and untied"));
    if (*tied)
        TRY(report_note(u->ctx->report, NOTE_OTHER, v->name,
                        "one parameter, which %s %s too (--untie '%s' makes them several)", tied,
                        strchr(tied, ',') ? "are" : "is", v->name));
    return ST_OK;
}

/* Unties the tensor, if it is of the kind of this turn.  The groups that are apart get tensors of their own.  If the
 * tensor has no parameter's name, the first group keeps it. */
static Status untie_value(Untie *u, ValueId id, Turn turn)
{
    const ParameterOptions *parameters = parameter_options(u->ctx->opt);
    bool named, asked = false;
    Edge *e = u->edge + u->first[id.i];
    uint32_t n = u->first[id.i + 1] - u->first[id.i];
    const Value *v = value(u->g, id);
    Index at = { .arena = u->ctx->scratch };
    Group *group;
    int n_group;

    for (uint32_t i = 0; i < n; i++)
        e[i].next = -1;
    TRY(find_keys(u, e, n, v->name));
    TRY(list_groups(u, &group, &n_group, &at, e, n));
    named = home_edge(e, n, v->name) != NULL;
    for (int k = 0; k < n_group; k++)
        named |= group[k].by_name || group[k].merged;
    if (named != (turn != UNNAMED) || (named && tensor_is_filled(v->init) != (turn == FILLED)))
        return ST_OK;
    for (int i = 0; i < parameters->n_untie; i++)
        asked |= !fnmatch(parameters->untie[i], v->name, 0);
    if (asked && n_group == 1)
        return split_all(u, id, e, (int)n);
    if (named)
        TRY(judge_named(u, v, group, n_group));
    for (int k = 1, shown; k < n_group && !named; k++) { /* a computed tensor follows the evidence of others */
        TRY(shown_of(&shown, u, group[0].key, group[k].key));
        group[k].apart = shown & SEVERAL;
    }
    if (!asked)
        TRY(join_groups(u, &at, e, group, n_group));
    for (int k = 0; k < n_group; k++) {
        group[k].apart |= asked && strcmp(group[k].key, v->name) && (k || named);
        if (!group[k].apart)
            continue;
        TRY(split_off(u, id, e, group[k].first, group[k].key));
        mark_matched(u, v->name);
    }
    return named || asked ? untie_note(u, v, group, n_group, asked) : ST_OK;
}

static Status untie_run(Graph *g, PassCtx *ctx)
{
    const ParameterOptions *parameters = parameter_options(ctx->opt);
    Untie u = { .g = g, .ctx = ctx, .matched = ARENA_NEW(ctx->scratch, bool, parameters->n_untie) };
    uint32_t n = g->n_value;
    PROBLEMS(wrong);

    if (!u.matched)
        return FAIL_NOMEM();
    u.pair.arena = u.partnered.arena = ctx->scratch;
    TRY(list_edges(&u));
    for (Turn turn = RANDOM; turn <= UNNAMED; turn++)
        for (uint32_t i = 1; i < n; i++)
            if (g->value[i]->kind == V_CONST && !g->value[i]->next && dtype_is_float(g->value[i]->dtype) &&
                g->value[i]->init && g->value[i]->init->shape.rank > 0 && u.first[i + 1] - u.first[i] > 1)
                TRY(untie_value(&u, (ValueId){ i }, turn));
    for (int i = 0; i < parameters->n_untie; i++) {
        bool twins = false; /* a pattern may also name a matrix that is the transpose of another */

        if (!u.matched[i])
            TRY(twins_match(&twins, g, ctx, parameters->untie[i]));
        if (!u.matched[i] && !twins)
            problems_add(&wrong, "'%s'", parameters->untie[i]);
    }
    return problems_fail(&wrong, E_INVALID,
                         "--untie: no tensor that several nodes read, and no transpose of another, matches");
}

const Pass pass_untie = { .name = "untie",
                          .summary = "give modules their own tensors where the exporter merged equal ones",
                          .run = untie_run };
