/* Warnings of batch-norms that an exporter or a simplifier folded into the weights of the layer in front of them.  The
 * evidence in the file:
 *
 *   PyTorch's default exporter, onnxscript   metadata "rewriter.rule_name", or "fused_bn" in the weight's name
 *   PyTorch's legacy exporter, onnxsim       the weight has a name that the exporter made ("onnx::Conv_12")
 *   ONNX Runtime                             the weight is called ConvBnFusion_, ConvMulFusion_, MatMulBnFusion_ ...
 *   onnxslim                                 the weight is called after the node's output, "getitem_weight"
 *   any, after the legacy exporter           the layer's output has the name of a batch-norm's output
 *
 * onnxoptimizer leaves a formula (batch_norm_formula.c). */
#include <string.h>

#include "graph/ir/traced_calls.h"
#include "passes/model/parameters.h"

#define EXPORTER "the exporter"

typedef enum { WEIGHT_UNCHANGED, WEIGHT_FOLDED, WEIGHT_UNKNOWN } Weight;

static bool begins(const char *name, const char *with) { return !strncmp(name, with, strlen(with)); }

/* Does the layer n with the weight w show that a norm was folded into it, whatever tool made the file? */
static bool shows_folding(const Graph *g, const Node *n, const Value *w)
{
    const char *out = value(g, n->out[0])->name, *norm = strstr(out, "/BatchNormalization");

    if (call_norm(n->call) != NORM_UNKNOWN || strstr(w->name, "fused_bn") || begins(w->name, "ConvBnFusion_") ||
        begins(w->name, "ConvMulFusion_") || begins(w->name, "MatMulBnFusion_"))
        return true;
    /* PyTorch names no parameter "getitem_weight", and names a batch-norm's output "/bn1/BatchNormalization_output_0".
     */
    return producer_is(g, "pytorch") &&
           ((begins(w->name, out) && !strcmp(w->name + strlen(out), "_weight")) || (norm && strstr(norm, "_output_0")));
}

/* Do its name and the exporter's marks show that the weight was computed from the module's own? */
static Weight conv_weight(const Graph *g, const Node *n, bool torch_export)
{
    const Value *w = in_value(g, n, 1);

    if (w->kind == V_TEMP)
        return WEIGHT_UNCHANGED;
    if (shows_folding(g, n, w))
        return WEIGHT_FOLDED;
    if (!producer_is(g, "pytorch") || w->origin == ORIGIN_NONE)
        return WEIGHT_UNKNOWN;
    if (torch_export)
        return w->evidence == EVIDENCE_NONE ? WEIGHT_FOLDED : WEIGHT_UNCHANGED;
    return name_form(g, w, false) == NAME_MADE ? WEIGHT_FOLDED : WEIGHT_UNCHANGED;
}

static Status note_products(const Graph *g, Report *report)
{
    const Node *first = NULL;
    int n_folded = 0;

    FOR_NODES(g, n) {
        const bool product = n->op->param_in & 2 && !n->op->filter_in && !n->op->running_in && has_in(n, 1) &&
                             in_value(g, n, 1)->kind != V_TEMP && in_value(g, n, 1)->shape->rank == 2;

        if (product && shows_folding(g, n, in_value(g, n, 1))) {
            first = first ? first : n;
            n_folded++;
        }
    }
    if (!first)
        return ST_OK;
    return report_note(report, NOTE_EXPORTER, EXPORTER,
                       "the weights of %d linear layer%s (%s%s) are not the module's own but computed from them, as "
                       "when BatchNormalization is folded into them: dpexec trains the network without it "
                       "(docs/guide/export.md tells how to keep it)",
                       n_folded, n_folded > 1 ? "s" : "", node_text(g, first), n_folded > 1 ? " and others" : "");
}

Status note_folded_norms(const Graph *g, Report *report, bool torch_export)
{
    int n_conv = 0, n_folded = 0, n_unknown = 0;
    bool norm = false;

    FOR_NODES(g, n) {
        Weight w = n->op->filter_in ? conv_weight(g, n, torch_export) : WEIGHT_UNCHANGED;

        norm |= n->op->flags & OPF_NORM;
        n_conv += n->op->filter_in != 0;
        n_folded += w == WEIGHT_FOLDED;
        n_unknown += w == WEIGHT_UNKNOWN;
    }
    TRY(note_products(g, report));
    if (n_folded)
        return report_note(report, NOTE_EXPORTER, EXPORTER,
                           "the weights of %d of %d convolutions are not the module's own but computed from them, as "
                           "when BatchNormalization is folded into them: dpexec trains the network without it "
                           "(docs/guide/export.md tells how to keep it)",
                           n_folded, n_conv);
    if (norm || n_conv < 3 || n_unknown < n_conv || producer_is(g, "dpexec"))
        return ST_OK;
    return report_note(report, NOTE_EXPORTER, EXPORTER,
                       "%d convolutions and no normalisation: if the model had any, the exporter folded "
                       "it into their weights, and it is trained without (docs/guide/export.md)",
                       n_conv);
}
