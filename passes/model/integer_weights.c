/* integer-weights: a weight that the file holds as integers gets floats to be trained by.
 *
 * DequantizeLinear of a constant of integers, as a network that was quantised after training has its weights and
 * biases, becomes QuantizeLinear and DequantizeLinear of a constant of floats, the master, under the name of the
 * integers.  Its numbers are what the integers stand for, so what is computed stays the same.  The master is trained
 * and kept in checkpoints as any weight is; where the model is written, integers take its place again
 * (integer_weights_write). */
#include "passes/model/integer_weights.h"

#include <string.h>

#include "graph/emit.h"
#include "graph/ops/quantize.h"
#include "passes/pass.h"
#include "passes/report.h"

/* The name of nodes that make integers of masters. */
#define QUANTISES_MASTER "dpexec.integers"

static bool is_constant(const Graph *g, const Node *n, int i) { return !has_in(n, i) || value_const(g, n->in[i]); }

/* Does it make floats of integers that stand in the file, by constants? */
static bool reads_integers(const Graph *g, const Node *n)
{
    const Value *q = quant_role(n) == QUANT_TO ? in_value(g, n, 0) : NULL;

    return q && q->kind == V_CONST && q->init && q->init->data &&
           (dtype_is_int(q->dtype) || dtype_is_small_int(q->dtype)) && dtype_bits(q->dtype) <= 32 &&
           shape_numel(q->shape) > 0 && is_constant(g, n, 1) && is_constant(g, n, 2);
}

static bool reads_alike(const Node *a, const Node *b)
{
    for (int i = 0; i < 3; i++)
        if (has_in(a, i) != has_in(b, i) || (has_in(a, i) && !value_eq(a->in[i], b->in[i])))
            return false;
    return attrs_same(a, b);
}

/* Do all that read the integers make the same floats of them? */
static bool is_read_alike(const Graph *g, const Node *of)
{
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (value_eq(n->in[i], of->in[0]) && (i || quant_role(n) != QUANT_TO || !reads_alike(n, of)))
                return false;
    for (int i = 0; i < g->n_output; i++)
        if (value_eq(g->output[i].value, of->in[0]))
            return false;
    return true;
}

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

    TRY(dequantize_constant(&floats, g->arena, g, to));
    graph_rename(g, integers, arena_printf(g->arena, "%s_integers", name));
    in[0] = graph_add_const_nocopy(g, "floats", floats);
    graph_rename(g, in[0], name);
    from = emit(g, &op_QuantizeLinear, attrs, has_in(to, 2) ? 3 : 2, in);
    TRY(g->status);
    master = value(g, in[0]);
    q = value(g, integers);
    master->origin = q->origin;
    master->said = q->said;
    value(g, from)->producer->name = QUANTISES_MASTER;
    q->idle = false;
    FOR_NODES(g, n)
        if (quant_role(n) == QUANT_TO && value_eq(n->in[0], integers))
            n->in[0] = from;
    return ST_OK;
}

static Status run(Graph *g, PassCtx *ctx)
{
    const char *first = NULL;

    FOR_NODES(g, n) {
        if (!reads_integers(g, n) || !is_read_alike(g, n))
            continue;
        TRY(node_normalise(g, n));
        TRY(give_master(g, n));
        first = first ? first : value(g, value(g, n->in[0])->producer->in[0])->name;
        ctx->n_changed++;
    }
    if (!ctx->n_changed)
        return ST_OK;
    TRY(graph_sort(g));
    return report_note(
        ctx->report, NOTE_OTHER, first,
        "and %d more: integers in the file, trained as floats that begin with what the integers stand for, "
        "and written as integers again; what was below half a step of them is lost where training goes on "
        "from the written model, not from a checkpoint (--freeze fixes them)",
        ctx->n_changed - 1);
}

Status integer_weights_write(Graph *g)
{
    FOR_NODES(g, n) {
        Value *master = quant_role(n) == QUANT_FROM ? value(g, n->in[0]) : NULL;
        const ValueId id = master ? n->in[0] : NO_VALUE;
        Tensor *q;

        if (!master || strcmp(n->name, QUANTISES_MASTER) || master->kind != V_CONST)
            continue;
        TRY(quantize_constant(&q, g->arena, g, n));
        master->dtype = q->dtype;
        graph_replace(g, n->out[0], id);
        graph_remove(g, n);

        master->init = q;
        TRY(g->status);
    }
    return graph_sort(g);
}

const Pass pass_integer_weights = { .name = "integer-weights",
                                    .summary = "weights of integers get floats to be trained by",
                                    .run = run };
