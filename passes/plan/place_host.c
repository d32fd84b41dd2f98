/* place_host: what an accelerator has no kernel for is computed on the host's side of its device.
 *
 * Of n devices, n + d is the host's side of device d: memory of the host that the device can read.  A node put there
 * reads inputs of the graph and constants where they lie; every other value that crosses over goes through a Copy node,
 * one for all its readers.  Legal because Copy changes nothing but the place.  State, outputs of the graph and what
 * collectives read stay on the devices, so that nothing behind this pass needs to know of the host's side but the
 * executor. */
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

/* States have their layouts already; whether a node takes them so is asked later (passes/plan/layout.c). */
static bool is_hosted(const PassCtx *ctx, Graph *g, const Node *n)
{
    if (n->op->flags & OPF_COLLECTIVE || (n->op->flags & OPF_VIEW && n->n_out == 1))
        return false;
    return !layout_computes(g, n, (NodeLayouts){ LAYOUT_ROWS, LAYOUT_ROWS }, ctx);
}

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

static void connect_inputs(Hosting *h, Node *n)
{
    bool hosted = h->on_host[n->index];

    for (int i = 0; i < n->n_in && !h->g->status; i++) {
        ValueId v = n->in[i];
        ValueKind kind = has_value(v) ? value(h->g, v)->kind : V_CONST;

        if (kind == V_INPUT || kind == V_CONST || computed_on_host(h, v) == hosted)
            continue;
        n->in[i] = copied_to(h, v, hosted ? n->device : value_device(h->g, v) - h->n_device,
                             hosted ? n->replica : value(h->g, v)->producer->replica);
    }
}

static void connect_ends(Hosting *h)
{
    Graph *g = h->g;

    for (int i = 0; i < g->n_output; i++)
        if (computed_on_host(h, g->output[i].value))
            g->output[i].value = copied_to(h, g->output[i].value, value_device(g, g->output[i].value) - h->n_device,
                                           value(g, g->output[i].value)->producer->replica);
    for (int u = 0; u < g->n_update; u++)
        if (computed_on_host(h, g->update[u].next))
            g->update[u].next = copied_to(h, g->update[u].next, value_device(g, g->update[u].next) - h->n_device,
                                          value(g, g->update[u].next)->producer->replica);
}

/* The hosted nodes of one operator. */
typedef struct Told Told;
struct Told {
    const Node *first;
    int count;
    Told *next;
};

/* The entry of the operator in a list, which is by first nodes; the end where there is none. */
static Told **told_of(Told **list, const OpDef *op)
{
    while (*list && (*list)->first->op != op)
        list = &(*list)->next;
    return list;
}

/* One line for every operator: how many of its nodes, and the first of them. */
static Status place_host_tell(const Hosting *h)
{
    Told *list = NULL;

    for (uint32_t i = 0; i < h->n_node; i++) {
        Told **at;

        if (!h->on_host[i])
            continue;
        at = told_of(&list, h->g->node[i]->op);
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
    for (uint32_t i = 0; i < h.n_node; i++)
        if ((h.on_host[i] = is_hosted(ctx, g, g->node[i]))) {
            g->node[i]->device = h.n_device + (g->node[i]->device < 0 ? 0 : g->node[i]->device);
            for (int o = 0; o < g->node[i]->n_out; o++)
                if (has_value(g->node[i]->out[o]))
                    value(g, g->node[i]->out[o])->device = g->node[i]->device;
            ctx->n_changed++;
        }
    for (uint32_t i = 0; i < h.n_node; i++)
        connect_inputs(&h, g->node[i]);
    connect_ends(&h);
    TRY(g->status);
    TRY(place_host_tell(&h));
    return graph_sort(g);
}

const Pass pass_place_host = { .name = "place-host",
                               .summary = "what the accelerator has no kernel for goes to the host",
                               .run = place_host_run };
