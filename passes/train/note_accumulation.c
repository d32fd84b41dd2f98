/* note-accumulation: reports why micro-batches are not exactly one batch.
 *
 * Sums over samples add up; statistics of a batch do not: batch-norm normalises each micro-batch by its own mean and
 * variance and updates the running ones once a micro-batch.  After prepare-training, which decides which layers are
 * trained.  The same holds for an embedder's operator whose copies share. */
#include <stdio.h>

#include "graph/ir/op.h"
#include "passes/pass.h"
#include "passes/report.h"

enum { LISTED = 5 }; /* names, of all that there may be */

typedef bool Which(const Node *n);

static bool takes_statistics(const Node *n) { return n->op->running_in && n->op->trains && n->op->trains(n); }
static bool shares(const Node *n) { return n->op->flags & OPF_SHARES; }

/* How many of those nodes there are, and the names of the first. */
static int note_accumulation_list(char names[320], const Graph *g, Which *which)
{
    int n_node = 0, len = 0;

    FOR_NODES(g, n)
        if (which(n) && n_node++ < LISTED && len < 320)
            len += snprintf(names + len, 320 - (size_t)len, "%s'%.48s'", n_node > 1 ? ", " : "", n->name);
    return n_node;
}

static Status note_accumulation_run(Graph *g, PassCtx *ctx)
{
    char names[320];
    int n = note_accumulation_list(names, g, takes_statistics);

    if (n)
        TRY(report_note(ctx->report, NOTE_ACCUMULATION, "--accumulate",
                        "batch-norm takes the statistics of each micro-batch, so a group differs from one large batch: "
                        "%d layer%s (%s%s); --freeze keeps their statistics",
                        n, n > 1 ? "s" : "", names, n > LISTED ? ", ..." : ""));
    if ((n = note_accumulation_list(names, g, shares)))
        TRY(report_note(ctx->report, NOTE_ACCUMULATION, "--accumulate",
                        "nodes share values among the samples of each micro-batch, so a group differs from one large "
                        "batch: %d node%s (%s%s)",
                        n, n > 1 ? "s" : "", names, n > LISTED ? ", ..." : ""));
    return ST_OK;
}

const Pass pass_note_accumulation = { .name = "note-accumulation",
                                      .summary = "say what makes micro-batches differ from one batch",
                                      .modes = 1u << BUILD_ACCUMULATE,
                                      .run = note_accumulation_run };
