/* Do the nodes behind a layer follow when it gets another number of outputs?
 *
 * The shapes of the whole model are inferred for the file's number of outputs, for one more, and for the number that is
 * asked for, node by node side by side.  An axis that carries the outputs grows with their number.  A node that fails,
 * or whose result keeps the file's number, holds that number in a constant: the target of a Reshape, the sizes of a
 * Split, a scale for each class.  Numbers alone are no evidence, since 4 may be the number of heads; only a node that
 * does not follow is. */
#include <string.h>

#include "graph/ir/op.h"
#include "passes/model/head.h"
#include "passes/model/rebatch.h"
#include "passes/report.h"
#include "passes/simplify/infer_shapes.h"

/* The trial models: the file's number of outputs; one more; the number asked for; the file's, for another batch. */
enum { FILE_OUTPUTS, MORE_OUTPUTS, ASKED_OUTPUTS, OTHER_BATCH, TRIALS };

typedef struct {
    Graph *g;
    PassCtx *ctx;
    const Head *head;
    TrialModel trial[TRIALS];
    int64_t outputs[TRIALS];
    bool *behind; /* by value id: it is computed from the layer's output */
    bool unknown; /* a shape behind the layer is not known */
} Follow;

static const Shape *shape_at(const Follow *f, int trial, ValueId v) { return value(f->trial[trial].g, v)->shape; }

/* Gives the constant a number of outputs in a trial model, which reads no more of it than its shape. */
static void set_outputs(const Follow *f, int trial, const HeadPart *p)
{
    Graph *g = f->trial[trial].g;
    Value *v = value(g, p->v);
    Shape s = *v->shape;

    s.dim[p->axis] = f->outputs[trial];
    v->kind = V_INPUT;
    v->init = NULL;
    value_set_shape(g, v, &s);
}

/* A batch that a Reshape cannot take for the number of outputs. */
static int64_t trial_batch(const Follow *f)
{
    const int64_t declared = declared_batch(f->g, f->ctx->opt);

    return declared > 0 ? declared : f->head->outputs % 2 || f->head->outputs == 1 ? 2 : 3;
}

static Status open_trials(Follow *f, int64_t n)
{
    const int64_t batch = trial_batch(f);

    for (int i = 0; i < TRIALS; i++) {
        f->outputs[i] = i == MORE_OUTPUTS ? f->head->outputs + 1 : i == ASKED_OUTPUTS ? n : f->head->outputs;
        TRY(trial_open(&f->trial[i], f->g, f->ctx->opt, i == OTHER_BATCH ? batch + 3 : batch, OPEN_SIZE));
        set_outputs(f, i, &f->head->weight);
        if (f->head->bias.reader)
            set_outputs(f, i, &f->head->bias);
        TRY(f->trial[i].g->status);
    }
    return ST_OK;
}

/* The axis of v that grows with the outputs, or GROWS_. */
static int outputs_axis(const Follow *f, ValueId v)
{
    const Shape *s[OTHER_BATCH];
    int found = GROWS_NOWHERE;

    for (int i = 0; i < OTHER_BATCH; i++)
        if (!shape_known(s[i] = shape_at(f, i, v)) || s[i]->rank != s[0]->rank)
            return GROWS_OTHERWISE;
    for (int a = 0; a < s[0]->rank; a++) {
        const int64_t each = s[0]->dim[a] / f->outputs[0];

        if (s[0]->dim[a] == s[MORE_OUTPUTS]->dim[a] && s[0]->dim[a] == s[ASKED_OUTPUTS]->dim[a])
            continue;
        if (found >= 0 || each * f->outputs[0] != s[0]->dim[a] ||
            each * f->outputs[MORE_OUTPUTS] != s[MORE_OUTPUTS]->dim[a] ||
            each * f->outputs[ASKED_OUTPUTS] != s[ASKED_OUTPUTS]->dim[a])
            return GROWS_OTHERWISE;
        found = a;
    }
    return found;
}

/* Is the axis also that of the samples? */
static bool is_batch_axis(const Follow *f, ValueId v, int axis)
{
    const Shape *s = shape_at(f, FILE_OUTPUTS, v), *other = shape_at(f, OTHER_BATCH, v);

    return shape_known(other) && other->rank == s->rank && other->dim[axis] != s->dim[axis];
}

/* Does a view carry the outputs of axis `from` to axis `to`?  Elements keep their order, so an axis of k * outputs has
 * as many elements in front of it as `from`, or begins within them. */
static bool view_carries(const Follow *f, const Node *n, int from, int to)
{
    const Shape *x = shape_at(f, FILE_OUTPUTS, n->in[0]), *y = shape_at(f, FILE_OUTPUTS, n->out[0]);
    const int64_t before = shape_count(x, 0, from), front = shape_count(y, 0, to), each = y->dim[to] / f->outputs[0];

    return front > 0 && before > 0 && before % front == 0 && each % (before / front) == 0;
}

static Status fail_at_node(const Follow *f, const Node *n, const char *why)
{
    return FAIL(E_UNSUPPORTED, "--head %lld: %s, after %s, is written for %lld output%s: %s",
                (long long)f->outputs[ASKED_OUTPUTS], node_text(f->g, n), node_text(f->g, f->head->n),
                (long long)f->outputs[0], f->outputs[0] == 1 ? "" : "s", why);
}

/* Compares output i of a node that no trial has refused. */
static Status check_output(Follow *f, const Node *n, int i)
{
    const ValueId y = n->out[i];
    const int axis = outputs_axis(f, y);
    char less[SHAPE_TEXT], more[SHAPE_TEXT];
    int from = GROWS_NOWHERE;
    const char *why;

    if (!shape_known(shape_at(f, FILE_OUTPUTS, y))) {
        f->unknown = true;
        return ST_OK;
    }
    for (int k = 0; k < n->n_in; k++)
        if (has_in(n, k) && f->behind[n->in[k].i] && (!(n->op->moves || n->op->same) || op_moves(n->op, k)) &&
            outputs_axis(f, n->in[k]) >= 0)
            from = outputs_axis(f, n->in[k]);
    if (axis >= 0 && !is_batch_axis(f, y, axis) &&
        !(n->op->flags & OPF_VIEW && from >= 0 && !view_carries(f, n, from, axis)))
        return ST_OK;
    if (axis == GROWS_NOWHERE && !(from >= 0 && (n->op->moves || n->op->flags & OPF_VIEW)))
        return ST_OK; /* it sums them up, or takes the largest */
    why = arena_printf(f->ctx->scratch, "its result %s becomes %s for %lld",
                       shape_text(shape_at(f, FILE_OUTPUTS, y), less), shape_text(shape_at(f, MORE_OUTPUTS, y), more),
                       (long long)f->outputs[MORE_OUTPUTS]);
    return why ? fail_at_node(f, n, why) : FAIL_NOMEM();
}

/* Infers node i in all trial models, and compares what is behind the layer. */
static Status visit(Follow *f, uint32_t i)
{
    const Node *n = f->g->node[i];
    bool behind = n == f->head->n, known = true;

    for (int k = 0; k < n->n_in; k++)
        behind |= f->behind[n->in[k].i] && has_in(n, k);
    for (int t = 0; t < TRIALS; t++) {
        Graph *g = f->trial[t].g;
        Status st = g->node[i]->op ? infer_and_fold(g, f->ctx, g->node[i]) : ST_OK;
        const char *why;

        if (st == E_NOMEM)
            return st;
        g->status = ST_OK;
        if (st && behind && known && t != FILE_OUTPUTS && t != OTHER_BATCH)
            return (why = arena_strdup(f->ctx->scratch, status_message())) ? fail_at_node(f, n, why) : FAIL_NOMEM();
        known &= t != FILE_OUTPUTS || !st;
    }
    for (int k = 0; k < n->n_out && behind; k++) {
        if (!has_value(n->out[k]))
            continue;
        f->behind[n->out[k].i] = true;
        f->unknown |= !known;
        if (known)
            TRY(check_output(f, n, k));
    }
    return ST_OK;
}

static Status check_scores(const Follow *f, const Output *scores)
{
    char text[SHAPE_TEXT];
    const Shape *s = shape_at(f, FILE_OUTPUTS, scores->value);

    if (!shape_known(s) || outputs_axis(f, scores->value) >= 0)
        return ST_OK;
    return FAIL(E_UNSUPPORTED,
                "--head %lld: output '%s' %s has no axis for the outputs of %s: --logits NAME names another output, or "
                "--head NAME=%lld another layer",
                (long long)f->outputs[ASKED_OUTPUTS], scores->name, shape_text(s, text), node_text(f->g, f->head->n),
                (long long)f->outputs[ASKED_OUTPUTS]);
}

static Status follow_all(Follow *f, int64_t n, const Output *scores)
{
    if (!(f->behind = ARENA_NEW(f->ctx->scratch, bool, f->g->n_value)))
        return FAIL_NOMEM();
    TRY(open_trials(f, n));
    for (uint32_t i = 0; i < f->g->n_node; i++)
        if (f->g->node[i]->op)
            TRY(visit(f, i));
    if (scores)
        TRY(check_scores(f, scores));
    for (int i = 0; i < f->g->n_output; i++) {
        Output *o = &f->g->output[i];
        const int axis = f->behind[o->value.i] ? outputs_axis(f, o->value) : GROWS_NOWHERE;

        o->resized = (int8_t)(axis >= 0 ? axis + 1 : 0);
        o->new_size = axis >= 0 ? shape_at(f, ASKED_OUTPUTS, o->value)->dim[axis] : 0;
    }
    return f->unknown ? report_note(f->ctx->report, NOTE_GUESS, node_text(f->g, f->head->n),
                                    "shapes after it depend on data, so dpexec cannot tell whether nodes there hold "
                                    "its number of outputs, %lld",
                                    (long long)f->outputs[0])
                      : ST_OK;
}

Status head_follow(Graph *g, PassCtx *ctx, const Head *h, int64_t n, const Output *scores)
{
    Follow f = { .g = g, .ctx = ctx, .head = h };
    Status st = follow_all(&f, n, scores);

    for (int i = 0; i < TRIALS; i++)
        graph_free(f.trial[i].g);
    return st;
}
