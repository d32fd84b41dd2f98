/* place-host: moves nodes that an accelerator has no kernel for to the host's side of its device.
 *
 * With n devices, number n + d is the host's side of device d: memory of the host that the device can read.  A node put
 * there reads inputs of the graph and constants where they lie.  Every other value that crosses over goes through a
 * Copy node, one for all its readers.  The pass is legal because Copy changes nothing but the place.  States, outputs
 * of the graph and operands of collectives stay on the devices, so that no later pass needs to handle the host's side;
 * the executor does. */
#include <string.h>

#include "graph/ir/readers.h"
#include "graph/ops/collective.gen.h"
#include "passes/pass.h"
#include "passes/plan/layout.h"
#include "passes/plan/plan_memory.h"
#include "passes/report.h"

/* Does the host's side of a device compute v, a value from before the pass added copies? */
static bool computed_on_host(const Graph *g, ValueId v, int n_device)
{
    return maker(g, v) && maker(g, v)->device >= n_device;
}

/* The value on the other side, `device`.  `copy`: by value id, made when a node first needs it. */
static ValueId copied_to(Graph *g, ValueId *copy, ValueId v, int device, int replica, const char *suffix)
{
    const Value *of = value(g, v);
    const char *name;
    Node *n;

    if (has_value(copy[v.i]))
        return copy[v.i];
    name = arena_printf(g->arena, "%s@%s", of->name, suffix);
    if (!name || !(n = graph_add_node(g, &op_Copy, value_logical_name(of), NULL, 1, &v, 1, &name))) {
        g->status = g->status ? g->status : FAIL_NOMEM();
        return v;
    }
    n->device = value(g, n->out[0])->device = device;
    n->replica = value(g, n->out[0])->replica = replica;
    value(g, n->out[0])->logical = value_logical_name(of);
    if (!(g->status = node_normalise(g, n)))
        g->status = node_infer(g, n);
    return copy[v.i] = n->out[0];
}

/* The copy on the device of a value that the host computes; any other value as it is. */
static ValueId brought_back(Graph *g, ValueId *copy, ValueId v, int n_device)
{
    return computed_on_host(g, v, n_device)
               ? copied_to(g, copy, v, value_device(g, v) - n_device, value(g, v)->producer->replica, "back")
               : v;
}

/* Reports each operator of nodes on the host, `on_host` by node index: their number and the first.  Clears `on_host`.
 */
static Status place_host_report(const Graph *g, PassCtx *ctx, bool *on_host, uint32_t n_node)
{
    for (uint32_t i = 0; i < n_node; i++) {
        const Node *first = g->node[i];
        int n = 0;

        if (!on_host[i])
            continue;
        for (uint32_t k = i; k < n_node; k++)
            if (on_host[k] && g->node[k]->op == first->op) {
                on_host[k] = false;
                n++;
            }
        TRY(report_note(ctx->report, NOTE_HOST, first->op->name,
                        "no kernel of the accelerator computes %s%s: on the host", node_text(g, first),
                        n > 1 ? arena_printf(ctx->scratch, " and %d more", n - 1) : ""));
    }
    return ST_OK;
}

static Status place_host_run(Graph *g, PassCtx *ctx)
{
    const int n_device = device_count(ctx->opt);
    uint32_t n_node;
    bool *on_host;
    ValueId *copy;

    if (!build_target(ctx->opt)->accelerator)
        return ST_OK;
    TRY(graph_sort(g));
    n_node = g->n_node;
    on_host = ARENA_NEW(ctx->scratch, bool, n_node);
    copy = ARENA_NEW(ctx->scratch, ValueId, g->n_value);
    if (!on_host || !copy)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < n_node; i++) {
        Node *n = g->node[i];

        /* States have their layouts already; passes/plan/layout.c asks later whether a node takes them so. */
        if (n->op->flags & OPF_COLLECTIVE || (n->op->flags & OPF_VIEW && n->n_out == 1) ||
            layout_computes(g, n, (NodeLayouts){ LAYOUT_ROWS, LAYOUT_ROWS }, ctx))
            continue;
        on_host[i] = true;
        n->device = n_device + (n->device < 0 ? 0 : n->device);
        for (int o = 0; o < n->n_out; o++)
            if (has_value(n->out[o]))
                value(g, n->out[o])->device = n->device;
        ctx->n_changed++;
    }
    for (uint32_t k = 0; k < n_node; k++) {
        Node *n = g->node[k];

        for (int i = 0; i < n->n_in && !g->status; i++) {
            const ValueId v = n->in[i];
            const ValueKind kind = has_value(v) ? value(g, v)->kind : V_CONST;

            if (!on_host[k])
                n->in[i] = brought_back(g, copy, v, n_device);
            else if (kind != V_INPUT && kind != V_CONST && !computed_on_host(g, v, n_device))
                n->in[i] = copied_to(g, copy, v, n->device, n->replica, "host");
        }
    }
    for (int i = 0; i < g->n_output; i++)
        g->output[i].value = brought_back(g, copy, g->output[i].value, n_device);
    for (int u = 0; u < g->n_update; u++)
        g->update[u].next = brought_back(g, copy, g->update[u].next, n_device);
    TRY(g->status);
    TRY(place_host_report(g, ctx, on_host, n_node));
    return graph_sort(g);
}

const Pass pass_place_host = { .name = "place-host",
                               .summary = "what the accelerator has no kernel for goes to the host",
                               .run = place_host_run };
