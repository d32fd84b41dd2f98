/* bucket_gradients: AllReduce nodes of gradients become few: one of several tensors, up to a size.
 *
 * A collective costs a latency that a small gradient is not worth.  Gradients enter buckets in the order in which the
 * backward pass finishes them, so that a bucket can leave while the rest is computed; the first is small, to leave
 * soon. Legal because only reductions from whose results no way leads to another collective or to a replica's own
 * computation are merged: none of them waits for another, so a merged node closes no cycle.  The sums do not change:
 * the tree is over replicas, element by element.  The node stands where its last tensor's stood.
 *
 * Single numbers, as the loss, come last: what reads them would wait for the gradients that travel with them, and with
 * it all that its device computes next. */
#include <string.h>

#include "graph/collective.h"
#include "graph/op.h"
#include "passes/pass.h"

enum { FIRST_BUCKET = 1 << 20, BUCKET = 25 << 20 };

/* By node index: does a way lead from its outputs to a collective or to a node of one replica? */
static bool *find_upstream(const Graph *g, Arena *a)
{
    bool *upstream = ARENA_NEW(a, bool, g->n_node), *value_leads = ARENA_NEW(a, bool, g->n_value);

    if (!upstream || !value_leads)
        return NULL;
    for (uint32_t i = g->n_node; i-- > 0;) {
        const Node *n = g->node[i];
        bool leads = false;

        for (int o = 0; n->op && o < n->n_out; o++)
            leads |= value_leads[n->out[o].i];
        upstream[i] = leads;
        for (int k = 0; n->op && k < n->n_in; k++)
            value_leads[n->in[k].i] |= leads || n->replica >= 0 || (n->op->flags & OPF_COLLECTIVE);
        value_leads[0] = false;
    }
    return upstream;
}

static bool same_ints(const Node *a, const Node *b, const char *name)
{
    int na, nb;
    const int64_t *va = node_ints(a, name, &na), *vb = node_ints(b, name, &nb);

    return na == nb && !memcmp(va, vb, (size_t)na * sizeof *va);
}

static bool fits(const Graph *g, const Node *a, const Node *b)
{
    return in_value(g, a, 0)->dtype == in_value(g, b, 0)->dtype && same_ints(a, b, "spans") &&
           same_ints(a, b, "devices");
}

static int64_t bytes_of(const Graph *g, const Node *n) { return (int64_t)value_bytes(g, n->in[0]); }

/* One node for all of them, in the place of the last. */
static Status merge(Draft *d, Node *const *list, int n)
{
    const int parts = list[0]->n_in, devices = list[0]->n_out;
    Node *last = list[0];

    for (int t = 1; t < n; t++)
        last = list[t]->index > last->index ? list[t] : last;
    draft_begin(d, last, last->op);
    for (int t = 0; t < n; t++) {
        for (int i = 0; i < parts; i++)
            draft_in(d, t * parts + i, list[t]->in[i]);
        for (int o = 0; o < devices; o++)
            draft_out(d, t * devices + o, list[t]->out[o]);
        if (list[t] != last)
            draft_absorb(d, list[t]);
    }
    draft_attr(d, &(Attr)INT("tensors", n));
    draft_become(d);
    return d->g->status;
}

/* The first reduction of a bucket is list[0]; those that fit follow until it is full.  None is left before *first. */
static int fill(const Graph *g, Node **all, int *first, int n, Node **bucket, int64_t limit)
{
    int64_t size = 0;
    int len = 0;

    while (*first < n && !all[*first])
        ++*first;
    for (int i = *first; i < n; i++) {
        if (!all[i] || (len && !fits(g, bucket[0], all[i])))
            continue;
        if (len && size + bytes_of(g, all[i]) > limit)
            break;
        size += bytes_of(g, all[i]);
        bucket[len++] = all[i];
        all[i] = NULL;
    }
    return len;
}

static bool reduces_one(const Node *n)
{
    const Exchange e = exchange_of(n);

    return exchange_reduces(&e) && e.tensors == 1;
}

static bool is_single(const Graph *g, const Node *n) { return shape_numel(in_value(g, n, 0)->shape) == 1; }

static Status run(Graph *g, PassCtx *ctx)
{
    const bool *upstream = find_upstream(g, ctx->scratch);
    Node **all = ARENA_NEW(ctx->scratch, Node *, g->n_node), **bucket = ARENA_NEW(ctx->scratch, Node *, g->n_node);
    int64_t given = ctx->opt->bucket_bytes;
    int n = 0, first = 0, len, made = 0;
    Draft d;

    if (!upstream || !all || !bucket)
        return FAIL_NOMEM();
    for (int single = 0; single < 2; single++)
        FOR_NODES(g, r)
            if (reduces_one(r) && !upstream[r->index] && is_single(g, r) == single)
                all[n++] = r;
    pass_draft(&d, g, ctx);
    while ((len = fill(g, all, &first, n, bucket, given ? given : made ? BUCKET : FIRST_BUCKET))) {
        made++;
        if (len < 2)
            continue;
        TRY(merge(&d, bucket, len));
        ctx->n_changed += len - 1;
    }
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_bucket_gradients = { .name = "bucket-gradients",
                                     .summary = "reduce several gradients in one collective",
                                     .modes = 1u << BUILD_TRAIN | 1u << BUILD_APPLY,
                                     .run = run };
