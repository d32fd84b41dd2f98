/* The walk of a simulation (simulate_step.c) over the graph that is reported, on as many devices as it is for. */
#include "exec/inspect/step_times.h"

#include "exec/inspect/links.h"
#include "exec/inspect/simulate.h"
#include "graph/ir/op.h"

/* Bytes and FLOPs are known where shapes are. */
static Status step_times_check_shapes(const Graph *g)
{
    FOR_NODES(g, n)
        for (int o = 0; o < n->n_out; o++)
            if (has_value(n->out[o]) && !shape_known(value(g, n->out[o])->shape))
                return FAIL(E_UNSUPPORTED, "--links: what a step takes is not known, for shapes depend on data: %s",
                            node_text(g, n));
    return ST_OK;
}

Status step_times(Report *r, const Graph *g, const Graph *model, const Options *o)
{
    Simulated s = { .batch = o->build.batch };
    double slower = 1;
    SumCost cost;
    DeviceList list;
    Cluster c;

    if (!o->links)
        return ST_OK;
    TRY(step_times_check_shapes(g));
    TRY(options_devices(&list, o));
    TRY(links_cluster(&c, o->links, &list));
    TRY(simulate_slower(&slower, model, o, &c));
    s.devices = s.shown = list.n;
    cost = links_cost(&c, list.n);
    s.latency_bytes = links_latency_bytes(&cost, list.n);
    TRY(simulate_step(&s, &c, g, slower, r));
    r->time =
        (StepTime){ arena_strdup(r->arena, *c.name ? c.name : "the devices described"), s.seconds, s.compute, s.wire };
    return r->time.devices ? ST_OK : FAIL_NOMEM();
}
