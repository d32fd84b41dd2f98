/* straight-through: gradients pass pairs of QuantizeLinear and DequantizeLinear unchanged.
 *
 * The pass replaces each DequantizeLinear of a quantised value by one whose gradient goes to the input of the
 * QuantizeLinear (graph/ops/straight_through.c), as in PyTorch's quantisation-aware training.  Operators between the
 * two may move or select integers (graph/ops/integer_flow.c).  The pass runs before parameters are found: gradients
 * then reach the weights in front of quantisers. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/rewrite.h"
#include "graph/ops/quantize.h"
#include "passes/model/parameters.h"
#include "passes/options/parameters.h"
#include "passes/pass.h"
#include "passes/report.h"

/* ---- scales that are parameters ---- */

static bool is_called_parameter(const Value *v, const BuildOptions *opt)
{
    const ParameterOptions *parameters = parameter_options(opt);
    const char *pattern;
    const PatternRule rule = pattern_rule(opt, v->name, &pattern);

    if (rule != PATTERN_SILENT)
        return rule == PATTERN_TRAIN && pattern_is_name(pattern);
    for (int i = 0; parameters->parameters && i < parameters->parameters->n; i++)
        if (!strcmp(parameters->parameters->key[i].name, v->name))
            return true;
    return !parameters->parameters && (v->evidence == EVIDENCE_PARAMETER || v->evidence == EVIDENCE_TRAINED);
}

static bool is_number_of_code(const Graph *g, ValueId v, const BuildOptions *opt)
{
    return value_const(g, v) && value(g, v)->evidence == EVIDENCE_NONE && !is_called_parameter(value(g, v), opt);
}

/* Is the scale a parameter, or computed from one by operators whose other inputs are numbers of the code? */
static bool scale_learns(const void *data, const Graph *g, const Node *from)
{
    const PassCtx *ctx = data;
    ValueId v = from->in[1];

    for (int depth = 0; depth < 16; depth++) {
        const Node *n = value(g, v)->producer;
        ValueId next = NO_VALUE;

        if (value(g, v)->kind == V_CONST)
            return !value_eq(v, from->in[0]) && is_called_parameter(value(g, v), ctx->opt);
        for (int i = 0; n && i < n->n_in; i++)
            if (has_in(n, i) && dtype_is_float(in_value(g, n, i)->dtype) &&
                !(n->n_in > 1 && is_number_of_code(g, n->in[i], ctx->opt))) {
                if (has_value(next))
                    return false;
                next = n->in[i];
            }
        if (!has_value(next))
            return false;
        v = next;
    }
    return false;
}

/* ---- warnings ---- */

/* (*out)[value id]: does it depend on a weight, or on a quantised constant of several numbers? */
static Status find_learning(bool **out, const Graph *g, Arena *a)
{
    bool *learns = ARENA_NEW(a, bool, g->n_value);

    if (!(*out = learns))
        return FAIL_NOMEM();
    FOR_NODES(g, n) {
        bool any = false;

        for (int i = 0; i < n->n_in; i++) {
            const Value *v = has_in(n, i) ? in_value(g, n, i) : NULL;
            const bool place = (i < 8 && n->op->param_in >> i & 1 && !(n->op->flags & OPF_PARAM_MAYBE)) ||
                               (quant_role(n) == QUANT_FROM && !i);

            any |= v && (learns[n->in[i].i] || (place && v->kind == V_CONST && dtype_is_float(v->dtype) &&
                                                shape_known(v->shape) && shape_numel(v->shape) > 4));
        }
        for (int i = 0; i < n->n_out; i++)
            learns[n->out[i].i] = any;
    }
    return ST_OK;
}

/* The node where the gradient of a quantiser's integers q ends; NULL: no node reads them. */
static const Node *gradient_end(const Graph *g, ValueId q)
{
    for (int depth = 0; depth < 64; depth++) {
        const Node *reader = NULL;

        FOR_NODES(g, n)
            for (int i = 0; i < n->n_in && !reader; i++)
                reader = value_eq(n->in[i], q) ? n : NULL;
        if (!reader || !reader->n_out || !has_out(reader, 0) || !integer_flow_passes(g, reader, reader->out[0]))
            return reader;
        q = reader->out[0];
    }
    return NULL;
}

/* Warns of quantisers that gradients do not pass. */
static Status warn_of_rest(const Graph *g, const PassCtx *ctx, const bool *passed)
{
    bool *learns;

    if (!ctx->report || !mode_in(ctx->opt, MODES_LEARN))
        return ST_OK;
    TRY(find_learning(&learns, g, ctx->scratch));
    FOR_NODES(g, n) {
        const Node *end = quant_role(n) == QUANT_FROM && !passed[n->out[0].i] && learns[n->out[0].i]
                              ? gradient_end(g, n->out[0])
                              : NULL;

        if (end)
            TRY(report_note(ctx->report, NOTE_NO_GRADIENT, n->name,
                            "no gradient passes this quantiser: its integers go to %s, and not to a DequantizeLinear "
                            "alone that takes one scale for all",
                            node_text(g, end)));
    }
    return ST_OK;
}

static Status note_scales(const PassCtx *ctx, const Graph *g, const IntegerFlow *f)
{
    const char *first = NULL;
    int n_fixed = 0;

    FOR_NODES(g, n) {
        if (quant_role(n) != QUANT_FROM || n->out[0].i >= f->n_value || !f->passed[n->out[0].i] ||
            scale_learns(ctx, g, n))
            continue;
        first = first ? first : n->name;
        n_fixed++;
    }
    return !first || !mode_in(ctx->opt, MODES_LEARN)
               ? ST_OK
               : report_note(ctx->report, NOTE_OTHER, first,
                             "and %d more: gradients pass these quantisers straight through, and their scales stay as "
                             "they are (--train NAME trains a scale, --qat off fixes what stands behind quantisers)",
                             n_fixed - 1);
}

/* ---- the pass ---- */

static Status straight_through_run(Graph *g, PassCtx *ctx)
{
    IntegerFlow f = { .scale_learns = scale_learns, .data = ctx };
    const uint32_t n_node = g->n_node;
    PROBLEMS(found);

    if (mode_in(ctx->opt, MODES_LEARN))
        FOR_NODES(g, n)
            if (quant_role(n) == QUANT_WITHIN)
                problems_add(&found, "%s", node_text(g, n));
    TRY(problems_fail(&found, E_UNSUPPORTED,
                      "training through operators of integers, which have no gradient (export the network with "
                      "QuantizeLinear and DequantizeLinear, or with floats)"));
    if (parameter_options(ctx->opt)->qat_off)
        return ST_OK;
    TRY(integer_flow_begin(&f, g, ctx->scratch));
    TRY(rewrite_begin(g, ctx->scratch));
    for (uint32_t i = 0; i < n_node; i++) {
        Node *to = g->node[i];

        if (!to->op || !integer_flow_find(&f, to) || !f.n_quantiser)
            continue;
        graph_replace(g, to->out[0], integer_flow_floats(&f, to));
        TRY(g->status);
        graph_remove(g, to);
        ctx->n_changed++;
    }
    TRY(rewrite_end(g));
    TRY(note_scales(ctx, g, &f));
    TRY(warn_of_rest(g, ctx, f.passed));
    return graph_sort(g);
}

const Pass pass_straight_through = { .name = "straight-through",
                                     .summary = "gradients pass pairs of QuantizeLinear and DequantizeLinear",
                                     .run = straight_through_run };
