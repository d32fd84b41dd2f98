/* untie: one tensor that an exporter made of several parameters becomes several again.
 *
 * PyTorch's default exporter keeps one initializer of those that are equal when it writes the file: all LayerNorm
 * weights of a fresh network are ones, copies of a layer begin alike.  Its older exporter does the same out of training
 * mode, and leaves an Identity for each name that went.  Trained as one tensor they would be another network.
 *
 * The file shows which parameter a reader meant: by the name under which it reads the tensor (Node.read_as), or by its
 * module (Node.module) and the place at which it reads.  Equal parameters and one parameter that is truly shared look
 * alike up to that; they are told apart by
 *
 * - values: parameters of different modules that are filled with one number began alike and are several.  Any other
 * numbers are random ones, which two modules have in common only when one is a copy of the other or they share it;
 * - order: a module's own parameters come before those of its parts, and of equal tensors the first gives the name.  So
 * a module that reads a tensor named after one of its parts reads the part's;
 * - names: copies are siblings (layers.0.w, layers.1.w), and of equal tensors the exporter keeps the first one's name,
 * while a parameter that siblings share has the last one's.
 *
 * In files that a simplifier rewrote, other signs tell (merged_copies.c).  A module that is called twice reads the same
 * name twice and keeps its one tensor.  What is not shown stays tied, and is said;
 * --untie PATTERN unties it all the same. */
#include <fnmatch.h>
#include <string.h>

#include "graph/ir/readers.h"
#include "passes/names.h"
#include "passes/pass.h"
#include "passes/report.h"
#include "passes/model/merged_copies.h"
#include "passes/model/tie_twins.h"
#include "passes/options/parameters.h"

typedef struct {
    Node *n;
    int in;
    const char *key; /* the parameter that the reader means, as far as the file shows it */
    bool by_name;    /* it reads it under that name */
    bool told;       /* a simplifier merged what it means with this one (merged_copies.c) */
    int next;        /* of the same group; -1: none */
} Edge;

/* Readers that mean the same parameter. */
typedef struct {
    const char *key;
    bool by_name, told, apart;
    bool joined;     /* to an earlier group, which stands for it */
    int first, last; /* of its edges */
} Group;

/* Texts and a number for each: open addressing. */
typedef struct {
    Arena *arena;
    const char **key;
    int *number;
    size_t n, cap;
} Index;

/* A module that is the same as another, by a tensor of random numbers. */
typedef struct {
    const char *module;
    int next; /* -1: none */
} Partner;

enum { SEVERAL = 1, ONE = 2, MOST_LISTED = 16 };

/* Tensors in the order in which they are looked at: what the first show of modules tells about the others. */
typedef enum { RANDOM, FILLED, UNNAMED } Turn;

typedef struct {
    Graph *g;
    PassCtx *ctx;
    Edge *edge; /* of all values: those of value i are edge[first[i] .. first[i + 1]) */
    const uint32_t *first;
    const Meant *meant; /* as edge */
    Index pair;         /* "layers.0:layers.1": copies of each other (SEVERAL), one module (ONE) */
    Index partnered;    /* modules, with the first of their partners */
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

/* NULL: it is not there. */
static int *index_find(const Index *x, const char *key)
{
    size_t i = x->cap ? untie_slot_of(x, key) : 0;

    return x->cap && x->key[i] ? &x->number[i] : NULL;
}

/* The number of `key`, which is kept; a new one has 0. */
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

/* ---- names ---- */

/* Is `name` a parameter of module `path` itself? */
static bool owned_by(const char *name, const char *path)
{
    size_t len = strlen(path);

    return len ? !strncmp(name, path, len) && name[len] == '.' && !strchr(name + len + 1, '.') : !strchr(name, '.');
}

/* Is the first's module a part of the second's? */
static bool is_part_of(const char *part, const char *whole)
{
    size_t p = (size_t)(names_last(part) - part), w = (size_t)(names_last(whole) - whole);

    return p > w && !strncmp(part, whole, w);
}

/* ---- readers ---- */

static bool may_be_several(const Value *v)
{
    return v->kind == V_CONST && !v->next && dtype_is_float(v->dtype) && v->init && v->init->shape.rank > 0;
}

static Status list_edges(Untie *u)
{
    uint32_t n;
    Meant *meant;
    Trace t;
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
        u->edge[i] = (Edge){ .n = r.reader[i].n, .in = r.reader[i].in, .next = -1 };
    u->first = r.first;
    return ST_OK;
}

/* The reader whose module the tensor's name says: where several of them are, the one that reads it where that name
 * belongs. */
static const Edge *home_edge(const Edge *e, uint32_t n, const char *name)
{
    const Edge *home = NULL;

    for (uint32_t i = 0; i < n; i++) {
        const char *place = place_name(e[i].n, e[i].in);

        if (!e[i].n->module || !owned_by(name, e[i].n->module))
            continue;
        if (!home || (place && !strcmp(place, names_last(name))))
            home = &e[i];
    }
    return home;
}

static Status find_keys(Untie *u, Edge *e, uint32_t n, const char *name)
{
    const Edge *home = home_edge(e, n, name);

    for (uint32_t i = 0; i < n; i++) {
        const Node *reader = e[i].n;
        bool like_home = home && reader->op == home->n->op && e[i].in == home->in;
        const char *place = like_home ? NULL : place_name(reader, e[i].in);

        e[i].by_name = e[i].in < reader->n_read_as && reader->read_as[e[i].in];
        e[i].told = !e[i].by_name && u->meant[&e[i] - u->edge].name;
        if (e[i].told)
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

/* In the order of their first readers; `at` finds a group by its key: its number, from 1. */
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
        of->told |= e[i].told;
        if (of->last != i)
            e[of->last].next = i;
        of->last = i;
    }
    *out = group;
    *n_out = count;
    return ST_OK;
}

/* ---- what the file shows ---- */

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

/* What is shown of the modules of these parameters: ONE, SEVERAL, both, or nothing. */
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

/* Of a tensor that has a parameter's name: which groups are others of that time? */
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
        if (group[k].told)
            group[k].apart = true;
        else if (sibling)
            group[k].apart = group[k].by_name || (order < 0 && !(shown & ONE));
        else
            group[k].apart = filled && (group[k].by_name || !is_part_of(v->name, group[k].key));
        if (sibling && !filled)
            TRY(remember_pair(u, v->name, group[k].key, prefix, !group[k].apart));
    }
    return ST_OK;
}

/* The first of the groups in front of the k-th that is apart and whose module is the same as the k-th's by what is
 * shown; -1: none. */
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

/* Groups that are apart from the tensor's own may be one among themselves. */
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

/* A tensor that the exporter computed (a transposed weight) has no parameter's name: it goes with what its modules show
 * elsewhere. */
static Status judge_unnamed(const Untie *u, Group *group, int n)
{
    for (int k = 1, shown; k < n; k++) {
        TRY(shown_of(&shown, u, group[0].key, group[k].key));
        group[k].apart = shown & SEVERAL;
    }
    return ST_OK;
}

static bool untie_is_named(const Value *v, const Edge *e, uint32_t n, const Group *group, int n_group)
{
    for (int k = 0; k < n_group; k++)
        if (group[k].by_name || group[k].told)
            return true;
    return home_edge(e, n, v->name) != NULL;
}

/* ---- the change ---- */

static bool untie_asked_for(const Untie *u, const char *name)
{
    bool any = false;

    for (int i = 0; i < parameter_options(u->ctx->opt)->n_untie && !any; i++)
        any = !fnmatch(parameter_options(u->ctx->opt)->untie[i], name, 0);
    return any;
}

/* The patterns of this name have untied something. */
static void mark_matched(Untie *u, const char *name)
{
    for (int i = 0; i < parameter_options(u->ctx->opt)->n_untie; i++)
        u->matched[i] |= !fnmatch(parameter_options(u->ctx->opt)->untie[i], name, 0);
}

/* The edges from the first on get a tensor of their own. */
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

/* Asked for without any evidence: each reading node gets its own. */
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

/* The keys of the groups that are apart, or that are not, the first of many. */
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

static Status untie_tell(Untie *u, const Value *v, const Group *group, int n, bool asked)
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

/* Groups apart get their own tensor.  When the tensor's own name is nobody's, the first keeps it. */
static Status split_groups(Untie *u, ValueId id, Edge *e, Group *group, int n, bool named, bool asked)
{
    const char *name = value(u->g, id)->name;

    for (int k = 0; k < n; k++) {
        group[k].apart |= asked && strcmp(group[k].key, name) && (k || named);
        if (!group[k].apart)
            continue;
        TRY(split_off(u, id, e, group[k].first, group[k].key));
        mark_matched(u, name);
    }
    return ST_OK;
}

static Status untie_value(Untie *u, ValueId id, Turn turn)
{
    bool named = turn != UNNAMED, asked;
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
    if (untie_is_named(v, e, n, group, n_group) != named || (named && tensor_is_filled(v->init) != (turn == FILLED)))
        return ST_OK;
    if ((asked = untie_asked_for(u, v->name)) && n_group == 1)
        return split_all(u, id, e, (int)n);
    TRY(named ? judge_named(u, v, group, n_group) : judge_unnamed(u, group, n_group));
    if (!asked)
        TRY(join_groups(u, &at, e, group, n_group));
    TRY(split_groups(u, id, e, group, n_group, named, asked));
    return named || asked ? untie_tell(u, v, group, n_group, asked) : ST_OK;
}

/* A matrix may be named because it is another one's transpose. */
static Status check_patterns(Untie *u)
{
    Problems wrong = { 0 };

    for (int i = 0; i < parameter_options(u->ctx->opt)->n_untie; i++) {
        bool twins = false;

        if (!u->matched[i])
            TRY(twins_match(&twins, u->g, u->ctx, parameter_options(u->ctx->opt)->untie[i]));
        if (!u->matched[i] && !twins)
            problems_add(&wrong, "'%s'", parameter_options(u->ctx->opt)->untie[i]);
    }
    return problems_fail(&wrong, E_INVALID,
                         "--untie: no tensor that several nodes read, and no transpose of another, has a name like");
}

static Status untie_run(Graph *g, PassCtx *ctx)
{
    Untie u = { .g = g, .ctx = ctx, .matched = ARENA_NEW(ctx->scratch, bool, parameter_options(ctx->opt)->n_untie) };
    uint32_t n = g->n_value;

    if (!u.matched)
        return FAIL_NOMEM();
    u.pair.arena = u.partnered.arena = ctx->scratch;
    TRY(list_edges(&u));
    for (Turn turn = RANDOM; turn <= UNNAMED; turn++)
        for (uint32_t i = 1; i < n; i++)
            if (may_be_several(g->value[i]) && u.first[i + 1] - u.first[i] > 1)
                TRY(untie_value(&u, (ValueId){ i }, turn));
    return check_patterns(&u);
}

const Pass pass_untie = { .name = "untie",
                          .summary = "give modules their own tensors where the exporter merged equal ones",
                          .run = untie_run };
