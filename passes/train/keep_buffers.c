/* keep-buffers: a buffer that the model's forward pass writes becomes a state, which each step of training updates.
 *
 * Out of training it is read as training has left it.  Where the file says that the program writes a buffer, but not
 * with what, the run is warned (as of gradients that it stops at a place that the file lost). */
#include <string.h>

#include "graph/ir/op.h"
#include "graph/ir/traced_calls.h"
#include "passes/options/parameters.h"
#include "passes/pass.h"
#include "passes/report.h"

static bool training(const PassCtx *ctx) { return mode_in(ctx->opt, MODES_LEARN); }

static Status keep_buffers_keep(Graph *g, const PassCtx *ctx)
{
    int kept = 0;

    for (int i = 0; i < g->n_update; i++) {
        const Update u = g->update[i];
        Value *buffer = value(g, u.state), *next = value(g, u.next);
        char a[SHAPE_TEXT], b[SHAPE_TEXT];

        if (buffer->kind == V_CONST) {
            if (buffer->dtype != next->dtype || !shape_eq(buffer->shape, next->shape))
                return FAIL(E_SHAPE, "buffer '%s' is %s%s, but its new value '%s' is %s%s (--state names another)",
                            buffer->name, dtype_name(buffer->dtype), shape_text(buffer->shape, a), next->name,
                            dtype_name(next->dtype), shape_text(next->shape, b));
            buffer->kind = V_STATE;
            if (!training(ctx))
                continue;
        }
        g->update[kept++] = u;
    }
    g->n_update = kept;
    return ST_OK;
}

/* Statistics of batch-norms are updated by their nodes, and the count of batches is read by nothing. */
static bool is_statistic(const Graph *g, TextPart target)
{
    static const char *const ends[] = { "num_batches_tracked", "running_mean", "running_var" };

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t n = strlen(ends[i]);

        if (target.n < n || strncmp(target.s + target.n - n, ends[i], n))
            continue;
        if (!i)
            return true;
        FOR_NODES(g, node)
            for (int k = 0; k < node->n_in && k < 8; k++)
                if (has_value(node->in[k]) && text_part_is(target, in_value(g, node, k)->name) &&
                    !(node->op->running_in >> k & 1))
                    return false;
        return true;
    }
    return false;
}

static bool is_kept(const Graph *g, TextPart target)
{
    for (int i = 0; i < g->n_update; i++)
        if (text_part_is(target, value(g, g->update[i].state)->name))
            return true;
    return false;
}

static Status note_written(const Graph *g, PassCtx *ctx)
{
    const char *at = g->signature;
    SignatureLine line;

    while (signature_next(&line, &at)) {
        const char *name;

        if (!text_part_is(line.kind, "BUFFER_MUTATION") || is_statistic(g, line.target) || is_kept(g, line.target))
            continue;
        if (!(name = arena_printf(ctx->scratch, "%.*s", TEXT_PART(line.target))))
            return FAIL_NOMEM();
        TRY(report_note(
            ctx->report, NOTE_EXPORTER, name,
            "forward() writes this buffer, but the file lacks the new value: the buffer stays as it is; return "
            "the new value as an output of the network, and give --state '%s=OUTPUT' "
            "(docs/reference/parameters.md)",
            name));
    }
    return ST_OK;
}

/* Does the call read a copy of something, and no detached value? */
static bool reads_copy(const char *call)
{
    bool copy = false;
    TextPart arg;

    for (const char *at = call; call_next(&arg, &at);) {
        if (call_detaches(arg))
            return false;
        copy |= call_copies(arg);
    }
    return copy;
}

static Status note_stops(const Graph *g, PassCtx *ctx)
{
    FOR_NODES(g, n)
        if (n->lost_detach && !parameter_options(ctx->opt)->n_stop)
            TRY(report_note(ctx->report, NOTE_EXPORTER, n->name,
                            "%s, and the exporter's optimizer removed the place: export "
                            "with optimize=False, or give --stop-gradient 'VALUE>%s' (docs/reference/parameters.md)",
                            reads_copy(n->call)
                                ? "its code stops a gradient (detach), or copies a value (clone) and may do so"
                                : "its code stops a gradient (detach)",
                            n->name));
    return ST_OK;
}

static Status keep_buffers_run(Graph *g, PassCtx *ctx)
{
    if (training(ctx)) {
        TRY(note_written(g, ctx));
        TRY(note_stops(g, ctx));
    }
    return keep_buffers_keep(g, ctx);
}

const Pass pass_keep_buffers = { .name = "keep-buffers",
                                 .summary = "make states of buffers that the model's forward pass writes",
                                 .run = keep_buffers_run };
