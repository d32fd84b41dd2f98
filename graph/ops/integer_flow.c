/* Replacement of integers between QuantizeLinear and DequantizeLinear by floats.
 *
 * Exporters and optimizers let integers flow through Reshape, Transpose, Concat, MaxPool or Relu.  With one scale s > 0
 * and one zero point z for all elements, (q - z) s increases with q, so such an operator and DequantizeLinear commute:
 * DequantizeLinear(MaxPool(q)) = MaxPool(DequantizeLinear(q)).  Then the pair is adjacent, and gradients pass it
 * (straight_through.c). */
#include "graph/ir/emit.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/quantize.h"
#include "graph/ops/where.gen.h"

enum { MAX_DEPTH = 64 };

Status integer_flow_begin(IntegerFlow *f, Graph *g, Arena *a)
{
    f->g = g;
    f->n_value = g->n_value;
    f->turn = 0;
    f->floats = ARENA_NEW(a, ValueId, g->n_value);
    f->seen = ARENA_NEW(a, uint32_t, g->n_value);
    f->made = ARENA_NEW(a, uint32_t, g->n_value);
    f->passed = ARENA_NEW(a, bool, g->n_value);
    return f->passed && f->floats && f->seen && f->made ? ST_OK : FAIL_NOMEM();
}

/* Do the outputs consist of elements of input i, and is its type t? */
static bool carries(const Graph *g, const Node *n, int i, DType t)
{
    return has_in(n, i) && (n->op->picks ? op_picks(n->op, i) : op_moves(n->op, i)) && in_value(g, n, i)->dtype == t;
}

bool integer_flow_passes(const Graph *g, const Node *n, ValueId v)
{
    const DType t = value(g, v)->dtype;

    if (n->op->branch)
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) && (n->op->picks ? op_picks(n->op, i) : op_moves(n->op, i)) && in_value(g, n, i)->dtype != t)
            return false;
    return carries(g, n, n->op->picks || op_moves(n->op, 0) ? 0 : 1, t);
}

bool integer_flow_axis(const Node *n, int64_t *axis)
{
    int rank = 0;
    const int64_t *perm = n->op == &op_Transpose && node_attr(n, "perm") ? node_ints(n, "perm", &rank) : NULL;
    const int64_t at = *axis < 0 ? *axis + rank : *axis;

    if (n->op != &op_Transpose)
        return false;
    if (!perm) /* the axes in reverse order */
        *axis = -1 - *axis;
    else if (at >= 0 && at < rank)
        *axis = perm[at];
    return true;
}

static bool is_integer_constant(const Graph *g, ValueId v) { return value_const(g, v) != NULL; }

static bool find(IntegerFlow *f, ValueId v, int depth)
{
    const Graph *g = f->g;
    const Node *n = value(g, v)->producer;
    double range[2];

    if (v.i >= f->n_value || depth > MAX_DEPTH)
        return false;
    if (f->seen[v.i] == f->turn)
        return true;
    f->seen[v.i] = f->turn;
    if (is_integer_constant(g, v)) {
        f->n_constant++;
        return true;
    }
    if (quantizer_of(g, v, range)) {
        f->n_quantiser++;
        return true;
    }
    if (!n || !n->op || !integer_flow_passes(g, n, v))
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (carries(g, n, i, value(g, v)->dtype) && !find(f, n->in[i], depth + 1))
            return false;
    return true;
}

bool integer_flow_find(IntegerFlow *f, const Node *to)
{
    const Graph *g = f->g;
    double range[2];

    if (quant_role(to) != QUANT_TO || !node_inputs_known(g, to) || dtype_bits(in_value(g, to, 0)->dtype) > 32 ||
        to->in[0].i >= f->n_value)
        return false;
    f->turn++;
    f->n_constant = f->n_quantiser = 0;
    if (!quantizer_of(g, to->in[0], range) && !(quant_is_one_number(g, to, 1) && quant_is_one_number(g, to, 2)))
        return false;
    return find(f, to->in[0], 0);
}

static ValueId floats_of(IntegerFlow *f, ValueId v, const Node *to);

/* The floats of constant integers.  If scale and zero point are constants, the floats are one, too, so that Clip's
 * gradient knows its bound. */
static ValueId floats_of_constant(IntegerFlow *f, const Tensor *integers, const Node *to)
{
    Graph *g = f->g;
    const bool fixed = value_const(g, to->in[1]) && (!has_in(to, 2) || value_const(g, to->in[2]));
    Tensor *floats;

    if (!fixed || g->status)
        return g->status ? NO_VALUE : dequantised(g, to, graph_add_const_nocopy(g, "integers", integers));
    if ((g->status = dequantize_constant(&floats, g->arena, g, to, integers)))
        return NO_VALUE;
    return emit_cast(g, graph_add_const_nocopy(g, "floats", floats), value(g, to->out[0])->dtype);
}

/* The float of integer 0, with which Relu compares and Pad fills by default. */
static ValueId zero_of(IntegerFlow *f, DType integers, const Node *to)
{
    const ValueId zero = emit_scalar(f->g, integers, 0);

    return f->g->status ? NO_VALUE : floats_of_constant(f, value_const(f->g, zero), to);
}

/* Emits n, which moves or picks the integers v, on floats. */
static ValueId passed_on(IntegerFlow *f, const Node *n, ValueId v, const Node *to)
{
    Graph *g = f->g;
    const DType t = value(g, v)->dtype;
    ValueId *in = ARENA_NEW(g->arena, ValueId, n->n_in + 2);
    int n_in = n->n_in;
    Node *made;

    if (!in) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int i = 0; i < n_in; i++)
        in[i] = carries(g, n, i, t) ? floats_of(f, n->in[i], to) : n->in[i];
    if (n->op == &op_Relu)
        return EMIT(g, Clip, NULL, in[0], zero_of(f, t, to));
    if (n->op == &op_Pad && !has_in(n, 2)) {
        in[2] = zero_of(f, t, to);
        n_in = n_in > 3 ? n_in : 3;
    }
    if (!(made = graph_add_node_like(g, n, n_in, in, n->n_out, NULL)))
        return NO_VALUE;
    if (!g->status)
        g->status = node_infer(g, made);
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i) && n->out[i].i < f->n_value) {
            f->floats[n->out[i].i] = made->out[i];
            f->made[n->out[i].i] = f->turn;
        }
    return f->floats[v.i];
}

static ValueId floats_of(IntegerFlow *f, ValueId v, const Node *to)
{
    Graph *g = f->g;
    Quantiser how = { 0 };

    if (g->status)
        return NO_VALUE;
    if (f->made[v.i] == f->turn)
        return f->floats[v.i];
    if (is_integer_constant(g, v))
        f->floats[v.i] = floats_of_constant(f, value_const(g, v), to);
    else if ((how.from = quantizer_of(g, v, how.range))) {
        const Tensor *integers = in_value(g, how.from, 0)->integers;

        f->passed[how.from->out[0].i] = true;
        how.scale_learns = f->scale_learns && f->scale_learns(f->data, g, how.from);
        /* A bias, 32-bit integers in the file, is not quantised: PyTorch does not either, and its steps are tiny. */
        f->floats[v.i] = integers && dtype_bits(integers->dtype) == 32
                             ? emit_cast(g, how.from->in[0], value(g, to->out[0])->dtype)
                             : straight_through(g, to, v, &how);
    } else
        f->floats[v.i] = passed_on(f, value(g, v)->producer, v, to);
    f->made[v.i] = f->turn;
    return f->floats[v.i];
}

ValueId integer_flow_floats(IntegerFlow *f, const Node *to) { return floats_of(f, to->in[0], to); }
