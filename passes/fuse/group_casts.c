/* group_casts: the conversions of an accelerator's parameters to 16 bits become one node at the beginning of the step,
 * those of gradients from 16 bits to float32 one node for each that reads them: the update of all parameters, or the
 * collective of a bucket.
 *
 * There a launch costs as much as the conversion of a small parameter, and a model has hundreds.  Legal because a state
 * does not change before the step ends, so nothing else need come first.  The converted parameters then live from the
 * beginning on; in a training step, and in the pass of a micro-batch, nearly all of them are read again on the way
 * back, so they were there when memory is fullest anyway.  Without a way back they are converted one by one, and only
 * one is there at a time.
 *
 * Conversions that one node reads and nothing else may be one, because what that node needs it needs all at once.  The
 * 16 bits live on until then instead of twice as many; in all a step's gradients, in both types, are there at its end,
 * when activations are not. */
#include "graph/ir/readers.h"
#include "graph/ops/cast.gen.h"
#include "passes/pass.h"

static bool converts_state(const Graph *g, const Node *n)
{
    const int64_t to = n->op == &op_Cast ? node_int(n, "to") : DT_NONE;
    const Value *x;

    if (to == DT_NONE)
        return false;
    x = in_value(g, n, 0);
    return (to == DT_FLOAT16 || to == DT_BFLOAT16) && x->kind == V_STATE && x->dtype == DT_FLOAT32;
}

/* The node that alone reads the float32 that n makes of 16 bits, if it reads many tensors; else NULL. */
static const Node *reader_of(const Uses *u, const Node *n)
{
    const Node *reader = n->op == &op_Cast && node_int(n, "to") == DT_FLOAT32 ? only_reader(u, n->out[0]) : NULL;

    if (!reader || dtype_size(in_value(u->g, n, 0)->dtype) != 2)
        return NULL;
    return reader->op->flags & (OPF_MANY | OPF_COLLECTIVE) ? reader : NULL;
}

static bool group_casts_fits(const Uses *u, const Node *a, const Node *b)
{
    return a->device == b->device && reader_of(u, a) == reader_of(u, b) &&
           in_value(u->g, a, 0)->dtype == in_value(u->g, b, 0)->dtype &&
           value(u->g, a->out[0])->dtype == value(u->g, b->out[0])->dtype;
}

/* The first node becomes that of all, the others go; nothing happens when the device does not compute such a node. */
static bool group_casts_merge(Draft *d, Node *const *list, int count)
{
    draft_begin(d, list[0], &op_CastAll);
    for (int i = 1; i < count; i++) {
        draft_in(d, i, list[i]->in[0]);
        draft_out(d, i, list[i]->out[0]);
        draft_absorb(d, list[i]);
    }
    return draft_try_apply(d);
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
    FOR_NODES(g, x)
        if ((converts_state(g, x) || reader_of(&u, x)) && target_computes(build_target(ctx->opt), g, x))
            all[n++] = x;
    for (int i = 0; i < n; i++) {
        int count = 0;

        for (int k = i; all[i] && k < n; k++)
            if (all[k] && group_casts_fits(&u, all[i], all[k])) {
                group[count++] = all[k];
                if (k > i)
                    all[k] = NULL;
            }
        if (count > 1 && group_casts_merge(&d, group, count))
            ctx->n_changed += count - 1;
    }
    return ctx->n_changed && !g->status ? graph_sort(g) : g->status;
}

const Pass pass_group_casts = { .name = "group-casts",
                                .summary = "one node converts all parameters of an accelerator",
                                .modes = MODES_LEARN,
                                .run = group_casts_run };
