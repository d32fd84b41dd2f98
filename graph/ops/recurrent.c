/* RNN, GRU and LSTM, lowered to one operator, Recurrent, and its gradient.
 *
 *   X[steps,batch,inputs], W[dirs,gates*hidden,inputs], R[dirs,gates*hidden,hidden], B[dirs,2*gates*hidden] (of W, then
 *   of R), lengths[batch], H0[dirs,batch,hidden], C0 likewise, P[dirs,3*hidden]
 *   -> Y[steps,dirs,batch,hidden], the last H and C[dirs,batch,hidden], saved[dirs,steps,batch,planes*hidden]
 *
 *   RNN    H = f(a)                                                with a = W x + R H' + B for each gate
 *   GRU    z = f(a), r = f(a), h = g(W x + R (r H') + B), H = (1 - z) h + z H'
 *          linear_before_reset: h = g(W x + Wb + r (R H' + Rb))
 *   LSTM   i = f(a + Pi C'), f = f(a + Pf C'), c = g(a), C = f C' + i c, o = f(a + Po C), H = o h(C)
 *          input_forget: f = 1 - i
 *
 * H' and C' are those of the step before.  After the end of a sequence Y is zero; the last H and C are those of the
 * sequence's last step, or the initial ones if it has none.  The reverse direction begins at each sequence's own end.
 * `clip` bounds the arguments of f and g, not C.
 *
 * `saved` holds values for the gradient, for each step of each sequence.  RNN: H; GRU: z, r, h and the factor of r (R
 * H'
 * + Rb) or r H'; LSTM: i, o, f, c, C and h(C).  They are followed by the derivatives of the gates in order, and of
 * h(C), unless values determine these (Sigmoid, Tanh and Relu without clip). */
#include "graph/ops/recurrent.h"

#include <math.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ir/rewrite.h"
#include "graph/ops/recurrent.gen.h"
#include "graph/ops/recurrent_standard.h"

/* ---- activations ---- */

static const struct {
    const char *name;
    bool alpha, beta, required; /* the parameters it has; required: they have no defaults */
    double default_alpha, default_beta;
} activations[N_ACTIVATIONS] = {
    [ACT_AFFINE] = { "Affine", true, true, false, 1, 0 },
    [ACT_ELU] = { "Elu", true, false, false, 1, 0 },
    [ACT_HARD_SIGMOID] = { "HardSigmoid", true, true, false, 0.2, 0.5 },
    [ACT_LEAKY_RELU] = { "LeakyRelu", true, false, false, 0.01, 0 },
    [ACT_RELU] = { "Relu", false, false, false, 0, 0 },
    [ACT_SCALED_TANH] = { "ScaledTanh", true, true, true, 0, 0 },
    [ACT_SIGMOID] = { "Sigmoid", false, false, false, 0, 0 },
    [ACT_SOFTPLUS] = { "Softplus", false, false, false, 0, 0 },
    [ACT_SOFTSIGN] = { "Softsign", false, false, false, 0, 0 },
    [ACT_TANH] = { "Tanh", false, false, false, 0, 0 },
    [ACT_THRESHOLDED_RELU] = { "ThresholdedRelu", true, false, false, 1, 0 },
};

double activation_value(const Activation *a, double x)
{
    switch (a->kind) {
    case ACT_AFFINE: return a->alpha * x + a->beta;
    case ACT_ELU: return x > 0 ? x : a->alpha * expm1(x);
    case ACT_HARD_SIGMOID: x = a->alpha * x + a->beta; return x < 0 ? 0 : x > 1 ? 1 : x;
    case ACT_LEAKY_RELU: return x > 0 ? x : a->alpha * x;
    case ACT_RELU: return x <= 0 ? 0 : x;
    case ACT_SCALED_TANH: return a->alpha * tanh(a->beta * x);
    case ACT_SIGMOID: return 1 / (1 + exp(-x));
    case ACT_SOFTPLUS: return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
    case ACT_SOFTSIGN: return x / (1 + fabs(x));
    case ACT_TANH: return tanh(x);
    default: return x <= a->alpha ? 0 : x;
    }
}

/* At kinks, the derivative is PyTorch's. */
double activation_slope(const Activation *a, double x)
{
    double y;

    switch (a->kind) {
    case ACT_AFFINE: return a->alpha;
    case ACT_ELU: return x > 0 ? 1 : a->alpha * exp(x);
    case ACT_HARD_SIGMOID: x = a->alpha * x + a->beta; return x > 0 && x < 1 ? a->alpha : 0;
    case ACT_LEAKY_RELU: return x > 0 ? 1 : a->alpha;
    case ACT_RELU: return x > 0;
    case ACT_SCALED_TANH: y = tanh(a->beta * x); return a->alpha * a->beta * (1 - y * y);
    case ACT_SIGMOID: y = 1 / (1 + exp(-x)); return y * (1 - y);
    case ACT_SOFTPLUS: return 1 / (1 + exp(-x));
    case ACT_SOFTSIGN: y = 1 + fabs(x); return 1 / (y * y);
    case ACT_TANH: y = tanh(x); return 1 - y * y;
    default: return x > a->alpha;
    }
}

static int activation_find(const char *name)
{
    for (int i = 0; i < N_ACTIVATIONS; i++)
        if (strlen(name) == strlen(activations[i].name) && !ascii_casecmp(name, activations[i].name, strlen(name)))
            return i;
    return -1;
}

/* ---- reading a node ---- */

static int count_gates(int cell) { return cell == CELL_LSTM ? 4 : cell == CELL_GRU ? 3 : 1; }
static int count_activations(int cell) { return cell == CELL_LSTM ? 3 : cell == CELL_GRU ? 2 : 1; }
static bool is_ours(const Node *n) { return n->op == &op_Recurrent || n->op == &op_RecurrentGrad; }

static int cell_of(const Node *n)
{
    if (is_ours(n)) {
        const char *cell = node_string(n, "cell");

        return !strcmp(cell, "lstm") ? CELL_LSTM : !strcmp(cell, "gru") ? CELL_GRU : CELL_RNN;
    }
    return n->op == &op_LSTM ? CELL_LSTM : n->op == &op_GRU ? CELL_GRU : CELL_RNN;
}

static int directions(const Node *n) { return strcmp(node_string(n, "direction"), "bidirectional") ? 1 : 2; }

/* Reads the activations of all directions.  Each that has a parameter takes the next number of its list, or its default
 * past the end. */
static Status read_activations(Activation out[2][3], const Graph *g, const Node *n)
{
    static const char *const usual[][3] = { { "Tanh" }, { "Sigmoid", "Tanh" }, { "Sigmoid", "Tanh", "Tanh" } };
    const Attr *names = node_attr(n, "activations"), *alpha = node_attr(n, "activation_alpha"),
               *beta = node_attr(n, "activation_beta");
    const int cell = cell_of(n), each = count_activations(cell), all = each * directions(n);
    int a = 0, b = 0;

    if (names->n && names->n != all)
        return FAIL(E_MODEL, "%s: %d activations, expected %d", node_text(g, n), names->n, all);
    for (int i = 0; i < all; i++) {
        const char *name = names->n ? names->strings[i] : usual[cell][i % each];
        const int kind = activation_find(name);
        Activation *act = &out[i / each][i % each];

        if (kind < 0)
            return FAIL(E_MODEL, "%s: unknown activation '%s'", node_text(g, n), name);
        if (activations[kind].required && (a == alpha->n || b == beta->n))
            return FAIL(E_MODEL, "%s: %s needs activation_alpha and activation_beta", node_text(g, n),
                        activations[kind].name);
        act->kind = kind;
        act->alpha = activations[kind].alpha && a < alpha->n ? alpha->floats[a++] : activations[kind].default_alpha;
        act->beta = activations[kind].beta && b < beta->n ? beta->floats[b++] : activations[kind].default_beta;
    }
    if (a < alpha->n || b < beta->n)
        return FAIL(E_MODEL, "%s: more numbers in activation_%s than activations that take one", node_text(g, n),
                    a < alpha->n ? "alpha" : "beta");
    return ST_OK;
}

static bool follows_from_value(int kind) { return kind == ACT_RELU || kind == ACT_SIGMOID || kind == ACT_TANH; }

void recurrence_read(Recurrence *out, const Graph *g, const Node *n)
{
    static const int values[] = { 1, 4, 6 };
    const Shape *x = in_value(g, n, REC_X)->shape, *r = in_value(g, n, REC_R)->shape;
    const char *direction = node_string(n, "direction");
    Recurrence c = { .cell = cell_of(n),
                     .dirs = directions(n),
                     .input_forget = node_int(n, "input_forget") != 0,
                     .before_reset = node_int(n, "linear_before_reset") != 0,
                     .backward = { !strcmp(direction, "reverse"), true },
                     .clip = node_float(n, "clip"),
                     .steps = x->dim[0],
                     .batch = x->dim[1],
                     .inputs = x->dim[2],
                     .hidden = r->dim[2],
                     .n_in = n->n_in };

    c.gates = count_gates(c.cell);
    c.activations = count_activations(c.cell);
    c.values = values[c.cell];
    c.slopes = read_activations(c.act, g, n) || c.clip < INFINITY; /* infer has refused what cannot be read */
    for (int i = 0; i < c.dirs * c.activations; i++)
        c.slopes |= !follows_from_value(c.act[i / c.activations][i % c.activations].kind);
    c.planes = c.values + (c.slopes ? c.gates + (c.cell == CELL_LSTM) : 0);
    *out = c;
}

Status recurrence_check_lengths(const Recurrence *r, const int32_t *lengths)
{
    for (int64_t b = 0; lengths && b < r->batch; b++)
        if (lengths[b] < 0 || lengths[b] > r->steps)
            return FAIL(E_INVALID, "sequence_lens: sample %lld has length %d, expected 0 to %lld", (long long)b,
                        (int)lengths[b], (long long)r->steps);
    return ST_OK;
}

/* ---- shapes ---- */

static Status check_attributes(const Graph *g, const Node *n)
{
    Activation act[2][3];

    if (!(node_float(n, "clip") > 0))
        return FAIL(E_MODEL, "%s: clip is %g, expected more than 0", node_text(g, n), node_float(n, "clip"));
    return read_activations(act, g, n);
}

static Status check_lengths(const Graph *g, const Node *n, int i, int64_t batch)
{
    if (!has_in(n, i))
        return ST_OK;
    if (in_value(g, n, i)->dtype != DT_INT32)
        return FAIL(E_MODEL, "%s: sequence_lens is %s, expected int32", node_text(g, n),
                    dtype_name(in_value(g, n, i)->dtype));
    return infer_expect(g, n, i, "sequence_lens", SHAPE(batch));
}

/* Checks all inputs for `batch` samples; `batch_first`: states are [batch,dirs,hidden]. */
static Status recurrent_check_inputs(const Graph *g, const Node *n, int64_t batch, bool batch_first)
{
    const bool back = n->op == &op_RecurrentGrad; /* which has no bias */
    const int lengths = back ? (int)RECG_LENS : (int)REC_LENS;
    const Shape *x = in_value(g, n, REC_X)->shape, *r = in_value(g, n, REC_R)->shape;
    const int64_t dirs = directions(n), gates = count_gates(cell_of(n)), hidden = r->rank == 3 ? r->dim[2] : 0;
    const Shape state = batch_first ? SHAPE(batch, dirs, hidden) : SHAPE(dirs, batch, hidden);
    char text[SHAPE_TEXT];

    if (r->rank != 3 || hidden < 1 || hidden > INT32_MAX)
        return FAIL(E_SHAPE, "%s: R is %s, expected [directions, %lld * hidden, hidden]", node_text(g, n),
                    shape_text(r, text), (long long)gates);
    TRY(infer_expect(g, n, REC_R, "R", SHAPE(dirs, gates * hidden, hidden)));
    TRY(infer_expect(g, n, REC_W, "W", SHAPE(dirs, gates * hidden, x->dim[2])));
    if (!back)
        TRY(infer_expect(g, n, REC_B, "B", SHAPE(dirs, 2 * gates * hidden)));
    TRY(check_lengths(g, n, lengths, batch));
    TRY(infer_expect(g, n, back ? (int)RECG_H0 : (int)REC_H0, "initial_h", state));
    TRY(infer_expect(g, n, back ? (int)RECG_C0 : (int)REC_C0, "initial_c", state));
    TRY(infer_expect(g, n, back ? (int)RECG_P : (int)REC_P, "P", SHAPE(dirs, 3 * hidden)));
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) && i != lengths && in_value(g, n, i)->dtype != in_value(g, n, 0)->dtype)
            return FAIL(E_MODEL, "%s: input %d is %s, expected %s as X", node_text(g, n), i,
                        dtype_name(in_value(g, n, i)->dtype), dtype_name(in_value(g, n, 0)->dtype));
    return ST_OK;
}

static Status check_rank(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, REC_X)->shape;
    char text[SHAPE_TEXT];

    if (x->rank != 3)
        return FAIL(E_SHAPE, "%s: X is %s, expected three axes", node_text(g, n), shape_text(x, text));
    return ST_OK;
}

static bool is_batch_first(const Node *n) { return !is_ours(n) && node_int(n, "layout") != 0; }

static Status infer_onnx(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, REC_X);
    const bool first = is_batch_first(n);
    const int64_t dirs = directions(n), size = node_int(n, "hidden_size");
    int64_t steps, batch, hidden;
    Shape y, state;

    TRY(check_attributes(g, n));
    TRY(check_rank(g, n));
    batch = x->shape->dim[!first];
    steps = x->shape->dim[first];
    TRY(recurrent_check_inputs(g, n, batch, first));
    hidden = in_value(g, n, REC_R)->shape->dim[2];
    if (size && size != hidden)
        return FAIL(E_SHAPE, "%s: hidden_size is %lld, but R has %lld", node_text(g, n), (long long)size,
                    (long long)hidden);
    y = first ? SHAPE(batch, steps, dirs, hidden) : SHAPE(steps, dirs, batch, hidden);
    state = first ? SHAPE(batch, dirs, hidden) : SHAPE(dirs, batch, hidden);
    set_out(g, n, REC_Y, x->dtype, &y);
    set_out(g, n, REC_YH, x->dtype, &state);
    set_out(g, n, REC_YC, x->dtype, &state);
    return g->status;
}

static Status recurrent_infer(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, REC_X);
    Recurrence r;
    Shape y, state, saved;

    TRY(check_attributes(g, n));
    TRY(check_rank(g, n));
    TRY(recurrent_check_inputs(g, n, x->shape->dim[1], false));
    recurrence_read(&r, g, n);
    y = SHAPE(r.steps, r.dirs, r.batch, r.hidden);
    state = SHAPE(r.dirs, r.batch, r.hidden);
    saved = SHAPE(r.dirs, r.steps, r.batch, r.planes * r.hidden);
    TRY(shape_check(&saved, sizeof(double)));
    set_out(g, n, REC_Y, x->dtype, &y);
    set_out(g, n, REC_YH, x->dtype, &state);
    set_out(g, n, REC_YC, x->dtype, &state);
    set_out(g, n, REC_SAVED, x->dtype, &saved);
    return g->status;
}

static Status recurrent_infer_grad(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, REC_X);
    Recurrence r;
    Shape y, state, bias, peepholes;

    TRY(check_attributes(g, n));
    TRY(check_rank(g, n));
    if (!has_in(n, RECG_Y) || !has_in(n, RECG_SAVED))
        return FAIL(E_MODEL, "%s: inputs Y and saved are required", node_text(g, n));
    TRY(recurrent_check_inputs(g, n, x->shape->dim[1], false));
    recurrence_read(&r, g, n);
    y = SHAPE(r.steps, r.dirs, r.batch, r.hidden);
    state = SHAPE(r.dirs, r.batch, r.hidden);
    bias = SHAPE(r.dirs, 2 * r.gates * r.hidden);
    peepholes = SHAPE(r.dirs, 3 * r.hidden);
    TRY(infer_expect(g, n, RECG_Y, "Y", y));
    TRY(infer_expect(g, n, RECG_SAVED, "saved", SHAPE(r.dirs, r.steps, r.batch, r.planes * r.hidden)));
    TRY(infer_expect(g, n, RECG_DY, "the gradient of Y", y));
    TRY(infer_expect(g, n, RECG_DYH, "the gradient of Y_h", state));
    TRY(infer_expect(g, n, RECG_DYC, "the gradient of Y_c", state));
    for (int i = 0; i < 3; i++)
        set_out(g, n, RECG_DX + i, x->dtype, in_value(g, n, REC_X + i)->shape);
    set_out(g, n, RECG_DB, x->dtype, &bias);
    set_out(g, n, RECG_DH0, x->dtype, &state);
    set_out(g, n, RECG_DC0, x->dtype, &state);
    set_out(g, n, RECG_DP, x->dtype, &peepholes);
    return g->status;
}

/* ---- spellings ---- */

/* Up to opset 6 `output_sequence` set whether Y is computed; its readers show that. */
static Status recurrent_import(Graph *g, Node *n, int opset)
{
    if (opset < 7)
        node_remove_attr(g, n, "output_sequence");
    return ST_OK;
}

static bool respell(Graph *g, Node *n, int opset) { return opset >= 7 && respell_without(g, n, "layout"); }

enum { OWN_ATTRS = 8 };

/* Recurrent has the time first; layout 1 needs transposes. */
static Status recurrent_lower(Graph *g, Node *n)
{
    static const char *const cells[] = { "rnn", "gru", "lstm" };
    static const char *const copied[] = { "direction", "activations",  "activation_alpha",   "activation_beta",
                                          "clip",      "input_forget", "linear_before_reset" };
    const int64_t states[] = { 1, 0, 2 }, sequence[] = { 2, 0, 1, 3 };
    const bool first = is_batch_first(n);
    Attr attrs[OWN_ATTRS + 1] = { STRING("cell", cells[cell_of(n)]) };
    ValueId in[REC_P + 1], out[REC_SAVED + 1];
    int n_attr = 1;

    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        if (node_attr(n, copied[i]))
            attrs[n_attr++] = *node_attr(n, copied[i]);
    for (int i = 0; i <= REC_P; i++)
        in[i] = !has_in(n, i)                                         ? NO_VALUE
                : first && (i == REC_X || i == REC_H0 || i == REC_C0) ? emit_transpose(g, n->in[i], 3, states)
                                                                      : n->in[i];
    emit_multi(g, &op_Recurrent, attrs, REC_P + 1, in, REC_SAVED + 1, out);
    for (int i = REC_Y; i <= REC_YC && !g->status; i++) {
        if (!has_out(n, i))
            continue;
        if (first)
            out[i] = emit_transpose(g, out[i], i == REC_Y ? 4 : 3, i == REC_Y ? sequence : states);
        graph_replace(g, n->out[i], out[i]);
    }
    return g->status;
}

static Status recurrent_grad(Grad *gr)
{
    static const int from[] = { REC_X, REC_W, REC_R, REC_LENS, REC_H0, REC_C0, REC_P },
                     to[] = { REC_X, REC_W, REC_R, REC_B, REC_H0, REC_C0, REC_P };
    Graph *g = gr->g;
    const Node *n = gr->node;
    ValueId in[RECG_INPUTS], d[RECG_OUTPUTS];
    Attr how[OWN_ATTRS + 1] = { { 0 } };
    Node *back;

    if (has_value(grad_dout(gr, REC_SAVED)))
        return FAIL(E_UNSUPPORTED, "%s: no gradient through what it saves", node_text(g, n));
    for (int i = 0; i < n->n_attr && i < OWN_ATTRS; i++)
        how[i] = n->attr[i];
    for (int i = 0; i < RECG_Y; i++)
        in[i] = grad_in(gr, from[i]);
    in[RECG_Y] = grad_out(gr, REC_Y);
    in[RECG_SAVED] = grad_out(gr, REC_SAVED);
    for (int i = 0; i <= REC_YC; i++)
        in[RECG_DY + i] = grad_dout(gr, i);
    if (!(back = emit_multi(g, &op_RecurrentGrad, how, RECG_INPUTS, in, RECG_OUTPUTS, d)))
        return g->status;
    for (int i = 0; i < RECG_OUTPUTS; i++)
        if (grad_wanted(gr, to[i]))
            grad_set(gr, to[i], d[i]);
    if (!grad_wanted(gr, REC_X))
        node_set_output(g, back, RECG_DX, NO_VALUE);
    return g->status;
}

/* ---- placement, work ---- */

/* The axis that counts samples; -1: none does. */
static int batch_axis(const Node *n, int i)
{
    const bool back = n->op == &op_RecurrentGrad;

    if (i == REC_X)
        return 1;
    if (back && (i == RECG_Y || i == RECG_DY || i == RECG_SAVED))
        return 2;
    if (back && (i == RECG_DYH || i == RECG_DYC))
        return 1;
    if (i == (back ? (int)RECG_LENS : (int)REC_LENS))
        return 0;
    return i == (back ? (int)RECG_H0 : (int)REC_H0) || i == (back ? (int)RECG_C0 : (int)REC_C0) ? 1 : -1;
}

static Place along(Place at, int axis)
{
    if (at.kind != PL_S)
        return at;
    if (axis < 0)
        return PLACE_B;
    at.axis = axis;
    return at;
}

/* Samples do not meet, but in the gradients of what they share. */
static Status recurrent_place(Placement *p)
{
    const Node *n = p->node;
    const bool back = n->op == &op_RecurrentGrad;
    Place have = PLACE_B;

    for (int i = 0; i < n->n_in; i++) {
        if (p->in[i].kind == PL_S && p->in[i].axis != batch_axis(n, i))
            place_mixes(p, "each step needs the one before");
        else if (have.kind == PL_B && (p->in[i].kind == PL_S || p->in[i].kind == PL_L))
            have = p->in[i];
    }
    for (int i = 0; i < n->n_in; i++)
        p->in[i] = along(have, batch_axis(n, i));
    if (!back) {
        place_set(p, REC_Y, along(have, 2));
        place_set(p, REC_YH, along(have, 1));
        place_set(p, REC_YC, along(have, 1));
        place_set(p, REC_SAVED, along(have, 2));
        return ST_OK;
    }
    for (int i = 0; i < RECG_OUTPUTS; i++)
        place_set(p, i,
                  i == RECG_DX || i == RECG_DH0 || i == RECG_DC0 ? along(have, 1)
                  : have.kind == PL_S                            ? PLACE_P
                                                                 : have);
    return ST_OK;
}

static int64_t recurrent_flops(const Graph *g, const Node *n)
{
    Recurrence r;

    if (!node_inputs_known(g, n))
        return 0;
    recurrence_read(&r, g, n);
    return (n->op == &op_RecurrentGrad ? 4 : 2) * r.dirs * r.steps * r.batch * r.gates * r.hidden *
           (r.inputs + r.hidden);
}

static int64_t length_range(const Graph *g, const Node *n, int i)
{
    const bool back = n->op == &op_RecurrentGrad;

    if (i != (back ? (int)RECG_LENS : (int)REC_LENS))
        return -1;
    return in_value(g, n, REC_X)->shape->dim[is_batch_first(n)] + 1;
}

static MatrixKind cell_matrix(const Node *n, int i)
{
    (void)n;
    return i == REC_W || i == REC_R ? MATRIX_OUT_IN : MATRIX_NONE;
}

#define HOW                                                                              \
    { "direction", A_STRING, .s = "forward", .words = "forward reverse bidirectional" }, \
        { "activations", A_STRINGS, .i = 0 }, { "activation_alpha", A_FLOATS, .i = 0 },  \
        { "activation_beta", A_FLOATS, .i = 0 },                                         \
    {                                                                                    \
        "clip", A_FLOAT, .f = INFINITY                                                   \
    }
#define FILE_ONLY \
    { "hidden_size", A_INT, .i = 0, .range = R_NATURAL }, { "layout", A_INT, .i = 0, .range = R_NATURAL }
#define INPUT_FORGET                  \
    {                                 \
        "input_forget", A_INT, .i = 0 \
    }
#define BEFORE_RESET                         \
    {                                        \
        "linear_before_reset", A_INT, .i = 0 \
    }
#define ONNX                                                                                            \
    .precision = PREC_WIDE, .since = 22, .from = 14, .in_min = 3, .out_min = 0, .dtypes = DTYPES_FLOAT, \
    .import = recurrent_import, .respell = respell, .infer = infer_onnx, .lower = recurrent_lower,      \
    .index_range = length_range, .matrix_in = cell_matrix

DEFINE_OP(RNN, ONNX, .param_in = 14, .in_max = 6, .out_max = 2, .attrs = (const AttrDecl[]){ HOW, FILE_ONLY, { 0 } },
          .doc = "H = f(W x + R H' + B), step by step");

DEFINE_OP(GRU, ONNX, .param_in = 14, .in_max = 6, .out_max = 2,
          .attrs = (const AttrDecl[]){ HOW, FILE_ONLY, BEFORE_RESET, { 0 } }, .doc = "gated recurrent units");

DEFINE_OP(LSTM, ONNX, .param_in = 142, .in_max = 8, .out_max = 3,
          .attrs = (const AttrDecl[]){ HOW, FILE_ONLY, INPUT_FORGET, { 0 } }, .doc = "long short-term memory");

static const AttrDecl own_attrs[] = {
    { "cell", A_STRING, .rule = ATTR_REQUIRED, .words = "rnn gru lstm" }, HOW, INPUT_FORGET, BEFORE_RESET, { 0 }
};
#define OWN                                                                                             \
    .domain = "dpexec", .precision = PREC_WIDE, .since = 1, .dtypes = DTYPES_FLOAT, .attrs = own_attrs, \
    .place = recurrent_place, .flops = recurrent_flops, .index_range = length_range

DEFINE_OP(Recurrent, OWN, .param_in = 142, .in_min = 3, .in_max = 8, .out_min = 4, .out_max = 4,
          .infer = recurrent_infer, .standard = recurrent_standard, .grad = recurrent_grad, .matrix_in = cell_matrix,
          .doc = "RNN, GRU or LSTM, and what the gradient needs of it");

DEFINE_OP(RecurrentGrad, OWN, .in_min = 3, .in_max = RECG_INPUTS, .out_min = RECG_OUTPUTS, .out_max = RECG_OUTPUTS,
          .optional_out = 1 << RECG_DX, .infer = recurrent_infer_grad, .standard = recurrent_standard_grad,
          .doc = "gradients of Recurrent, from (x, w, r, lengths, h0, c0, p, y, saved, dy, dy_h, dy_c)");
