/* find-batch: which inputs carry the batch, and along which axis outputs have it.
 *
 * The model decides.  An axis of an input carries the batch if it must grow with the batch for the scores to do so:
 * shapes of the whole model are inferred with some axes at one size and then at another, and a set of axes is right if
 * every node accepts both and the scores grow.  Axes that the file calls by one name go together.  What need not grow
 * is given whole: a table, a mask of positions, a sample rate.  Equal lengths decide nothing: open axes that are not
 * tried have a size of their own.
 *
 * Example: x [a,F] and adjacency [b,c], y = adjacency (adjacency x).  {x:0} fails at the first product, [16,16] by
 * [11,F]; {x:0, adjacency:1} fails at the second; {x:0, adjacency:0, adjacency:1} is right, and the adjacency carries
 * the batch twice.  Of one product alone {adjacency:0} is right: its rows are samples, x is a table.
 *
 * A batch whose size the file fixes is tried with its constants rewritten (rebatch).  Where nothing fits, as sizes that
 * are made up may not suit the model, nothing is decided, and names and sizes tell (passes/batch_axis.c). */
#include <string.h>

#include "graph/ir/op.h"
#include "passes/batch_axis.h"
#include "passes/model/rebatch.h"
#include "passes/passes.gen.h"
#include "passes/simplify/infer_shapes.h"
#include "passes/options/batch.h"
#include "passes/options/target.h"

enum { MAX_TRIALS = 160, MAX_NODE_VISITS = 1 << 18 };

static const int64_t batch_at[] = { 11, 13 }, length_at[] = { 16, 64, 224 };
enum { WORLDS = 2, LENGTHS = sizeof length_at / sizeof *length_at };

/* Axes that go together: of one name, or a single one. */
typedef struct {
    const char *symbol; /* NULL: the axis has no name */
    uint8_t *axes;      /* [n_input] bits of each input's axes */
    int distance;       /* how little its name speaks of a batch (batch_name_distance) */
    int input;          /* the first */
} Group;

typedef struct {
    Graph *g;
    PassCtx *ctx;
    Group *group;
    int n_group, scores; /* index of the output; -1: there is none */
    int64_t length;      /* of open axes that are not the batch's */
    bool fixed;          /* the file fixes the batch's size: constants may be written for it */
    bool by_sample;      /* the set tried last has samples with a group each, of a convolution */
    int trials;
} Find;

typedef struct {
    bool computes;   /* every node accepts its inputs */
    bool grows;      /* and the scores grow, as far as it can be seen */
    int axis;        /* the axis of the scores that does; or GROWS_ */
    uint32_t failed; /* else the first node that does not */
    Graph *model;    /* with its constants rewritten; NULL: as it is */
    Graph *world[WORLDS];
} Trial;

/* ---- one trial ---- */

static void close_trial(Trial *t)
{
    for (int i = 0; i < WORLDS; i++) {
        graph_free(t->world[i]);
        t->world[i] = NULL;
    }
    graph_free(t->model);
    t->model = NULL;
}

static void find_batch_bind(Graph *g, const Find *f, const uint8_t *set, int64_t batch)
{
    for (int i = 0; i < g->n_input; i++) {
        Value *v = value(g, g->input[i]);
        const InputShape *given = given_shape(f->ctx->opt, v->name);
        Shape s = *v->shape;

        for (int a = 0; a < s.rank; a++) {
            if (set[i] >> a & 1)
                s.dim[a] = batch;
            else if (s.dim[a] < 0)
                s.dim[a] = given && a < given->shape.rank ? given->shape.dim[a] : f->length;
        }
        value_set_shape(g, v, &s);
    }
}

/* Types and shapes of all values; `*failed`: the first node that does not accept its inputs, or n_node. */
static Status find_batch_infer_all(Graph *g, PassCtx *ctx, uint32_t *failed)
{
    *failed = g->n_node;
    for (uint32_t i = 0; i < g->n_node; i++) {
        Status st = g->node[i]->op ? infer_and_fold(g, ctx, g->node[i]) : ST_OK;

        if (st == E_NOMEM)
            return st;
        if (!st && g->node[i]->op && g->node[i]->op->check_sizes)
            st = g->node[i]->op->check_sizes(g, g->node[i]);
        if (!st)
            continue;
        *failed = i;
        return ST_OK;
    }
    return ST_OK;
}

/* The model with its constants rewritten, if it can be, for a batch along these axes; *good: it can. */
static Status find_batch_rewrite(Graph **out, const Find *f, PassCtx *ctx, const uint8_t *set, bool *good)
{
    Graph *g;
    Status st;

    TRY(graph_clone_lending(&g, f->g));
    for (int i = 0; i < g->n_input; i++)
        value(g, g->input[i])->carries = set[i];
    g->batch_found = BATCH_FOUND;
    st = pass_rebatch.run(g, ctx);
    *good = !st && !g->only_batch;
    if (st == E_NOMEM)
        graph_free(g);
    else
        *out = g;
    return st == E_NOMEM ? st : ST_OK;
}

static Status infer_worlds(Trial *t, const Find *f, PassCtx *ctx, const Graph *g, const uint8_t *set)
{
    t->failed = g->n_node;
    for (int i = 0; i < WORLDS && t->failed == g->n_node; i++) {
        TRY(graph_clone_lending(&t->world[i], g));
        find_batch_bind(t->world[i], f, set, batch_at[i]);
        TRY(find_batch_infer_all(t->world[i], ctx, &t->failed));
    }
    t->computes = t->failed == g->n_node;
    return ST_OK;
}

/* growing_axis, of these sizes; a length that is unknown in either is GROWS_OTHERWISE. */
static int axis_that_grows(const Shape *less, const Shape *more)
{
    int found = GROWS_NOWHERE;

    if (!shape_known(less) || !shape_known(more) || less->rank != more->rank)
        return GROWS_OTHERWISE;
    for (int a = 0; a < less->rank; a++) {
        if (less->dim[a] == more->dim[a])
            continue;
        if (found >= 0 || less->dim[a] % batch_at[0] || less->dim[a] / batch_at[0] * batch_at[1] != more->dim[a])
            return GROWS_OTHERWISE;
        found = a;
    }
    return found;
}

static int output_axis(const Trial *t, int output)
{
    const Graph *const *w = (const Graph *const *)t->world;

    return axis_that_grows(value(w[0], w[0]->output[output].value)->shape,
                           value(w[1], w[1]->output[output].value)->shape);
}

/* Scores of one number, as a loss within the model is, do not grow. */
static void see_scores(Trial *t, const Find *f)
{
    const Shape *s = f->scores < 0 ? NULL : value(t->world[0], t->world[0]->output[f->scores].value)->shape;

    t->axis = f->scores < 0 ? GROWS_OTHERWISE : output_axis(t, f->scores);
    t->grows = !s || s->rank < 1 || t->axis != GROWS_NOWHERE;
}

static Status try_set(Trial *t, Find *f, const uint8_t *set)
{
    PassCtx ctx = { .scratch = arena_create_beside(f->g->arena), .opt = f->ctx->opt, .eval = f->ctx->eval };
    bool good = true;
    Status st = ctx.scratch ? ST_OK : FAIL_NOMEM();

    *t = (Trial){ .axis = GROWS_OTHERWISE };
    f->trials++;
    if (!st && f->fixed)
        st = find_batch_rewrite(&t->model, f, &ctx, set, &good);
    if (!st && good)
        st = infer_worlds(t, f, &ctx, t->model ? t->model : f->g, set);
    if (!st && t->computes)
        see_scores(t, f);
    arena_free(ctx.scratch);
    if (st)
        close_trial(t);
    return st;
}

/* Does the set compute, and do the scores grow? */
static Status accepts(bool *out, Find *f, const uint8_t *set)
{
    Trial t;

    TRY(try_set(&t, f, set));
    *out = t.computes && t.grows;
    f->by_sample = t.model && t.model->by_sample;
    close_trial(&t);
    return ST_OK;
}

static bool may_try(const Find *f)
{
    return f->trials < MAX_TRIALS && (uint64_t)f->trials * f->g->n_node < MAX_NODE_VISITS;
}

/* ---- groups of axes ---- */

static Status add_axis(Find *f, int input, int axis)
{
    const Value *v = value(f->g, f->g->input[input]);
    const char *symbol = v->dim_param ? v->dim_param[axis] : NULL;
    const int distance = symbol ? batch_name_distance(symbol, axis) : axis ? BATCH_NAME_NONE : BATCH_NAME_ANY;
    Group *g = NULL;

    for (int i = 0; symbol && i < f->n_group && !g; i++)
        g = f->group[i].symbol && !strcmp(f->group[i].symbol, symbol) ? &f->group[i] : NULL;
    if (!g) {
        g = &f->group[f->n_group++];
        *g = (Group){ symbol, ARENA_NEW(f->ctx->scratch, uint8_t, f->g->n_input), distance, input };
        if (!g->axes)
            return FAIL_NOMEM();
        memset(g->axes, 0, (size_t)f->g->n_input);
    }
    g->axes[input] |= (uint8_t)(1u << axis);
    g->distance = distance < g->distance ? distance : g->distance;
    return ST_OK;
}

static Status list_groups(Find *f)
{
    const size_t most = (size_t)f->g->n_input * MAX_RANK + 1;

    if (!(f->group = ARENA_NEW(f->ctx->scratch, Group, most)))
        return FAIL_NOMEM();
    for (int i = 0; i < f->g->n_input; i++) {
        const Value *v = value(f->g, f->g->input[i]);

        for (int a = 0; a < v->shape->rank; a++)
            if (v->shape->dim[a] < 0)
                TRY(add_axis(f, i, a));
    }
    return ST_OK;
}

static void clear(uint8_t *set, int n)
{
    for (int i = 0; i < n; i++)
        set[i] = 0;
}

static void find_batch_join(uint8_t *set, const Group *g, int n)
{
    for (int i = 0; i < n; i++)
        set[i] |= g->axes[i];
}

static void part(uint8_t *set, const Group *g, int n)
{
    for (int i = 0; i < n; i++)
        set[i] &= (uint8_t)~g->axes[i];
}

static bool has_group(const uint8_t *set, const Group *g, int n)
{
    for (int i = 0; i < n; i++)
        if (g->axes[i] & ~set[i])
            return false;
    return true;
}

/* Does its name alone say that it is a batch? */
static bool find_batch_is_named(const Group *g)
{
    return g->distance != BATCH_NAME_ANY && g->distance != BATCH_NAME_TIME && g->distance < BATCH_NAME_NONE;
}

/* ---- what must grow with a group ---- */

/* Is another group of the set right by itself?  Then the set is of two things that grow apart. */
static Status has_other(bool *out, const uint8_t *set, Find *f, const Group *first)
{
    const int n = f->g->n_input;
    uint8_t *alone = ARENA_NEW(f->ctx->scratch, uint8_t, n);

    if (!alone)
        return FAIL_NOMEM();
    *out = false;
    for (int i = 0; i < f->n_group && !*out && may_try(f); i++) {
        if (&f->group[i] == first || !has_group(set, &f->group[i], n))
            continue;
        clear(alone, n);
        find_batch_join(alone, &f->group[i], n);
        TRY(accepts(out, f, alone));
    }
    return ST_OK;
}

/* Takes away each group without which the set is right as well; *good becomes false where `first` is such. */
static Status take_away(uint8_t *set, Find *f, const Group *first, bool *good)
{
    const int n = f->g->n_input;
    bool other;

    if (*good && !find_batch_is_named(first)) {
        TRY(has_other(&other, set, f, first));
        *good = !other;
    }
    for (int i = 0; i < f->n_group && *good && may_try(f); i++) {
        const Group *g = &f->group[i];
        bool without;

        if (!has_group(set, g, n) || find_batch_is_named(g))
            continue;
        part(set, g, n);
        TRY(accepts(&without, f, set));
        if (!without)
            find_batch_join(set, g, n);
        *good = !without || g != first;
    }
    return ST_OK;
}

/* All first axes of inputs, and those whose names speak of a batch, but for what need not be. */
static Status take_first_axes(uint8_t *set, Find *f, const Group *first, bool *good)
{
    for (int i = 0; i < f->n_group; i++)
        if (f->group[i].distance < BATCH_NAME_NONE)
            find_batch_join(set, &f->group[i], f->g->n_input);
    TRY(accepts(good, f, set));
    return take_away(set, f, first, good);
}

/* Adds, one at a time, the group with which the first node that fails is furthest behind. */
static Status add_needed(uint8_t *set, Find *f, bool *good)
{
    const int n = f->g->n_input;

    *good = false;
    while (!*good && may_try(f)) {
        int best = -1;
        uint32_t furthest = 0;

        for (int i = 0; i < f->n_group && !*good && may_try(f); i++) {
            Trial t;

            if (has_group(set, &f->group[i], n))
                continue;
            find_batch_join(set, &f->group[i], n);
            TRY(try_set(&t, f, set));
            close_trial(&t);
            *good = t.computes && t.grows;
            if (best < 0 || t.failed > furthest) {
                best = i;
                furthest = t.failed;
            }
            if (!*good)
                part(set, &f->group[i], n);
        }
        if (best < 0)
            return ST_OK;
        if (!*good)
            find_batch_join(set, &f->group[best], n);
    }
    return ST_OK;
}

/* The axes that must grow with the group, itself among them; *axis: what the scores do. */
static Status find_batch_close_group(uint8_t *set, Find *f, const Group *g, bool *good, int *axis)
{
    const int n = f->g->n_input;
    Trial t;

    clear(set, n);
    find_batch_join(set, g, n);
    TRY(accepts(good, f, set));
    if (!*good)
        TRY(take_first_axes(set, f, g, good));
    if (!*good) {
        clear(set, n);
        find_batch_join(set, g, n);
        TRY(add_needed(set, f, good));
        TRY(take_away(set, f, g, good));
    }
    if (!*good)
        return ST_OK;
    TRY(try_set(&t, f, set));
    *axis = t.axis;
    close_trial(&t);
    return ST_OK;
}

/* ---- a batch of open size ---- */

/* The group of least distance that comes first, of those that have not been tried; -1: none is left that is a first
 * axis. */
static int next_group(const Find *f, const bool *tried)
{
    int best = -1;

    for (int i = 0; i < f->n_group; i++)
        if (!tried[i] && f->group[i].distance < BATCH_NAME_NONE &&
            (best < 0 || f->group[i].distance < f->group[best].distance))
            best = i;
    return best;
}

/* How much the set looks like a batch: scores that grow along their first axis, or at all; inputs that carry it along
 * their first axis alone. */
static int likeness(const uint8_t *set, int n, int axis)
{
    int like = axis == 0 ? 2 * n + 2 : axis != GROWS_NOWHERE ? n + 1 : 0;

    for (int i = 0; i < n; i++)
        like += set[i] == 1;
    return like;
}

/* Names that speak of a batch are believed; of others the one that looks most like it is taken. */
static Status find_open(uint8_t *set, Find *f, bool *found)
{
    const int n = f->g->n_input;
    uint8_t *at = ARENA_NEW(f->ctx->scratch, uint8_t, n);
    bool *tried = ARENA_NEW(f->ctx->scratch, bool, f->n_group);
    int most = -1;

    if (!at || !tried)
        return FAIL_NOMEM();
    memset(tried, 0, (size_t)f->n_group * sizeof *tried);
    for (int i; (i = next_group(f, tried)) >= 0 && may_try(f);) {
        int axis = GROWS_OTHERWISE;
        bool good;

        TRY(find_batch_close_group(at, f, &f->group[i], &good, &axis));
        tried[i] = true;
        if (good && likeness(at, n, axis) > most) {
            most = likeness(at, n, axis);
            memcpy(set, at, (size_t)n);
        }
        if (find_batch_is_named(&f->group[i]) || (good && axis == 0))
            break;
    }
    *found = most >= 0;
    return ST_OK;
}

static bool find_batch_is_read(const Graph *g, ValueId v)
{
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (value_eq(n->in[i], v))
                return true;
    return false;
}

static bool is_of_first_axes(const Group *g, int n)
{
    for (int i = 0; i < n; i++)
        if (g->axes[i] > 1)
            return false;
    return true;
}

/* Inputs outside of the set whose first axis grows with the batch as well, though it need not.  One that nothing reads,
 * or whose name speaks of a batch, has samples. */
static Status find_possible(uint8_t *set, bool *may, Find *f)
{
    const int n = f->g->n_input;

    for (int i = 0; i < f->n_group && may_try(f); i++) {
        const Group *g = &f->group[i];
        bool good;

        if (has_group(set, g, n) || !is_of_first_axes(g, n) || set[g->input])
            continue;
        find_batch_join(set, g, n);
        TRY(accepts(&good, f, set));
        if (good && (g->distance < BATCH_NAME_ANY || !find_batch_is_read(f->g, f->g->input[g->input])))
            continue;
        part(set, g, n);
        for (int k = 0; k < n; k++)
            may[k] |= good && g->axes[k] & 1;
    }
    return ST_OK;
}

/* ---- a batch of the file's size ---- */

static int64_t first_size(const Find *f, int input)
{
    const Shape *s = value(f->g, f->g->input[input])->shape;

    return s->rank > 0 ? s->dim[0] : -1;
}

/* Is the second axis as long as the first? */
static bool is_square(const Find *f, int input)
{
    const Shape *s = value(f->g, f->g->input[input])->shape;

    return s->rank > 1 && s->dim[0] == s->dim[1];
}

/* Sets beside that of all first axes of this size: with one input's second axis as well, without one input, one input
 * alone.  False: there are no more. */
static bool next_fixed(uint8_t *set, const Find *f, int64_t size, int which)
{
    const int n = f->g->n_input, i = (which - 1) % n, kind = (which - 1) / n;

    for (int k = 0; k < n; k++)
        set[k] = first_size(f, k) == size;
    if (!which)
        return true;
    if (kind == 0 && set[i] && is_square(f, i))
        set[i] = 3;
    else if (kind == 1)
        set[i] = 0;
    else if (kind == 2)
        for (int k = 0; k < n; k++)
            set[k] = k == i && set[k];
    return kind < 3;
}

static bool is_empty(const uint8_t *set, int n)
{
    for (int i = 0; i < n; i++)
        if (set[i])
            return false;
    return true;
}

/* Which inputs need not grow: not asked for a batch of one, by which everything is broadcast. */
static Status find_spare(uint8_t *set, bool *may, Find *f, int64_t size)
{
    const int n = f->g->n_input;
    bool kept = false;

    for (int i = 0; i < n && size > 1 && may_try(f); i++) {
        const uint8_t had = set[i];

        if (!had || !kept) {
            kept |= had != 0;
            continue;
        }
        set[i] = 0;
        TRY(accepts(&may[i], f, set));
        if (!may[i] || !find_batch_is_read(f->g, f->g->input[i]))
            set[i] = had;
        may[i] &= !set[i];
    }
    return ST_OK;
}

static Status find_fixed(uint8_t *set, bool *may, Find *f, bool *found)
{
    const int n = f->g->n_input;

    *found = false;
    for (int i = 0; i < n; i++) {
        const int64_t size = first_size(f, i);
        bool seen = size < 1;

        for (int k = 0; k < i; k++)
            seen |= first_size(f, k) == size;
        for (int which = 0; !seen && next_fixed(set, f, size, which) && may_try(f); which++) {
            if (is_empty(set, n))
                continue;
            TRY(accepts(found, f, set));
            if (*found)
                return find_spare(set, may, f, size);
            if (!which && f->by_sample) /* fewer inputs would only give all samples the weights of one */
                return ST_OK;
        }
    }
    return ST_OK;
}

/* ---- numbers that say which samples ---- */

/* Does input i select among another number of entries in the other world? */
static bool selects_otherwise(const Graph *g, const Node *n, const Graph *more, const Node *there, int i)
{
    int64_t range = 0;

    for (int k = 0; range >= 0; k++)
        if ((range = index_range_at(g, n, i, k)) != index_range_at(more, there, i, k))
            return true;
    return false;
}

/* May the input of the node be such numbers, made of an input that is whole?  Those that samples bring may count within
 * each. */
static Status find_ordered(Find *f, const Trial *t, const uint8_t *set)
{
    const Graph *g = t->world[0], *more = t->world[1];
    uint64_t *from = ARENA_NEW(f->ctx->scratch, uint64_t, g->n_value);

    if (!from)
        return FAIL_NOMEM();
    memset(from, 0, g->n_value * sizeof *from);
    for (int i = 0; i < g->n_input && i < 64; i++)
        from[g->input[i].i] = !set[i] && dtype_is_int(value(g, g->input[i])->dtype) ? 1ull << i : 0;
    for (uint32_t k = 0; k < g->n_node && k < more->n_node; k++) {
        const Node *n = g->node[k], *there = more->node[k];
        uint64_t all = 0;

        if (!n->op || n->op != there->op || n->op->flags & OPF_SHAPE_ONLY)
            continue;
        for (int i = 0; i < n->n_in; i++) {
            const uint64_t by = has_value(n->in[i]) ? from[n->in[i].i] : 0;

            all |= by;
            for (int in = 0; by && n->op->index_range && in < g->n_input && in < 64; in++)
                if (by >> in & 1 && selects_otherwise(g, n, more, there, i))
                    value(f->g, f->g->input[in])->ordered = true;
        }
        for (int i = 0; i < n->n_out; i++)
            if (has_value(n->out[i]) && !dtype_is_float(value(g, n->out[i])->dtype))
                from[n->out[i].i] = all;
    }
    return ST_OK;
}

/* ---- the decision ---- */

static Status note(Find *f, const uint8_t *set, const bool *may, BatchFound how)
{
    Status st = ST_OK;
    Trial t;

    TRY(try_set(&t, f, set));
    for (int i = 0; i < f->g->n_output; i++) {
        const int axis = t.computes ? output_axis(&t, i) : GROWS_OTHERWISE;

        f->g->output[i].batch_axis = (int8_t)(axis >= 0               ? axis + 1
                                              : axis == GROWS_NOWHERE ? BATCH_NONE
                                                                      : BATCH_UNKNOWN);
    }
    for (int i = 0; i < f->g->n_input && how == BATCH_FOUND; i++) {
        Value *v = value(f->g, f->g->input[i]);

        v->carries = set[i];
        v->may_carry = may[i] && !set[i];
    }
    f->g->batch_found = (uint8_t)how;
    if (t.computes && how == BATCH_FOUND)
        st = find_ordered(f, &t, set);
    close_trial(&t);
    return st;
}

/* By --batch-input. */
static Status find_told(uint8_t *set, Find *f, bool *found)
{
    for (int i = 0; i < f->g->n_input; i++) {
        const int axis = named_batch_axis(f->ctx->opt, value(f->g, f->g->input[i]));

        set[i] = axis >= 0 ? (uint8_t)(1u << axis) : 0;
        f->fixed |= axis >= 0 && value(f->g, f->g->input[i])->shape->dim[axis] >= 0;
    }
    return accepts(found, f, set);
}

static Status find_batch_find(uint8_t *set, bool *may, Find *f, bool *found)
{
    bool open = false;

    TRY(list_groups(f));
    for (int i = 0; i < f->n_group; i++)
        open |= f->group[i].distance < BATCH_NAME_NONE;
    if (batch_options(f->ctx->opt)->n_batch_input)
        return find_told(set, f, found);
    f->fixed = !open;
    if (!open)
        return find_fixed(set, may, f, found);
    TRY(find_open(set, f, found));
    return *found ? find_possible(set, may, f) : ST_OK;
}

static bool is_target_loss(const BuildOptions *opt) { return loss_has_target(opt); }

/* Are there several inputs that may carry the batch, or a target whose axis is asked for? */
static bool is_asked(const Graph *g, const BuildOptions *opt)
{
    int n = 0;

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);

        if (v->member || v->shape->rank < 0 || rival_batch_axis(g, opt, v) >= 0)
            return false;
        n += v->shape->rank > 0;
    }
    return n > 1 || (n && is_target_loss(opt));
}

static Status find_batch_run(Graph *g, PassCtx *ctx)
{
    Find f = { .g = g, .ctx = ctx, .scores = -1 };
    uint8_t *set = ARENA_NEW(ctx->scratch, uint8_t, (size_t)g->n_input + 1);
    bool *may = ARENA_NEW(ctx->scratch, bool, (size_t)g->n_input + 1), found = false;

    if (!set || !may)
        return FAIL_NOMEM();
    if (g->batch_found || graph_is_step(g) || !is_asked(g, ctx->opt))
        return ST_OK;
    TRY(graph_sort(g));
    for (int i = 0; i < g->n_output && f.scores < 0; i++)
        if (!target_options(ctx->opt)->logits || !strcmp(g->output[i].name, target_options(ctx->opt)->logits))
            f.scores = i;
    for (int i = 0; i < LENGTHS && !found; i++) {
        memset(may, 0, ((size_t)g->n_input + 1) * sizeof *may);
        f.length = length_at[i];
        f.n_group = 0;
        TRY(find_batch_find(set, may, &f, &found));
    }
    return found ? note(&f, set, may, batch_options(ctx->opt)->n_batch_input ? BATCH_FROM_OPTION : BATCH_FOUND) : ST_OK;
}

const Pass pass_find_batch = { .name = "find-batch", .summary = "which inputs carry the batch", .run = find_batch_run };
