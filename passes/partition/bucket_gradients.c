/* bucket-gradients: merges collectives of gradients, and of what follows from gradients, into buckets up to a size.
 *
 * The latency of a collective exceeds the time that a small tensor takes.  Gradients enter buckets in the order in
 * which the backward pass finishes them, so that a bucket leaves while the rest is computed.  The first bucket is
 * small, so that it leaves soon.  The pass merges collectives whose results no replica's own computation reads and that
 * have the same height: the number of collectives on the longest path from them to the end of the step.  None of them
 * waits for another, since heights fall along every path, and so a merged node closes no cycle.  The sums do not
 * change: the tree is over replicas, element by element.  The merged node takes the place of its last tensor's
 * collective.
 *
 * With --shard parameters the gathers of small parameters are merged as well, in the order of their first use and in
 * its place, separately for each turn.  Such a node reads states alone, so it closes no cycle; what it gathers early is
 * less than a small bucket.
 *
 * Single numbers, such as the loss, come last: their readers would wait for the gradients in their bucket, and with
 * them everything that the device computes next. */
#include <limits.h>
#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "passes/names.h"
#include "passes/options/collectives.h"
#include "passes/partition/bucket_size.h"
#include "passes/report.h"

enum { FIRST_BUCKET = 1 << 20, EARLY_BUCKET = 1 << 20, BUCKET = 25 << 20 };

enum { NOT_AT_THE_END = INT_MAX };

/* By node index: the most collectives on a path from its outputs; NOT_AT_THE_END where a path leads to a node of a
 * replica. */
static int *find_heights(const Graph *g, Arena *a)
{
    int *height = ARENA_NEW(a, int, g->n_node), *of_value = ARENA_NEW(a, int, g->n_value);

    if (!height || !of_value)
        return NULL;
    for (uint32_t i = g->n_node; i-- > 0;) {
        const Node *n = g->node[i];
        int most = 0, mine;

        for (int o = 0; n->op && o < n->n_out; o++)
            most = of_value[n->out[o].i] > most ? of_value[n->out[o].i] : most;
        height[i] = most;
        mine = n->replica >= 0                                                   ? NOT_AT_THE_END
               : most < NOT_AT_THE_END && n->op && n->op->flags & OPF_COLLECTIVE ? most + 1
                                                                                 : most;
        for (int k = 0; n->op && k < n->n_in; k++)
            of_value[n->in[k].i] = mine > of_value[n->in[k].i] ? mine : of_value[n->in[k].i];
        of_value[0] = 0;
    }
    return height;
}

static bool gathers_parameter(const Graph *g, const Node *n)
{
    return n->n_in && exchange_of(n).joined && in_value(g, n, 0)->kind == V_STATE && in_value(g, n, 0)->shard;
}

static bool same_ints(const Node *a, const Node *b, const char *name)
{
    int na, nb;
    const int64_t *va = node_ints(a, name, &na), *vb = node_ints(b, name, &nb);

    return na == nb && !memcmp(va, vb, (size_t)na * sizeof *va);
}

typedef struct {
    const Graph *g;
    const int *height, *turn; /* by node index; turn: the number of the gather among its parameter's, in order of use */
    int64_t given;            /* bytes of a bucket; 0: chosen here */
    int64_t chosen;           /* bytes of a bucket of sums, by their cost; 0: unknown */
    bool early;               /* whole gradients exist for a short time only */
} Buckets;

/* Bytes of the tensor that a collective sums or gathers. */
static int64_t bucket_gradients_bytes_of(const Graph *g, const Node *n)
{
    return (int64_t)value_bytes(g, exchange_of(n).joined ? n->out[0] : n->in[0]);
}

/* Does the collective gather a parameter for the replicas' own computation? */
static bool is_for_use(const Buckets *b, const Node *n)
{
    return b->height[n->index] == NOT_AT_THE_END && gathers_parameter(b->g, n);
}

static int64_t limit_of(const Buckets *b, const Node *n, bool first)
{
    const Exchange e = exchange_of(n);

    if (is_for_use(b, n))
        return b->given && b->given < EARLY_BUCKET ? b->given : EARLY_BUCKET;
    if (b->given)
        return first && e.sum && b->given > FIRST_BUCKET ? FIRST_BUCKET : b->given;
    if (b->chosen && e.sum && !e.split)
        return b->chosen;
    return e.split && b->early ? EARLY_BUCKET : first && e.sum ? FIRST_BUCKET : BUCKET;
}

/* Gives the merged node the pieces of all tensors, one after another. */
static Status join_counts(Draft *d, Node *const *list, int n)
{
    const int copies = list[0]->n_out;
    int64_t *counts = ARENA_NEW(d->arena, int64_t, n * copies);
    int len;

    if (!counts)
        return FAIL_NOMEM();
    for (int t = 0; t < n; t++)
        memcpy(counts + t * copies, node_ints(list[t], "counts", &len), (size_t)copies * sizeof *counts);
    draft_attr(d, &(Attr)INTS("counts", n * copies, counts));
    return ST_OK;
}

/* Merges the collectives list[0..n) in the place of the last, or of the first, under a name like
 * "all-reduce bucket 3 (conv1.weight, bn1.bias, ... 8)". */
static Status bucket_gradients_merge(Draft *d, Node *const *list, int n, bool first, int number)
{
    const int parts = list[0]->n_in, devices = list[0]->n_out;
    const Exchange e = exchange_of(list[0]);
    char head[64];
    const char *name;
    Node *at = list[0];

    for (int t = 1; t < n; t++)
        at = (list[t]->index > at->index) != first ? list[t] : at;
    draft_begin(d, at, at->op);
    for (int t = 0; t < n; t++) {
        for (int i = 0; i < parts; i++)
            draft_in(d, t * parts + i, list[t]->in[i]);
        for (int o = 0; o < devices; o++)
            draft_out(d, t * devices + o, list[t]->out[o]);
        if (list[t] != at)
            draft_absorb(d, list[t]);
    }
    draft_attr(d, &(Attr)INT("tensors", n));
    if (e.split)
        TRY(join_counts(d, list, n));
    snprintf(head, sizeof head, "%s bucket %d", exchange_verb(&e), number);
    if (!(name = names_of_group(d->g->arena, head, list, n)))
        return FAIL_NOMEM();
    draft_apply(d);
    at->name = name;
    return d->g->status;
}

/* Fills `bucket` with all[*first], the first collective that is left, and those after it that may be merged with it,
 * up to the limit; removes them from `all`.  Returns their number. */
static int bucket_gradients_fill(const Buckets *b, Node **all, int *first, int n, Node **bucket, bool is_first)
{
    int64_t size = 0;
    int len = 0;

    while (*first < n && !all[*first])
        ++*first;
    for (int i = *first; i < n; i++) {
        const Node *x = bucket[0], *y = all[i];

        if (!y || (len && !(x->op == y->op && b->height[x->index] == b->height[y->index] &&
                            b->turn[x->index] == b->turn[y->index] && x->n_in == y->n_in &&
                            in_value(b->g, x, 0)->dtype == in_value(b->g, y, 0)->dtype && same_ints(x, y, "devices") &&
                            (!exchange_of(x).sum || same_ints(x, y, "spans")))))
            continue;
        if (len && size + bucket_gradients_bytes_of(b->g, y) > limit_of(b, x, is_first))
            break;
        size += bucket_gradients_bytes_of(b->g, y);
        bucket[len++] = all[i];
        all[i] = NULL;
    }
    return len;
}

/* Is it a collective of one tensor: a sum for all devices, or of pieces of consecutive elements? */
static bool is_one(const Graph *g, const Node *n)
{
    const Exchange e = exchange_of(n);

    if (!n->n_in || e.tensors != 1 || (!e.sum && !exchange_gathers(&e)))
        return false;
    return exchange_reduces(&e) || (in_value(g, n, 0)->shape->rank == 1 && in_value(g, n, 0)->layout == LAYOUT_ROWS);
}

/* Chooses the size of buckets by the cost of sums. */
static Status bucket_gradients_choose(Buckets *b, Node *const *all, int n, const PassCtx *ctx)
{
    const SumCost *cost = collective_options(ctx->opt)->sum_cost;
    double backward, flops = 0, seconds;
    int64_t bytes = 0;

    for (int i = 0; i < n; i++)
        if (exchange_of(all[i]).sum && !exchange_of(all[i]).split)
            bytes += bucket_gradients_bytes_of(b->g, all[i]);
    if (!bytes)
        return ST_OK;
    FOR_NODES(b->g, x)
        if (x->device == 0)
            flops += (double)node_flops(b->g, x);
    backward = flops * 2 / 3 / cost->flops; /* two thirds of a step are the backward pass */
    b->chosen = bucket_size_choose(&seconds, cost, bytes, backward);
    return report_note(ctx->report, NOTE_OTHER, b->g->name,
                       "--links: %.1f MB of gradients are summed in buckets of up to %lld MiB, for which a step waits "
                       "%.3g ms; for buckets of 1 MiB it would %.3g, for a single one %.3g",
                       (double)bytes * 1e-6, (long long)(b->chosen >> 20), 1e3 * seconds,
                       1e3 * bucket_size_wait(cost, bytes, backward, 1 << 20),
                       1e3 * bucket_size_wait(cost, bytes, backward, bytes));
}

/* Lists the collectives that may be merged in the order in which they fill buckets; with `sums` also those at the end
 * of a step, single numbers last.  Returns their number. */
static int list_all(const Buckets *b, Node **all, bool sums)
{
    int n = 0;

    for (int single = 0; single < 2 && sums; single++)
        FOR_NODES(b->g, r)
            if (is_one(b->g, r) && b->height[r->index] != NOT_AT_THE_END &&
                (exchange_of(r).sum && shape_numel(in_value(b->g, r, 0)->shape) == 1) == single)
                all[n++] = r;
    FOR_NODES(b->g, r)
        if (is_one(b->g, r) && is_for_use(b, r) && bucket_gradients_bytes_of(b->g, r) < limit_of(b, r, false))
            all[n++] = r;
    return n;
}

static Status bucket_gradients_run(Graph *g, PassCtx *ctx)
{
    const CollectiveOptions *collectives = collective_options(ctx->opt);
    int *turn = ARENA_NEW(ctx->scratch, int, g->n_node), *gathers = ARENA_NEW(ctx->scratch, int, g->n_value);
    Buckets b = { .g = g,
                  .height = find_heights(g, ctx->scratch),
                  .turn = turn,
                  .given = collectives->bucket_bytes,
                  .early = collectives->shard > SHARD_OPTIMIZER };
    Node **all = ARENA_NEW(ctx->scratch, Node *, g->n_node), **bucket = ARENA_NEW(ctx->scratch, Node *, g->n_node);
    int n = 0, first = 0, len, made = 0;
    Draft d;

    if (!b.height || !turn || !gathers || !all || !bucket)
        return FAIL_NOMEM();
    FOR_NODES(g, x)
        if (gathers_parameter(g, x))
            turn[x->index] = gathers[x->in[0].i]++;
    n = list_all(&b, all, mode_in(ctx->opt, MODES_UPDATE));
    if (collectives->sum_cost && !b.given)
        TRY(bucket_gradients_choose(&b, all, n, ctx));
    pass_draft(&d, g, ctx);
    while ((len = bucket_gradients_fill(&b, all, &first, n, bucket, !made))) {
        made++;
        if (len < 2)
            continue;
        TRY(bucket_gradients_merge(&d, bucket, len, is_for_use(&b, bucket[0]), made));
        ctx->n_changed += len - 1;
    }
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_bucket_gradients = { .name = "bucket-gradients",
                                     .summary = "several tensors in one collective",
                                     .run = bucket_gradients_run };
