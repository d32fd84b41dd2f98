/* standard: a step in operators of ai.onnx alone, for runtimes that know no others.
 *
 * Every operator of ours that can be here has an OpDef.standard, which emits what it computes in ONNX's operators and
 * redirects its outputs, as `lower` does for lower; what it emits is looked at too.  What has none is listed, all of it
 * at once.  What ONNX has no place for becomes the graph's interface: the next value of state NAME is the output
 * NAME.next, and of a step nothing else but the loss is one.  A state stays one, for the export to make an input of it
 * that has a default (ExportOptions.defaults); the step's number is called "step".  Legal because runtimes feed back
 * what they are given.  Sizes are those that the graph was built for, so no dimension keeps a symbol's name. */
#include <string.h>

#include "graph/op.h"
#include "graph/rewrite.h"
#include "passes/pass.h"

#define NEXT_SUFFIX ".next"
#define STEP_NAME "step"

extern const Pass pass_dce;

static Status lower_all(Graph *g, PassCtx *ctx)
{
    TRY(rewrite_begin(g, ctx->scratch));
    FOR_NODES(g, n) {
        rewrite_read(g, n);
        if (!n->op->standard)
            continue;
        graph_begin_purpose(g, n->phase, n->name);
        TRY(n->op->standard(g, n));
        TRY(g->status);
        ctx->n_changed++;
    }
    graph_begin_purpose(g, PHASE_NONE, NULL);
    TRY(rewrite_end(g));
    return graph_sort(g);
}

static void drop_outputs(Graph *g)
{
    for (int i = g->n_output - 1; i >= 0; i--)
        if (strcmp(g->output[i].name, OUT_LOSS))
            graph_remove_output(g, g->output[i].name);
}

static Status make_interface(Graph *g, const BuildOptions *opt)
{
    const ValueId step = graph_find(g, STATE_STEP);

    if (opt->mode == BUILD_TRAIN)
        drop_outputs(g);
    if (has_value(step))
        graph_rename(g, step, STEP_NAME);
    for (int i = 0; i < g->n_update; i++) {
        const char *name = arena_printf(g->arena, "%s" NEXT_SUFFIX, value(g, g->update[i].state)->name);

        if (!name)
            return graph_fail_nomem(g);
        graph_add_output(g, name, g->update[i].next);
    }
    g->n_update = 0;
    for (int i = 0; i < g->n_input; i++)
        value(g, g->input[i])->dim_param = NULL;
    return g->status;
}

static Status run(Graph *g, PassCtx *ctx)
{
    Problems left = { 0 };

    if (!ctx->opt->standard)
        return ST_OK;
    TRY(lower_all(g, ctx));
    TRY(make_interface(g, ctx->opt));
    TRY(pass_dce.run(g, ctx));
    FOR_NODES(g, n)
        if (n->op->domain)
            problems_add(&left, "%s", node_text(g, n));
    return problems_fail(&left, E_UNSUPPORTED, "these cannot be said in operators of ai.onnx");
}

const Pass pass_standard = { .name = "standard",
                             .summary = "a step in operators of ai.onnx alone, with --standard",
                             .run = run };
