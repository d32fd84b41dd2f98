/* standard: writes a step in operators of ai.onnx alone, for runtimes that know no others.
 *
 * Every operator of ours that can occur here has an OpDef.standard, which emits the same computation in ONNX's
 * operators and redirects its outputs, as `lower` does for lower; the emitted nodes are visited as well.  One message
 * lists all nodes without it.  Updates, which ONNX lacks, become outputs (next_outputs.h); a step's only other output
 * is the loss.  A state stays one, and the export makes it an input with a default (ExportOptions.defaults); the step's
 * number is called "step".  Legal because runtimes feed outputs back.  Sizes are those that the graph was built for, so
 * no dimension keeps a symbol's name. */
#include "graph/ir/lower.h"
#include "passes/options/step.h"
#include "passes/pass.h"
#include "passes/train/next_outputs.h"

#define STEP_NAME "step"

extern const Pass pass_dce;

static Status make_interface(Graph *g, const BuildOptions *opt)
{
    const ValueId step = graph_find(g, STATE_STEP);

    if (build_mode(opt) == BUILD_TRAIN)
        next_outputs_drop_others(g);
    if (has_value(step))
        graph_rename(g, step, STEP_NAME);
    TRY(next_outputs_add(g));
    g->n_update = 0;
    for (int i = 0; i < g->n_input; i++)
        value(g, g->input[i])->dim_param = NULL;
    return g->status;
}

static Status standard_run(Graph *g, PassCtx *ctx)
{
    PROBLEMS(left);

    if (!step_options(ctx->opt)->standard)
        return ST_OK;
    TRY(graph_lower(g, ctx->scratch, &(Lowering){ .standard = true, .n_lowered = &ctx->n_changed }));
    TRY(graph_sort(g));
    TRY(make_interface(g, ctx->opt));
    TRY(pass_dce.run(g, ctx));
    FOR_NODES(g, n)
        if (n->op->domain)
            problems_add(&left, "%s", node_text(g, n));
    return problems_fail(&left, E_UNSUPPORTED, "no operators of ai.onnx compute these nodes");
}

const Pass pass_standard = { .name = "standard",
                             .summary = "a step in operators of ai.onnx alone, with --standard",
                             .run = standard_run };
