/* DeltaRule and DeltaRuleGrad (linear_attention.c) in ONNX's operators: a Scan over the positions, for the gradient one
 * that keeps the states and one from the last position to the first, so that a file's size does not depend on their
 * number.
 *
 * What is scanned is [steps,batch,heads,rows,columns]: of q `group` rows of dk, of k and v one row, of the decay dk or
 * one, of beta one number; a state is [batch,heads,dk,dv].  Positions are turned around in front of the second Scan and
 * behind it: onnx.reference knows no other direction than forward.  States of no elements are declined. */
#include "graph/ops/linear_attention_standard.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/scan.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"

#include "graph/ir/body.h"
#include "graph/ir/emit.h"
#include "graph/ops/linear_attention.h"

typedef struct {
    Graph *g;
    const Node *n;
    DeltaRule r;
    DType type;
} Attention;

/* ---- sequences ---- */

/* Input i, [batch,steps,heads*rows*columns], as it is scanned.  The first two sizes are copied (0), so that a file of
 * any batch says the second. */
static ValueId sequence(const Attention *a, int i, int64_t heads, int64_t rows, int64_t columns)
{
    const Shape apart = SHAPE(0, 0, heads, rows, columns);

    return emit_transpose(a->g, EMIT(a->g, Reshape, NULL, a->n->in[i], emit_shape_const(a->g, &apart)), 5,
                          (int64_t[]){ 1, 0, 2, 3, 4 });
}

/* What a Scan has made of each position, as output o: the inverse. */
static ValueId packed(const Attention *a, ValueId x, const Shape *as)
{
    const Shape together = SHAPE(0, 0, as->dim[2]);

    x = emit_transpose(a->g, x, 5, (int64_t[]){ 1, 0, 2, 3, 4 });
    return EMIT(a->g, Reshape, NULL, x, emit_shape_const(a->g, &together));
}

/* Rows become columns. */
static ValueId flipped(const Attention *a, ValueId x)
{
    return emit_transpose(a->g, x, 5, (int64_t[]){ 0, 1, 2, 4, 3 });
}

static ValueId turned(const Attention *a, ValueId x)
{
    const int64_t from = -1, to = INT64_MIN, axis = 0;

    return EMIT(a->g, Slice, NULL, x, emit_ints(a->g, 1, &from), emit_ints(a->g, 1, &to), emit_ints(a->g, 1, &axis),
                emit_ints(a->g, 1, &from));
}

static ValueId scaled(const Attention *a, ValueId x)
{
    return a->r.scale == 1 ? x : EMIT(a->g, Mul, NULL, x, emit_scalar(a->g, a->type, a->r.scale));
}

/* exp(decay), or none. */
static ValueId kept(const Attention *a)
{
    const int64_t rows = a->r.decays == a->r.heads ? 1 : a->r.dk;

    return a->r.decays ? EMIT(a->g, Exp, NULL, sequence(a, DELTA_DECAY, a->r.heads, rows, 1)) : NO_VALUE;
}

/* Or none. */
static ValueId beta(const Attention *a)
{
    return a->r.betas ? sequence(a, DELTA_BETA, a->r.betas == a->r.heads ? a->r.heads : 1, 1, 1) : NO_VALUE;
}

static ValueId state(const Attention *a, int i)
{
    const Shape s = SHAPE(a->r.batch, a->r.heads, a->r.dk, a->r.dv);

    return has_in(a->n, i) ? a->n->in[i] : emit_full(a->g, a->type, &s, 0);
}

/* ---- a position, in the body of a Scan ---- */

enum { SCANNED = 12 };

/* A Scan in the making: of one state, in front, and of what is scanned. */
typedef struct {
    const Attention *a;
    Graph *body;
    bool back; /* from the last position to the first */
    ValueId in[1 + SCANNED];
    int n_in;
} Loop;

#define B(Op, ...) EMIT(b, Op, NULL, __VA_ARGS__)

static Status open_loop(Loop *l, const Attention *a, bool back)
{
    *l = (Loop){ .a = a, .body = graph_create("body"), .back = back };
    return l->body ? ST_OK : FAIL_NOMEM();
}

/* What the body sees of a state or a sequence; nothing of nothing. */
static ValueId seen(Loop *l, ValueId x, const char *name)
{
    if (!has_value(x))
        return NO_VALUE;
    l->in[l->n_in] = l->back && l->n_in ? turned(l->a, x) : x;
    l->n_in++;
    return body_input(l->body, name);
}

/* `out`: the last state, then what the body returns of each position. */
static Status close_loop(Loop *l, ValueId *out)
{
    Graph *g = l->a->g;

    if (!g->status && !(g->status = l->body->status))
        emit_multi(g, &op_Scan, ATTRS(GRAPH("body", l->body), INT("num_scan_inputs", l->n_in - 1)), l->n_in, l->in,
                   l->body->n_output, out);
    graph_free(l->body);
    return g->status;
}

/* Values that a rule does not have are none. */
typedef struct {
    ValueId kept, beta, column, row, v; /* k twice */
    ValueId decayed, e, w;              /* S', v - S'^T k, what is written */
} Position;

static void see_keys(Loop *l, Position *p)
{
    const Attention *a = l->a;
    const DeltaRule *r = &a->r;

    p->beta = seen(l, beta(a), "beta");
    p->column = seen(l, sequence(a, DELTA_K, r->heads, r->dk, 1), "key");
    p->row = has_value(p->beta) || l->back ? seen(l, sequence(a, DELTA_K, r->heads, 1, r->dk), "key_row") : NO_VALUE;
    p->v = seen(l, sequence(a, DELTA_V, r->heads, 1, r->dv), "value");
}

static void linear_attention_standard_look(Graph *b, Position *p)
{
    p->e = p->w = p->v;
    if (!has_value(p->beta))
        return;
    p->e = B(Sub, p->v, B(MatMul, p->row, p->decayed));
    p->w = B(Mul, p->beta, p->e);
}

/* S' is of the state before the position. */
static void decay(Loop *l, Position *p, ValueId before)
{
    Graph *b = l->body;

    p->kept = seen(l, kept(l->a), "kept");
    p->decayed = has_value(p->kept) ? B(Mul, before, p->kept) : before;
}

static ValueId written(Graph *b, const Position *p) { return B(Add, p->decayed, B(Mul, p->column, p->w)); }

/* ---- forward ---- */

/* A Scan from the first position on, which has seen the state and the keys. */
static Status open_forward(Loop *l, const Attention *a, Position *p, ValueId *state_in)
{
    TRY(open_loop(l, a, false));
    *state_in = seen(l, state(a, DELTA_PAST), "state");
    decay(l, p, *state_in);
    see_keys(l, p);
    return ST_OK;
}

/* -> state[batch,heads,dk,dv], y[steps,batch,heads,group,dv] */
static Status read_along(const Attention *a, ValueId out[2])
{
    const DeltaRule *r = &a->r;
    Position p;
    ValueId s, q;
    Graph *b;
    Loop l;

    TRY(open_forward(&l, a, &p, &s));
    b = l.body;
    q = seen(&l, scaled(a, sequence(a, DELTA_Q, r->heads, r->group, r->dk)), "query");
    linear_attention_standard_look(b, &p);
    s = written(b, &p);
    body_return(b, s);
    body_return(b, B(MatMul, q, s));
    return close_loop(&l, out);
}

static Attention open_attention(Graph *g, const Node *n)
{
    Attention a = { .g = g, .n = n, .type = in_value(g, n, DELTA_Q)->dtype };

    delta_rule_read(&a.r, g, n);
    return a;
}

static bool declines(const Attention *a) { return !a->r.dk || !a->r.dv; }

Status delta_rule_standard(Graph *g, Node *n)
{
    const Attention a = open_attention(g, n);
    ValueId out[2] = { NO_VALUE };

    if (declines(&a))
        return ST_OK;
    if (!a.r.steps) {
        graph_replace(g, n->out[0], emit_full(g, a.type, value(g, n->out[0])->shape, 0));
        graph_replace(g, n->out[1], state(&a, DELTA_PAST));
        return g->status;
    }
    TRY(read_along(&a, out));
    graph_replace(g, n->out[0], packed(&a, out[1], value(g, n->out[0])->shape));
    graph_replace(g, n->out[1], out[0]);
    return g->status;
}

/* ---- backward ---- */

/* S' of each position: [steps,batch,heads,dk,dv] */
static Status decayed_along(const Attention *a, ValueId *out)
{
    ValueId both[2] = { NO_VALUE }, s;
    Position p;
    Graph *b;
    Loop l;

    TRY(open_forward(&l, a, &p, &s));
    b = l.body;
    linear_attention_standard_look(b, &p);
    body_return(b, written(b, &p));
    body_return(b, has_value(p.kept) ? p.decayed : B(Identity, s));
    TRY(close_loop(&l, both));
    *out = both[1];
    return ST_OK;
}

/* What the queries of a position give: dq, as columns, and more of the gradient of the state behind it. */
static ValueId back_read(Loop *l, const Position *p, ValueId *grad)
{
    const Attention *a = l->a;
    const DeltaRule *r = &a->r;
    const ValueId q = sequence(a, DELTA_Q, r->heads, r->group, r->dk),
                  dy = scaled(a, sequence(a, DELTA_DY, r->heads, r->group, r->dv));
    const ValueId columns = seen(l, flipped(a, q), "query_columns"), rows = seen(l, dy, "dy"),
                  turned_rows = seen(l, flipped(a, dy), "dy_columns");
    Graph *b = l->body;

    *grad = B(Add, *grad, B(MatMul, columns, rows));
    return B(MatMul, written(b, p), turned_rows);
}

/* From the gradient of the state behind a position those of what it wrote, and of S' in `*grad`. */
static void back_write(Graph *b, const Position *p, ValueId *grad, ValueId d[DELTA_INPUTS])
{
    const int64_t perm[] = { 0, 1, 3, 2 };
    ValueId dw = B(MatMul, p->row, *grad);

    d[DELTA_K] = B(MatMul, *grad, emit_transpose(b, p->w, 4, perm));
    if (has_value(p->beta)) {
        d[DELTA_BETA] = B(MatMul, dw, emit_transpose(b, p->e, 4, perm));
        dw = B(Mul, p->beta, dw); /* now of e */
        *grad = B(Sub, *grad, B(Mul, p->column, dw));
        d[DELTA_K] = B(Sub, d[DELTA_K], B(MatMul, p->decayed, emit_transpose(b, dw, 4, perm)));
    }
    d[DELTA_V] = dw;
}

static ValueId back_decay(const Loop *l, const Position *p, ValueId *grad)
{
    const int64_t axes[] = { -1, -2 };
    Graph *b = l->body;
    const ValueId d = B(Mul, *grad, p->decayed);

    *grad = B(Mul, *grad, p->kept);
    return emit_reduce_sum(b, d, l->a->r.decays == l->a->r.heads ? 2 : 1, axes, true);
}

/* d[i], as it was scanned, for each output that is there; d[DELTA_PAST] is the gradient of the first state. */
static Status back_along(const Attention *a, ValueId d[DELTA_INPUTS])
{
    ValueId out[1 + DELTA_INPUTS] = { NO_VALUE }, in_body[DELTA_INPUTS] = { NO_VALUE }, grad, before;
    Position p = { .kept = NO_VALUE };
    int n = 0;
    Loop l;

    TRY(decayed_along(a, &before));
    TRY(open_loop(&l, a, true));
    grad = seen(&l, state(a, DELTA_DSTATE), "dstate");
    p.decayed = seen(&l, before, "decayed");
    p.kept = seen(&l, kept(a), "kept");
    see_keys(&l, &p);
    linear_attention_standard_look(l.body, &p);
    if (has_in(a->n, DELTA_DY))
        in_body[DELTA_Q] = back_read(&l, &p, &grad);
    back_write(l.body, &p, &grad, in_body);
    if (has_value(p.kept))
        in_body[DELTA_DECAY] = back_decay(&l, &p, &grad);
    body_return(l.body, grad);
    for (int i = 0; i < DELTA_INPUTS; i++)
        if (has_out(a->n, i) && has_value(in_body[i]))
            body_return(l.body, in_body[i]);
    TRY(close_loop(&l, out));
    for (int i = 0; i < DELTA_INPUTS; i++)
        if (has_out(a->n, i) && has_value(in_body[i]))
            d[i] = turned(a, out[++n]);
    d[DELTA_PAST] = out[0];
    return ST_OK;
}

static ValueId unpacked(const Attention *a, int i, ValueId x)
{
    const Shape *as = value(a->g, a->n->out[i])->shape;
    const int64_t heads = 2;

    if (i == DELTA_PAST)
        return x;
    if (!has_value(x))
        return emit_full(a->g, a->type, as, 0);
    if (i == DELTA_Q)
        x = flipped(a, x);
    if (i == DELTA_BETA && a->r.betas != a->r.heads) /* which all heads share */
        x = emit_reduce_sum(a->g, x, 1, &heads, true);
    return packed(a, x, as);
}

Status delta_rule_standard_grad(Graph *g, Node *n)
{
    const Attention a = open_attention(g, n);
    ValueId d[DELTA_INPUTS] = { NO_VALUE };

    if (declines(&a))
        return ST_OK;
    if (a.r.steps)
        TRY(back_along(&a, d));
    else
        d[DELTA_PAST] = state(&a, DELTA_DSTATE);
    for (int i = 0; i < DELTA_INPUTS; i++)
        if (has_out(n, i))
            graph_replace(g, n->out[i], has_in(n, i) ? unpacked(&a, i, d[i]) : emit_scalar(g, a.type, 0));
    return g->status;
}
