/* note-accumulation: says what keeps micro-batches from being exactly one batch.
 *
 * Sums over samples add up; statistics of a batch do not: batch-norm normalises each micro-batch by its own mean and
 * variance and updates the running ones once a micro-batch.  After prepare-training, which decides which layers are
 * trained. */
#include <stdio.h>

#include "graph/op.h"
#include "passes/pass.h"
#include "passes/report.h"

enum { LISTED = 5 }; /* names, of all that there may be */

static bool takes_statistics(const Node *n) { return n->op->running_in && n->op->trains(n); }

static Status run(Graph *g, PassCtx *ctx)
{
    const Node *first = NULL;
    char names[320];
    int n_layer = 0, len = 0;

    FOR_NODES(g, n) {
        if (!takes_statistics(n))
            continue;
        first = first ? first : n;
        if (n_layer++ < LISTED && len < (int)sizeof names)
            len += snprintf(names + len, sizeof names - (size_t)len, "%s'%.48s'", n_layer > 1 ? ", " : "", n->name);
    }
    if (!first)
        return ST_OK;
    return report_note(
        ctx->report, NOTE_ACCUMULATION, "--accumulate",
        "batch-norm takes the statistics of every micro-batch by itself, so a group is not exactly one batch: %d "
        "layer%s (%s%s); --freeze keeps their statistics",
        n_layer, n_layer > 1 ? "s" : "", names, n_layer > LISTED ? ", ..." : "");
}

const Pass pass_note_accumulation = { .name = "note-accumulation",
                                      .summary = "say what makes micro-batches differ from one batch",
                                      .modes = 1u << BUILD_ACCUMULATE,
                                      .run = run };
