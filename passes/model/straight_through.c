/* straight-through: gradients pass quantisers.
 *
 * Each DequantizeLinear of what a QuantizeLinear made becomes one whose gradient goes straight to what was quantised
 * (graph/ops/straight_through.c), so that a network of such pairs is trained as PyTorch's quantisation-aware training
 * does.  It stands before parameters are found: what lies behind quantisers is one. */
#include "graph/emit.h"
#include "graph/ops/quantize.h"
#include "graph/rewrite.h"
#include "passes/pass.h"

/* Operators that compute with integers have no gradient: all are listed. */
static Status refuse_integers(const Graph *g, const PassCtx *ctx)
{
    Problems found = { 0 };

    if (!mode_in(ctx->opt, MODES_LEARN))
        return ST_OK;
    FOR_NODES(g, n)
        if (quant_role(n) == QUANT_WITHIN)
            problems_add(&found, "%s", node_text(g, n));
    return problems_fail(&found, E_UNSUPPORTED,
                         "training through operators of integers, which have no gradient (export the network with "
                         "QuantizeLinear and DequantizeLinear, or with floats)");
}

static Status run(Graph *g, PassCtx *ctx)
{
    const uint32_t n_node = g->n_node;

    TRY(refuse_integers(g, ctx));
    TRY(rewrite_begin(g, ctx->scratch));
    for (uint32_t i = 0; i < n_node; i++) {
        Node *to = g->node[i];
        double range[2];
        const Node *from = to->op && node_inputs_known(g, to) ? quantizer_of(g, to, range) : NULL;

        if (!from)
            continue;
        graph_replace(g, to->out[0], straight_through(g, to, from, range));
        TRY(g->status);
        graph_remove(g, to);
        ctx->n_changed++;
    }
    TRY(rewrite_end(g));
    return graph_sort(g);
}

const Pass pass_straight_through = { .name = "straight-through",
                                     .summary = "gradients pass pairs of QuantizeLinear and DequantizeLinear",
                                     .run = run };
