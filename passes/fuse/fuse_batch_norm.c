/* fuse_batch_norm: small and elementwise operators around batch-norm's gradient become part of it.
 *
 * On an accelerator the gradient of a Relu behind batch-norm is a pass over three tensors, and what is done for each
 * channel is a launch that takes longer than its work.  Taken in are
 *
 *   ReluGrad              of a Relu of a BatchNormApply, by BatchNormGradStats and BatchNormGradInput: both read x,
 *                         which tells the sign of the Relu's result.  They read what ReluGrad read as dy, and nothing
 *                         else
 *   BatchNormGradParams   which takes the sums apart, by the BatchNormGradInput that reads them too
 *   BatchNormStats        by the BatchNormMerge that alone reads its row, where the batch is not divided over
 *                         replicas: one BatchNormMoments
 *
 * Legal where nothing else reads what disappears, on one device for one replica, when the device computes such a node.
 * The sign is that of the result before it is rounded to 16 bits.  Before fuse-elementwise, which would take ReluGrad
 * for itself. */
#include "graph/ir/reachable.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/batchnorm.gen.h"
#include "graph/ir/readers.h"
#include "passes/pass.h"

enum { READERS_MOST = 2 };

typedef struct {
    Graph *g;
    PassCtx *ctx;
    Uses uses; /* from before the present step, once a device has said that it computes something of it */
    bool looked;
    Node **input_of; /* [value] the last BatchNormGradInput that reads it as its sums */
    Draft draft[READERS_MOST];
    Node **node; /* those that a step begins with */
    uint32_t n_node;
    Reachability paths;
} Fusing;

static Status fuse_batch_norm_look(Fusing *f)
{
    if (f->looked)
        return ST_OK;
    f->looked = true;
    uses_forget(&f->uses, f->ctx->scratch);
    return uses_find(&f->uses, f->g, f->ctx->scratch);
}

/* ---- the gradient of Relu ---- */

/* The batch-norm by statistics of its data whose result's Relu n is the gradient of, or NULL. */
static Node *norm_behind(const Graph *g, const Node *n)
{
    Node *relu = n->op == &op_ReluGrad ? made_by(g, n->in[1], &op_Relu) : NULL;
    Node *norm = relu ? made_by(g, relu->in[0], &op_BatchNormApply) : NULL;

    return norm && has_in(norm, 5) && same_place(norm, n) ? norm : NULL;
}

/* Is `r` a gradient of `norm` by v?  Inputs of norm: x, mean, var, scale, bias. */
static bool is_gradient(const Node *r, const Node *norm, ValueId v)
{
    const bool input = r->op == &op_BatchNormGradInput;

    if ((!input && r->op != &op_BatchNormGradStats) || !value_eq(r->in[1], v) || has_in(r, input ? 7 : 5) ||
        !same_place(r, norm))
        return false;
    return value_eq(r->in[0], norm->in[0]) && value_eq(r->in[2], norm->in[1]) && value_eq(r->in[3], norm->in[2]) &&
           (!input || value_eq(r->in[4], norm->in[3])) && node_float(r, "epsilon") == node_float(norm, "epsilon");
}

/* The gradients of `norm` by n's result: their number, or 0 when something else reads it. */
static int list_gradients(const Fusing *f, const Node *n, const Node *norm, Node *list[READERS_MOST])
{
    const Uses *u = &f->uses;
    const uint32_t first = u->first[n->out[0].i], count = uses_count(u, n->out[0]);

    for (uint32_t i = 0; i < count; i++) {
        Node *r = i < READERS_MOST && !u->ends[n->out[0].i] ? u->reader[first + i].n : NULL;

        if (!r || !r->op || u->reader[first + i].in != 1 || !is_gradient(r, norm, n->out[0]))
            return 0;
        list[i] = r;
    }
    return (int)count;
}

/* r, a gradient of `norm` by n's result, takes n in. */
static bool reads_through(Draft *d, Node *r, Node *n, const Node *norm)
{
    const bool input = r->op == &op_BatchNormGradInput;

    draft_begin(d, r, r->op);
    draft_in(d, 1, n->in[0]);
    if (!input)
        draft_in(d, 4, norm->in[3]);
    draft_in(d, input ? 7 : 5, norm->in[4]);
    draft_absorb(d, n);
    return draft_is_supported(d);
}

/* One that reads ReluGrad's result is found first; all that do take it in, or none. */
static Status take_relu(Fusing *f, Node *r)
{
    const bool gradient = r->op == &op_BatchNormGradInput || r->op == &op_BatchNormGradStats;
    Node *n = gradient ? made_by(f->g, r->in[1], &op_ReluGrad) : NULL, *reader[READERS_MOST];
    const Node *norm = n ? norm_behind(f->g, n) : NULL;
    int count;

    if (!norm || !is_gradient(r, norm, n->out[0]) || !reads_through(&f->draft[0], r, n, norm))
        return f->g->status;
    TRY(fuse_batch_norm_look(f));
    count = list_gradients(f, n, norm, reader);
    for (int k = 0; k < count; k++)
        if (!reads_through(&f->draft[k], reader[k], n, norm))
            return f->g->status;
    for (int k = 0; k < count; k++)
        draft_apply(&f->draft[k]);
    f->ctx->n_changed += count;
    return f->g->status;
}

/* ---- gradients of scale and bias ---- */

/* `by` computes from now on what readers of n's results read. */
static void note_readers(Fusing *f, const Node *n, const Node *by)
{
    const Uses *u = &f->uses;

    for (int o = 0; o < n->n_out; o++)
        for (uint32_t i = u->first[n->out[o].i]; i < u->first[n->out[o].i + 1]; i++)
            if (u->reader[i].n->op)
                reach_add_edge(&f->paths, by, u->reader[i].n);
}

/* The input's gradient that is computed from what n's are; NULL: none. */
static Node *input_gradient(const Fusing *f, const Node *n)
{
    Node *by = f->input_of[n->in[0].i];

    return by && by->n_out == 1 && by->device == n->device && (by->replica == n->replica || n->replica < 0) ? by : NULL;
}

/* The node is a replica's where the sums are its own, else the device's: any of its replicas may do it then. */
static Status take_params(Fusing *f, Node *n)
{
    Node *by = n->op == &op_BatchNormGradParams ? input_gradient(f, n) : NULL;
    Draft *d = &f->draft[0];

    if (!by)
        return ST_OK;
    draft_begin(d, by, by->op);
    for (int o = 0; o < n->n_out; o++)
        draft_out(d, 1 + o, n->out[o]);
    draft_absorb(d, n);
    if (!draft_is_supported(d) || reach_path_exists(&f->paths, n, by))
        return f->g->status;
    TRY(fuse_batch_norm_look(f));
    note_readers(f, n, by);
    draft_apply(d);
    f->ctx->n_changed++;
    return f->g->status;
}

/* ---- statistics of one replica ---- */

static Status take_stats(Fusing *f, Node *n)
{
    Node *stats = n->op == &op_BatchNormMerge ? made_by(f->g, n->in[0], &op_BatchNormStats) : NULL;
    Draft *d = &f->draft[0];

    if (!stats || !same_place(stats, n) || !target_fuses(build_target(f->ctx->opt), &op_BatchNormMoments))
        return ST_OK;
    TRY(fuse_batch_norm_look(f));
    if (uses_count(&f->uses, stats->out[0]) != 1 || f->uses.ends[stats->out[0].i])
        return ST_OK;
    draft_begin(d, n, &op_BatchNormMoments);
    draft_in(d, 0, stats->in[0]);
    draft_absorb(d, stats);
    f->ctx->n_changed += draft_try_apply(d);
    return f->g->status;
}

/* ---- entry ---- */

static Status fuse_batch_norm_gather(Fusing *f)
{
    const Graph *g = f->g;

    f->node = ARENA_NEW(f->ctx->scratch, Node *, g->n_node);
    f->input_of = ARENA_NEW(f->ctx->scratch, Node *, g->n_value);
    if (!f->node || !f->input_of)
        return FAIL_NOMEM();
    FOR_NODES(g, n) {
        if (n->op == &op_BatchNormGradInput)
            f->input_of[n->in[5].i] = n;
        if (n->op == &op_BatchNormGradInput || n->op == &op_BatchNormGradStats || n->op == &op_BatchNormGradParams ||
            n->op == &op_BatchNormMerge)
            f->node[f->n_node++] = n;
    }
    return reach_begin(&f->paths, g, f->ctx->scratch);
}

/* One kind of change to all of them, the last first: where a node is made to stand behind one that reads it, that is
 * behind what later changes look at. */
static Status fuse_batch_norm_apply(Fusing *f, Status (*step)(Fusing *, Node *))
{
    const int before = f->ctx->n_changed;

    for (uint32_t i = f->n_node; i-- > 0;)
        if (f->node[i]->op)
            TRY(step(f, f->node[i]));
    if (f->ctx->n_changed == before)
        return ST_OK;
    f->looked = false;
    reach_sorted(&f->paths);
    return graph_sort(f->g);
}

static Status fuse_batch_norm_run(Graph *g, PassCtx *ctx)
{
    static Status (*const steps[])(Fusing *, Node *) = { take_relu, take_params, take_stats };
    Fusing f = { .g = g, .ctx = ctx };

    if (!target_fuses(build_target(ctx->opt), &op_BatchNormGradStats) || !g->n_node)
        return ST_OK;
    TRY(fuse_batch_norm_gather(&f));
    for (int k = 0; k < READERS_MOST; k++)
        pass_draft(&f.draft[k], g, ctx);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        TRY(fuse_batch_norm_apply(&f, steps[i]));
    return g->status;
}

const Pass pass_fuse_batch_norm = { .name = "fuse-batch-norm",
                                    .summary = "make Relu's gradient and those of the parameters part of batch-norm's",
                                    .modes = MODES_LEARN,
                                    .run = fuse_batch_norm_run };
