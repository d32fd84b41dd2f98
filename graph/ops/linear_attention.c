/* LinearAttention, lowered to DeltaRule, and DeltaRule's gradient.
 *
 *   q[batch,steps,heads*group*dk], k[batch,steps,heads*dk], v[batch,steps,heads*dv], S0[batch,heads,dk,dv],
 *   g[batch,steps,heads or heads*dk], b[batch,steps,heads or 1]
 *   -> y[batch,steps,heads*group*dv], S[batch,heads,dk,dv]
 *
 * For each head, position after position:
 *   S' = exp(g) S, or S without decay;  w = b (v - S'^T k), or v without b;  S = S' + k w^T;  y = scale S^T q
 * (gated delta networks, https://arxiv.org/abs/2412.06464).  The gradient computes the states again. */
#include "graph/ops/linear_attention.h"

#include <math.h>
#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ir/rewrite.h"
#include "graph/ops/linear_attention.gen.h"
#include "graph/ops/linear_attention_standard.h"

/* ---- shapes ---- */

void delta_rule_read(DeltaRule *out, const Graph *g, const Node *n)
{
    const Shape *q = in_value(g, n, DELTA_Q)->shape, *v = in_value(g, n, DELTA_V)->shape;
    const int64_t queries = node_int(n, "q_num_heads"), heads = node_int(n, "kv_num_heads");
    const double scale = node_float(n, "scale");

    *out = (DeltaRule){ .batch = q->dim[0],
                        .steps = q->dim[1],
                        .heads = heads,
                        .group = queries / heads,
                        .dk = q->dim[2] / queries,
                        .dv = v->dim[2] / heads,
                        .n_in = n->n_in };
    out->decays = has_in(n, DELTA_DECAY) ? in_value(g, n, DELTA_DECAY)->shape->dim[2] : 0;
    out->betas = has_in(n, DELTA_BETA) ? in_value(g, n, DELTA_BETA)->shape->dim[2] : 0;
    out->scale = scale != 0 ? scale : out->dk ? 1 / sqrt((double)out->dk) : 1;
}

static Status check_heads(const Graph *g, const Node *n)
{
    static const char *const names[] = { "query", "key", "value" };
    const int64_t queries = node_int(n, "q_num_heads"), heads = node_int(n, "kv_num_heads");
    char text[SHAPE_TEXT];

    if (heads < 1 || queries < 1 || queries % heads)
        return FAIL(E_MODEL, "%s: %lld query heads are no multiple of %lld heads", node_text(g, n), (long long)queries,
                    (long long)heads);
    for (int i = 0; i < 3; i++) {
        const Shape *s = in_value(g, n, i)->shape;

        if (s->rank != 3 || s->dim[2] % (i ? heads : queries))
            return FAIL(E_SHAPE, "%s: %s is %s, expected three axes, the last of %lld heads", node_text(g, n), names[i],
                        shape_text(s, text), (long long)(i ? heads : queries));
    }
    return ST_OK;
}

/* E_SHAPE unless gate i, if present, has `heads` or `other` numbers at each position. */
static Status check_gate(const Graph *g, const Node *n, int i, const char *what, int64_t heads, int64_t other)
{
    const Shape *q = in_value(g, n, DELTA_Q)->shape, *s = has_in(n, i) ? in_value(g, n, i)->shape : NULL;
    char text[SHAPE_TEXT];

    if (s && (s->rank != 3 || s->dim[0] != q->dim[0] || s->dim[1] != q->dim[1] ||
              (s->dim[2] != heads && s->dim[2] != other)))
        return FAIL(E_SHAPE, "%s: %s is %s, expected [%lld,%lld,%lld or %lld]", node_text(g, n), what,
                    shape_text(s, text), (long long)q->dim[0], (long long)q->dim[1], (long long)heads,
                    (long long)other);
    return ST_OK;
}

static Status linear_attention_check_shapes(DeltaRule *r, const Graph *g, const Node *n)
{
    const Shape *q = in_value(g, n, DELTA_Q)->shape;
    const int64_t heads = node_int(n, "kv_num_heads");

    TRY(check_heads(g, n));
    TRY(check_gate(g, n, DELTA_DECAY, "decay", heads, q->dim[2] / node_int(n, "q_num_heads") * heads));
    TRY(check_gate(g, n, DELTA_BETA, "beta", heads, 1));
    delta_rule_read(r, g, n);
    TRY(infer_expect(g, n, DELTA_K, "key", SHAPE(r->batch, r->steps, r->heads * r->dk)));
    TRY(infer_expect(g, n, DELTA_V, "value", SHAPE(r->batch, r->steps, r->heads * r->dv)));
    return infer_expect(g, n, DELTA_PAST, "past_state", SHAPE(r->batch, r->heads, r->dk, r->dv));
}

static Status linear_attention_set_outputs(Graph *g, Node *n, const DeltaRule *r, DType state)
{
    const Shape y = SHAPE(r->batch, r->steps, r->heads * r->group * r->dv), s = SHAPE(r->batch, r->heads, r->dk, r->dv);

    set_out(g, n, 0, in_value(g, n, DELTA_Q)->dtype, &y);
    set_out(g, n, 1, state, &s);
    return g->status;
}

/* ---- LinearAttention ---- */

static Status infer_attention(Graph *g, Node *n)
{
    const DType t = in_value(g, n, DELTA_Q)->dtype;
    const char *rule = node_string(n, "update_rule");
    const bool decays = strstr(rule, "gated"), corrects = strstr(rule, "delta");
    DeltaRule r;

    if (has_in(n, DELTA_DECAY) != decays)
        return FAIL(E_MODEL, "%s: decay is %s with update_rule '%s'", node_text(g, n), decays ? "missing" : "given",
                    rule);
    if (has_in(n, DELTA_BETA) != corrects)
        return FAIL(E_MODEL, "%s: beta is %s with update_rule '%s'", node_text(g, n), corrects ? "missing" : "given",
                    rule);
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) &&
            (i == DELTA_PAST ? !dtype_is_float(in_value(g, n, i)->dtype) : in_value(g, n, i)->dtype != t))
            return FAIL(E_SHAPE, "%s: input %d is %s, expected %s", node_text(g, n), i,
                        dtype_name(in_value(g, n, i)->dtype), i == DELTA_PAST ? "a float type" : dtype_name(t));
    TRY(linear_attention_check_shapes(&r, g, n));
    return linear_attention_set_outputs(g, n, &r, has_in(n, DELTA_PAST) ? in_value(g, n, DELTA_PAST)->dtype : t);
}

/* Computes in float32, or in float64 for float64 data. */
static Status lower_attention(Graph *g, Node *n)
{
    const DType t = in_value(g, n, DELTA_Q)->dtype == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32;
    const Attr *attrs = ATTRS(INT("q_num_heads", node_int(n, "q_num_heads")),
                              INT("kv_num_heads", node_int(n, "kv_num_heads")), FLOAT("scale", node_float(n, "scale")));
    ValueId in[DELTA_INPUTS], out[2];

    for (int i = 0; i < DELTA_INPUTS; i++)
        in[i] = has_in(n, i) ? emit_cast(g, n->in[i], t) : NO_VALUE;
    emit_multi(g, &op_DeltaRule, attrs, DELTA_INPUTS, in, 2, out);
    for (int i = 0; i < 2 && !g->status; i++)
        if (has_out(n, i))
            graph_replace(g, n->out[i], emit_cast(g, out[i], value(g, n->out[i])->dtype));
    return g->status;
}

DEFINE_OP(LinearAttention, .precision = PREC_WIDE, .since = 27, .in_min = 3, .in_max = 6, .out_min = 1, .out_max = 2,
          .dtypes = DTYPES_FLOAT, .infer = infer_attention, .lower = lower_attention,
          .attrs = (const AttrDecl[]){ { "q_num_heads", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE },
                                       { "kv_num_heads", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE },
                                       { "chunk_size", A_INT, .i = 64 },
                                       { "scale", A_FLOAT, .f = 0 },
                                       { "update_rule", A_STRING, .s = "gated_delta",
                                         .words = "linear gated delta gated_delta" },
                                       { 0 } },
          .doc = "attention without softmax, by a state that each position updates and reads");

/* ---- DeltaRule ---- */

static Status linear_attention_check_types(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) && in_value(g, n, i)->dtype != in_value(g, n, 0)->dtype)
            return FAIL(E_MODEL, "%s: input %d is %s, expected %s", node_text(g, n), i,
                        dtype_name(in_value(g, n, i)->dtype), dtype_name(in_value(g, n, 0)->dtype));
    return ST_OK;
}

static Status linear_attention_infer(Graph *g, Node *n)
{
    DeltaRule r;

    TRY(linear_attention_check_types(g, n));
    TRY(linear_attention_check_shapes(&r, g, n));
    return linear_attention_set_outputs(g, n, &r, in_value(g, n, 0)->dtype);
}

static Status linear_attention_infer_grad(Graph *g, Node *n)
{
    const DType t = in_value(g, n, 0)->dtype;
    DeltaRule r;

    TRY(linear_attention_check_types(g, n));
    TRY(linear_attention_check_shapes(&r, g, n));
    TRY(infer_expect(g, n, DELTA_DY, "the gradient of the output", SHAPE(r.batch, r.steps, r.heads * r.group * r.dv)));
    TRY(infer_expect(g, n, DELTA_DSTATE, "the gradient of the state", SHAPE(r.batch, r.heads, r.dk, r.dv)));
    for (int i = 0; i < DELTA_INPUTS; i++) {
        const Shape nothing = shape_scalar();

        set_out(g, n, i, t, has_in(n, i) ? in_value(g, n, i)->shape : &nothing);
    }
    return g->status;
}

static Status linear_attention_grad(Grad *gr)
{
    Graph *g = gr->g;
    const Node *n = gr->node;
    ValueId in[DELTA_GRAD_INPUTS], d[DELTA_INPUTS];
    Node *back;

    for (int i = 0; i < DELTA_INPUTS; i++)
        in[i] = i < n->n_in ? grad_in(gr, i) : NO_VALUE;
    in[DELTA_DY] = grad_dout(gr, 0);
    in[DELTA_DSTATE] = grad_dout(gr, 1);
    back = emit_multi(g, &op_DeltaRuleGrad,
                      ATTRS(INT("q_num_heads", node_int(n, "q_num_heads")),
                            INT("kv_num_heads", node_int(n, "kv_num_heads")), FLOAT("scale", node_float(n, "scale"))),
                      DELTA_GRAD_INPUTS, in, DELTA_INPUTS, d);
    if (!back)
        return g->status;
    for (int i = 0; i < DELTA_INPUTS; i++)
        if (has_value(in[i]) && grad_wanted(gr, i))
            grad_set(gr, i, d[i]);
        else
            node_set_output(g, back, i, NO_VALUE);
    return g->status;
}

/* All inputs and outputs are split along the batch, axis 0, or none is. */
static Status linear_attention_place(Placement *p)
{
    const Node *n = p->node;
    Place have = PLACE_B;

    for (int i = 0; i < n->n_in; i++) {
        if (p->in[i].kind == PL_S && p->in[i].axis)
            place_mixes(p, "each position needs the one before");
        else if (have.kind == PL_B && (p->in[i].kind == PL_S || p->in[i].kind == PL_L))
            have = p->in[i];
    }
    for (int i = 0; i < n->n_in; i++)
        p->in[i] = have;
    place_set_all(p, have);
    return ST_OK;
}

static int64_t linear_attention_flops(const Graph *g, const Node *n)
{
    DeltaRule r;

    if (!node_inputs_known(g, n))
        return 0;
    delta_rule_read(&r, g, n);
    return (n->op == &op_DeltaRuleGrad ? 4 : 2) * r.batch * r.steps * r.heads * (r.group + 2) * r.dk * r.dv;
}

#define OWN                                                                                                      \
    .domain = "dpexec", .precision = PREC_WIDE, .since = 1, .in_min = 3, .dtypes = DTYPES_FLOAT,                 \
    .place = linear_attention_place, .flops = linear_attention_flops, .attrs = (const AttrDecl[])                \
    {                                                                                                            \
        { "q_num_heads", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE },                                    \
            { "kv_num_heads", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE }, { "scale", A_FLOAT, .f = 0 }, \
        {                                                                                                        \
            0                                                                                                    \
        }                                                                                                        \
    }

DEFINE_OP(DeltaRule, OWN, .in_max = DELTA_INPUTS, .out_min = 2, .out_max = 2, .infer = linear_attention_infer,
          .grad = linear_attention_grad, .standard = delta_rule_standard,
          .doc = "LinearAttention; the inputs present of (q, k, v, past, decay, beta) choose the update rule");

DEFINE_OP(DeltaRuleGrad, OWN, .in_max = DELTA_GRAD_INPUTS, .out_min = DELTA_INPUTS, .out_max = DELTA_INPUTS,
          .optional_out = (1 << DELTA_INPUTS) - 1, .infer = linear_attention_infer_grad,
          .standard = delta_rule_standard_grad,
          .doc = "gradients of DeltaRule, from (q, k, v, past, decay, beta, dy, dstate)");
