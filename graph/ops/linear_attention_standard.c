/* DeltaRule and DeltaRuleGrad (linear_attention.c) in ONNX's operators: a Scan over the positions, so that the size of
 * a file does not depend on their number.  The gradient has one Scan that returns the states, and one from the last
 * position to the first.
 *
 * Scanned sequences are [steps,batch,heads,rows,columns]: q has `group` rows of dk numbers, k and v one row, the decay
 * dk numbers or one, beta one number.  A state is [batch,heads,dk,dv].  Positions are reversed before and after the
 * second Scan, since onnx.reference scans forward only.  Nodes with empty states are left as they are. */
#include "graph/ops/linear_attention_standard.h"

#include "graph/ir/body.h"
#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/linear_attention.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/scan.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"

enum { SCANNED = 12 };

/* The rule of a node; a Scan under construction, whose first input is the state, the others are sequences; and values
 * of a position in the Scan's body, NO_VALUE where the rule has none. */
typedef struct {
    Graph *g;
    const Node *n;
    DeltaRule r;
    DType type;
    Graph *body;
    bool back; /* from the last position to the first */
    ValueId in[1 + SCANNED];
    int n_in;
    ValueId kept, beta, column, row, v; /* exp(decay), beta, k as a column and as a row, v */
    ValueId decayed, e, w;              /* S', v - S'^T k, the row that is written */
} Loop;

/* ---- sequences ---- */

/* Input i, [batch,steps,heads*rows*columns], as a scanned sequence.  Reshape copies the first two sizes (0), so the
 * constant fixes neither. */
static ValueId sequence(const Loop *l, int i, int64_t heads, int64_t rows, int64_t columns)
{
    const Shape apart = SHAPE(0, 0, heads, rows, columns);

    return emit_transpose(l->g, EMIT(l->g, Reshape, NULL, l->n->in[i], emit_shape_const(l->g, &apart)), 5,
                          (int64_t[]){ 1, 0, 2, 3, 4 });
}

/* The inverse: a sequence that a Scan made, in shape `as` of an output. */
static ValueId packed(const Loop *l, ValueId x, const Shape *as)
{
    const Shape together = SHAPE(0, 0, as->dim[2]);

    x = emit_transpose(l->g, x, 5, (int64_t[]){ 1, 0, 2, 3, 4 });
    return EMIT(l->g, Reshape, NULL, x, emit_shape_const(l->g, &together));
}

/* Transposes rows and columns. */
static ValueId flipped(const Loop *l, ValueId x) { return emit_transpose(l->g, x, 5, (int64_t[]){ 0, 1, 2, 4, 3 }); }

/* Reverses the positions. */
static ValueId turned(const Loop *l, ValueId x) { return emit_slice_by(l->g, x, 0, -1, INT64_MIN, -1); }

static ValueId scaled(const Loop *l, ValueId x)
{
    return l->r.scale == 1 ? x : EMIT(l->g, Mul, NULL, x, emit_scalar(l->g, l->type, l->r.scale));
}

/* exp(decay); NO_VALUE: the rule has no decay. */
static ValueId kept(const Loop *l)
{
    const int64_t rows = l->r.decays == l->r.heads ? 1 : l->r.dk;

    return l->r.decays ? EMIT(l->g, Exp, NULL, sequence(l, DELTA_DECAY, l->r.heads, rows, 1)) : NO_VALUE;
}

/* NO_VALUE: the rule has no beta. */
static ValueId beta(const Loop *l)
{
    return l->r.betas ? sequence(l, DELTA_BETA, l->r.betas == l->r.heads ? l->r.heads : 1, 1, 1) : NO_VALUE;
}

static ValueId state(const Loop *l, int i)
{
    const Shape s = SHAPE(l->r.batch, l->r.heads, l->r.dk, l->r.dv);

    return has_in(l->n, i) ? l->n->in[i] : emit_full(l->g, l->type, &s, 0);
}

/* ---- a position, in the body of a Scan ---- */

#define B(Op, ...) EMIT(b, Op, NULL, __VA_ARGS__)

static Status open_loop(Loop *l, bool back)
{
    l->body = graph_create("body");
    l->back = back;
    l->n_in = 0;
    return l->body ? ST_OK : FAIL_NOMEM();
}

/* Makes x, the state or a sequence, an input of the Scan, and returns it in the body; NO_VALUE for NO_VALUE. */
static ValueId seen(Loop *l, ValueId x, const char *name)
{
    if (!has_value(x))
        return NO_VALUE;
    l->in[l->n_in] = l->back && l->n_in ? turned(l, x) : x;
    l->n_in++;
    return body_input(l->body, name);
}

/* Emits the Scan; `out` receives the last state, then the sequences that the body returns. */
static Status close_loop(Loop *l, ValueId *out)
{
    Graph *g = l->g;

    if (!g->status && !(g->status = l->body->status))
        emit_multi(g, &op_Scan, ATTRS(GRAPH("body", l->body), INT("num_scan_inputs", l->n_in - 1)), l->n_in, l->in,
                   l->body->n_output, out);
    graph_free(l->body);
    return g->status;
}

static void see_keys(Loop *l)
{
    const DeltaRule *r = &l->r;

    l->beta = seen(l, beta(l), "beta");
    l->column = seen(l, sequence(l, DELTA_K, r->heads, r->dk, 1), "key");
    l->row = has_value(l->beta) || l->back ? seen(l, sequence(l, DELTA_K, r->heads, 1, r->dk), "key_row") : NO_VALUE;
    l->v = seen(l, sequence(l, DELTA_V, r->heads, 1, r->dv), "value");
}

/* Computes e and w. */
static void correct(Loop *l)
{
    Graph *b = l->body;

    l->e = l->w = l->v;
    if (!has_value(l->beta))
        return;
    l->e = B(Sub, l->v, B(MatMul, l->row, l->decayed));
    l->w = B(Mul, l->beta, l->e);
}

/* The state after the position. */
static ValueId written(const Loop *l)
{
    Graph *b = l->body;

    return B(Add, l->decayed, B(Mul, l->column, l->w));
}

/* ---- forward ---- */

/* Opens a Scan from the first position on, with the state, its decay and the keys. */
static Status open_forward(Loop *l, ValueId *state_in)
{
    Graph *b;

    TRY(open_loop(l, false));
    b = l->body;
    *state_in = seen(l, state(l, DELTA_PAST), "state");
    l->kept = seen(l, kept(l), "kept");
    l->decayed = has_value(l->kept) ? B(Mul, *state_in, l->kept) : *state_in;
    see_keys(l);
    return ST_OK;
}

/* -> state[batch,heads,dk,dv], y[steps,batch,heads,group,dv] */
static Status read_along(Loop *l, ValueId out[2])
{
    const DeltaRule *r = &l->r;
    ValueId s, q;
    Graph *b;

    TRY(open_forward(l, &s));
    b = l->body;
    q = seen(l, scaled(l, sequence(l, DELTA_Q, r->heads, r->group, r->dk)), "query");
    correct(l);
    s = written(l);
    body_return(b, s);
    body_return(b, B(MatMul, q, s));
    return close_loop(l, out);
}

static Loop read_rule(Graph *g, const Node *n)
{
    Loop l = { .g = g, .n = n, .type = in_value(g, n, DELTA_Q)->dtype };

    delta_rule_read(&l.r, g, n);
    return l;
}

static bool declines(const Loop *l) { return !l->r.dk || !l->r.dv; }

Status delta_rule_standard(Graph *g, Node *n)
{
    Loop l = read_rule(g, n);
    ValueId out[2] = { NO_VALUE };

    if (declines(&l))
        return ST_OK;
    if (!l.r.steps) {
        graph_replace(g, n->out[0], emit_full(g, l.type, value(g, n->out[0])->shape, 0));
        graph_replace(g, n->out[1], state(&l, DELTA_PAST));
        return g->status;
    }
    TRY(read_along(&l, out));
    graph_replace(g, n->out[0], packed(&l, out[1], value(g, n->out[0])->shape));
    graph_replace(g, n->out[1], out[0]);
    return g->status;
}

/* ---- backward ---- */

/* S' of each position: [steps,batch,heads,dk,dv] */
static Status decayed_along(Loop *l, ValueId *out)
{
    ValueId both[2] = { NO_VALUE }, s;
    Graph *b;

    TRY(open_forward(l, &s));
    b = l->body;
    correct(l);
    body_return(b, written(l));
    body_return(b, has_value(l->kept) ? l->decayed : B(Identity, s));
    TRY(close_loop(l, both));
    *out = both[1];
    return ST_OK;
}

/* The gradient of a position's read: returns dq, as columns, and adds to the gradient of the state after it. */
static ValueId back_read(Loop *l, ValueId *grad)
{
    const DeltaRule *r = &l->r;
    const ValueId q = sequence(l, DELTA_Q, r->heads, r->group, r->dk),
                  dy = scaled(l, sequence(l, DELTA_DY, r->heads, r->group, r->dv));
    const ValueId columns = seen(l, flipped(l, q), "query_columns"), rows = seen(l, dy, "dy"),
                  turned_rows = seen(l, flipped(l, dy), "dy_columns");
    Graph *b = l->body;

    *grad = B(Add, *grad, B(MatMul, columns, rows));
    return B(MatMul, written(l), turned_rows);
}

/* The gradient of a position's write: dk, dv and dbeta from *grad, the gradient of the state after it, which becomes
 * that of S'. */
static void back_write(const Loop *l, ValueId *grad, ValueId d[DELTA_INPUTS])
{
    Graph *b = l->body;
    const int64_t perm[] = { 0, 1, 3, 2 };
    ValueId dw = B(MatMul, l->row, *grad);

    d[DELTA_K] = B(MatMul, *grad, emit_transpose(b, l->w, 4, perm));
    if (has_value(l->beta)) {
        d[DELTA_BETA] = B(MatMul, dw, emit_transpose(b, l->e, 4, perm));
        dw = B(Mul, l->beta, dw); /* the gradient of e from here on */
        *grad = B(Sub, *grad, B(Mul, l->column, dw));
        d[DELTA_K] = B(Sub, d[DELTA_K], B(MatMul, l->decayed, emit_transpose(b, dw, 4, perm)));
    }
    d[DELTA_V] = dw;
}

/* The gradient of the decay; *grad, that of S', becomes that of the state before the position. */
static ValueId back_decay(const Loop *l, ValueId *grad)
{
    const int64_t axes[] = { -1, -2 };
    Graph *b = l->body;
    const ValueId d = B(Mul, *grad, l->decayed);

    *grad = B(Mul, *grad, l->kept);
    return emit_reduce_sum(b, d, l->r.decays == l->r.heads ? 2 : 1, axes, true);
}

/* Sets d[i], as a sequence, for each present output; d[DELTA_PAST] is the gradient of the first state. */
static Status back_along(Loop *l, ValueId d[DELTA_INPUTS])
{
    ValueId out[1 + DELTA_INPUTS] = { NO_VALUE }, in_body[DELTA_INPUTS] = { NO_VALUE }, grad, before;
    int n = 0;

    TRY(decayed_along(l, &before));
    TRY(open_loop(l, true));
    grad = seen(l, state(l, DELTA_DSTATE), "dstate");
    l->decayed = seen(l, before, "decayed");
    l->kept = seen(l, kept(l), "kept");
    see_keys(l);
    correct(l);
    if (has_in(l->n, DELTA_DY))
        in_body[DELTA_Q] = back_read(l, &grad);
    back_write(l, &grad, in_body);
    if (has_value(l->kept))
        in_body[DELTA_DECAY] = back_decay(l, &grad);
    body_return(l->body, grad);
    for (int i = 0; i < DELTA_INPUTS; i++)
        if (has_out(l->n, i) && has_value(in_body[i]))
            body_return(l->body, in_body[i]);
    TRY(close_loop(l, out));
    for (int i = 0; i < DELTA_INPUTS; i++)
        if (has_out(l->n, i) && has_value(in_body[i]))
            d[i] = turned(l, out[++n]);
    d[DELTA_PAST] = out[0];
    return ST_OK;
}

/* The gradient of input i from its sequence x. */
static ValueId unpacked(const Loop *l, int i, ValueId x)
{
    const Shape *as = value(l->g, l->n->out[i])->shape;
    const int64_t heads = 2;

    if (i == DELTA_PAST)
        return x;
    if (!has_value(x))
        return emit_full(l->g, l->type, as, 0);
    if (i == DELTA_Q)
        x = flipped(l, x);
    if (i == DELTA_BETA && l->r.betas != l->r.heads) /* all heads share it */
        x = emit_reduce_sum(l->g, x, 1, &heads, true);
    return packed(l, x, as);
}

Status delta_rule_standard_grad(Graph *g, Node *n)
{
    Loop l = read_rule(g, n);
    ValueId d[DELTA_INPUTS] = { NO_VALUE };

    if (declines(&l))
        return ST_OK;
    if (l.r.steps)
        TRY(back_along(&l, d));
    else
        d[DELTA_PAST] = state(&l, DELTA_DSTATE);
    for (int i = 0; i < DELTA_INPUTS; i++)
        if (has_out(n, i))
            graph_replace(g, n->out[i], has_in(n, i) ? unpacked(&l, i, d[i]) : emit_scalar(g, l.type, 0));
    return g->status;
}
