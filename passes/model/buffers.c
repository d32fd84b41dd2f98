/* buffers: --state BUFFER=VALUE, the value of a buffer of the model after each step.
 *
 * The importer reads updates that the file records (graph/onnx/traced_program.c).  keep-buffers
 * (passes/train/keep_buffers.c) makes each buffer with an update a state. */
#include <string.h>

#include "graph/ir/op.h"
#include "passes/options/parameters.h"
#include "passes/pass.h"

/* Adds the update of "BUFFER=VALUE", where VALUE is the name of a value or of an output. */
static Status set_update(Graph *g, const PassCtx *ctx, const char *text, Problems *wrong)
{
    const char *is = strchr(text, '='), *name = arena_printf(ctx->scratch, "%.*s", (int)(is - text), text);
    const ValueId next = has_value(graph_find(g, is + 1)) ? graph_find(g, is + 1) : graph_output(g, is + 1),
                  buffer = name ? graph_find(g, name) : NO_VALUE;

    if (!name)
        return FAIL_NOMEM();
    if (!has_value(buffer) || value(g, buffer)->kind != V_CONST)
        problems_add(wrong, "'%s' is no tensor of the model", name);
    else if (!has_value(next) || value(g, next)->kind != V_TEMP)
        problems_add(wrong, "no node and no output of the model makes '%s'", is + 1);
    else {
        for (int i = 0; i < g->n_update; i++)
            if (value_eq(g->update[i].state, buffer)) {
                g->update[i].next = next;
                return ST_OK;
            }
        graph_add_update(g, buffer, next);
    }
    return g->status;
}

static Status buffers_run(Graph *g, PassCtx *ctx)
{
    const ParameterOptions *parameters = parameter_options(ctx->opt);
    PROBLEMS(wrong);

    for (int i = 0; i < parameters->n_state; i++)
        TRY(set_update(g, ctx, parameters->state[i], &wrong));
    ctx->n_changed += parameters->n_state;
    return problems_fail(&wrong, E_INVALID, "--state");
}

const Pass pass_buffers = { .name = "buffers", .summary = "find what --state BUFFER=VALUE names", .run = buffers_run };
