/* fuse-batch-norm: small and elementwise operators around batch-norm's gradient become part of it.
 *
 * The gradient of a Relu behind batch-norm is a pass over three tensors, and on an accelerator an operation for each
 * channel is a launch that takes longer than its work.  The pass fuses
 *
 *   ReluGrad              of a Relu of a BatchNormApply, into BatchNormGradStats and BatchNormGradInput.  Both read x,
 *                         which gives the sign of the Relu's result, and read ReluGrad's dy instead of its result
 *   BatchNormGradParams   which splits the sums, into a BatchNormGradInput that reads the same sums
 *   BatchNormStats        into the BatchNormMerge that alone reads its row, where the batch is not divided over
 *                         replicas: one BatchNormMoments
 *
 * Legal where nothing else reads the fused values, on one device for one replica, if the device computes such a node.
 * The sign is that of the result before it is rounded to 16 bits.  The pass runs before fuse-elementwise, which would
 * fuse ReluGrad itself. */
#include "graph/ir/reachable.h"
#include "graph/ir/readers.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/batchnorm.gen.h"
#include "passes/pass.h"

enum { READERS_MOST = 2 };

typedef struct {
    Graph *g;
    PassCtx *ctx;
    Uses uses; /* from before the present step, found when first needed (uses_known) */
    bool uses_known;
    Node **input_of; /* [value] the last BatchNormGradInput that reads it as its sums */
    Draft draft[READERS_MOST];
    Node **node; /* the nodes that a step examines */
    uint32_t n_node;
    Reachability paths;
} Fusing;

static Status fuse_batch_norm_find_uses(Fusing *f)
{
    if (f->uses_known)
        return ST_OK;
    f->uses_known = true;
    uses_forget(&f->uses, f->ctx->scratch);
    return uses_find(&f->uses, f->g, f->ctx->scratch);
}

/* ---- the gradient of Relu ---- */

/* Is r a gradient of `norm` that reads v as dy?  The inputs of norm are x, mean, var, scale, bias. */
static bool is_gradient(const Node *r, const Node *norm, ValueId v)
{
    const bool input = r->op == &op_BatchNormGradInput;

    if ((!input && r->op != &op_BatchNormGradStats) || !value_eq(r->in[1], v) || has_in(r, input ? 7 : 5) ||
        !same_place(r, norm))
        return false;
    return value_eq(r->in[0], norm->in[0]) && value_eq(r->in[2], norm->in[1]) && value_eq(r->in[3], norm->in[2]) &&
           (!input || value_eq(r->in[4], norm->in[3])) && node_float(r, "epsilon") == node_float(norm, "epsilon");
}

/* Drafts r, a gradient of `norm`, with the ReluGrad n fused into it.  False: the device does not compute it. */
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

/* Fuses the ReluGrad that r reads into all its readers, or into none. */
static Status take_relu(Fusing *f, Node *r)
{
    Node *n = has_in(r, 1) ? made_by(f->g, r->in[1], &op_ReluGrad) : NULL, *reader[READERS_MOST];
    Node *relu = n ? made_by(f->g, n->in[1], &op_Relu) : NULL;
    const Node *norm = relu ? made_by(f->g, relu->in[0], &op_BatchNormApply) : NULL;
    const Uses *u = &f->uses;
    uint32_t first, count;

    if (!norm || !has_in(norm, 5) || !same_place(norm, n)) /* input 5: by statistics of its data */
        return f->g->status;
    if (!is_gradient(r, norm, n->out[0]) || !reads_through(&f->draft[0], r, n, norm))
        return f->g->status;
    TRY(fuse_batch_norm_find_uses(f));
    first = u->first[n->out[0].i];
    count = uses_count(u, n->out[0]);
    if (count > READERS_MOST || u->ends[n->out[0].i])
        return f->g->status;
    for (uint32_t k = 0; k < count; k++) {
        reader[k] = u->reader[first + k].n;
        if (!reader[k]->op || u->reader[first + k].in != 1 || !is_gradient(reader[k], norm, n->out[0]))
            return f->g->status;
    }
    for (uint32_t k = 0; k < count; k++)
        if (!reads_through(&f->draft[k], reader[k], n, norm))
            return f->g->status;
    for (uint32_t k = 0; k < count; k++)
        draft_apply(&f->draft[k]);
    f->ctx->n_changed += (int)count;
    return f->g->status;
}

/* ---- gradients of scale and bias ---- */

/* Fuses a BatchNormGradParams into the BatchNormGradInput of the same sums.  If the sums are not one replica's own, any
 * replica of the device may compute it. */
static Status take_params(Fusing *f, Node *n)
{
    Node *by = n->op == &op_BatchNormGradParams ? f->input_of[n->in[0].i] : NULL;
    Draft *d = &f->draft[0];

    if (!by || by->n_out != 1 || by->device != n->device || (by->replica != n->replica && n->replica >= 0))
        return ST_OK;
    draft_begin(d, by, by->op);
    for (int o = 0; o < n->n_out; o++)
        draft_out(d, 1 + o, n->out[o]);
    draft_absorb(d, n);
    if (!draft_is_supported(d) || reach_path_exists(&f->paths, n, by))
        return f->g->status;
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
    TRY(fuse_batch_norm_find_uses(f));
    if (uses_count(&f->uses, stats->out[0]) != 1 || f->uses.ends[stats->out[0].i])
        return ST_OK;
    draft_begin(d, n, &op_BatchNormMoments);
    draft_in(d, 0, stats->in[0]);
    draft_absorb(d, stats);
    f->ctx->n_changed += draft_try_apply(d);
    return f->g->status;
}

/* ---- entry ---- */

/* Lists the nodes to examine, and sets input_of. */
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

static Status fuse_batch_norm_run(Graph *g, PassCtx *ctx)
{
    static Status (*const steps[])(Fusing *, Node *) = { take_relu, take_params, take_stats };
    Fusing f = { .g = g, .ctx = ctx };

    if (!target_fuses(build_target(ctx->opt), &op_BatchNormGradStats) || !g->n_node)
        return ST_OK;
    TRY(graph_sort(g)); /* paths are searched by the nodes' order */
    TRY(fuse_batch_norm_gather(&f));
    for (int k = 0; k < READERS_MOST; k++)
        pass_draft(&f.draft[k], g, ctx);
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        const int before = ctx->n_changed;

        /* The last node first: a change may move a node behind one that reads it, which is behind the rest.  So the
         * searches for paths from the rest need not know of the change. */
        for (uint32_t i = f.n_node; i-- > 0;)
            if (f.node[i]->op)
                TRY(steps[s](&f, f.node[i]));
        if (ctx->n_changed == before)
            continue;
        f.uses_known = false;
        reach_sorted(&f.paths);
        TRY(graph_sort(g));
    }
    return g->status;
}

const Pass pass_fuse_batch_norm = { .name = "fuse-batch-norm",
                                    .summary = "make Relu's gradient and those of the parameters part of batch-norm's",
                                    .modes = MODES_LEARN,
                                    .run = fuse_batch_norm_run };
