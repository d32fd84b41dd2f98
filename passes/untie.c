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
 * - names: copies are siblings (layers.0.w, layers.1.w), and of equal tensors the exporter keeps the first one's name,
 * while a parameter that siblings share has the last one's.
 *
 * A module that is called twice reads the same name twice and keeps its one tensor.  What is not shown stays tied, and
 * is said;
 * --untie PATTERN unties it all the same. */
#include <fnmatch.h>
#include <string.h>

#include "graph/op.h"
#include "passes/names.h"
#include "passes/pass.h"
#include "passes/report.h"

typedef struct {
    Node *n;
    int in;
    const char *key; /* the parameter that the reader means, as far as the file shows it */
    bool by_name;    /* it reads it under that name */
} Edge;

/* Readers that mean the same parameter. */
typedef struct {
    const char *key;
    bool by_name, apart;
    bool joined; /* to an earlier group, which stands for it */
} Group;

/* What a tensor of random numbers shows of two siblings, "layers.0" and "layers.1": copies of each other, or one
 * module. */
typedef struct {
    const char *a, *b;
    bool one;
} Pair;

/* Tensors in the order in which they are looked at: what the first show of modules tells about the others. */
typedef enum { RANDOM, FILLED, UNNAMED } Turn;

typedef struct {
    Graph *g;
    PassCtx *ctx;
    Edge *edge; /* of all values: those of value i are edge[first[i] .. first[i + 1]) */
    uint32_t *first;
    Pair *pair;
    size_t n_pair, cap_pair;
    bool *matched; /* [n_untie] */
} Untie;

/* ---- names ---- */

/* Is `name` a parameter of module `path` itself? */
static bool owned_by(const char *name, const char *path)
{
    size_t len = strlen(path);

    return len ? !strncmp(name, path, len) && name[len] == '.' && !strchr(name + len + 1, '.') : !strchr(name, '.');
}

/* What modules call the parameter at this place of an operator; NULL: it has no name of its own. */
static const char *place_name(const Node *n, int in)
{
    int before = 0;

    if (n->op == &op_BatchNormalization && (in == 3 || in == 4))
        return in == 3 ? "running_mean" : "running_var";
    if (in >= 8 || !(n->op->param_in >> in & 1) || n->op->flags & OPF_PARAM_MAYBE)
        return NULL;
    for (int i = 0; i < in; i++)
        before += n->op->param_in >> i & 1;
    return before == 0 ? "weight" : before == 1 ? "bias" : NULL;
}

/* ---- readers ---- */

static bool may_be_several(const Value *v)
{
    return v->kind == V_CONST && dtype_is_float(v->dtype) && v->init && v->init->shape.rank > 0;
}

static Status list_edges(Untie *u)
{
    Graph *g = u->g;
    uint32_t *at;

    if (!(u->first = ARENA_NEW(u->ctx->scratch, uint32_t, g->n_value + 1)) ||
        !(at = ARENA_NEW(u->ctx->scratch, uint32_t, g->n_value + 1)))
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            u->first[n->in[i].i + 1] += has_value(n->in[i]);
    for (uint32_t i = 0; i < g->n_value; i++)
        at[i + 1] = u->first[i + 1] += u->first[i];
    if (!(u->edge = ARENA_NEW(u->ctx->scratch, Edge, u->first[g->n_value])))
        return FAIL_NOMEM();
    memcpy(at, u->first, (g->n_value + 1) * sizeof *at);
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (has_value(n->in[i]))
                u->edge[at[n->in[i].i]++] = (Edge){ .n = n, .in = i };
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
        if (e[i].by_name)
            e[i].key = reader->read_as[e[i].in];
        else if (!reader->module)
            e[i].key = name;
        else if (!(e[i].key = arena_printf(u->ctx->scratch, "%s%s%s", reader->module, *reader->module ? "." : "",
                                           place ? place : names_last(name))))
            return FAIL_NOMEM();
    }
    return ST_OK;
}

static Status list_groups(Untie *u, Group **out, int *n_out, const Edge *e, uint32_t n)
{
    Group *group = ARENA_NEW(u->ctx->scratch, Group, n);
    int count = 0;

    if (!group)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < n; i++) {
        int k = 0;

        while (k < count && strcmp(group[k].key, e[i].key))
            k++;
        if (k == count)
            group[count++] = (Group){ .key = e[i].key };
        group[k].by_name |= e[i].by_name;
    }
    *out = group;
    *n_out = count;
    return ST_OK;
}

/* ---- what the file shows ---- */

static Status remember_pair(Untie *u, const char *a, const char *b, const size_t prefix[2], bool one)
{
    Arena *scratch = u->ctx->scratch;
    Pair *grown = arena_grow(scratch, u->pair, sizeof *grown, u->n_pair, &u->cap_pair);
    Pair p = { arena_printf(scratch, "%.*s", (int)prefix[0], a), arena_printf(scratch, "%.*s", (int)prefix[1], b),
               one };

    if (!grown || !p.a || !p.b)
        return FAIL_NOMEM();
    u->pair = grown;
    u->pair[u->n_pair++] = p;
    return ST_OK;
}

static bool is_prefix(const char *prefix, const char *name, size_t len)
{
    return strlen(prefix) == len && !strncmp(prefix, name, len);
}

/* Is that shown of the modules of these parameters? */
static bool are_pair(const Untie *u, const char *a, const char *b, bool one)
{
    size_t prefix[2];
    int order;

    if (!names_siblings(a, b, &order, prefix))
        return false;
    for (size_t i = 0; i < u->n_pair; i++) {
        const Pair *p = &u->pair[i];

        if (p->one == one && ((is_prefix(p->a, a, prefix[0]) && is_prefix(p->b, b, prefix[1])) ||
                              (is_prefix(p->b, a, prefix[0]) && is_prefix(p->a, b, prefix[1]))))
            return true;
    }
    return false;
}

/* Of a tensor that has a parameter's name: which groups are others of that time? */
static Status judge_named(Untie *u, const Value *v, Group *group, int n)
{
    bool filled = tensor_is_filled(v->init);

    for (int k = 0; k < n; k++) {
        size_t prefix[2];
        int order;
        bool sibling = names_siblings(v->name, group[k].key, &order, prefix);

        if (!strcmp(group[k].key, v->name))
            continue;
        group[k].apart =
            sibling ? group[k].by_name || (order < 0 && !are_pair(u, v->name, group[k].key, true)) : filled;
        if (sibling && !filled)
            TRY(remember_pair(u, v->name, group[k].key, prefix, !group[k].apart));
    }
    return ST_OK;
}

/* Groups that are apart from the tensor's own may be one among themselves. */
static void join_groups(const Untie *u, Edge *e, uint32_t n, Group *group, int n_group)
{
    for (int k = 1; k < n_group; k++)
        for (int m = 0; m < k && group[k].apart; m++) {
            if (!group[m].apart || !are_pair(u, group[m].key, group[k].key, true))
                continue;
            for (uint32_t i = 0; i < n; i++)
                if (!strcmp(e[i].key, group[k].key))
                    e[i].key = group[m].key;
            group[k].apart = false;
            group[k].joined = true;
        }
}

/* A tensor that the exporter computed (a transposed weight) has no parameter's name: it goes with what its modules show
 * elsewhere. */
static void judge_unnamed(const Untie *u, Group *group, int n)
{
    for (int k = 1; k < n; k++)
        group[k].apart = are_pair(u, group[0].key, group[k].key, false);
}

static bool is_named(const Value *v, const Edge *e, uint32_t n, const Group *group, int n_group)
{
    for (int k = 0; k < n_group; k++)
        if (group[k].by_name)
            return true;
    return home_edge(e, n, v->name) != NULL;
}

/* ---- the change ---- */

static bool forced(Untie *u, const char *name)
{
    bool any = false;

    for (int i = 0; i < u->ctx->opt->n_untie; i++)
        if (!fnmatch(u->ctx->opt->untie[i], name, 0))
            any = u->matched[i] = true;
    return any;
}

static Status split_off(Untie *u, ValueId from, Edge *e, uint32_t n, const char *key, const char *name)
{
    ValueId v = graph_add_const_nocopy(u->g, name, value(u->g, from)->init);

    TRY(u->g->status);
    value(u->g, v)->origin = value(u->g, from)->origin;
    value(u->g, v)->said = value(u->g, from)->said;
    value(u->g, v)->folded_from = value(u->g, from)->folded_from;
    for (uint32_t i = 0; i < n; i++)
        if (e[i].key == key || !strcmp(e[i].key, key))
            node_set_input(u->g, e[i].n, e[i].in, v);
    u->ctx->n_changed++;
    return u->g->status;
}

/* Asked for without any evidence: each reading node gets its own. */
static Status split_all(Untie *u, ValueId v, Edge *e, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (e[i].n != e[0].n)
            TRY(split_off(u, v, &e[i], 1, e[i].key, value(u->g, v)->name));
    return report_note(u->ctx->report, NOTE_OTHER, value(u->g, v)->name,
                       "untied, as asked: each node that reads it has its own");
}

static Status tell(Untie *u, const Value *v, const Group *group, int n, bool asked)
{
    const char *apart = "", *tied = "";

    for (int k = 0; k < n; k++) {
        const char **list = group[k].apart ? &apart : &tied;

        if (!strcmp(group[k].key, v->name) || group[k].joined)
            continue;
        if (!(*list = arena_printf(u->ctx->scratch, "%s%s%s", *list, **list ? ", " : "", group[k].key)))
            return FAIL_NOMEM();
    }
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
static Status untie_value(Untie *u, ValueId id, Turn turn)
{
    bool named = turn != UNNAMED;
    Edge *e = u->edge + u->first[id.i];
    uint32_t n = u->first[id.i + 1] - u->first[id.i];
    const Value *v = value(u->g, id);
    Group *group;
    bool asked;
    int n_group;

    TRY(find_keys(u, e, n, v->name));
    TRY(list_groups(u, &group, &n_group, e, n));
    if (is_named(v, e, n, group, n_group) != named || (named && tensor_is_filled(v->init) != (turn == FILLED)))
        return ST_OK;
    if ((asked = forced(u, v->name)) && n_group == 1)
        return split_all(u, id, e, n);
    if (named)
        TRY(judge_named(u, v, group, n_group));
    else
        judge_unnamed(u, group, n_group);
    if (!asked)
        join_groups(u, e, n, group, n_group);
    for (int k = 0, kept = 0; k < n_group; k++) {
        group[k].apart |= asked && strcmp(group[k].key, v->name) && (kept || named);
        kept++;
        if (group[k].apart)
            TRY(split_off(u, id, e, n, group[k].key, group[k].key));
    }
    return named || asked ? tell(u, v, group, n_group, asked) : ST_OK;
}

/* A matrix may be named because it is another one's transpose (passes/tie_twins.c). */
static Status check_patterns(Untie *u)
{
    for (uint32_t i = 1; u->ctx->opt->n_untie && i < u->g->n_value; i++)
        if (may_be_several(u->g->value[i]) && u->g->value[i]->init->shape.rank == 2)
            forced(u, u->g->value[i]->name);
    for (int i = 0; i < u->ctx->opt->n_untie; i++)
        if (!u->matched[i])
            return FAIL(E_INVALID, "--untie '%s' matches no tensor that several nodes read, and no matrix",
                        u->ctx->opt->untie[i]);
    return ST_OK;
}

static Status run(Graph *g, PassCtx *ctx)
{
    Untie u = { .g = g, .ctx = ctx, .matched = ARENA_NEW(ctx->scratch, bool, ctx->opt->n_untie) };
    uint32_t n = g->n_value;

    if (!u.matched)
        return FAIL_NOMEM();
    TRY(list_edges(&u));
    for (Turn turn = RANDOM; turn <= UNNAMED; turn++)
        for (uint32_t i = 1; i < n; i++)
            if (may_be_several(g->value[i]) && u.first[i + 1] - u.first[i] > 1)
                TRY(untie_value(&u, (ValueId){ i }, turn));
    return check_patterns(&u);
}

const Pass pass_untie = { .name = "untie",
                          .summary = "give modules their own tensors where the exporter merged equal ones",
                          .run = run };
