/* integer-weights: a weight that the file holds as integers gets a float master, which is trained.
 *
 * A network that was quantised after training has DequantizeLinear of integer constants for its weights and biases.
 * Each becomes QuantizeLinear and DequantizeLinear of a float constant, the master, which takes the name of the
 * integers.  The master starts with the dequantised numbers, so the model computes the same.  The master is trained and
 * kept in checkpoints like any weight; when the model is written, integers replace it (integer_weights_write). */
#include "passes/model/integer_weights.h"

#include "graph/ir/emit.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/quantize.gen.h"
#include "graph/ops/quantize.h"
#include "passes/options/parameters.h"
#include "passes/pass.h"
#include "passes/report.h"

extern const Pass pass_dce;

static bool is_constant(const Graph *g, const Node *n, int i) { return !has_in(n, i) || value_const(g, n->in[i]); }

static bool holds_integers(const Graph *g, ValueId v)
{
    const Value *q = value(g, v);

    return q->kind == V_CONST && q->init && q->init->data && (dtype_is_int(q->dtype) || dtype_is_small_int(q->dtype)) &&
           dtype_bits(q->dtype) <= 32 && shape_numel(q->shape) > 0;
}

/* Does it dequantise by a constant scale and zero point? */
static bool integer_weights_is_fixed(const Graph *g, const Node *n)
{
    return quant_role(n) == QUANT_TO && is_constant(g, n, 1) && is_constant(g, n, 2);
}

/* Does it dequantise integers of the file, by a constant scale and zero point? */
static bool reads_integers(const Graph *g, const Node *n)
{
    return integer_weights_is_fixed(g, n) && holds_integers(g, n->in[0]);
}

/* Do all nodes that read the integers dequantise them in the same way? */
static bool is_read_alike(const Graph *g, const Node *of)
{
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++) {
            if (!value_eq(n->in[i], of->in[0]) || n->op->flags & OPF_SHAPE_ONLY)
                continue;
            if (i || quant_role(n) != QUANT_TO || !attrs_same(n, of))
                return false;
            for (int k = 1; k < 3; k++)
                if (has_in(n, k) != has_in(of, k) || (has_in(n, k) && !value_eq(n->in[k], of->in[k])))
                    return false;
        }
    for (int i = 0; i < g->n_output; i++)
        if (value_eq(g->output[i].value, of->in[0]))
            return false;
    return true;
}

/* Puts the master and a QuantizeLinear in front of all DequantizeLinear of the integers. */
static Status give_master(Graph *g, const Node *to)
{
    const ValueId integers = to->in[0];
    Value *q = value(g, integers);
    const char *name = q->name;
    const Attr *attrs = ATTRS(INT("axis", node_int(to, "axis")), INT("block_size", node_int(to, "block_size")),
                              INT("output_dtype", q->dtype), INT("precision", DT_FLOAT32));
    ValueId in[3] = { NO_VALUE, to->in[1], has_in(to, 2) ? to->in[2] : NO_VALUE }, from;
    Tensor *floats;
    Value *master;

    TRY(dequantize_constant(&floats, g->arena, g, to, q->init));
    graph_rename(g, integers, arena_printf(g->arena, "%s_integers", name));
    in[0] = graph_add_const_nocopy(g, "floats", floats);
    graph_rename(g, in[0], name);
    from = emit(g, &op_QuantizeLinear, attrs, has_in(to, 2) ? 3 : 2, in);
    TRY(g->status);
    master = value(g, in[0]);
    q = value(g, integers);
    master->origin = q->origin;
    master->evidence = q->evidence;
    master->integers = q->init;
    q->idle = false;
    FOR_NODES(g, n)
        if (quant_role(n) == QUANT_TO && value_eq(n->in[0], integers))
            n->in[0] = from;
    return ST_OK;
}

/* ---- integers that are moved before they become floats ---- */

enum { MAX_MOVES = 16 };

/* Does n only move the elements of input i? */
static bool moves(const Node *n, int i)
{
    return has_in(n, i) && op_moves(n->op, i) && !(n->op->same & SAME_TYPED) && !n->op->branch && n->n_out == 1;
}

/* Are the integers at v constants of the file that at most *left nodes move?  `each`: they have scales along an axis.
 */
static bool is_moved(const Graph *g, ValueId v, bool each, int *left)
{
    const Node *n = value(g, v)->producer;
    bool any = false;

    if (holds_integers(g, v))
        return true;
    if (!n || !n->op || --*left < 0 || n->n_in > MAX_MOVES || (each && !integer_flow_axis(n, &(int64_t){ 0 })))
        return false;
    for (int i = 0; i < n->n_in; i++) {
        if (!moves(n, i))
            continue;
        if (!is_moved(g, n->in[i], each, left))
            return false;
        any = true;
    }
    return any;
}

/* Returns the floats that `to` makes of v: dequantises the constants, and moves the floats by copies of the nodes in
 * between. */
static ValueId move_floats(Graph *g, ValueId v, const Node *to, int64_t axis)
{
    const Node *n = value(g, v)->producer;
    ValueId in[MAX_MOVES];
    Node *made;

    if (holds_integers(g, v)) {
        if (!(made = graph_add_node_like(g, to, to->n_in, to->in, 1, NULL)))
            return NO_VALUE;
        made->in[0] = v;
        node_set_int(g, made, "axis", axis);
        return made->out[0];
    }
    integer_flow_axis(n, &axis);
    for (int i = 0; i < n->n_in; i++)
        in[i] = moves(n, i) ? move_floats(g, n->in[i], to, axis) : n->in[i];
    made = graph_add_node_like(g, n, n->n_in, in, 1, NULL);
    return made ? made->out[0] : NO_VALUE;
}

/* Swaps DequantizeLinear with nodes that move integer constants (Transpose, Gather), if the integers have one scale, or
 * one for each index along an axis of a Transpose. */
static Status move_first(Graph *g, PassCtx *ctx)
{
    const uint32_t n_node = g->n_node;
    bool any = false;

    for (uint32_t i = 0; i < n_node; i++) {
        Node *to = g->node[i];
        const bool each = to->op && integer_weights_is_fixed(g, to) &&
                          !(quant_is_one_number(g, to, 1) && quant_is_one_number(g, to, 2));
        int left = MAX_MOVES;

        if (!to->op || !integer_weights_is_fixed(g, to) || holds_integers(g, to->in[0]) ||
            (each && node_attr(to, "block_size") && node_int(to, "block_size")) || !is_moved(g, to->in[0], each, &left))
            continue;
        TRY(node_normalise(g, to));
        graph_replace(g, to->out[0], move_floats(g, to->in[0], to, node_int(to, "axis")));
        TRY(g->status);
        graph_remove(g, to);
        any = true;
    }
    if (!any)
        return ST_OK;
    TRY(graph_sort(g));
    return pass_dce.run(g, ctx);
}

static Status integer_weights_run(Graph *g, PassCtx *ctx)
{
    const char *first = NULL;
    int n_kept = 0;

    if (parameter_options(ctx->opt)->qat_off) {
        FOR_NODES(g, n) {
            if (!reads_integers(g, n))
                continue;
            first = first ? first : in_value(g, n, 0)->name;
            n_kept++;
        }
        return !first ? ST_OK
                      : report_note(ctx->report, NOTE_OTHER, first,
                                    "and %d more: integers in the file, fixed by --qat off", n_kept - 1);
    }
    TRY(move_first(g, ctx));
    FOR_NODES(g, n) {
        if (!reads_integers(g, n))
            continue;
        if (!is_read_alike(g, n)) {
            if (shape_numel(in_value(g, n, 0)->shape) != 1)
                TRY(report_note(ctx->report, NOTE_NO_GRADIENT, in_value(g, n, 0)->name,
                                "not trained: integers of the file that other nodes than DequantizeLinear read, or "
                                "that have several scales"));
            continue;
        }
        TRY(node_normalise(g, n));
        TRY(give_master(g, n));
        first = first ? first : value(g, value(g, n->in[0])->producer->in[0])->name;
        ctx->n_changed++;
    }
    if (!ctx->n_changed)
        return ST_OK;
    TRY(graph_sort(g));
    return report_note(ctx->report, NOTE_OTHER, first,
                       "and %d more: integers in the file, trained as floats that begin at the values of the integers, "
                       "and written as integers again; training that goes on from the written model, rather than from "
                       "a checkpoint, loses fractions below half a step (--freeze fixes them)",
                       ctx->n_changed - 1);
}

/* ---- writing ---- */

/* Quantises a master.  An element that still equals the file's integer, dequantised, becomes that integer: of more than
 * 24 bits, division and rounding need not give it. */
static Status write_master(Tensor **out, Graph *g, const Node *from, const Value *master)
{
    const Node *to = NULL;
    Tensor *q, *before;

    FOR_NODES(g, n)
        if (!to && quant_role(n) == QUANT_TO && value_eq(n->in[0], from->out[0]))
            to = n;
    TRY(quantize_constant(&q, g->arena, g, from));
    *out = q;
    if (!to || !shape_eq(&q->shape, &master->integers->shape) || q->dtype != master->integers->dtype)
        return ST_OK;
    TRY(dequantize_constant(&before, g->arena, g, to, master->integers));
    for (int64_t i = 0; i < tensor_numel(q); i++)
        if (tensor_float(before, i) == tensor_float(master->init, i))
            tensor_set_int(q, i, (int64_t)tensor_float(master->integers, i));
    return ST_OK;
}

Status integer_weights_write(Graph *g)
{
    FOR_NODES(g, n) {
        Value *master = quant_role(n) == QUANT_FROM ? value(g, n->in[0]) : NULL;
        const ValueId id = master ? n->in[0] : NO_VALUE;
        Tensor *q;

        if (!master || !master->integers || master->kind != V_CONST)
            continue;
        TRY(write_master(&q, g, n, master));
        master->dtype = q->dtype;
        graph_replace(g, n->out[0], id);
        graph_remove(g, n);

        master->init = q;
        master->integers = NULL;
        TRY(g->status);
    }
    return graph_sort(g);
}

Status integer_weights_standard(Graph *g)
{
    const uint32_t n_node = g->n_node;

    for (uint32_t i = 0; i < n_node; i++) {
        Node *to = g->node[i];
        Node *from = to->op && quant_role(to) == QUANT_TO ? value(g, to->in[0])->producer : NULL;
        const Tensor *integers = from && quant_role(from) == QUANT_FROM ? in_value(g, from, 0)->integers : NULL;
        ValueId x;

        if (!integers || dtype_bits(integers->dtype) != 32)
            continue;
        x = from->in[0];
        if (value(g, x)->dtype != in_value(g, to, 1)->dtype)
            x = import_emit(g, &op_Cast, ATTRS(INT("to", in_value(g, to, 1)->dtype)), 1, &x);
        TRY(g->status);
        graph_replace(g, to->out[0], x);
        graph_remove(g, to);
    }
    FOR_NODES(g, n)
        if (quant_role(n) == QUANT_FROM && in_value(g, n, 0)->integers &&
            dtype_bits(in_value(g, n, 0)->integers->dtype) == 32)
            graph_remove(g, n);
    return graph_sort(g);
}

const Pass pass_integer_weights = { .name = "integer-weights",
                                    .summary = "integer weights get float masters, which are trained",
                                    .run = integer_weights_run };
