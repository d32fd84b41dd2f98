/* find-batch: finds which inputs carry the batch, and along which axis each output has it.
 *
 * An axis of an input carries the batch if it must grow with the batch for the scores to grow.  The pass infers the
 * shapes of the whole model with a set of axes at one size and then at another.  The set is right if every node accepts
 * both sizes and the scores grow.  Axes that the file gives one name go together.  An input that need not grow is given
 * whole: a table, a mask of positions, a sample rate.  Equal lengths are no evidence: open axes outside of the set have
 * another size.
 *
 * Example: x [a,F] and adjacency [b,c], y = adjacency (adjacency x).  {x:0} fails at the first product, [16,16] by
 * [11,F]; {x:0, adjacency:1} fails at the second; {x:0, adjacency:0, adjacency:1} is right, and the adjacency carries
 * the batch twice.  For one product alone {adjacency:0} is right: its rows are samples, and x is a table.
 *
 * A batch size that the file fixes is tried with its constants rewritten (rebatch).  Where no set fits, perhaps because
 * the trial sizes do not suit the model, the pass decides nothing, and names and sizes decide (passes/batch_axis.c). */
#include <string.h>

#include "graph/ir/op.h"
#include "passes/batch_axis.h"
#include "passes/model/rebatch.h"
#include "passes/options/batch.h"
#include "passes/options/target.h"
#include "passes/passes.gen.h"
#include "passes/simplify/infer_shapes.h"

enum { MAX_TRIALS = 160, MAX_NODE_VISITS = 1 << 18 };

static const int64_t batch_at[] = { 11, 13 }, length_at[] = { 16, 64, 224 };
enum { SIZES = 2, LENGTHS = sizeof length_at / sizeof *length_at };

/* Axes that go together: those of one name, or a single one. */
typedef struct {
    const char *symbol; /* NULL: the axis has no name */
    uint8_t *axes;      /* [n_input] bits of each input's axes */
    int distance;       /* how unlike a batch's its name is (batch_name_distance) */
    int input;          /* the first input that has one of the axes */
} Group;

typedef struct {
    Graph *g;
    PassCtx *ctx;
    Group *group;
    int n_group, scores; /* scores: index of the output; -1: there is none */
    int64_t length;      /* the length of open axes outside of the set */
    bool fixed;          /* the file fixes the batch's size: constants may be written for it */
    bool by_sample;      /* with the last set, a convolution has a group for each sample */
    int trials;
} Find;

typedef struct {
    bool computes;   /* every node accepts its inputs */
    bool grows;      /* the scores grow, or their shape is unknown */
    int axis;        /* the axis along which the scores grow; or GROWS_ */
    uint32_t failed; /* the first node that rejects its inputs, or n_node */
    Graph *model;    /* the model with its constants rewritten; NULL: they are not */
    Graph *bound[SIZES];
} Trial;

/* ---- one trial ---- */

static void close_trial(Trial *t)
{
    for (int i = 0; i < SIZES; i++) {
        graph_free(t->bound[i]);
        t->bound[i] = NULL;
    }
    graph_free(t->model);
    t->model = NULL;
}

/* Binds the axes of the set to `batch`, and other open axes to the given or the trial length. */
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

/* Infers types and shapes of all values.  *failed: the first node that rejects its inputs, or n_node. */
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

/* *out: the model with its constants rewritten for a batch along these axes.  *good: they could be. */
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

/* The axis along which an output grows in the trial.  Unlike growing_axis, an unknown length gives GROWS_OTHERWISE. */
static int output_axis(const Trial *t, int output)
{
    const Graph *const *w = (const Graph *const *)t->bound;
    const Shape *less = value(w[0], w[0]->output[output].value)->shape;
    const Shape *more = value(w[1], w[1]->output[output].value)->shape;
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

/* Fills *t for a set; the caller closes the trial unless this fails. */
static Status try_set(Trial *t, Find *f, const uint8_t *set)
{
    PassCtx ctx = { .scratch = arena_create_beside(f->g->arena), .opt = f->ctx->opt, .eval = f->ctx->eval };
    bool good = true;
    const Graph *g;
    Status st = ctx.scratch ? ST_OK : FAIL_NOMEM();

    *t = (Trial){ .axis = GROWS_OTHERWISE };
    f->trials++;
    if (!st && f->fixed)
        st = find_batch_rewrite(&t->model, f, &ctx, set, &good);
    g = t->model ? t->model : f->g;
    t->failed = good ? g->n_node : 0;
    for (int i = 0; i < SIZES && !st && t->failed == g->n_node; i++)
        if (!(st = graph_clone_lending(&t->bound[i], g))) {
            find_batch_bind(t->bound[i], f, set, batch_at[i]);
            st = find_batch_infer_all(t->bound[i], &ctx, &t->failed);
        }
    t->computes = !st && good && t->failed == g->n_node;
    if (t->computes) {
        const Shape *s = f->scores < 0 ? NULL : value(t->bound[0], t->bound[0]->output[f->scores].value)->shape;

        t->axis = f->scores < 0 ? GROWS_OTHERWISE : output_axis(t, f->scores);
        t->grows = !s || s->rank < 1 || t->axis != GROWS_NOWHERE; /* a loss of one number does not grow */
    }
    arena_free(ctx.scratch);
    if (st)
        close_trial(t);
    return st;
}

/* *out: does every node accept the set, and do the scores grow? */
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

/* Adds an open axis of an input to the group of its name. */
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

static void leave(uint8_t *set, const Group *g, int n)
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

/* Is its name that of a batch? */
static bool find_batch_is_named(const Group *g)
{
    return g->distance != BATCH_NAME_ANY && g->distance != BATCH_NAME_TIME && g->distance < BATCH_NAME_NONE;
}

/* ---- axes that must grow with a group ---- */

/* *out: is another group of the set right alone?  Then two groups of the set grow independently. */
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

/* Removes each group without which the set is right as well.  *good becomes false if `first` is one. */
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
        leave(set, g, n);
        TRY(accepts(&without, f, set));
        if (!without)
            find_batch_join(set, g, n);
        *good = !without || g != first;
    }
    return ST_OK;
}

/* Adds groups until the set is right, each time the one with which inference gets furthest. */
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
                leave(set, &f->group[i], n);
        }
        if (best < 0)
            return ST_OK;
        if (!*good)
            find_batch_join(set, &f->group[best], n);
    }
    return ST_OK;
}

/* set: the axes that must grow with the group, which it includes; *axis: Trial.axis.  *good: there is such a set. */
static Status find_batch_close_group(uint8_t *set, Find *f, const Group *g, bool *good, int *axis)
{
    const int n = f->g->n_input;
    Trial t;

    clear(set, n);
    find_batch_join(set, g, n);
    TRY(accepts(good, f, set));
    if (!*good) { /* the first axes of inputs, and those named after a batch, without those that need not grow */
        for (int i = 0; i < f->n_group; i++)
            if (f->group[i].distance < BATCH_NAME_NONE)
                find_batch_join(set, &f->group[i], n);
        TRY(accepts(good, f, set));
        TRY(take_away(set, f, g, good));
    }
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

/* How likely the set is the batch's: scores that grow along their first axis count most, then scores that grow at all,
 * then inputs that carry it along their first axis alone. */
static int likelihood(const uint8_t *set, int n, int axis)
{
    int like = axis == 0 ? 2 * n + 2 : axis != GROWS_NOWHERE ? n + 1 : 0;

    for (int i = 0; i < n; i++)
        like += set[i] == 1;
    return like;
}

/* set: that of the first group with a batch's name, or else the most likely of all groups' sets. */
static Status find_open(uint8_t *set, Find *f, bool *found)
{
    const int n = f->g->n_input;
    uint8_t *at = ARENA_NEW(f->ctx->scratch, uint8_t, n);
    bool *tried = ARENA_NEW(f->ctx->scratch, bool, f->n_group);
    int most = -1;

    if (!at || !tried)
        return FAIL_NOMEM();
    memset(tried, 0, (size_t)f->n_group * sizeof *tried);
    while (may_try(f)) {
        int axis = GROWS_OTHERWISE, i = -1;
        bool good;

        for (int k = 0; k < f->n_group; k++) /* the first of least distance */
            if (!tried[k] && f->group[k].distance < BATCH_NAME_NONE &&
                (i < 0 || f->group[k].distance < f->group[i].distance))
                i = k;
        if (i < 0)
            break;
        TRY(find_batch_close_group(at, f, &f->group[i], &good, &axis));
        tried[i] = true;
        if (good && likelihood(at, n, axis) > most) {
            most = likelihood(at, n, axis);
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

/* Finds inputs outside of the set whose first axis may grow with the batch as well, though it need not.  One that no
 * node reads, or that has a batch's name, has samples. */
static Status find_possible(uint8_t *set, bool *may, Find *f)
{
    const int n = f->g->n_input;

    for (int i = 0; i < f->n_group && may_try(f); i++) {
        const Group *g = &f->group[i];
        bool good, first_axes = true;

        for (int k = 0; k < n; k++)
            first_axes &= g->axes[k] <= 1;
        if (has_group(set, g, n) || !first_axes || set[g->input])
            continue;
        find_batch_join(set, g, n);
        TRY(accepts(&good, f, set));
        if (good && (g->distance < BATCH_NAME_ANY || !find_batch_is_read(f->g, f->g->input[g->input])))
            continue;
        leave(set, g, n);
        for (int k = 0; k < n; k++)
            may[k] |= good && g->axes[k] & 1;
    }
    return ST_OK;
}

/* ---- a batch size that the file fixes ---- */

static int64_t first_size(const Find *f, int input)
{
    const Shape *s = value(f->g, f->g->input[input])->shape;

    return s->rank > 0 ? s->dim[0] : -1;
}

/* Enumerates sets by `which`: the first axes of this size; these and one input's second axis of the same size; these
 * without one input; one input alone.  False: there are no more. */
static bool next_fixed(uint8_t *set, const Find *f, int64_t size, int which)
{
    const int n = f->g->n_input, i = (which - 1) % n, kind = (which - 1) / n;
    const Shape *s;

    for (int k = 0; k < n; k++)
        set[k] = first_size(f, k) == size;
    if (!which)
        return true;
    s = value(f->g, f->g->input[i])->shape;
    if (kind == 0 && set[i] && s->rank > 1 && s->dim[0] == s->dim[1])
        set[i] = 3;
    else if (kind == 1)
        set[i] = 0;
    else if (kind == 2)
        for (int k = 0; k < n; k++)
            set[k] = k == i && set[k];
    return kind < 3;
}

/* may: the inputs that need not grow.  A batch of one shows nothing: it broadcasts. */
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

/* The first right set of next_fixed. */
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
            bool any = false;

            for (int k = 0; k < n; k++)
                any |= set[k] != 0;
            if (!any)
                continue;
            TRY(accepts(found, f, set));
            if (*found)
                return find_spare(set, may, f, size);
            if (!which && f->by_sample) /* fewer inputs would give all samples the weights of one */
                return ST_OK;
        }
    }
    return ST_OK;
}

/* ---- inputs of sample indices ---- */

/* Marks inputs outside of the set whose integers select among samples: nodes compute indices from them, into an axis
 * that grows with the batch.  Indices that are part of the samples may count within each sample. */
static Status find_ordered(Find *f, const Trial *t, const uint8_t *set)
{
    const Graph *g = t->bound[0], *more = t->bound[1];
    uint64_t *from = ARENA_NEW(f->ctx->scratch, uint64_t, g->n_value); /* by value: the inputs it is computed from */

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
            int64_t range = 0;
            bool grows = false;

            all |= by;
            if (!by || !n->op->index_range)
                continue;
            for (int tuple = 0; range >= 0 && !grows; tuple++) {
                range = index_range_at(g, n, i, tuple);
                grows = range != index_range_at(more, there, i, tuple);
            }
            for (int in = 0; grows && in < g->n_input && in < 64; in++)
                if (by >> in & 1)
                    value(f->g, f->g->input[in])->ordered = true;
        }
        for (int i = 0; i < n->n_out; i++)
            if (has_value(n->out[i]) && !dtype_is_float(value(g, n->out[i])->dtype))
                from[n->out[i].i] = all;
    }
    return ST_OK;
}

/* ---- the decision ---- */

/* Records the set in the graph. */
static Status record(Find *f, const uint8_t *set, const bool *may, BatchFound how)
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

/* Finds the set for one trial length. */
static Status find_batch_find(uint8_t *set, bool *may, Find *f, bool *found)
{
    const int n = f->g->n_input;
    bool open = false;

    f->n_group = 0;
    if (!(f->group = ARENA_NEW(f->ctx->scratch, Group, (size_t)n * MAX_RANK + 1)))
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++) {
        const Shape *s = value(f->g, f->g->input[i])->shape;

        for (int a = 0; a < s->rank; a++)
            if (s->dim[a] < 0)
                TRY(add_axis(f, i, a));
    }
    for (int i = 0; i < f->n_group; i++)
        open |= f->group[i].distance < BATCH_NAME_NONE;
    if (batch_options(f->ctx->opt)->n_batch_input) {
        for (int i = 0; i < n; i++) {
            const int axis = named_batch_axis(f->ctx->opt, value(f->g, f->g->input[i]));

            set[i] = axis >= 0 ? (uint8_t)(1u << axis) : 0;
            f->fixed |= axis >= 0 && value(f->g, f->g->input[i])->shape->dim[axis] >= 0;
        }
        return accepts(found, f, set);
    }
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
    const TargetOptions *target = target_options(ctx->opt);
    Find f = { .g = g, .ctx = ctx, .scores = -1 };
    uint8_t *set = ARENA_NEW(ctx->scratch, uint8_t, (size_t)g->n_input + 1);
    bool *may = ARENA_NEW(ctx->scratch, bool, (size_t)g->n_input + 1), found = false;

    if (!set || !may)
        return FAIL_NOMEM();
    if (g->batch_found || graph_is_step(g) || !is_asked(g, ctx->opt))
        return ST_OK;
    TRY(graph_sort(g));
    for (int i = 0; i < g->n_output && f.scores < 0; i++)
        if (!target->logits || !strcmp(g->output[i].name, target->logits))
            f.scores = i;
    for (int i = 0; i < LENGTHS && !found; i++) {
        memset(may, 0, ((size_t)g->n_input + 1) * sizeof *may);
        f.length = length_at[i];
        TRY(find_batch_find(set, may, &f, &found));
    }
    return found ? record(&f, set, may, batch_options(ctx->opt)->n_batch_input ? BATCH_FROM_OPTION : BATCH_FOUND)
                 : ST_OK;
}

const Pass pass_find_batch = { .name = "find-batch",
                               .summary = "find which inputs carry the batch",
                               .run = find_batch_run };
