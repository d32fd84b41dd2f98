/* bucket_gradients: collectives of gradients, and of what is made of them, become few: one of several tensors, up to a
 * size.
 *
 * A collective costs a latency that a small tensor is not worth.  Gradients enter buckets in the order in which the
 * backward pass finishes them, so that a bucket can leave while the rest is computed; the first is small, to leave
 * soon.  Merged are collectives from whose results no way leads to a replica's own computation, of one height: as many
 * collectives on the longest way from them to the end of the step.  None of them waits for another, since every way
 * from one collective to the next goes down, and so a merged node closes no cycle.  The sums do not change: the tree is
 * over replicas, element by element.  The node stands where its last tensor's stood.
 *
 * Of parameters that are kept in pieces (--shard parameters) the small ones are put together several at a time as well,
 * in the order of their first use and there, of each turn apart: nothing but states goes into such a node, so it closes
 * no cycle, and what it makes before its use is less than a small bucket.
 *
 * Single numbers, as the loss, come last: what reads them would wait for the gradients that travel with them, and with
 * it all that its device computes next. */
#include <limits.h>
#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "passes/partition/bucket_size.h"
#include "passes/names.h"
#include "passes/report.h"
#include "passes/options/collectives.h"

enum { FIRST_BUCKET = 1 << 20, EARLY_BUCKET = 1 << 20, BUCKET = 25 << 20 };

enum { NOT_AT_THE_END = INT_MAX };

/* By node index: the most collectives on a way from its outputs; NOT_AT_THE_END where one leads to a node of a
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

/* By node index: which of the gathers of its parameter it is, in the order of use. */
static int *bucket_gradients_find_turns(const Graph *g, Arena *a)
{
    int *turn = ARENA_NEW(a, int, g->n_node), *of_value = ARENA_NEW(a, int, g->n_value);

    if (!turn || !of_value)
        return NULL;
    FOR_NODES(g, n)
        if (gathers_parameter(g, n))
            turn[n->index] = of_value[n->in[0].i]++;
    return turn;
}

typedef struct {
    const Graph *g;
    const int *height, *turn;
    int64_t given;  /* bytes of a bucket; 0: our choice */
    int64_t chosen; /* for sums, by their cost; 0: it is not known */
    bool early;     /* gradients are to be whole for a short time only */
} Buckets;

static bool bucket_gradients_fits(const Buckets *b, const Node *x, const Node *y)
{
    return x->op == y->op && b->height[x->index] == b->height[y->index] && b->turn[x->index] == b->turn[y->index] &&
           x->n_in == y->n_in && in_value(b->g, x, 0)->dtype == in_value(b->g, y, 0)->dtype &&
           same_ints(x, y, "devices") && (!exchange_of(x).sum || same_ints(x, y, "spans"));
}

/* Of the tensor. */
static int64_t bucket_gradients_bytes_of(const Graph *g, const Node *n)
{
    return (int64_t)value_bytes(g, exchange_of(n).joined ? n->out[0] : n->in[0]);
}

/* A parameter that is put together for the replicas' own computation. */
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

/* The pieces of all tensors, one after another. */
static bool join_counts(Draft *d, Attr *out, Node *const *list, int n)
{
    const int copies = list[0]->n_out;
    int64_t *counts = ARENA_NEW(d->arena, int64_t, n * copies);
    int len;

    for (int t = 0; counts && t < n; t++)
        memcpy(counts + t * copies, node_ints(list[t], "counts", &len), (size_t)copies * sizeof *counts);
    *out = (Attr)INTS("counts", n * copies, counts);
    return counts;
}

/* "all-reduce bucket 3 (conv1.weight, bn1.bias, ... 8)" */
static const char *bucket_name(Graph *g, Node *const *list, int n, int number)
{
    const Exchange e = exchange_of(list[0]);
    char head[64];

    snprintf(head, sizeof head, "%s bucket %d", exchange_verb(&e), number);
    return names_of_group(g->arena, head, list, n);
}

/* One node for all of them, in the place of the last, or of the first. */
static Status bucket_gradients_merge(Draft *d, Node *const *list, int n, bool first, int number)
{
    const int parts = list[0]->n_in, devices = list[0]->n_out;
    const char *name;
    Node *at = list[0];
    Attr counts;

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
    if (exchange_of(list[0]).split) {
        if (!join_counts(d, &counts, list, n))
            return FAIL_NOMEM();
        draft_attr(d, &counts);
    }
    if (!(name = bucket_name(d->g, list, n, number)))
        return FAIL_NOMEM();
    draft_apply(d);
    at->name = name;
    return d->g->status;
}

/* The first collective of a bucket is list[0]; those that fit follow until it is full.  None is left before *first. */
static int bucket_gradients_fill(const Buckets *b, Node **all, int *first, int n, Node **bucket, bool is_first)
{
    int64_t size = 0;
    int len = 0;

    while (*first < n && !all[*first])
        ++*first;
    for (int i = *first; i < n; i++) {
        if (!all[i] || (len && !bucket_gradients_fits(b, bucket[0], all[i])))
            continue;
        if (len && size + bucket_gradients_bytes_of(b->g, all[i]) > limit_of(b, bucket[0], is_first))
            break;
        size += bucket_gradients_bytes_of(b->g, all[i]);
        bucket[len++] = all[i];
        all[i] = NULL;
    }
    return len;
}

/* A sum for all devices, or pieces of the elements in a row. */
static bool is_one(const Graph *g, const Node *n)
{
    const Exchange e = exchange_of(n);

    if (!n->n_in || e.tensors != 1 || (!e.sum && !exchange_gathers(&e)))
        return false;
    return exchange_reduces(&e) || (in_value(g, n, 0)->shape->rank == 1 && in_value(g, n, 0)->layout == LAYOUT_ROWS);
}

static bool is_single(const Graph *g, const Node *n)
{
    return exchange_of(n).sum && shape_numel(in_value(g, n, 0)->shape) == 1;
}

/* Two thirds of what a device computes are the backward pass. */
static double backward_seconds(const Graph *g, double flops)
{
    double sum = 0;

    FOR_NODES(g, n)
        if (n->device == 0)
            sum += (double)node_flops(g, n);
    return sum * 2 / 3 / flops;
}

static Status bucket_gradients_choose(Buckets *b, Node *const *all, int n, const PassCtx *ctx)
{
    const SumCost *cost = collective_options(ctx->opt)->sum_cost;
    const double compute = backward_seconds(b->g, cost->flops);
    double seconds;
    int64_t bytes = 0;

    for (int i = 0; i < n; i++)
        if (exchange_of(all[i]).sum && !exchange_of(all[i]).split)
            bytes += bucket_gradients_bytes_of(b->g, all[i]);
    if (!bytes)
        return ST_OK;
    b->chosen = bucket_size_choose(&seconds, cost, bytes, compute);
    return report_note(ctx->report, NOTE_OTHER, b->g->name,
                       "--links: %.1f MB of gradients are summed in buckets of up to %lld MiB, for which a step waits "
                       "%.3g ms; for buckets of 1 MiB it would %.3g, for a single one %.3g",
                       (double)bytes * 1e-6, (long long)(b->chosen >> 20), 1e3 * seconds,
                       1e3 * bucket_size_wait(cost, bytes, compute, 1 << 20),
                       1e3 * bucket_size_wait(cost, bytes, compute, bytes));
}

/* What may be merged, in the order in which buckets are filled; with `sums` those at the end of a step too. */
static int list_all(const Buckets *b, Node **all, bool sums)
{
    int n = 0;

    for (int single = 0; single < 2 && sums; single++)
        FOR_NODES(b->g, r)
            if (is_one(b->g, r) && b->height[r->index] != NOT_AT_THE_END && is_single(b->g, r) == single)
                all[n++] = r;
    FOR_NODES(b->g, r)
        if (is_one(b->g, r) && is_for_use(b, r) && bucket_gradients_bytes_of(b->g, r) < limit_of(b, r, false))
            all[n++] = r;
    return n;
}

static Status bucket_gradients_run(Graph *g, PassCtx *ctx)
{
    Buckets b = { .g = g,
                  .height = find_heights(g, ctx->scratch),
                  .turn = bucket_gradients_find_turns(g, ctx->scratch),
                  .given = collective_options(ctx->opt)->bucket_bytes,
                  .early = collective_options(ctx->opt)->shard > SHARD_OPTIMIZER };
    Node **all = ARENA_NEW(ctx->scratch, Node *, g->n_node), **bucket = ARENA_NEW(ctx->scratch, Node *, g->n_node);
    int n = 0, first = 0, len, made = 0;
    Draft d;

    if (!b.height || !b.turn || !all || !bucket)
        return FAIL_NOMEM();
    n = list_all(&b, all, mode_in(ctx->opt, MODES_UPDATE));
    if (collective_options(ctx->opt)->sum_cost && !b.given)
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
