/* prepare-training: parameters become state, and operators that behave differently in training are told which it is.
 *
 * All modes find the same states (a session shares them between its graphs):
 *
 * - A float constant of rank >= 1 is a parameter when it stands, directly or through computation on constants alone (a
 *   transposed or tied weight), at an input that its operator declares as one (OpDef.param_in): weights and biases of Conv,
 *   Gemm, MatMul, the norms, Gather's table, PRelu's slopes.  Where it came from does not matter: some exporters keep all
 *   weights in Constant nodes.
 * - Add and Mul (OPF_PARAM_MAYBE) carry biases and scales, but as often a piece of a formula.  There a constant is taken for
 *   one of those and left alone when it is a mask (zeros and ones both and nothing else, or a number of -1e4 or less), when
 *   it has one element (unless it is added to the result of an operator with weights: a bias of one output), and when it
 *   has at most 4 and meets the model's input before any operator with weights (mean and deviation of colours).
 * - Scalars (rank 0) are none, nor is what stands at any other input: exponents, divisors, Clip's bounds, Where's branches.
 * - What matches a pattern of --freeze stays a constant.
 * - Running mean and variance of BatchNormalization are states that are not trained; its outputs 1 and 2 update them.
 *
 * In training BatchNormalization works in training mode (ONNX's default is off, and exporters leave it so) unless its
 * node, scale or running mean is frozen.  Elsewhere running statistics are used and Dropout is the identity (in training,
 * passes/key_random.c turns it on). */
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "graph/op.h"
#include "passes/pass.h"
#include "passes/report.h"

enum { FEW = 4 };       /* colour channels, with transparency */

typedef struct {
    Graph *g;
    PassCtx *ctx;
    bool *live;         /* by node index: some output needs it */
    bool *constant;     /* by value id: computed from constants alone */
    bool *raw;          /* by value id: computed from an input without any operator with weights */
    bool *param;        /* by value id: constant, and stands where a parameter does */
    bool *matched;      /* [n_freeze] */
} Prepare;

static bool training(const PassCtx *ctx)
{
    return ctx->opt->mode >= BUILD_TRAIN;
}

/* BUILD_APPLY has no batch: nothing that a batch changes is updated there. */
static bool sees_batch(const PassCtx *ctx)
{
    return ctx->opt->mode == BUILD_TRAIN || ctx->opt->mode == BUILD_ACCUMULATE;
}

static bool frozen(Prepare *p, const char *name)
{
    bool any = false;

    for (int i = 0; i < p->ctx->opt->n_freeze; i++)
        if (!fnmatch(p->ctx->opt->freeze[i], name, 0))
            any = p->matched[i] = true;
    return any;
}

/* ---- facts about values ---- */

static bool has_weights(const Node *n)
{
    return n->op->param_in && !(n->op->flags & OPF_PARAM_MAYBE);
}

static void find_live(Prepare *p)
{
    const Graph *g = p->g;

    for (int i = 0; i < g->n_output; i++)
        if (value(g, g->output[i].value)->producer)
            p->live[value(g, g->output[i].value)->producer->index] = true;
    for (uint32_t i = g->n_node; i-- > 0;) {
        const Node *n = g->node[i];

        for (int k = 0; n->op && p->live[i] && k < n->n_in; k++)
            if (has_value(n->in[k]) && in_value(g, n, k)->producer)
                p->live[in_value(g, n, k)->producer->index] = true;
    }
}

static void find_origins(Prepare *p)
{
    const Graph *g = p->g;

    for (uint32_t i = 1; i < g->n_value; i++) {
        p->constant[i] = g->value[i]->kind == V_CONST;
        p->raw[i] = g->value[i]->kind == V_INPUT;
    }
    FOR_NODES(g, n) {
        bool constant = n->n_in > 0 && !(n->op->flags & OPF_RANDOM), raw = !has_weights(n), any_raw = false;

        for (int k = 0; k < n->n_in; k++) {
            if (!has_value(n->in[k]))
                continue;
            constant &= p->constant[n->in[k].i];
            raw &= p->constant[n->in[k].i] || p->raw[n->in[k].i];
            any_raw |= p->raw[n->in[k].i];
        }
        for (int k = 0; k < n->n_out; k++) {
            p->constant[n->out[k].i] = constant;
            p->raw[n->out[k].i] = raw && any_raw;
        }
    }
}

static bool is_mask(const Tensor *t)
{
    bool zero = false, one = false, other = false;

    for (int64_t i = 0; t && i < tensor_numel(t); i++) {
        double v = tensor_float(t, i);

        if (v <= -1e4)
            return true;
        zero |= v == 0;
        one |= v == 1;
        other |= v != 0 && v != 1;
    }
    return zero && one && !other;
}

/* Constant `i` of an Add or Mul is a bias or a scale, as far as one can tell. */
static bool looks_trained(const Prepare *p, const Node *n, int i)
{
    const Value *c = in_value(p->g, n, i), *x = n->n_in == 2 ? in_value(p->g, n, 1 - i) : NULL;
    int64_t count = shape_known(&c->shape) ? shape_numel(&c->shape) : -1;
    bool after_weights = x && x->producer && has_weights(x->producer);

    if (count == 1)
        return n->op == &op_Add && after_weights;
    if (count <= FEW && x && p->raw[n->in[1 - i].i])
        return false;
    return !is_mask(c->init);
}

/* ---- parameters ---- */

static bool param_slot(const Prepare *p, const Node *n, int i)
{
    if (!(i < 8 && n->op->param_in >> i & 1))
        return false;
    return !(n->op->flags & OPF_PARAM_MAYBE) || looks_trained(p, n, i);
}

static bool feeds_param(const Prepare *p, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && p->param[n->out[i].i])
            return true;
    return false;
}

/* Of a float type, not a scalar, and known throughout before the step. */
static bool may_be_param(const Prepare *p, ValueId v)
{
    return has_value(v) && p->constant[v.i] && dtype_is_float(value(p->g, v)->dtype) && value(p->g, v)->shape.rank != 0;
}

/* Backwards: what is computed from constants into a parameter's place hands the role on to its inputs. */
static void find_params(Prepare *p)
{
    for (uint32_t i = p->g->n_node; i-- > 0;) {
        const Node *n = p->g->node[i];
        bool through = n->op && p->live[i] && feeds_param(p, n);

        for (int k = 0; n->op && p->live[i] && k < n->n_in; k++) {
            if (!may_be_param(p, n->in[k]))
                continue;
            if (param_slot(p, n, k) || (through && shape_numel(&in_value(p->g, n, k)->shape) != 1))
                p->param[n->in[k].i] = true;
        }
    }
}

static void make_params(Prepare *p)
{
    for (uint32_t i = 1; i < p->g->n_value; i++) {
        Value *v = p->g->value[i];

        if (v->kind != V_CONST || !p->param[i] || frozen(p, v->name))
            continue;
        v->kind = V_STATE;
        v->trainable = true;
        p->ctx->n_changed++;
    }
}

/* ---- batch-norm ---- */

static bool is_batchnorm(const Node *n)
{
    return n->op == &op_BatchNormalization;
}

static Status add_output(Graph *g, Node *n, int i, const char *name)
{
    Shape unknown = shape_unknown();
    ValueId *grown;

    if (has_out(n, i))
        return ST_OK;
    if (!(grown = ARENA_NEW(g->arena, ValueId, i + 1 > n->n_out ? i + 1 : n->n_out)))
        return FAIL_NOMEM();
    memcpy(grown, n->out, (size_t)n->n_out * sizeof *grown);
    n->out = grown;
    n->n_out = i + 1 > n->n_out ? i + 1 : n->n_out;
    n->out[i] = graph_add_value(g, V_TEMP, name, DT_NONE, &unknown);
    TRY(g->status);
    value(g, n->out[i])->producer = n;
    value(g, n->out[i])->out_index = i;
    return ST_OK;
}

static int find_update(const Graph *g, ValueId state)
{
    for (int i = 0; i < g->n_update; i++)
        if (value_eq(g->update[i].state, state))
            return i;
    return -1;
}

/* Statistics used by two layers are updated by one after the other, as a framework that calls a module twice does. */
static Status update_statistic(Graph *g, Node *n, int in, int out)
{
    ValueId state = n->in[in];
    int before = find_update(g, state);

    TRY(add_output(g, n, out, arena_printf(g->arena, "%s.next", value(g, state)->name)));
    if (before < 0) {
        graph_add_update(g, state, n->out[out]);
    } else {
        node_set_input(g, n, in, g->update[before].next);
        g->update[before].next = n->out[out];
    }
    return g->status;
}

static Status train_batchnorm(Prepare *p, Node *n)
{
    node_set_int(p->g, n, "training_mode", 1);
    node_set_int(p->g, n, "sync", !p->ctx->opt->bn_local);
    node_set_int(p->g, n, "unbiased", p->ctx->opt->bn_unbiased);
    if (sees_batch(p->ctx)) {
        TRY(update_statistic(p->g, n, 3, 1));
        TRY(update_statistic(p->g, n, 4, 2));
    }
    p->ctx->n_changed++;
    return node_infer(p->g, n);
}

static Status freeze_batchnorm(Prepare *p, Node *n)
{
    p->ctx->n_changed += node_int(n, "training_mode") != 0;
    node_set_int(p->g, n, "training_mode", 0);
    for (int i = 1; i < n->n_out; i++)
        if (has_out(n, i))
            graph_replace(p->g, n->out[i], i < 3 ? n->in[i + 2] : NO_VALUE);
    n->n_out = 1;
    return node_infer(p->g, n);
}

static bool make_statistic(Prepare *p, ValueId v)
{
    if (value(p->g, v)->kind == V_CONST)
        value(p->g, v)->kind = V_STATE;
    return value(p->g, v)->kind == V_STATE && !value(p->g, v)->trainable;
}

static Status prepare_batchnorm(Prepare *p, Node *n)
{
    const Value *scale = in_value(p->g, n, 1), *mean = in_value(p->g, n, 3);
    int named = frozen(p, n->name) + frozen(p, scale->name) + frozen(p, mean->name);   /* all are asked: each marks what matched */
    bool freeze = named > 0;

    if (freeze || !make_statistic(p, n->in[3]) || !make_statistic(p, n->in[4]))
        return freeze_batchnorm(p, n);
    return training(p->ctx) ? train_batchnorm(p, n) : freeze_batchnorm(p, n);
}

/* ---- what the user should know ---- */

/* Exporters in evaluation mode merge BatchNormalization into the weights and bias of the convolution before it. */
static Status note_folded(const Prepare *p)
{
    const Graph *g = p->g;
    int n_conv = 0, n_biased = 0, n_rectified = 0;

    FOR_NODES(g, n) {
        if (is_batchnorm(n))
            return ST_OK;
        n_conv += n->op == &op_Conv;
        n_biased += n->op == &op_Conv && has_in(n, 2);
        if ((n->op == &op_Relu || n->op == &op_Clip) && in_value(g, n, 0)->producer && in_value(g, n, 0)->producer->op == &op_Conv)
            n_rectified++;
    }
    if (!n_rectified || n_biased != n_conv)
        return ST_OK;
    return report_note(p->ctx->report, NOTE_OTHER, g->name,
                       "no batch normalisation found; if the model had any, the exporter folded it into its %d convolutions, and "
                       "it is trained without", n_conv);
}

static Status note_structural(const Prepare *p)
{
    char text[SHAPE_TEXT];

    FOR_NODES(p->g, n)
        for (int i = 0; i < n->n_in && n->op->flags & OPF_PARAM_MAYBE; i++) {
            const Value *c = has_in(n, i) ? in_value(p->g, n, i) : NULL;

            if (c && c->kind == V_CONST && dtype_is_float(c->dtype) && shape_known(&c->shape) && shape_numel(&c->shape) > 1 &&
                !p->param[n->in[i].i])
                TRY(report_note(p->ctx->report, NOTE_OTHER, c->name, "constant %s of %s looks like part of the formula: not trained",
                                shape_text(&c->shape, text), node_text(p->g, n)));
        }
    return ST_OK;
}

static Status check_patterns(const Prepare *p)
{
    for (int i = 0; i < p->ctx->opt->n_freeze; i++)
        if (!p->matched[i])
            return FAIL(E_INVALID, "--freeze '%s' matches no parameter", p->ctx->opt->freeze[i]);
    return ST_OK;
}

static Status run(Graph *g, PassCtx *ctx)
{
    Prepare p = { .g = g, .ctx = ctx };
    uint32_t n_node = g->n_node;

    p.live = ARENA_NEW(ctx->scratch, bool, g->n_node);
    p.constant = ARENA_NEW(ctx->scratch, bool, g->n_value);
    p.raw = ARENA_NEW(ctx->scratch, bool, g->n_value);
    p.param = ARENA_NEW(ctx->scratch, bool, g->n_value);
    p.matched = ARENA_NEW(ctx->scratch, bool, ctx->opt->n_freeze);
    if (!p.live || !p.constant || !p.raw || !p.param || !p.matched)
        return FAIL_NOMEM();
    find_live(&p);
    find_origins(&p);
    find_params(&p);
    make_params(&p);
    for (uint32_t i = 0; i < n_node; i++)
        if (g->node[i]->op && is_batchnorm(g->node[i]))
            TRY(prepare_batchnorm(&p, g->node[i]));
    if (!sees_batch(ctx))
        FOR_NODES(g, n)
            if (n->op == &op_Dropout && n->n_in > 2)
                n->n_in = 2;                    /* without a mode it is the identity */
    TRY(check_patterns(&p));
    TRY(note_folded(&p));
    TRY(note_structural(&p));
    return graph_sort(g);
}

const Pass pass_prepare_training = { .name = "prepare-training", .summary = "make parameters state, set training or evaluation mode",
                                     .run = run };
