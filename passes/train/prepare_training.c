/* prepare-training: sets the mode of operators that behave differently in training (OpDef.train).
 *
 * Running statistics (OpDef.running_in) are states that are not trained; the node updates them.  In training a
 * batch-norm works in training mode (ONNX's default is off, and exporters leave it so) unless
 *
 * - its node, running mean or running variance matches --freeze (or --train: then it does in any case);
 * - the file has others in training mode and not this one: a file that gives the mode of some gives that of all.  The
 *   mode is in the attribute, or in the call of PyTorch's program (graph/ir/traced_calls.h), which default exports
 *   name;
 * - its scale and bias are buffers by the file, which PyTorch's frozen layers have;
 * - its running statistics are fixed by the file: an export of ours, whose training had kept them.
 *
 * Otherwise running statistics are used, and random operators are the identity (in training, passes/train/key_random.c
 * turns them on).  passes/model/parameters.c decided before which tensors are parameters. */
#include <math.h>
#include <string.h>

#include "graph/ir/rewrite.h"
#include "graph/ir/traced_calls.h"
#include "passes/model/parameters.h"
#include "passes/options/batch_norm.h"
#include "passes/options/step.h"

typedef struct {
    Graph *g;
    PassCtx *ctx;
    int *update_of;           /* [value] 1 + the update of the state, 0: none */
    const char *last, *never; /* first node whose statistics are the last batch's, or never change (by its momentum) */
    int n_odd;
    const char *slow; /* first node whose statistics stay those of a fresh network, of n_slow; the share that stays */
    int n_slow;
    double kept;
    bool some_train; /* the file has batch-norms in training mode */
    int n_evaluated; /* batch-norms in evaluation mode by their calls that are trained, as all of the file's */
    const char *first_evaluated; /* the first */
} Prepare;

static bool training(const PassCtx *ctx) { return build_mode(ctx->opt) >= BUILD_TRAIN; }

/* BUILD_APPLY has no batch: nothing that a batch changes is updated there. */
static bool sees_batch(const PassCtx *ctx) { return mode_in(ctx->opt, MODES_LEARN); }

/* ---- running statistics ---- */

static Status prepare_training_add_output(Graph *g, Node *n, int i, const char *name)
{
    Shape unknown = shape_unknown();

    if (!has_out(n, i))
        node_set_output(g, n, i, graph_add_value(g, V_TEMP, name, DT_NONE, &unknown));
    return g->status;
}

/* Statistics used by two layers are updated by one after the other, as a framework that calls a module twice does. */
static Status update_statistic(Prepare *p, Node *n, int in, int out)
{
    Graph *g = p->g;
    ValueId state = n->in[in];
    const char *name = arena_printf(g->arena, "%s.next", value(g, state)->name);
    int *update = &p->update_of[state.i];

    if (!name)
        return FAIL_NOMEM();
    TRY(prepare_training_add_output(g, n, out, name));
    if (!*update) {
        graph_add_update(g, state, n->out[out]);
        *update = g->n_update;
    } else {
        node_set_input(g, n, in, g->update[*update - 1].next);
        g->update[*update - 1].next = n->out[out];
    }
    return g->status;
}

static bool is_running(const Node *n, int i) { return i < 8 && n->op->running_in >> i & 1; }

/* The user's rule for the node, by its name or a statistic's. */
static PatternRule rule_of(const Prepare *p, const Node *n)
{
    PatternRule rule = pattern_rule(p->ctx->opt, n->name, NULL);

    for (int i = 0; i < n->n_in && rule != PATTERN_FREEZE; i++) {
        const PatternRule own =
            is_running(n, i) ? pattern_rule(p->ctx->opt, in_value(p->g, n, i)->name, NULL) : PATTERN_SILENT;

        rule = own != PATTERN_SILENT ? own : rule;
    }
    return rule;
}

/* The mode in which the file has the node. */
static NormMode mode_of(const Node *n)
{
    return n->op->trains && n->op->trains(n) ? NORM_TRAINING : call_norm(n->call);
}

/* Does the file mark scale and bias as buffers, or the statistics as fixed? */
static bool prepare_training_is_fixed(const Prepare *p, const Node *n)
{
    int parameters = 0, buffers = 0;

    for (int i = 0; i < n->n_in && i < 8; i++) {
        if (is_running(n, i) && in_value(p->g, n, i)->evidence == EVIDENCE_FIXED)
            return true;
        parameters += n->op->param_in >> i & 1;
        buffers += n->op->param_in >> i & 1 && in_value(p->g, n, i)->evidence == EVIDENCE_BUFFER;
    }
    return parameters && buffers == parameters;
}

/* Makes the running statistics states; false if training may not update one of them. */
static bool make_states(Prepare *p, const Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        Value *v = value(p->g, n->in[i]);

        if (!is_running(n, i))
            continue;
        if (v->kind == V_CONST)
            v->kind = V_STATE;
        if (v->kind != V_STATE || v->trainable)
            return false;
    }
    return true;
}

/* E_UNSUPPORTED if a branch that data decide computes the statistics: they would miss batches. */
static Status check_sees_all(const Prepare *p, const Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const Node *gate = is_running(n, i) ? in_value(p->g, n, i)->producer : NULL;

        if (gate && gate->op->gradient_only_in)
            return FAIL(
                E_UNSUPPORTED,
                "%s: its branch depends on data, so its running statistics would miss batches: --freeze %s keeps them",
                node_text(p->g, n), *n->name ? n->name : in_value(p->g, gate, 0)->name);
    }
    return ST_OK;
}

/* Does the node keep its statistics although its model is trained? */
static Status keeps_statistics(bool *out, Prepare *p, const Node *n)
{
    const PatternRule rule = rule_of(p, n);
    const NormMode mode = mode_of(n);

    *out = rule == PATTERN_FREEZE;
    if (rule == PATTERN_SILENT && mode != NORM_TRAINING &&
        (prepare_training_is_fixed(p, n) || (p->some_train && n->op->trains))) {
        TRY(report_note(p->ctx->report, NOTE_OTHER, n->name, "%s: its running statistics stay as they are",
                        prepare_training_is_fixed(p, n)
                            ? "frozen, as the file says of its tensors"
                            : "in evaluation mode in a file that has others in training mode"));
        *out = true;
    }
    if (!*out && rule == PATTERN_SILENT && mode == NORM_EVALUATION && !p->n_evaluated++)
        p->first_evaluated = n->name;
    if (!*out && training(p->ctx))
        TRY(check_sees_all(p, n));
    *out = *out || !make_states(p, n);
    return ST_OK;
}

static Status update_statistics(Prepare *p, Node *n, const TrainMode *mode)
{
    int out = n->op->running_out;

    for (int i = 0; mode->batch && mode->updates && i < n->n_in; i++)
        if (is_running(n, i))
            TRY(update_statistic(p, n, i, out++));
    return node_infer(p->g, n);
}

/* Counts the nodes whose momentum is 0 or 1; ONNX's momentum weighs the old value. */
static void count_momentum(Prepare *p, const Node *n)
{
    const double momentum = node_attr(n, "momentum") ? node_float(n, "momentum") : 0.9;
    const char **first = momentum == 0 ? &p->last : &p->never;

    if (momentum != 0 && momentum != 1)
        return;
    *first = *first ? *first : n->name;
    p->n_odd++;
}

/* Notes a momentum of 0 or 1: exporters cannot express PyTorch's momentum=None, the mean of all batches. */
static Status note_momentum(const Prepare *p)
{
    const char *first = p->last ? p->last : p->never;

    if (!first)
        return ST_OK;
    return report_note(p->ctx->report, NOTE_EXPORTER, "the exporter",
                       "batch normalisation '%s'%s has momentum %d: %s; PyTorch's momentum=None, the mean of all "
                       "batches, is exported like this (docs/guide/export.md)",
                       first, p->n_odd > 1 ? " and others" : "", p->last ? 0 : 1,
                       p->last ? "its running statistics are those of the last batch alone"
                               : "its running statistics never follow the batches");
}

/* Counts the nodes that have a momentum for long runs, as MobileNetV3's 0.99, and keep more than a tenth of the
 * statistics of a fresh network, all means 0 and variances 1, until this run is over. */
static void count_slow(Prepare *p, const Node *n)
{
    const int64_t steps = step_options(p->ctx->opt)->total_steps;
    const double momentum = node_attr(n, "momentum") ? node_float(n, "momentum") : 0.9;
    const double kept = pow(momentum, (double)steps);

    if (!steps || momentum < 0.95 || momentum == 1 || kept <= 0.1 || build_mode(p->ctx->opt) != BUILD_TRAIN)
        return; /* micro-batches of BUILD_ACCUMULATE update them more often */
    for (int i = 0; i < n->n_in; i++)
        if (is_running(n, i) && (!in_value(p->g, n, i)->init || !tensor_is_filled(in_value(p->g, n, i)->init)))
            return;
    p->slow = p->slow ? p->slow : n->name;
    p->kept = kept > p->kept ? kept : p->kept;
    p->n_slow++;
}

static Status note_slow(const Prepare *p)
{
    const long long steps = step_options(p->ctx->opt)->total_steps;

    if (!p->slow)
        return ST_OK;
    return report_note(
        p->ctx->report, NOTE_EXPORTER, "the model",
        "batch normalisation '%s'%s: after %lld step%s its running statistics are still %.0f %% those of "
        "the new network, by its momentum, and evaluation takes them: train longer, or export the model "
        "with a larger momentum (docs/guide/export.md)",
        p->slow, p->n_slow > 1 ? " and others" : "", steps, steps == 1 ? "" : "s", 100 * p->kept);
}

static Status prepare_node(Prepare *p, Node *n)
{
    const BuildOptions *opt = p->ctx->opt;
    const BatchNormOptions *norms = batch_norm_options(opt);
    const int replicas = replica_count(opt);
    const bool sets = replicas > 1 && (norms->bn == BN_AVERAGE || (norms->bn == BN_LOCAL && norms->own_buffers));
    const bool groups = norms->bn_group > 1 && norms->bn_group < replicas;
    TrainMode mode = { .batch = training(p->ctx),
                       .updates = sees_batch(p->ctx),
                       .sync = norms->bn == BN_SYNC && !groups && norms->bn_group != 1,
                       .group = groups ? norms->bn_group : 0,
                       .unbiased = norms->bn_unbiased,
                       .clamp = norms->bn_clamp && replicas > 1,
                       .sets = sets ? replicas : 0,
                       .average = norms->bn == BN_AVERAGE };
    bool keeps = false;

    if (n->op->running_in) {
        TRY(keeps_statistics(&keeps, p, n));
        p->ctx->n_changed += (n->op->trains && n->op->trains(n)) || (mode.batch && !keeps);
    }
    if (keeps)
        mode = (TrainMode){ 0 };
    else if (n->op->running_in && mode.batch && mode.updates)
        count_momentum(p, n);
    if (!keeps && n->op->running_in && mode.batch && mode.updates)
        count_slow(p, n);
    graph_begin_purpose(p->g, n->phase, n->name);
    TRY(n->op->train(p->g, n, &mode));
    return n->op->running_in ? update_statistics(p, n, &mode) : ST_OK;
}

static bool has_training(const Graph *g)
{
    FOR_NODES(g, n)
        if (n->op->running_in && mode_of(n) == NORM_TRAINING)
            return true;
    return false;
}

/* Notes that the exported batch-norms are put into training mode: a network whose batch-norms are all frozen exports to
 * the same file as one in evaluation mode. */
static Status note_evaluated(const Prepare *p)
{
    if (!p->n_evaluated || !training(p->ctx))
        return ST_OK;
    return report_note(p->ctx->report, NOTE_OTHER, p->first_evaluated,
                       "%s exported in evaluation mode, and put into training mode; --freeze keeps what was frozen",
                       p->n_evaluated > 1 ? "this and all other batch-norms were" : "this batch-norm was");
}

/* Warns that the exporter folded a batch-norm in training mode into weights, which changes the network. */
static Status note_folded(const Prepare *p)
{
    FOR_NODES(p->g, n)
        if (training(p->ctx) && !n->op->running_in && n->op->param_in && !(n->op->flags & OPF_PARAM_MAYBE) &&
            call_norm(n->call) == NORM_TRAINING)
            TRY(report_note(p->ctx->report, NOTE_EXPORTER, n->name,
                            "a batch-norm in training mode was folded into its weights by the exporter: it is trained "
                            "without; export with optimize=False (docs/guide/export.md)"));
    return ST_OK;
}

/* Warns that the exporter dropped running statistics, by which PyTorch's layer evaluates. */
static Status note_lost(const Prepare *p)
{
    FOR_NODES(p->g, n)
        if (training(p->ctx) && call_has_statistics(n->call))
            TRY(report_note(p->ctx->report, NOTE_EXPORTER, n->name,
                            "the exporter dropped the running statistics of this instance norm (track_running_stats): "
                            "training has no use for them, but evaluation takes each sample's own, which PyTorch does "
                            "not do (docs/guide/export.md)"));
    return ST_OK;
}

static Status prepare_training_run(Graph *g, PassCtx *ctx)
{
    Prepare p = { .g = g, .ctx = ctx, .some_train = has_training(g) };
    uint32_t n_node = g->n_node;

    if (follows_file(ctx->opt) && build_mode(ctx->opt) == BUILD_TRAIN)
        return ST_OK; /* the file gives the modes and updates of its step */
    if (step_options(ctx->opt)->file_modes &&
        (build_mode(ctx->opt) == BUILD_INFER || build_mode(ctx->opt) == BUILD_PREDICT))
        return ST_OK;
    if (!(p.update_of = ARENA_NEW(ctx->scratch, int, g->n_value)))
        return FAIL_NOMEM();
    for (int i = g->n_update; i-- > 0;)
        p.update_of[g->update[i].state.i] = i + 1;
    TRY(note_folded(&p));
    TRY(note_lost(&p));
    TRY(rewrite_begin(g, ctx->scratch));
    for (uint32_t i = 0; i < n_node; i++) {
        rewrite_read(g, g->node[i]);
        if (g->node[i]->op && g->node[i]->op->train)
            TRY(prepare_node(&p, g->node[i]));
    }
    TRY(rewrite_end(g));
    TRY(note_momentum(&p));
    TRY(note_slow(&p));
    TRY(note_evaluated(&p));
    return graph_sort(g);
}

const Pass pass_prepare_training = { .name = "prepare-training",
                                     .summary = "make running statistics state, set training or evaluation mode",
                                     .run = prepare_training_run };
