/* Recurrent and RecurrentGrad (recurrent.c) in ONNX's operators, unrolled: ONNX's RNN, GRU and LSTM return no values
 * from which a gradient could be computed.
 *
 * Each direction works on sequences that begin at step 0; for the reverse direction they are reversed before and after.
 * After the end of a sequence states stay unchanged, and Y, `saved` and gradients are zero.  Nodes with empty tensors
 * are left as they are. */
#include "graph/ops/recurrent_standard.h"

#include <math.h>

#include "graph/ir/emit.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/recurrent.h"
#include "graph/ops/sequence.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

/* One direction, and for the forward pass its operands and states. */
typedef struct {
    Graph *g;
    const Recurrence *r;
    const Node *n;
    int dir;
    DType type;
    ValueId lengths; /* int64[batch]; NO_VALUE: all sequences have full length */
    ValueId *within; /* [steps] bool[batch,1]: is the step within its sequence?  NULL without lengths */
    ValueId zero;    /* [batch,hidden] */
    ValueId wx;      /* [steps,batch,gates*hidden]: W x + Wb, sequences reversed as in turned() */
    ValueId rec, rb; /* R [gates*hidden,hidden], its bias [gates*hidden] or NO_VALUE */
    ValueId peep;    /* P [3*hidden] or NO_VALUE */
    ValueId h, c;    /* the present states */
} Way;

enum { PARTS = 11 }; /* greatest number of planes of `saved` */

/* ---- pieces ---- */

static ValueId mul(const Way *w, ValueId a, ValueId b) { return EMIT(w->g, Mul, NULL, a, b); }
static ValueId add(const Way *w, ValueId a, ValueId b) { return EMIT(w->g, Add, NULL, a, b); }

static ValueId rest_of_one(const Way *w, ValueId a) { return EMIT(w->g, Sub, NULL, emit_scalar(w->g, w->type, 1), a); }

/* a b^T */
static ValueId times_transposed(const Way *w, ValueId a, ValueId b)
{
    return EMIT(w->g, MatMul, NULL, a, emit_transpose(w->g, b, 2, (int64_t[]){ 1, 0 }));
}

/* x[i] along the first axis, which is removed. */
static ValueId item(Graph *g, ValueId x, int64_t i)
{
    return EMIT(g, Gather, ATTRS(INT("axis", 0)), x, emit_scalar(g, DT_INT64, (double)i));
}

/* Columns [from, from + count) of the last axis, in units of `hidden`. */
static ValueId columns(const Way *w, ValueId x, int64_t from, int64_t count)
{
    const int64_t last = w->g->status ? 0 : value(w->g, x)->shape->rank - 1;

    return emit_slice(w->g, x, last, from * w->r->hidden, (from + count) * w->r->hidden);
}

/* The direction's part of an input; NO_VALUE if it is absent. */
static ValueId own(const Way *w, int i) { return has_in(w->n, i) ? item(w->g, w->n->in[i], w->dir) : NO_VALUE; }
static ValueId own_or_zero(const Way *w, int i) { return has_in(w->n, i) ? own(w, i) : w->zero; }

static ValueId joined(Graph *g, int n, const ValueId *part, int64_t axis)
{
    return n == 1 ? part[0] : emit(g, &op_Concat, ATTRS(INT("axis", axis)), n, part);
}

/* n parts stacked to [n,...]. */
static ValueId stacked(Graph *g, int64_t n, const ValueId *part)
{
    ValueId *row = ARENA_NEW(g->arena, ValueId, n);

    if (!row) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < n; i++)
        row[i] = EMIT(g, Unsqueeze, NULL, part[i], emit_ints(g, 1, (int64_t[]){ 0 }));
    return joined(g, (int)n, row, 0);
}

/* Reverses sequences x[steps,batch,...] if the direction is reverse. */
static ValueId turned(const Way *w, ValueId x)
{
    if (w->g->status || !w->r->backward[w->dir])
        return x;
    if (has_value(w->lengths))
        return EMIT(w->g, ReverseSequence, NULL, x, w->lengths);
    return emit_slice_by(w->g, x, 0, -1, INT64_MIN, -1);
}

/* x for samples whose sequence contains the step, else y. */
static ValueId recurrent_standard_kept(const Way *w, int64_t step, ValueId x, ValueId y)
{
    return has_value(w->lengths) ? EMIT(w->g, Where, NULL, w->within[step], x, y) : x;
}

static Status open_way(Way *w, Graph *g, const Node *n, const Recurrence *r, int dir, int lengths)
{
    const Shape state = SHAPE(r->batch, r->hidden);

    *w = (Way){ .g = g, .r = r, .n = n, .dir = dir, .type = in_value(g, n, REC_X)->dtype };
    w->zero = emit_full(g, w->type, &state, 0);
    if (!has_in(n, lengths))
        return g->status;
    if (!(w->within = ARENA_NEW(g->arena, ValueId, r->steps)))
        return FAIL_NOMEM();
    w->lengths = emit_cast(g, n->in[lengths], DT_INT64);
    for (int64_t s = 0; s < r->steps; s++) {
        w->within[s] = EMIT(g, Greater, NULL, w->lengths, emit_scalar(g, DT_INT64, (double)s));
        w->within[s] = EMIT(g, Unsqueeze, NULL, w->within[s], emit_ints(g, 1, (int64_t[]){ 1 }));
    }
    return g->status;
}

/* ---- forward ---- */

static ValueId number(const Way *w, double v) { return emit_scalar(w->g, w->type, v); }
static ValueId times(const Way *w, ValueId x, double by) { return by == 1 ? x : mul(w, x, number(w, by)); }
static ValueId above(const Way *w, ValueId x, double v) { return EMIT(w->g, Greater, NULL, x, number(w, v)); }

static ValueId clamped(const Way *w, ValueId x, double low, double high)
{
    const ValueId least = number(w, low);

    return EMIT(w->g, Clip, NULL, x, least, number(w, high));
}

/* 1 + |x| */
static ValueId softsign_divisor(const Way *w, ValueId x)
{
    const ValueId one = number(w, 1);

    return add(w, EMIT(w->g, Abs, NULL, x), one);
}

static ValueId line(const Way *w, const Activation *a, ValueId x)
{
    const ValueId beta = number(w, a->beta);

    return add(w, times(w, x, a->alpha), beta);
}

/* activation_value without float attributes, since a file stores these as float32. */
static ValueId activated(const Way *w, const Activation *a, ValueId x)
{
    Graph *g = w->g;
    ValueId which;

    switch (a->kind) {
    case ACT_AFFINE: return line(w, a, x);
    case ACT_ELU:
        which = above(w, x, 0);
        return EMIT(g, Where, NULL, which, x, times(w, EMIT(g, Elu, NULL, x), a->alpha));
    case ACT_HARD_SIGMOID: return clamped(w, line(w, a, x), 0, 1);
    case ACT_LEAKY_RELU: which = above(w, x, 0); return EMIT(g, Where, NULL, which, x, times(w, x, a->alpha));
    case ACT_RELU: return EMIT(g, Relu, NULL, x);
    case ACT_SCALED_TANH: return times(w, EMIT(g, Tanh, NULL, times(w, x, a->beta)), a->alpha);
    case ACT_SIGMOID: return EMIT(g, Sigmoid, NULL, x);
    case ACT_SOFTPLUS: return EMIT(g, Softplus, NULL, x);
    case ACT_SOFTSIGN: return EMIT(g, Div, NULL, x, softsign_divisor(w, x));
    case ACT_TANH: return EMIT(g, Tanh, NULL, x);
    default:
        which = EMIT(g, LessOrEqual, NULL, x, number(w, a->alpha));
        return EMIT(g, Where, NULL, which, number(w, 0), x);
    }
}

static ValueId recurrent_standard_chosen(const Way *w, ValueId which, double yes, double no)
{
    const ValueId chosen = number(w, yes);

    return EMIT(w->g, Where, NULL, which, chosen, number(w, no));
}

/* activation_slope at x; y is the activation of x. */
static ValueId slope_at(const Way *w, const Activation *a, ValueId x, ValueId y)
{
    Graph *g = w->g;
    ValueId which, one;

    switch (a->kind) {
    case ACT_AFFINE: return emit_expand(g, number(w, a->alpha), g->status ? NULL : value(g, x)->shape);
    case ACT_ELU:
        which = above(w, x, 0);
        one = number(w, 1);
        return EMIT(g, Where, NULL, which, one, times(w, EMIT(g, Exp, NULL, x), a->alpha));
    case ACT_HARD_SIGMOID:
        x = line(w, a, x);
        which = above(w, x, 0);
        which = EMIT(g, And, NULL, which, EMIT(g, Less, NULL, x, number(w, 1)));
        return recurrent_standard_chosen(w, which, a->alpha, 0);
    case ACT_LEAKY_RELU: return recurrent_standard_chosen(w, above(w, x, 0), 1, a->alpha);
    case ACT_RELU: return recurrent_standard_chosen(w, above(w, x, 0), 1, 0);
    case ACT_SCALED_TANH:
        y = EMIT(g, Tanh, NULL, times(w, x, a->beta));
        return times(w, rest_of_one(w, mul(w, y, y)), a->alpha * a->beta);
    case ACT_SIGMOID: return mul(w, y, rest_of_one(w, y));
    case ACT_SOFTPLUS: return EMIT(g, Sigmoid, NULL, x);
    case ACT_SOFTSIGN: x = softsign_divisor(w, x); return EMIT(g, Reciprocal, NULL, mul(w, x, x));
    case ACT_TANH: return rest_of_one(w, mul(w, y, y));
    default: return recurrent_standard_chosen(w, above(w, x, a->alpha), 1, 0);
    }
}

/* The activation of gate `gate` at x, stored in `saved`, with its slope if `saved` has slopes.  gate == gates: h(C),
 * which is not clipped. */
static ValueId gated(const Way *w, int gate, ValueId x, ValueId *saved)
{
    Graph *g = w->g;
    const Recurrence *r = w->r;
    const Activation *a = &r->act[w->dir][recurrence_activation(r, gate)];
    const bool cell = gate == r->gates, clipped = !cell && r->clip < INFINITY;
    const ValueId in = clipped ? clamped(w, x, -r->clip, r->clip) : x;
    const ValueId y = activated(w, a, in);

    saved[cell ? LSTM_OUT : gate] = y;
    if (!r->slopes)
        return y;
    saved[r->values + gate] = slope_at(w, a, in, y);
    if (clipped) {
        x = EMIT(g, Abs, NULL, x);
        x = EMIT(g, GreaterOrEqual, NULL, x, number(w, r->clip));
        saved[r->values + gate] = EMIT(g, Where, NULL, x, number(w, 0), saved[r->values + gate]);
    }
    return y;
}

/* R h + Rb of gates [from, from + count). */
static ValueId from_state(const Way *w, ValueId h, int64_t from, int64_t count)
{
    Graph *g = w->g;
    ValueId rows = w->rec, y;

    if (count < w->r->gates)
        rows = emit_slice(g, rows, 0, from * w->r->hidden, (from + count) * w->r->hidden);
    y = times_transposed(w, h, rows);
    return has_value(w->rb) ? add(w, y, columns(w, w->rb, from, count)) : y;
}

static void step_rnn(Way *w, ValueId wx, ValueId *saved)
{
    w->h = gated(w, 0, add(w, wx, from_state(w, w->h, 0, 1)), saved);
}

static void step_gru(Way *w, ValueId wx, ValueId *saved)
{
    const ValueId rh = from_state(w, w->h, 0, 2), both = add(w, columns(w, wx, 0, 2), rh);
    const ValueId z = gated(w, GRU_Z, columns(w, both, 0, 1), saved),
                  reset = gated(w, GRU_R, columns(w, both, 1, 1), saved);
    ValueId h = columns(w, wx, 2, 1), inner, old;

    inner = w->r->before_reset ? from_state(w, w->h, 2, 1) : mul(w, reset, w->h);
    h = add(w, h, w->r->before_reset ? mul(w, reset, inner) : from_state(w, inner, 2, 1));
    h = gated(w, GRU_H, h, saved);
    saved[GRU_INNER] = inner;
    old = mul(w, z, w->h);
    w->h = add(w, mul(w, rest_of_one(w, z), h), old);
}

/* a plus the gate's peephole times the state, if there are peepholes. */
static ValueId peeped(const Way *w, ValueId a, int gate, ValueId state)
{
    return has_value(w->peep) ? add(w, a, mul(w, columns(w, w->peep, gate, 1), state)) : a;
}

static void step_lstm(Way *w, ValueId wx, ValueId *saved)
{
    const ValueId all = add(w, wx, from_state(w, w->h, 0, 4));
    ValueId a[4], new;

    for (int q = 0; q < 4; q++)
        a[q] = columns(w, all, q, 1);
    gated(w, LSTM_I, peeped(w, a[LSTM_I], LSTM_I, w->c), saved);
    gated(w, LSTM_F, peeped(w, a[LSTM_F], LSTM_F, w->c), saved);
    if (w->r->input_forget)
        saved[LSTM_F] = rest_of_one(w, saved[LSTM_I]);
    gated(w, LSTM_C, a[LSTM_C], saved);
    new = mul(w, saved[LSTM_I], saved[LSTM_C]);
    w->c = saved[LSTM_CELL] = add(w, mul(w, saved[LSTM_F], w->c), new);
    gated(w, LSTM_O, peeped(w, a[LSTM_O], LSTM_O, w->c), saved);
    gated(w, w->r->gates, w->c, saved);
    w->h = mul(w, saved[LSTM_O], saved[LSTM_OUT]);
}

/* Emits all steps -> y[steps,batch,hidden], saved[steps,batch,planes*hidden]; w->h and w->c become the last states. */
static Status recurrent_standard_walk(Way *w, ValueId *y, ValueId *saved)
{
    static void (*const steps[])(Way *, ValueId,
                                 ValueId *) = { [CELL_RNN] = step_rnn, [CELL_GRU] = step_gru, [CELL_LSTM] = step_lstm };
    const int64_t n = w->r->steps;
    ValueId *ys = ARENA_NEW(w->g->arena, ValueId, n), *rows = ARENA_NEW(w->g->arena, ValueId, n);
    const ValueId nought = emit_scalar(w->g, w->type, 0);

    if (!ys || !rows)
        return FAIL_NOMEM();
    for (int64_t s = 0; s < n; s++) {
        const ValueId h = w->h, c = w->c;
        ValueId part[PARTS] = { NO_VALUE };

        steps[w->r->cell](w, item(w->g, w->wx, s), part);
        rows[s] = recurrent_standard_kept(w, s, joined(w->g, w->r->planes, part, 1), nought);
        ys[s] = recurrent_standard_kept(w, s, w->h, nought);
        w->h = recurrent_standard_kept(w, s, w->h, h);
        if (w->r->cell == CELL_LSTM)
            w->c = recurrent_standard_kept(w, s, w->c, c);
        TRY(w->g->status);
    }
    *y = turned(w, stacked(w->g, n, ys));
    *saved = turned(w, stacked(w->g, n, rows));
    return w->g->status;
}

static bool declines(const Recurrence *r) { return !r->steps || !r->batch || !r->inputs; }

Status recurrent_standard(Graph *g, Node *n)
{
    ValueId y[2], saved[2], h[2], last[2];
    Recurrence r;

    recurrence_read(&r, g, n);
    if (declines(&r))
        return ST_OK;
    for (int d = 0; d < r.dirs; d++) {
        ValueId bias, weights;
        Way w;

        TRY(open_way(&w, g, n, &r, d, REC_LENS));
        bias = own(&w, REC_B);
        w.rec = own(&w, REC_R);
        w.peep = own(&w, REC_P);
        w.h = own_or_zero(&w, REC_H0);
        w.c = own_or_zero(&w, REC_C0);
        weights = own(&w, REC_W);
        w.wx = times_transposed(&w, turned(&w, n->in[REC_X]), weights);
        if (has_value(bias)) {
            w.wx = add(&w, w.wx, columns(&w, bias, 0, r.gates));
            w.rb = columns(&w, bias, r.gates, r.gates);
        }
        TRY(g->status);
        TRY(recurrent_standard_walk(&w, &y[d], &saved[d]));
        y[d] = EMIT(g, Unsqueeze, NULL, y[d], emit_ints(g, 1, (int64_t[]){ 1 }));
        h[d] = w.h;
        last[d] = w.c;
    }
    if (has_out(n, REC_Y))
        graph_replace(g, n->out[REC_Y], joined(g, r.dirs, y, 1));
    if (has_out(n, REC_YH))
        graph_replace(g, n->out[REC_YH], stacked(g, r.dirs, h));
    if (has_out(n, REC_YC))
        graph_replace(g, n->out[REC_YC], stacked(g, r.dirs, last));
    if (has_out(n, REC_SAVED))
        graph_replace(g, n->out[REC_SAVED], stacked(g, r.dirs, saved));
    return g->status;
}

/* ---- backward ---- */

/* A direction's sequences, reversed as in turned(), and gradients of all steps.  Of the present step: saved values, the
 * states before it, and gradients by W x + Wb and by R h + Rb of each gate, by the states and by the peepholes. */
typedef struct {
    ValueId x, y, saved, dy;
    ValueId *of_w, *of_r, *before, *inner, *dp; /* [steps] */
    ValueId part[PARTS], h, c;
    ValueId by_w[4], by_r[4], dh, dc, by_peep;
} Tape;

/* The gradient by a gate's argument, from dy, the gradient by its value. */
static ValueId through_gate(const Way *w, const Tape *t, int gate, ValueId dy)
{
    const Recurrence *r = w->r;
    const ValueId y = t->part[gate == r->gates ? LSTM_OUT : gate];

    if (r->slopes)
        return mul(w, dy, t->part[r->values + gate]);
    if (r->act[w->dir][recurrence_activation(r, gate)].kind == ACT_RELU) {
        const ValueId positive = above(w, y, 0);

        return EMIT(w->g, Where, NULL, positive, dy, number(w, 0));
    }
    return mul(w, dy, slope_at(w, &r->act[w->dir][recurrence_activation(r, gate)], NO_VALUE, y));
}

/* The gradient by the state through R's rows of gates [from, from + count). */
static ValueId through_state(const Way *w, const ValueId *of_r, int64_t from, int64_t count)
{
    Graph *g = w->g;
    ValueId rec = w->rec;
    ValueId d = joined(g, (int)count, of_r + from, 1);

    if (count < w->r->gates)
        rec = emit_slice(g, rec, 0, from * w->r->hidden, (from + count) * w->r->hidden);
    return EMIT(g, MatMul, NULL, d, rec);
}

static void back_gru(const Way *w, Tape *t)
{
    const ValueId z = t->part[GRU_Z], reset = t->part[GRU_R], d = t->dh;
    const ValueId by_h = through_gate(w, t, GRU_H, mul(w, d, rest_of_one(w, z)));
    const ValueId apart = EMIT(w->g, Sub, NULL, t->h, t->part[GRU_H]);
    ValueId by_reset, inner;

    t->dh = mul(w, d, z);
    t->by_w[GRU_H] = t->by_r[GRU_H] = by_h;
    t->by_w[GRU_Z] = t->by_r[GRU_Z] = through_gate(w, t, GRU_Z, mul(w, d, apart));
    if (w->r->before_reset) {
        by_reset = mul(w, by_h, t->part[GRU_INNER]);
        t->by_r[GRU_H] = mul(w, by_h, reset);
    } else {
        inner = through_state(w, t->by_r, GRU_H, 1);
        by_reset = mul(w, inner, t->h);
        t->dh = add(w, t->dh, mul(w, inner, reset));
    }
    t->by_w[GRU_R] = t->by_r[GRU_R] = through_gate(w, t, GRU_R, by_reset);
    t->dh = add(w, t->dh, through_state(w, t->by_r, 0, w->r->before_reset ? 3 : 2));
}

static void back_lstm(const Way *w, Tape *t)
{
    const ValueId *part = t->part;
    const ValueId by_o = through_gate(w, t, LSTM_O, mul(w, t->dh, part[LSTM_OUT]));
    ValueId all = through_gate(w, t, w->r->gates, mul(w, t->dh, part[LSTM_O])), d, by_peep[3];

    all = add(w, t->dc, all);
    if (has_value(w->peep))
        all = add(w, all, mul(w, by_o, columns(w, w->peep, LSTM_O, 1)));
    d = w->r->input_forget ? EMIT(w->g, Sub, NULL, part[LSTM_C], t->c) : part[LSTM_C];
    t->by_w[LSTM_I] = through_gate(w, t, LSTM_I, mul(w, all, d));
    t->by_w[LSTM_O] = by_o;
    t->by_w[LSTM_F] = w->r->input_forget ? w->zero : through_gate(w, t, LSTM_F, mul(w, all, t->c));
    t->by_w[LSTM_C] = through_gate(w, t, LSTM_C, mul(w, all, part[LSTM_I]));
    t->dc = mul(w, all, part[LSTM_F]);
    for (int q = 0; q < 4; q++)
        t->by_r[q] = t->by_w[q];
    t->dh = through_state(w, t->by_r, 0, 4);
    if (!has_value(w->peep))
        return;
    t->dc = add(w, t->dc, mul(w, t->by_w[LSTM_I], columns(w, w->peep, LSTM_I, 1)));
    t->dc = add(w, t->dc, mul(w, t->by_w[LSTM_F], columns(w, w->peep, LSTM_F, 1)));
    by_peep[0] = mul(w, t->by_w[LSTM_I], t->c);
    by_peep[1] = mul(w, by_o, part[LSTM_CELL]);
    by_peep[2] = mul(w, t->by_w[LSTM_F], t->c);
    t->by_peep = joined(w->g, 3, by_peep, 1);
}

static Status open_tape(Tape *t, Way *w)
{
    Graph *g = w->g;
    const int64_t n = w->r->steps;
    ValueId dy = w->n->in[RECG_DY];
    ValueId **lists[] = { &t->of_w, &t->of_r, &t->before, &t->inner, &t->dp };

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!(*lists[i] = ARENA_NEW(g->arena, ValueId, n)))
            return FAIL_NOMEM();
    t->x = turned(w, w->n->in[RECG_X]);
    t->y = turned(w, EMIT(g, Gather, ATTRS(INT("axis", 1)), w->n->in[RECG_Y], emit_scalar(g, DT_INT64, w->dir)));
    t->saved = turned(w, own(w, RECG_SAVED));
    t->dy = NO_VALUE;
    if (has_in(w->n, RECG_DY))
        t->dy = turned(w, EMIT(g, Gather, ATTRS(INT("axis", 1)), dy, emit_scalar(g, DT_INT64, w->dir)));
    w->rec = own(w, RECG_R);
    w->peep = own(w, RECG_P);
    t->dh = own_or_zero(w, RECG_DYH);
    t->dc = own_or_zero(w, RECG_DYC);
    return g->status;
}

static void step_back(const Way *w, Tape *t, int64_t s)
{
    Graph *g = w->g;
    const ValueId saved = item(g, t->saved, s), nought = emit_scalar(g, w->type, 0);
    const ValueId dh = t->dh, dc = t->dc;

    for (int i = 0; i < w->r->planes; i++)
        t->part[i] = columns(w, saved, i, 1);
    t->by_peep = NO_VALUE;
    t->h = t->before[s] = s ? item(g, t->y, s - 1) : own_or_zero(w, RECG_H0);
    if (has_value(t->dy))
        t->dh = add(w, t->dh, item(g, t->dy, s));
    if (w->r->cell == CELL_LSTM) {
        t->c = s ? columns(w, item(g, t->saved, s - 1), LSTM_CELL, 1) : own_or_zero(w, RECG_C0);
        back_lstm(w, t);
        t->dc = recurrent_standard_kept(w, s, t->dc, dc);
    } else if (w->r->cell == CELL_GRU)
        back_gru(w, t);
    else {
        t->by_w[0] = t->by_r[0] = through_gate(w, t, 0, t->dh);
        t->dh = through_state(w, t->by_r, 0, 1);
    }
    t->dh = recurrent_standard_kept(w, s, t->dh, dh);
    t->of_w[s] = recurrent_standard_kept(w, s, joined(g, w->r->gates, t->by_w, 1), nought);
    t->of_r[s] = recurrent_standard_kept(w, s, joined(g, w->r->gates, t->by_r, 1), nought);
    t->inner[s] = w->r->cell == CELL_GRU && !w->r->before_reset ? t->part[GRU_INNER] : NO_VALUE;
    t->dp[s] = has_value(t->by_peep) ? recurrent_standard_kept(w, s, t->by_peep, nought) : NO_VALUE;
}

/* x[steps,batch,n] as [steps*batch,n]. */
static ValueId recurrent_standard_rows_of(Graph *g, ValueId x)
{
    const Shape *s = g->status ? NULL : value(g, x)->shape;
    const Shape rows = s ? SHAPE(shape_rows(s), shape_columns(s)) : shape_scalar();

    return emit_reshape(g, x, &rows);
}

/* a^T b */
static ValueId transposed_times(const Way *w, ValueId a, ValueId b)
{
    return EMIT(w->g, MatMul, NULL, emit_transpose(w->g, a, 2, (int64_t[]){ 1, 0 }), b);
}

static void recurrent_standard_gather(const Way *w, const Tape *t, ValueId d[RECG_OUTPUTS])
{
    Graph *g = w->g;
    const int64_t n = w->r->steps, zero = 0;
    const ValueId of_w = stacked(g, n, t->of_w), of_r = stacked(g, n, t->of_r);
    const ValueId a = recurrent_standard_rows_of(g, of_w), b = recurrent_standard_rows_of(g, of_r),
                  h = recurrent_standard_rows_of(g, stacked(g, n, t->before));
    ValueId part[2];

    d[RECG_DX] = turned(w, EMIT(g, MatMul, NULL, of_w, own(w, RECG_W)));
    d[RECG_DW] = transposed_times(w, a, recurrent_standard_rows_of(g, t->x));
    if (has_value(t->inner[0])) {
        part[0] = transposed_times(w, columns(w, b, 0, 2), h);
        part[1] = recurrent_standard_rows_of(g, stacked(g, n, t->inner));
        part[1] = transposed_times(w, columns(w, b, 2, 1), part[1]);
        d[RECG_DR] = joined(g, 2, part, 0);
    } else
        d[RECG_DR] = transposed_times(w, b, h);
    part[0] = emit_reduce_sum(g, a, 1, &zero, false);
    part[1] = emit_reduce_sum(g, b, 1, &zero, false);
    d[RECG_DB] = joined(g, 2, part, 0);
    d[RECG_DH0] = t->dh;
    d[RECG_DC0] = t->dc;
    if (has_value(t->dp[0]))
        d[RECG_DP] = emit_reduce_sum(g, recurrent_standard_rows_of(g, stacked(g, n, t->dp)), 1, &zero, false);
    else {
        const Shape none = SHAPE(3 * w->r->hidden);

        d[RECG_DP] = emit_full(g, w->type, &none, 0);
    }
}

Status recurrent_standard_grad(Graph *g, Node *n)
{
    ValueId d[2][RECG_OUTPUTS], both[2];
    Recurrence r;

    recurrence_read(&r, g, n);
    if (declines(&r))
        return ST_OK;
    for (int k = 0; k < r.dirs; k++) {
        Tape t;
        Way w;

        TRY(open_way(&w, g, n, &r, k, RECG_LENS));
        TRY(open_tape(&t, &w));
        for (int64_t s = r.steps; s-- > 0;)
            step_back(&w, &t, s);
        TRY(g->status);
        recurrent_standard_gather(&w, &t, d[k]);
    }
    for (int i = 0; i < RECG_OUTPUTS && !g->status; i++) {
        for (int k = 0; k < r.dirs; k++)
            both[k] = d[k][i];
        if (!has_out(n, i))
            continue;
        if (i != RECG_DX)
            graph_replace(g, n->out[i], stacked(g, r.dirs, both));
        else
            graph_replace(g, n->out[i], r.dirs == 2 ? EMIT(g, Add, NULL, both[0], both[1]) : both[0]);
    }
    return g->status;
}
