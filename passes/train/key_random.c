/* key-random: in training, whatever draws random numbers draws anew for every batch, and the same for every partition.
 *
 * ONNX's Dropout and generators become operators keyed by (seed, batches drawn for so far, node, global element): see
 * graph/ops/random.h.  The count is a state, so that a resumed run goes on with the numbers it would have had. */
#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/random.h"
#include "passes/options/step.h"
#include "passes/pass.h"

static bool draws(const Node *n) { return (n->op->flags & OPF_RANDOM) && !n->op->domain; }

/* The state, and its update: one more after this step. */
static ValueId add_counter(Graph *g)
{
    int64_t zero = 0;
    Tensor init = { DT_INT64, shape_scalar(), &zero };
    ValueId draw = graph_add_state(g, STATE_DRAW, &init, false);

    graph_add_update(g, draw, EMIT(g, Add, NULL, draw, emit_scalar(g, DT_INT64, 1)));
    return draw;
}

static Status key_random_run(Graph *g, PassCtx *ctx)
{
    ValueId draw = NO_VALUE;
    int64_t key = 0;

    FOR_NODES(g, n) {
        if (!draws(n))
            continue;
        if (dropout_keeps_all(g, n)) { /* left to lower; it has its number, so that the others keep theirs */
            key++;
            continue;
        }
        if (!has_value(draw))
            draw = add_counter(g);
        TRY(random_make_keyed(g, n, draw, step_options(ctx->opt)->seed, key++));
        graph_remove(g, n);
        ctx->n_changed++;
    }
    TRY(g->status);
    return graph_sort(g);
}

const Pass pass_key_random = { .name = "key-random",
                               .summary = "key random operators by seed, batch, node and element",
                               .modes = MODES_LEARN,
                               .run = key_random_run };
