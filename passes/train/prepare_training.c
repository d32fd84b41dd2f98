/* prepare-training: operators that behave differently in training are told which it is (OpDef.train).
 *
 * Running statistics (OpDef.running_in) are states that are not trained; the node updates them.  In training a
 * batch-norm works in training mode (ONNX's default is off, and exporters leave it so) unless its
 * node, running mean or running variance is frozen, or the file has others in training mode and not this one: a file
 * that says the mode of some means those of the rest.  Elsewhere running statistics are used, and what is
 * random is the identity (in training, passes/train/key_random.c turns it on).  What is a parameter was decided before
 * (passes/model/parameters.c). */
#include <string.h>

#include "graph/rewrite.h"
#include "passes/model/parameters.h"

typedef struct {
    Graph *g;
    PassCtx *ctx;
    int *update_of;           /* [value] 1 + the update of the state, 0: none */
    const char *last, *never; /* first node whose statistics are the last batch's, or never change (by its momentum) */
    int n_odd;
    bool mixed; /* the file has batch-norms in training mode, and others that are not */
} Prepare;

static bool training(const PassCtx *ctx) { return ctx->opt->mode >= BUILD_TRAIN; }

/* BUILD_APPLY has no batch: nothing that a batch changes is updated there. */
static bool sees_batch(const PassCtx *ctx) { return mode_in(ctx->opt, MODES_LEARN); }

static bool frozen(const Prepare *p, const char *name)
{
    return pattern_rule(p->ctx->opt, name, NULL) == PATTERN_FREEZE;
}

/* ---- running statistics ---- */

static Status add_output(Graph *g, Node *n, int i, const char *name)
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
    TRY(add_output(g, n, out, name));
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

/* By the name of the node, or of a statistic. */
static bool is_frozen(const Prepare *p, const Node *n)
{
    bool any = frozen(p, n->name);

    for (int i = 0; i < n->n_in; i++)
        any = any || (is_running(n, i) && frozen(p, in_value(p->g, n, i)->name));
    return any;
}

/* False where one is no state that training may update. */
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

/* Statistics that stand behind the gate of a branch would follow some of the batches. */
static Status check_sees_all(const Prepare *p, const Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const Node *gate = is_running(n, i) ? in_value(p->g, n, i)->producer : NULL;

        if (gate && gate->op->beside_in)
            return FAIL(E_UNSUPPORTED,
                        "%s: in a branch that data decide, where its running statistics would miss batches: --freeze "
                        "%s keeps them",
                        node_text(p->g, n), *n->name ? n->name : in_value(p->g, gate, 0)->name);
    }
    return ST_OK;
}

/* Does the node keep its statistics, though its model is trained? */
static Status keeps_statistics(bool *out, Prepare *p, const Node *n)
{
    *out = is_frozen(p, n);
    if (p->mixed && n->op->trains && !n->op->trains(n)) {
        TRY(report_note(p->ctx->report, NOTE_OTHER, n->name,
                        "in evaluation mode in a file that has others in training mode: its running "
                        "statistics stay as they are"));
        *out = true;
    }
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

/* ONNX's momentum weighs the old value. */
static void see_momentum(Prepare *p, const Node *n)
{
    const double momentum = node_attr(n, "momentum") ? node_float(n, "momentum") : 0.9;
    const char **first = momentum == 0 ? &p->last : &p->never;

    if (momentum != 0 && momentum != 1)
        return;
    *first = *first ? *first : n->name;
    p->n_odd++;
}

/* Exporters have no word for PyTorch's momentum=None, the mean of all batches. */
static Status note_momentum(const Prepare *p)
{
    const char *first = p->last ? p->last : p->never;

    if (!first)
        return ST_OK;
    return report_note(
        p->ctx->report, NOTE_EXPORTER, "the exporter",
        "batch normalisation '%s'%s has momentum %d: %s; PyTorch's momentum=None, the mean of all batches, "
        "arrives so (docs/export.md)",
        first, p->n_odd > 1 ? " and others" : "", p->last ? 0 : 1,
        p->last ? "its running statistics are those of the last batch alone"
                : "its running statistics never follow the batches");
}

static Status prepare_node(Prepare *p, Node *n)
{
    const BuildOptions *opt = p->ctx->opt;
    const int replicas = replica_count(opt);
    const bool sets = replicas > 1 && (opt->bn == BN_AVERAGE || (opt->bn == BN_LOCAL && opt->own_buffers));
    const bool groups = opt->bn_group > 1 && opt->bn_group < replicas;
    TrainMode mode = { .batch = training(p->ctx),
                       .updates = sees_batch(p->ctx),
                       .sync = opt->bn == BN_SYNC && !groups && opt->bn_group != 1,
                       .group = groups ? opt->bn_group : 0,
                       .unbiased = opt->bn_unbiased,
                       .clamp = opt->bn_clamp && replicas > 1,
                       .sets = sets ? replicas : 0,
                       .average = opt->bn == BN_AVERAGE };
    bool keeps = false;

    if (n->op->running_in) {
        TRY(keeps_statistics(&keeps, p, n));
        p->ctx->n_changed += (n->op->trains && n->op->trains(n)) || (mode.batch && !keeps);
    }
    if (keeps)
        mode = (TrainMode){ 0 };
    else if (n->op->running_in && mode.batch && mode.updates)
        see_momentum(p, n);
    graph_begin_purpose(p->g, n->phase, n->name);
    TRY(n->op->train(p->g, n, &mode));
    return n->op->running_in ? update_statistics(p, n, &mode) : ST_OK;
}

static bool has_mixed_modes(const Graph *g)
{
    bool has[2] = { false, false };

    FOR_NODES(g, n)
        if (n->op->running_in && n->op->trains)
            has[n->op->trains(n)] = true;
    return has[0] && has[1];
}

static Status run(Graph *g, PassCtx *ctx)
{
    Prepare p = { .g = g, .ctx = ctx, .mixed = has_mixed_modes(g) };
    uint32_t n_node = g->n_node;

    if (follows_file(ctx->opt) && ctx->opt->mode == BUILD_TRAIN)
        return ST_OK; /* the file says what of its step is in which mode, and updated how */
    if (ctx->opt->file_modes && (ctx->opt->mode == BUILD_INFER || ctx->opt->mode == BUILD_PREDICT))
        return ST_OK;
    if (!(p.update_of = ARENA_NEW(ctx->scratch, int, g->n_value)))
        return FAIL_NOMEM();
    for (int i = g->n_update; i-- > 0;)
        p.update_of[g->update[i].state.i] = i + 1;
    TRY(rewrite_begin(g, ctx->scratch));
    for (uint32_t i = 0; i < n_node; i++) {
        rewrite_read(g, g->node[i]);
        if (g->node[i]->op && g->node[i]->op->train)
            TRY(prepare_node(&p, g->node[i]));
    }
    TRY(rewrite_end(g));
    TRY(note_momentum(&p));
    return graph_sort(g);
}

const Pass pass_prepare_training = { .name = "prepare-training",
                                     .summary = "make running statistics state, set training or evaluation mode",
                                     .run = run };
