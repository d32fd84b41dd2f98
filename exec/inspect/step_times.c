/* Times the graph of a report, on as many devices as the graph is for, by the walk of a simulation (simulate_step.c).
 */
#include "exec/inspect/step_times.h"

#include "exec/inspect/links.h"
#include "exec/inspect/simulate.h"
#include "graph/ir/op.h"
#include "passes/options/batch.h"

Status step_times(Report *r, const Graph *g, const Graph *model, const Options *o)
{
    Simulated s = { .batch = batch_options(&o->build)->batch };
    double slowdown = 1;
    SumCost cost;
    DeviceList list;
    Cluster c;

    if (!o->links)
        return ST_OK;
    FOR_NODES(g, n) /* bytes and FLOPs are known where shapes are */
        for (int k = 0; k < n->n_out; k++)
            if (has_value(n->out[k]) && !shape_known(value(g, n->out[k])->shape))
                return FAIL(E_UNSUPPORTED, "--links: a step cannot be timed, because shapes depend on data: %s",
                            node_text(g, n));
    TRY(options_devices(&list, o));
    TRY(links_cluster(&c, o->links, &list));
    TRY(simulate_slowdown(&slowdown, model, o, &c));
    s.devices = s.shown = list.n;
    cost = links_cost(&c, list.n);
    s.latency_bytes = links_latency_bytes(&cost, list.n);
    if (!(r->node_seconds = ARENA_NEW(r->arena, double, g->n_node)))
        return FAIL_NOMEM();
    TRY(simulate_step(&s, &c, g, slowdown, r));
    r->time =
        (StepTime){ arena_strdup(r->arena, *c.name ? c.name : "the devices described"), s.seconds, s.compute, s.wire };
    return r->time.devices ? ST_OK : FAIL_NOMEM();
}
