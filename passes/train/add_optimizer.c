/* add_optimizer: turns the gradients, outputs "grad:PARAM" of passes/train/autodiff.c, into updates of state.
 *
 * BUILD_TRAIN: undo the loss's scale, clip, then one update node a parameter; the step counter goes up by one.
 *
 * With a dynamic loss scale (passes/train/scale_loss.c) all of that happens only when every gradient is finite.  The
 * test reads the reduced gradients, still scaled, so that all replicas decide the same.  Gradients are multiplied once,
 * by a scalar that undoes the scale and clips; backends can fuse that.
 *
 * Accumulation splits the same step over two graphs, built from one model by the same passes:
 *
 * - BUILD_ACCUMULATE, once a micro-batch: PARAM.grad_sum += gradient of the loss's numerator, and the sums of
 *   numerator, denominator and metric.  These states are transient (a checkpoint falls between steps, where they are
 *   zero) and partial: each replica adds up its own, nothing crosses devices.
 * - BUILD_APPLY, once a step: gradient = PARAM.grad_sum / sum of denominators (1 when the loss is a sum and has none),
 *   then as BUILD_TRAIN, and the sums become zero.  The earlier passes have built the forward and backward graph here
 *   too, which shows the parameters that have a gradient; all of it is removed.
 *
 * One denominator for the whole group makes uneven micro-batches, and a last, incomplete group, exact.
 *
 * Players that take turns (passes/train/take_turns.c) are each tested, scaled and skipped separately.  Their last
 * micro-batch and the step are one graph, BUILD_FINISH: its gradients and losses are added to the sums, and the losses
 * of later players read the values that earlier players get by that.  In the micro-batches before it no player has
 * changed, so all losses read the old values. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/rewrite.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/optimizer.gen.h"
#include "passes/options/collectives.h"
#include "passes/options/recipes.h"
#include "passes/options/step.h"
#include "passes/options/types.h"
#include "passes/options/update.h"
#include "passes/pass.h"
#include "passes/report.h"
#include "passes/train/power_norm.h"
#include "passes/update_groups.h"

typedef struct {
    ValueId param, grad;
    int group;
} Pair;

/* Parameters that are updated by one rule: those of an UpdateGroup, or all others.  The last four fields are those of
 * the gradients that are tested together; the group that represents them has these (player_of). */
typedef struct {
    const OptimizerDef *def;
    RecipeSettings settings, undecayed; /* undecayed: without weight decay */
    const Clip *clip;
    ValueId lr;
    bool any;       /* the player has gradients */
    ValueId step;   /* the updates before this one */
    ValueId factor; /* multiplies every gradient; NO_VALUE: none */
    ValueId ok;     /* all gradients are finite; NO_VALUE: not tested */
} Group;

/* Gradients whose common norm is computed. */
typedef struct {
    ValueId *grad; /* with room for one more */
    int n;
    ValueId sums;   /* the sums of their squares, by pieces */
    int64_t *count; /* [n] */
} Norm;

typedef struct {
    Graph *g;
    const BuildOptions *opt;
    Group *group; /* [1 + n_group], the first without an UpdateGroup */
    Pair *pair;   /* parameters that have a gradient, in the order of the outputs */
    int n;
} Optimizer;

static Group *player_of(const Optimizer *o, int group) { return &o->group[update_group_player(o->opt, group)]; }

/* ---- shared ---- */

static Status add_optimizer_collect(Optimizer *o, Arena *scratch)
{
    size_t skip = strlen(OUT_GRAD_PREFIX);

    if (!(o->pair = ARENA_NEW(scratch, Pair, o->g->n_output)))
        return FAIL_NOMEM();
    for (int i = 0; i < o->g->n_output; i++) {
        const Output *out = &o->g->output[i];
        ValueId param;

        if (strncmp(out->name, OUT_GRAD_PREFIX, skip))
            continue;
        if (!has_value(param = graph_find(o->g, out->name + skip)))
            return FAIL(E_INTERNAL, "output '%s' names no parameter", out->name);
        o->pair[o->n++] = (Pair){ param, out->value, update_group_of(o->opt, value(o->g, param)->name) };
    }
    return o->n ? ST_OK : FAIL(E_INTERNAL, "no parameter has a gradient");
}

static void drop_gradient_outputs(Graph *g)
{
    int n = 0;

    for (int i = 0; i < g->n_output; i++)
        if (strncmp(g->output[i].name, OUT_GRAD_PREFIX, strlen(OUT_GRAD_PREFIX)))
            g->output[n++] = g->output[i];
    g->n_output = n;
}

static int number_of(const Optimizer *o, const Group *p) { return (int)(p - o->group); }

/* State PARAM.suffix (or just `name` when there is no suffix), zeros. */
static ValueId add_zero_state(Graph *g, const char *name, const char *suffix, DType t, const Shape *s)
{
    const char *full = suffix ? arena_printf(g->arena, "%s.%s", name, suffix) : name;
    const Tensor *zero = tensor_zeros(g->arena, t, s);
    ValueId v;

    if (!full || !zero) {
        if (!g->status)
            g->status = FAIL_NOMEM();
        return NO_VALUE;
    }
    v = graph_add_const_nocopy(g, full, zero);
    if (has_value(v))
        value(g, v)->kind = V_STATE;
    return v;
}

static ValueId add_sum_state(Graph *g, const char *name, const char *suffix, ValueId like, bool partial)
{
    ValueId v = add_zero_state(g, name, suffix, value(g, like)->dtype, value(g, like)->shape);

    if (has_value(v)) {
        value(g, v)->transient = true;
        value(g, v)->partial = partial;
    }
    return v;
}

/* ---- unscaling and clipping ---- */

/* The sums of squares from which a norm over pieces is computed; one node for all calls. */
static ValueId square_sums(Graph *g, Norm *of)
{
    int64_t *zeros = ARENA_NEW(g->arena, int64_t, of->n);

    if (has_value(of->sums) || g->status)
        return of->sums;
    if (!zeros || !(of->count = ARENA_NEW(g->arena, int64_t, of->n))) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int i = 0; i < of->n; i++)
        of->count[i] = shape_numel(value(g, of->grad[i])->shape);
    return of->sums = emit(g, &op_SquareSums, ATTRS(INTS("count", of->n, of->count), INTS("from", of->n, zeros)), of->n,
                           of->grad);
}

/* Are all elements finite?  For pieces of float32 that is so exactly if the sums of their squares in double are finite.
 */
static ValueId all_finite(Optimizer *o, Norm *all, DType t)
{
    if (!collective_options(o->opt)->shard || t != DT_FLOAT32)
        return emit(o->g, &op_AllFinite, NULL, all->n, all->grad);
    return EMIT(o->g, AllFinite, NULL, square_sums(o->g, all));
}

/* Updates the scale and sets the factor to 1 / scale. */
static Status emit_dynamic_scale(Optimizer *o, Group *p, DType t)
{
    Graph *g = o->g;
    Shape scalar = shape_scalar();
    const LossScaleRule rule = loss_scale_rule(o->opt);
    const int k = number_of(o, p);
    char name[GROUP_NAME];
    ValueId scale, good, next[2];

    scale = graph_find(g, group_name(name, STATE_LOSS_SCALE, k));
    good = add_zero_state(g, group_name(name, STATE_GOOD_STEPS, k), NULL, DT_INT64, &scalar);
    EMIT_MULTI(g, LossScaleUpdate,
               ATTRS(FLOAT("growth", rule.growth), FLOAT("backoff", rule.backoff), INT("interval", rule.interval)), 2,
               next, scale, good, p->ok);
    graph_add_update(g, scale, next[0]);
    graph_add_update(g, good, next[1]);
    p->factor = emit_cast(g, EMIT(g, Div, NULL, emit_scalar(g, DT_FLOAT32, 1), scale), t);
    /* a copy: the state is the next step's scale when the caller reads it */
    graph_add_output(g, group_name(name, OUT_LOSS_SCALE, k), EMIT(g, Add, NULL, scale, emit_scalar(g, DT_FLOAT32, 0)));
    return g->status;
}

static ValueId times(Graph *g, ValueId grad, ValueId factor)
{
    return EMIT(g, Mul, NULL, grad, emit_cast(g, factor, value(g, grad)->dtype));
}

/* Unscales the gradients that the caller asked to see. */
static void unscale_outputs(const Optimizer *o, const Group *p)
{
    Graph *g = o->g;

    for (int i = 0; i < o->n && !g->status; i++) {
        if (player_of(o, o->pair[i].group) != p)
            continue;
        const char *name = arena_printf(g->arena, OUT_GRAD_PREFIX "%s", value(g, o->pair[i].param)->name);

        if (!name) {
            graph_fail_nomem(g);
            return;
        }
        graph_remove_output(g, name);
        graph_add_output(g, name, times(g, o->pair[i].grad, p->factor));
    }
}

/* out: the norm of these gradients together, and min(1, max / (norm + 1e-6)) times the factor so far. */
static void emit_clip(Optimizer *o, Norm *of, const Clip *clip, ValueId factor, DType t, ValueId out[2])
{
    const bool scaled = has_value(factor);
    Graph *g = o->g;
    ValueId in[2] = { NO_VALUE };

    if (clip->power && clip->power != 2) {
        const ValueId raw = power_norm(g, of->n, of->grad, clip->power, t), one = emit_scalar(g, t, 1);
        ValueId scale;

        out[0] = scaled ? EMIT(g, Mul, NULL, raw, factor) : raw;
        scale = EMIT(g, Add, NULL, out[0], emit_scalar(g, t, 1e-6));
        scale = EMIT(g, Min, NULL, one, EMIT(g, Div, NULL, emit_scalar(g, t, clip->norm), scale));
        out[1] = scaled ? EMIT(g, Mul, NULL, scale, factor) : scale;
    } else if (collective_options(o->opt)->shard) {
        in[0] = square_sums(g, of);
        in[1] = factor;
        emit_multi(g, &op_NormOfSums, ATTRS(FLOAT("max_norm", clip->norm), INTS("count", of->n, of->count)), 1 + scaled,
                   in, 2, out);
        out[0] = emit_cast(g, out[0], t);
        out[1] = emit_cast(g, out[1], t);
    } else {
        of->grad[of->n] = factor;
        emit_multi(g, &op_GlobalNorm, ATTRS(FLOAT("max_norm", clip->norm), INT("scaled", scaled)), of->n + scaled,
                   of->grad, 2, out);
    }
}

/* Multiplies the gradients that have norm k (update_group_norm) by their factor. */
static Status scale_gradients(Optimizer *o, const Group *p, int k, Norm *all, DType t, Arena *scratch)
{
    Norm some = { .grad = ARENA_NEW(scratch, ValueId, o->n + 1) }, *of;
    ValueId out[2] = { NO_VALUE, p->factor };
    char name[GROUP_NAME];
    int at = 0;

    if (!some.grad)
        return FAIL_NOMEM();
    for (int i = 0; i < o->n; i++) {
        if (update_group_norm(o->opt, o->pair[i].group) == k)
            some.grad[some.n++] = all->grad[at];
        at += player_of(o, o->pair[i].group) == p;
    }
    of = some.n == all->n ? all : &some;
    if (of->n && o->group[k].clip->norm > 0) {
        emit_clip(o, of, o->group[k].clip, p->factor, t, out);
        graph_add_output(o->g, group_name(name, OUT_GRAD_NORM, k), out[0]);
    }
    for (int i = 0; i < o->n && has_value(out[1]) && !o->g->status; i++)
        if (update_group_norm(o->opt, o->pair[i].group) == k)
            o->pair[i].grad = times(o->g, o->pair[i].grad, out[1]);
    return o->g->status;
}

/* Decides whether the player's update happens, and scales its gradients. */
static Status emit_factor(Optimizer *o, Group *p, Arena *scratch)
{
    const TypeOptions *types = type_options(o->opt);
    Graph *g = o->g;
    Norm all = { .grad = ARENA_NEW(scratch, ValueId, o->n + 1) };
    DType t = value(g, o->pair[0].param)->dtype;
    char applied[GROUP_NAME];

    if (!all.grad)
        return FAIL_NOMEM();
    for (int i = 0; i < o->n; i++)
        if (player_of(o, o->pair[i].group) == p)
            all.grad[all.n++] = emit_cast(g, o->pair[i].grad, t);
    TRY(g->status);
    if (types->loss_scaling != SCALE_NONE)
        p->ok = all_finite(o, &all, t); /* if false, its update is skipped */
    if (types->loss_scaling == SCALE_FIXED)
        p->factor = emit_scalar(g, t, 1 / types->loss_scale);
    else if (types->loss_scaling == SCALE_DYNAMIC)
        TRY(emit_dynamic_scale(o, p, t));
    if (has_value(p->ok))
        graph_add_output(g, group_name(applied, OUT_APPLIED, number_of(o, p)), p->ok);
    if (has_value(p->factor) && step_options(o->opt)->keep_gradients)
        unscale_outputs(o, p);
    for (int k = 0; k <= update_options(o->opt)->n_group && !g->status; k++)
        if (update_group_norm(o->opt, k) == k && player_of(o, k) == p)
            TRY(scale_gradients(o, p, k, &all, t, scratch));
    return g->status;
}

/* Updates are counted by player where a scale may skip some of them. */
static Status add_optimizer_add_step(Optimizer *o, Group *p)
{
    Graph *g = o->g;
    Shape scalar = shape_scalar();
    char name[GROUP_NAME];

    group_name(name, STATE_STEP, type_options(o->opt)->loss_scaling != SCALE_NONE ? number_of(o, p) : 0);
    p->step = add_zero_state(g, name, NULL, DT_INT64, &scalar);
    TRY(g->status);
    if (strcmp(value(g, p->step)->name, name))
        return FAIL(E_MODEL, "the model has a value of its own named '%s'", name);
    return ST_OK;
}

/* Raises the step counter by one if the update happens. */
static void emit_step(Optimizer *o, const Group *p)
{
    Graph *g = o->g;
    ValueId by;

    graph_begin_purpose(g, PHASE_UPDATE, UPDATE_OF STATE_STEP);
    by = has_value(p->ok) ? emit_cast(g, p->ok, DT_INT64) : emit_scalar(g, DT_INT64, 1);

    graph_add_update(g, p->step, EMIT(g, Add, NULL, p->step, by));
}

static bool begin_update(Graph *g, ValueId state)
{
    const char *purpose = arena_printf(g->arena, UPDATE_OF "%s", value(g, state)->name);

    graph_begin_purpose(g, PHASE_UPDATE, purpose);
    if (!purpose)
        graph_fail_nomem(g);
    return purpose;
}

/* Parameters of a group that one formula updates. */
typedef struct {
    DType type;
    bool undecayed, matrix; /* without weight decay; by the optimizer's rule for matrices */
} RuleKey;

static RuleKey rule_key(const Optimizer *o, int i)
{
    const Value *w = value(o->g, o->pair[i].param);

    return (RuleKey){ w->dtype, w->undecayed, optimizer_takes_matrix(o->group[o->pair[i].group].def, w) };
}

static bool same_rule(const Optimizer *o, int i, int k, RuleKey key)
{
    const RuleKey own = rule_key(o, i);

    return o->pair[i].group == k && own.type == key.type && own.undecayed == key.undecayed && own.matrix == key.matrix;
}

/* Emits the updates of those parameters of group k. */
static Status emit_rule(const Optimizer *o, int k, RuleKey key)
{
    const Group *group = &o->group[k];
    const Group *player = player_of(o, k);
    const OptimizerStep step = { .g = o->g,
                                 .type = key.type,
                                 .lr = group->lr,
                                 .step = player->step,
                                 .ok = player->ok,
                                 .clip = group->clip->value,
                                 .ema = update_options(o->opt)->ema,
                                 .pieces = collective_options(o->opt)->shard != SHARD_NONE,
                                 .group = k };
    UpdateRule rule;

    TRY(optimizer_formula(&rule, &step, group->def, key.undecayed ? &group->undecayed : &group->settings, key.matrix));
    for (int i = 0; i < o->n && !o->g->status; i++)
        if (same_rule(o, i, k, key) && begin_update(o->g, o->pair[i].param))
            optimizer_emit(&rule, o->pair[i].param, o->pair[i].grad);
    graph_free(rule.g);
    return o->g->status;
}

static Status emit_nodes(const Optimizer *o, int k)
{
    unsigned done[2][2] = { { 0 } };

    for (int i = 0; i < o->n; i++) {
        const RuleKey key = rule_key(o, i);
        unsigned *of = &done[key.undecayed][key.matrix];

        if (o->pair[i].group != k)
            continue;
        if (!(*of & DTYPE_BIT(key.type)))
            TRY(emit_rule(o, k, key));
        *of |= DTYPE_BIT(key.type);
    }
    return ST_OK;
}

/* "learning_rate", "learning_rate.1", ...: the caller gives them all. */
static Status add_rates(Optimizer *o)
{
    Graph *g = o->g;
    Shape scalar = shape_scalar();

    for (int k = 0; k <= update_options(o->opt)->n_group; k++) {
        char name[GROUP_NAME];

        group_name(name, IN_LR, k);
        o->group[k].lr = graph_add_input(g, name, value(g, o->pair[0].param)->dtype, &scalar);
        TRY(g->status);
        if (strcmp(value(g, o->group[k].lr)->name, name))
            return FAIL(E_MODEL, "the model has a value of its own named '%s'", name);
    }
    return ST_OK;
}

/* Replaces Updated of a parameter (passes/train/take_turns.c) by its next value, or by itself if it is not updated. */
static Status read_updated(Graph *g, Arena *scratch)
{
    ValueId *next = ARENA_NEW(scratch, ValueId, g->n_value);

    if (!next)
        return FAIL_NOMEM();
    for (int u = 0; u < g->n_update; u++)
        next[g->update[u].state.i] = g->update[u].next;
    TRY(rewrite_begin(g, scratch));
    FOR_NODES(g, n) {
        const ValueId state = n->op->flags & OPF_NEXT_STATE ? n->in[0] : NO_VALUE;

        if (!has_value(state))
            continue;
        graph_replace(g, n->out[0], has_value(next[state.i]) ? next[state.i] : state);
        graph_remove(g, n);
    }
    return rewrite_end(g);
}

static Status follow_turns(const Optimizer *o, Arena *scratch)
{
    return update_options(o->opt)->turns && !o->g->status ? read_updated(o->g, scratch) : o->g->status;
}

/* Is p the first of the players that share its step counter? */
static bool counts(const Optimizer *o, const Group *p)
{
    const Group *first = o->group;

    while (!first->any)
        first++;
    return p->any && (p == first || !value_eq(p->step, first->step));
}

static Status emit_updates(Optimizer *o, Arena *scratch)
{
    const UpdateOptions *updates = update_options(o->opt);
    const Group *end = o->group + 1 + updates->n_group;
    ValueId shared = NO_VALUE;

    TRY(add_rates(o));
    for (Group *p = o->group; p < end; p++) {
        if (!p->any)
            continue;
        p->step = shared;
        if (!has_value(shared))
            TRY(add_optimizer_add_step(o, p));
        if (type_options(o->opt)->loss_scaling == SCALE_NONE)
            shared = p->step;
    }
    for (Group *p = o->group; p < end; p++)
        if (p->any)
            TRY(emit_factor(o, p, scratch));
    for (int k = 0; k <= updates->n_group; k++)
        TRY(emit_nodes(o, k));
    for (Group *p = o->group; p < end; p++)
        if (counts(o, p))
            emit_step(o, p);
    return follow_turns(o, scratch);
}

/* ---- accumulation ---- */

/* A sum beside the gradients: an output of one batch, a state over batches. */
typedef struct {
    const char *output, *state;
    ValueId addend, total;
    ValueId (*merge)(Graph *g, ValueId into, ValueId more); /* of a metric whose sums do not add up by Add; else NULL */
} Sum;

static const Sum known_sums[] = {
    { .output = OUT_LOSS_SUM, .state = STATE_LOSS_SUM },
    { .output = OUT_LOSS_WEIGHT, .state = STATE_LOSS_WEIGHT },
};
enum { N_SUMS = sizeof known_sums / sizeof *known_sums };

/* Adds the sums of the metrics to the list; a graph may have those of a first one that the options do not name. */
static Status find_metric_sums(Sum *s, int *n, const Optimizer *o)
{
    static const char *const names[][2] = { { OUT_METRIC_SUM, STATE_METRIC_SUM },
                                            { OUT_METRIC_WEIGHT, STATE_METRIC_WEIGHT } };
    const RecipeOptions *recipes = recipe_options(o->opt);
    char text[GROUP_NAME];

    for (int k = 0; k < metric_count(recipes) || !k; k++)
        for (int i = 0; i < 2; i++) {
            const char *output = arena_strdup(o->g->arena, group_name(text, names[i][0], k)),
                       *state = arena_strdup(o->g->arena, group_name(text, names[i][1], k));

            if (!output || !state)
                return FAIL_NOMEM();
            s[(*n)++] = (Sum){ .output = output,
                               .state = state,
                               .addend = graph_output(o->g, output),
                               .total = NO_VALUE,
                               .merge = i || !recipes->metric[k].def ? NULL : recipes->metric[k].def->emit_merge };
        }
    return ST_OK;
}

/* Lists numerator, denominator, those of the metrics, and log variables; `addend` is NO_VALUE if there is none. */
static Status find_sums(Sum **out, int *n, const Optimizer *o, Arena *scratch)
{
    const size_t skip = strlen(OUT_LOG_PREFIX);
    const Graph *g = o->g;
    Sum *s = ARENA_NEW(scratch, Sum, N_SUMS + 2 * MAX_METRICS + (size_t)g->n_output);

    if (!s)
        return FAIL_NOMEM();
    memcpy(s, known_sums, sizeof known_sums);
    for (*n = 0; *n < N_SUMS; ++*n)
        s[*n].addend = graph_output(g, s[*n].output);
    TRY(find_metric_sums(s, n, o));
    for (int i = 0; i < g->n_output; i++) {
        const Output *at = &g->output[i];

        if (strncmp(at->name, OUT_LOG_PREFIX, skip))
            continue;
        s[*n] = (Sum){ .output = at->name,
                       .state = arena_printf(g->arena, STATE_LOG_PREFIX "%s", at->name + skip),
                       .addend = at->value,
                       .total = NO_VALUE };
        if (!s[(*n)++].state)
            return FAIL_NOMEM();
    }
    *out = s;
    return ST_OK;
}

/* A denominator known from shapes is the same on every replica, and so is a sum that is merged; all others are partial
 * sums. */
static ValueId sum_state(Graph *g, const Sum *s)
{
    return add_sum_state(g, s->state, NULL, s->addend, value(g, s->addend)->kind != V_CONST && !s->merge);
}

static ValueId sum_next(Graph *g, const Sum *s, ValueId state)
{
    return s->merge ? s->merge(g, state, s->addend) : EMIT(g, Add, NULL, state, s->addend);
}

static void add_to(Graph *g, ValueId state, ValueId addend)
{
    if (!g->status)
        graph_add_update(g, state, EMIT(g, Add, NULL, state, addend));
}

static ValueId add_gradient_sum(Graph *g, const Pair *p)
{
    ValueId v = add_sum_state(g, value(g, p->param)->name, "grad_sum", p->grad, true);

    if (has_value(v))
        value(g, v)->layout = value(g, p->param)->layout;
    return v;
}

static Status accumulate(Optimizer *o, Arena *scratch)
{
    Graph *g = o->g;
    Sum *s;
    int n;

    graph_begin_purpose(g, PHASE_BACKWARD, "sum over micro-batches");
    for (int i = 0; i < o->n && !g->status; i++)
        add_to(g, add_gradient_sum(g, &o->pair[i]), o->pair[i].grad);
    TRY(find_sums(&s, &n, o, scratch));
    for (int i = 0; i < n && !g->status; i++) {
        if (has_value(s[i].addend)) {
            const ValueId state = sum_state(g, &s[i]);

            if (!g->status)
                graph_add_update(g, state, sum_next(g, &s[i], state));
        }
        graph_remove_output(g, s[i].output);
    }
    graph_remove_output(g, OUT_LOSS);
    return follow_turns(o, scratch); /* no player has changed yet */
}

/* Removes all but constants and states; values of nodes and inputs become unused. */
static void clear_graph(Graph *g)
{
    FOR_NODES(g, n)
        graph_remove(g, n);
    for (int i = 0; i < g->n_input; i++)
        value_make_temp(value(g, g->input[i]));
    g->n_input = g->n_output = g->n_update = 0;
}

/* Does this graph include the last micro-batch, whose share is not in the sums yet? */
static bool finishes(const Optimizer *o) { return build_mode(o->opt) == BUILD_FINISH; }

/* Divides the summed gradients, and zeroes the sums after the step. */
static Status divide_sums(Optimizer *o, ValueId weight)
{
    Graph *g = o->g;

    for (int i = 0; i < o->n && !g->status; i++) {
        const char *name = arena_printf(g->arena, OUT_GRAD_PREFIX "%s", value(g, o->pair[i].param)->name);
        const ValueId state = add_gradient_sum(g, &o->pair[i]);
        ValueId sum = state;

        if (g->status || !name)
            return g->status ? g->status : FAIL_NOMEM();
        if (finishes(o))
            sum = EMIT(g, Add, NULL, state, o->pair[i].grad);
        o->pair[i].grad = EMIT(g, Div, NULL, sum, emit_cast(g, weight, value(g, state)->dtype));
        graph_add_update(g, state, emit_zeros_like(g, state));
        if (step_options(o->opt)->keep_gradients) {
            graph_remove_output(g, name);
            graph_add_output(g, name, o->pair[i].grad);
        }
    }
    return g->status;
}

/* Outputs are copies, made by adding 0 if nothing else: the state is zero again when the caller reads them. */
static Status output_sums(Optimizer *o, Sum *s, int n)
{
    Graph *g = o->g;

    for (int i = 0; i < n && !g->status; i++) {
        ValueId state, out;

        if (!has_value(s[i].addend))
            continue;
        state = sum_state(g, &s[i]);
        TRY(g->status);
        out = finishes(o) ? sum_next(g, &s[i], state)
                          : EMIT(g, Add, NULL, state, emit_scalar(g, value(g, state)->dtype, 0));
        s[i].total = finishes(o) ? out : state;
        graph_remove_output(g, s[i].output);
        graph_add_output(g, s[i].output, out);
        graph_add_update(g, state, emit_zeros_like(g, state));
    }
    return g->status;
}

/* The step of a group of micro-batches, from the sums alone or with this graph's micro-batch. */
static Status add_optimizer_apply(Optimizer *o, Arena *scratch)
{
    Graph *g = o->g;
    ValueId weight;
    Sum *s;
    int n;

    TRY(find_sums(&s, &n, o, scratch));
    if (finishes(o))
        graph_remove_output(g, OUT_LOSS);
    else
        clear_graph(g);
    graph_begin_purpose(g, PHASE_UPDATE, "mean over micro-batches");
    TRY(output_sums(o, s, n));
    weight = has_value(s[1].total) ? s[1].total : emit_scalar(g, value(g, s[0].total)->dtype, 1);
    graph_add_output(g, OUT_LOSS, EMIT(g, Div, NULL, s[0].total, weight));
    TRY(divide_sums(o, weight));
    return emit_updates(o, scratch);
}

/* ---- the pass ---- */

/* Reads the settings of a group's optimizer.  The first of several values of a flag counts. */
static Status take_settings(Group *out, const char *args, const char *text, Arena *a)
{
    const char *without = arena_printf(a, "weight-decay=0;%s", text ? text : "");

    if (!without)
        return FAIL_NOMEM();
    TRY(recipe_take(&out->undecayed, &out->def->recipe, "optimizer", args, without, a));
    return recipe_take(&out->settings, &out->def->recipe, "optimizer", args, text, a);
}

static Status take_groups(Optimizer *o)
{
    const BuildOptions *opt = o->opt;
    const RecipeOptions *recipes = recipe_options(opt);
    const UpdateOptions *updates = update_options(opt);
    Arena *a = o->g->arena;

    if (!(o->group = ARENA_NEW(a, Group, 1 + updates->n_group)))
        return FAIL_NOMEM();
    for (int k = 0; k <= updates->n_group; k++) {
        const UpdateGroup *u = k ? &updates->group[k - 1] : NULL;
        const OptimizerDef *def = u ? u->optimizer : recipes->optimizer ? recipes->optimizer : &optimizer_sgd;
        Group *group = &o->group[k];
        Status st;

        if (def->of_file)
            return FAIL(E_INVALID, "--group '%s': the file says how all or none of its tensors are updated",
                        u->pattern);
        *group = (Group){ .def = def, .clip = u && u->clip ? u->clip : &updates->clip };
        if (!(group->clip->norm >= 0))
            return FAIL(E_INVALID, "--clip-norm %g must not be negative", group->clip->norm);
        if (!(group->clip->value >= 0))
            return FAIL(E_INVALID, "--clip-value %g must not be negative", group->clip->value);
        st = take_settings(group, u ? u->optimizer_args : recipes->optimizer_args, u ? u->settings : recipes->settings,
                           a);
        TRY(u ? status_prefix(st, "--group '%s'", u->pattern) : st);
    }
    return ST_OK;
}

/* Checks the groups by the parameters that they have, and reports how many each has. */
static Status check_groups(const Optimizer *o, Arena *scratch, Report *report)
{
    const UpdateOptions *updates = update_options(o->opt);
    const char **name = ARENA_NEW(scratch, const char *, o->n);

    if (!name)
        return FAIL_NOMEM();
    for (int i = 0; i < o->n; i++)
        name[i] = value(o->g, o->pair[i].param)->name;
    TRY(update_groups_check(o->opt, name, o->n));
    for (int k = 1; k <= updates->n_group; k++) {
        const UpdateGroup *group = &updates->group[k - 1];
        int n = 0;

        for (int i = 0; i < o->n; i++)
            n += o->pair[i].group == k;
        TRY(report_note(report, NOTE_OTHER, group->pattern, "group %d: tensors updated by %s%s%s: %d", k,
                        o->group[k].def->recipe.name, group->loss ? " for loss " : "", group->loss ? group->loss : "",
                        n));
    }
    return ST_OK;
}

/* Reports how many parameters a matrix rule for hidden matrices updates, and names the matrices that it does not. */
static Status note_hidden(const Optimizer *o, Report *report)
{
    const char *names = "";
    int matrices = 0, others = 0;
    const OptimizerDef *def = NULL;

    for (int i = 0; i < o->n; i++) {
        const Value *w = value(o->g, o->pair[i].param);
        const OptimizerDef *own = o->group[o->pair[i].group].def;

        if (!own->others)
            continue;
        def = own;
        matrices += optimizer_takes_matrix(own, w);
        others += !optimizer_takes_matrix(own, w);
        if (report && w->shape->rank > 1 && !optimizer_takes_matrix(own, w) &&
            !(names = arena_printf(report->arena, "%s%s'%s'", names, *names ? ", " : ", with ", w->name)))
            return FAIL_NOMEM();
    }
    return def ? report_note(report, NOTE_OTHER, def->recipe.name,
                             "%d hidden matrices are updated by %s, %d other tensors by %s%s", matrices,
                             def->recipe.name, others, def->others, names)
               : ST_OK;
}

static Status add_optimizer_run(Graph *g, PassCtx *ctx)
{
    Optimizer o = { .g = g, .opt = ctx->opt };
    uint32_t before = g->n_node;

    if (follows_file(ctx->opt))
        return ST_OK;
    TRY(take_groups(&o));
    TRY(add_optimizer_collect(&o, ctx->scratch));
    for (int i = 0; i < o.n; i++)
        player_of(&o, o.pair[i].group)->any = true;
    TRY(check_groups(&o, ctx->scratch, ctx->report));
    TRY(note_hidden(&o, ctx->report));
    if (!step_options(ctx->opt)->keep_gradients)
        drop_gradient_outputs(g);
    graph_begin_purpose(g, PHASE_UPDATE, "factor of gradients");
    switch (build_mode(ctx->opt)) {
    case BUILD_ACCUMULATE: TRY(accumulate(&o, ctx->scratch)); break;
    case BUILD_APPLY:
    case BUILD_FINISH: TRY(add_optimizer_apply(&o, ctx->scratch)); break;
    default: TRY(emit_updates(&o, ctx->scratch));
    }
    ctx->n_changed += (int)(g->n_node - before);
    return graph_sort(g);
}

const Pass pass_add_optimizer = { .name = "add-optimizer",
                                  .summary = "append the updates of parameters and optimizer state",
                                  .modes = MODES_TRAIN,
                                  .run = add_optimizer_run };
