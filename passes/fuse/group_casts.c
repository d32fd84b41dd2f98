/* group-casts: conversions between float32 and 16 bits on an accelerator become one node for many tensors.
 *
 * Parameters are converted to 16 bits by one node at the beginning of the step.  Gradients are converted to float32 by
 * one node for each node that reads them: the update of all parameters, or the collective of a bucket.  A launch costs
 * as much as the conversion of a small parameter, and a model has hundreds.
 *
 * Legal because a state does not change before the step ends.  The converted parameters then live from the beginning
 * on. In a training step nearly all of them are read again on the way back, so they are alive anyway when memory is
 * fullest. Without a way back they are converted one by one, and one is alive at a time.
 *
 * Conversions that only one node reads may be one, because that node needs all of them at once.  The 16-bit tensors
 * then live until that node instead of twice as many bytes.  All of a step's gradients are alive, in both types, at its
 * end, when activations are not. */
#include "graph/ir/readers.h"
#include "graph/ops/cast.gen.h"
#include "passes/pass.h"

/* The only reader of n's float32, converted from 16 bits, if it reads many tensors; else NULL. */
static const Node *reader_of(const Uses *u, const Node *n)
{
    const Node *reader = n->op == &op_Cast && node_int(n, "to") == DT_FLOAT32 ? only_reader(u, n->out[0]) : NULL;

    if (!reader || dtype_size(in_value(u->g, n, 0)->dtype) != 2)
        return NULL;
    return reader->op->flags & (OPF_MANY | OPF_COLLECTIVE) ? reader : NULL;
}

static Status group_casts_run(Graph *g, PassCtx *ctx)
{
    Node **all = ARENA_NEW(ctx->scratch, Node *, g->n_node), **group = ARENA_NEW(ctx->scratch, Node *, g->n_node);
    Draft d;
    Uses u;
    int n = 0;

    if (!build_target(ctx->opt)->accelerator)
        return ST_OK;
    if (!all || !group)
        return FAIL_NOMEM();
    TRY(uses_find(&u, g, ctx->scratch));
    pass_draft(&d, g, ctx);
    FOR_NODES(g, x) {
        const int64_t to = x->op == &op_Cast ? node_int(x, "to") : DT_NONE;
        const bool of_state = (to == DT_FLOAT16 || to == DT_BFLOAT16) && in_value(g, x, 0)->kind == V_STATE &&
                              in_value(g, x, 0)->dtype == DT_FLOAT32;

        if ((of_state || reader_of(&u, x)) && target_computes(build_target(ctx->opt), g, x))
            all[n++] = x;
    }
    for (int i = 0; i < n; i++) {
        int count = 0;

        for (int k = i; all[i] && k < n; k++) {
            const Node *a = all[i], *b = all[k];

            if (!b || a->device != b->device || reader_of(&u, a) != reader_of(&u, b) ||
                in_value(g, a, 0)->dtype != in_value(g, b, 0)->dtype ||
                value(g, a->out[0])->dtype != value(g, b->out[0])->dtype)
                continue;
            group[count++] = all[k];
            if (k > i)
                all[k] = NULL;
        }
        if (count < 2)
            continue;
        draft_begin(&d, group[0], &op_CastAll); /* the first node becomes that of all */
        for (int k = 1; k < count; k++) {
            draft_in(&d, k, group[k]->in[0]);
            draft_out(&d, k, group[k]->out[0]);
            draft_absorb(&d, group[k]);
        }
        if (draft_try_apply(&d))
            ctx->n_changed += count - 1;
    }
    return ctx->n_changed && !g->status ? graph_sort(g) : g->status;
}

const Pass pass_group_casts = { .name = "group-casts",
                                .summary = "one node converts all parameters of an accelerator",
                                .modes = MODES_LEARN,
                                .idempotent = true,
                                .run = group_casts_run };
