/* place-host: moves nodes that an accelerator has no kernel for to the host's side of its device.
 *
 * With n devices, number n + d is the host's side of device d: memory of the host that the device can read.  A node put
 * there reads inputs of the graph and constants where they lie.  Every other value that crosses over goes through a
 * Copy node, one for all its readers.  The pass is legal because Copy changes nothing but the place.  States, outputs
 * of the graph and operands of collectives stay on the devices, so that no later pass needs to handle the host's side;
 * the executor does. */
#include <string.h>

#include "graph/ir/op.h"
#include "graph/ops/collective.gen.h"
#include "passes/plan/layout.h"
#include "passes/pass.h"
#include "passes/plan/plan_memory.h"
#include "passes/report.h"

typedef struct {
    Graph *g;
    PassCtx *ctx;
    int n_device;
    uint32_t n_value, n_node; /* before any copy was added */
    bool *on_host;            /* [node] */
    ValueId *copy;            /* [value] on the other side, once somebody needs it */
} Hosting;

static bool computed_on_host(const Hosting *h, ValueId v)
{
    const Node *p = v.i < h->n_value ? value(h->g, v)->producer : NULL;

    return p && h->on_host[p->index];
}

/* The value on the side of `device`, which it is not on. */
static ValueId copied_to(Hosting *h, ValueId v, int device, int replica)
{
    Graph *g = h->g;
    const Value *of = value(g, v);
    const char *name;
    Node *n;

    if (has_value(h->copy[v.i]))
        return h->copy[v.i];
    name = arena_printf(g->arena, "%s@%s", of->name, device < h->n_device ? "back" : "host");
    if (!name || !(n = graph_add_node(g, &op_Copy, value_logical_name(of), NULL, 1, &v, 1, &name))) {
        g->status = g->status ? g->status : FAIL_NOMEM();
        return v;
    }
    n->device = value(g, n->out[0])->device = device;
    n->replica = value(g, n->out[0])->replica = replica;
    value(g, n->out[0])->logical = value_logical_name(of);
    if (!(g->status = node_normalise(g, n)))
        g->status = node_infer(g, n);
    return h->copy[v.i] = n->out[0];
}

/* Replaces a value that the host computes by its copy on the device. */
static void bring_back(Hosting *h, ValueId *v)
{
    if (computed_on_host(h, *v))
        *v = copied_to(h, *v, value_device(h->g, *v) - h->n_device, value(h->g, *v)->producer->replica);
}

/* The hosted nodes of one operator. */
typedef struct Told Told;
struct Told {
    const Node *first;
    int count;
    Told *next;
};

/* Reports each operator: the number of its nodes on the host, and the first. */
static Status place_host_report(const Hosting *h)
{
    Told *list = NULL;

    for (uint32_t i = 0; i < h->n_node; i++) {
        Told **at = &list;

        if (!h->on_host[i])
            continue;
        while (*at && (*at)->first->op != h->g->node[i]->op)
            at = &(*at)->next;
        if (!*at && !(*at = ARENA_NEW(h->ctx->scratch, Told, 1)))
            return FAIL_NOMEM();
        if (!(*at)->count++)
            (*at)->first = h->g->node[i];
    }
    for (const Told *t = list; t; t = t->next)
        TRY(report_note(h->ctx->report, NOTE_HOST, t->first->op->name,
                        "no kernel of the accelerator computes %s%s: on the host", node_text(h->g, t->first),
                        t->count > 1 ? arena_printf(h->ctx->scratch, " and %d more", t->count - 1) : ""));
    return ST_OK;
}

static Status place_host_run(Graph *g, PassCtx *ctx)
{
    Hosting h = { g, ctx, device_count(ctx->opt), g->n_value, g->n_node, NULL, NULL };

    if (!build_target(ctx->opt)->accelerator)
        return ST_OK;
    TRY(graph_sort(g));
    h.n_node = g->n_node;
    h.on_host = ARENA_NEW(ctx->scratch, bool, g->n_node);
    h.copy = ARENA_NEW(ctx->scratch, ValueId, g->n_value);
    if (!h.on_host || !h.copy)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < h.n_node; i++) {
        Node *n = g->node[i];

        /* States have their layouts already; passes/plan/layout.c asks later whether a node takes them so. */
        if (n->op->flags & OPF_COLLECTIVE || (n->op->flags & OPF_VIEW && n->n_out == 1) ||
            layout_computes(g, n, (NodeLayouts){ LAYOUT_ROWS, LAYOUT_ROWS }, ctx))
            continue;
        h.on_host[i] = true;
        n->device = h.n_device + (n->device < 0 ? 0 : n->device);
        for (int o = 0; o < n->n_out; o++)
            if (has_value(n->out[o]))
                value(g, n->out[o])->device = n->device;
        ctx->n_changed++;
    }
    for (uint32_t k = 0; k < h.n_node; k++) {
        Node *n = g->node[k];
        const bool hosted = h.on_host[k];

        for (int i = 0; i < n->n_in && !g->status; i++) {
            const ValueId v = n->in[i];
            const ValueKind kind = has_value(v) ? value(g, v)->kind : V_CONST;

            if (kind != V_INPUT && kind != V_CONST && computed_on_host(&h, v) != hosted)
                n->in[i] = copied_to(&h, v, hosted ? n->device : value_device(g, v) - h.n_device,
                                     hosted ? n->replica : value(g, v)->producer->replica);
        }
    }
    for (int i = 0; i < g->n_output; i++)
        bring_back(&h, &g->output[i].value);
    for (int u = 0; u < g->n_update; u++)
        bring_back(&h, &g->update[u].next);
    TRY(g->status);
    TRY(place_host_report(&h));
    return graph_sort(g);
}

const Pass pass_place_host = { .name = "place-host",
                               .summary = "what the accelerator has no kernel for goes to the host",
                               .run = place_host_run };
