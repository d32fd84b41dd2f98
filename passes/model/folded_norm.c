/* Batch-norms that an exporter or a simplifier folded into the weights of the layer in front of them, as far as the
 * file shows it.
 *
 * | who | evidence |
 * |---|---|
 * | PyTorch's default exporter, onnxscript | metadata "rewriter.rule_name" of the node, "fused_bn" in the weight's name
 * | | PyTorch's legacy exporter, onnxsim | the weight has a name that the exporter made ("onnx::Conv_12") | | ONNX
 * Runtime | the weight's name begins with ConvBnFusion_, ConvMulFusion_ or MatMulBnFusion_ | | onnxslim | the weight is
 * called like the node's output, "getitem_weight" of "getitem" | | any, behind the legacy exporter | the layer's output
 * has the name of a batch-norm's |
 *
 * onnxoptimizer leaves a formula (batch_norm_formula.c). */
#include <string.h>

#include "graph/ir/traced_calls.h"
#include "passes/model/parameters.h"

#define EXPORTER "the exporter"

typedef enum { WEIGHT_AS_IT_WAS, WEIGHT_FOLDED, WEIGHT_UNKNOWN } Weight;

static bool begins(const char *name, const char *with) { return !strncmp(name, with, strlen(with)); }

/* "getitem_weight" of the node that makes "getitem": PyTorch calls no parameter like that. */
static bool called_like_output(const Graph *g, const Node *n, const char *weight)
{
    const char *out = value(g, n->out[0])->name;
    const size_t length = strlen(out);

    return producer_is(g, "pytorch") && begins(weight, out) && !strcmp(weight + length, "_weight");
}

/* "/bn1/BatchNormalization_output_0" is a name that PyTorch gives to what a batch-norm makes. */
static bool makes_a_norms_output(const Graph *g, const Node *n)
{
    const char *name = strstr(value(g, n->out[0])->name, "/BatchNormalization");

    return producer_is(g, "pytorch") && name && strstr(name, "_output_0");
}

/* Of a layer with weights, whatever made the file. */
static bool shows_folding(const Graph *g, const Node *n, const Value *w)
{
    return call_norm(n->call) != NORM_UNKNOWN || strstr(w->name, "fused_bn") || begins(w->name, "ConvBnFusion_") ||
           begins(w->name, "ConvMulFusion_") || begins(w->name, "MatMulBnFusion_") ||
           called_like_output(g, n, w->name) || makes_a_norms_output(g, n);
}

/* Does its name, and what the exporter says of it, show that the weight was computed from the module's? */
static Weight conv_weight(const Graph *g, const Node *n, bool torch_export)
{
    const Value *w = in_value(g, n, 1);

    if (w->kind == V_TEMP)
        return WEIGHT_AS_IT_WAS;
    if (shows_folding(g, n, w))
        return WEIGHT_FOLDED;
    if (!producer_is(g, "pytorch") || w->origin == ORIGIN_NONE)
        return WEIGHT_UNKNOWN;
    if (torch_export)
        return w->evidence == EVIDENCE_NONE ? WEIGHT_FOLDED : WEIGHT_AS_IT_WAS;
    return name_form(g, w, false) == NAME_MADE ? WEIGHT_FOLDED : WEIGHT_AS_IT_WAS;
}

/* A matrix product with a weight. */
static bool folded_norm_is_product(const Graph *g, const Node *n)
{
    return n->op->param_in & 2 && !n->op->filter_in && !n->op->running_in && n->n_in > 1 && has_value(n->in[1]) &&
           in_value(g, n, 1)->kind != V_TEMP && in_value(g, n, 1)->shape->rank == 2;
}

static Status note_products(const Graph *g, Report *report)
{
    const Node *first = NULL;
    int n_folded = 0;

    FOR_NODES(g, n)
        if (folded_norm_is_product(g, n) && shows_folding(g, n, in_value(g, n, 1))) {
            first = first ? first : n;
            n_folded++;
        }
    if (!first)
        return ST_OK;
    return report_note(
        report, NOTE_EXPORTER, EXPORTER,
        "the weights of %d linear layer%s (%s%s) are not the module's own but computed from them, as when "
        "BatchNormalization is folded into them: what is trained is the network without it "
        "(docs/export.md tells how to keep it)",
        n_folded, n_folded > 1 ? "s" : "", node_text(g, first), n_folded > 1 ? " and others" : "");
}

Status note_folded_norms(const Graph *g, Report *report, bool torch_export)
{
    int n_conv = 0, n_folded = 0, n_unknown = 0;
    bool norm = false;

    FOR_NODES(g, n) {
        Weight w = n->op->filter_in ? conv_weight(g, n, torch_export) : WEIGHT_AS_IT_WAS;

        norm |= n->op->flags & OPF_NORM;
        n_conv += n->op->filter_in != 0;
        n_folded += w == WEIGHT_FOLDED;
        n_unknown += w == WEIGHT_UNKNOWN;
    }
    TRY(note_products(g, report));
    if (n_folded)
        return report_note(
            report, NOTE_EXPORTER, EXPORTER,
            "the weights of %d of %d convolutions are not the module's own but computed "
            "from them, as when BatchNormalization is folded into them: what is trained is the network without it "
            "(docs/export.md tells how to keep it)",
            n_folded, n_conv);
    if (norm || n_conv < 3 || n_unknown < n_conv || producer_is(g, "dpexec"))
        return ST_OK;
    return report_note(report, NOTE_EXPORTER, EXPORTER,
                       "%d convolutions and no normalisation: if the model had any, the exporter folded "
                       "it into their weights, and it is trained without (docs/export.md)",
                       n_conv);
}
