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
#include "graph/op.h"
#include "graph/rewrite.h"
#include "passes/pass.h"

typedef struct {
    Graph *g;
    uint32_t *uses; /* [value] */
    Node **reader;  /* [value] one of those that read it */
} Casts;

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
static const Node *reader_of(const Casts *c, const Node *n)
{
    const Node *reader = n->op == &op_Cast && node_int(n, "to") == DT_FLOAT32 ? c->reader[n->out[0].i] : NULL;

    if (!reader || dtype_size(in_value(c->g, n, 0)->dtype) != 2 || c->uses[n->out[0].i] != 1)
        return NULL;
    return reader->op->flags & (OPF_MANY | OPF_COLLECTIVE) ? reader : NULL;
}

static bool fits(const Casts *c, const Node *a, const Node *b)
{
    return a->device == b->device && reader_of(c, a) == reader_of(c, b) &&
           in_value(c->g, a, 0)->dtype == in_value(c->g, b, 0)->dtype &&
           value(c->g, a->out[0])->dtype == value(c->g, b->out[0])->dtype;
}

/* The first node becomes that of all, the others are removed; nothing happens when the device does not compute such a
 * node. */
static Status merge(Graph *g, PassCtx *ctx, Node *const *list, int count)
{
    Node *first = list[0], one = *first;
    ValueId *in = ARENA_NEW(ctx->scratch, ValueId, count), *out = ARENA_NEW(ctx->scratch, ValueId, count);

    if (!in || !out)
        return FAIL_NOMEM();
    for (int i = 0; i < count; i++) {
        in[i] = list[i]->in[0];
        out[i] = list[i]->out[0];
    }
    first->op = &op_CastAll;
    first->in = in;
    first->out = out;
    first->n_in = first->n_out = count;
    if (!target_computes(&ctx->opt->backend, g, first)) {
        *first = one;
        return ST_OK;
    }
    node_set_inputs(g, first, count, in);
    node_set_outputs(g, first, count, out);
    for (int i = 1; i < count; i++)
        graph_remove(g, list[i]);
    ctx->n_changed += count - 1;
    return g->status;
}

static Status run(Graph *g, PassCtx *ctx)
{
    Casts c = { .g = g };
    Node **all = ARENA_NEW(ctx->scratch, Node *, g->n_node), **group = ARENA_NEW(ctx->scratch, Node *, g->n_node);
    int n = 0;

    if (!ctx->opt->backend.accelerator)
        return ST_OK;
    c.uses = graph_count_uses(g, ctx->scratch);
    c.reader = graph_readers(g, ctx->scratch);
    if (!all || !group || !c.uses || !c.reader)
        return FAIL_NOMEM();
    FOR_NODES(g, x)
        if ((converts_state(g, x) || reader_of(&c, x)) && target_computes(&ctx->opt->backend, g, x))
            all[n++] = x;
    for (int i = 0; i < n; i++) {
        int count = 0;

        for (int k = i; all[i] && k < n; k++)
            if (all[k] && fits(&c, all[i], all[k])) {
                group[count++] = all[k];
                if (k > i)
                    all[k] = NULL;
            }
        if (count > 1)
            TRY(merge(g, ctx, group, count));
    }
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_group_casts = { .name = "group-casts",
                                .summary = "one node converts all parameters of an accelerator",
                                .modes = 1u << BUILD_TRAIN | 1u << BUILD_ACCUMULATE,
                                .run = run };
