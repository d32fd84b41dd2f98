/* --links: what sums over devices cost.  A simulated sum costs a latency and an amount per byte, whatever the
 * algorithm, so its seconds for two sizes give both. */
#include "exec/inspect/links.h"

#include <math.h>
#include <string.h>

#include "exec/inspect/measure.h"
#include "exec/inspect/simulate.h"
#include "exec/world/world.h"
#include "graph/base/numtext.h"

/* Reads the cluster on rank 0, or measures it on all; the other ranks' *out is left alone. */
static Status find_cluster(Cluster *out, const char *path, const DeviceList *list, int devices)
{
    if (!strcmp(path, LINKS_AUTO)) {
        for (int d = 0; d < list->n; d++)
            if (*list->device[d].described)
                return FAIL(E_INVALID,
                            "--links auto: %s only describes a device, expected devices that can be measured",
                            list->device[d].described);
        return measure_cluster(out, list);
    }
    if (world_rank(list->world))
        return ST_OK;
    TRY(cluster_read(out, path));
    if (out->nodes * out->per_node < devices)
        return FAIL(E_INVALID, "--links %s: describes %d devices, expected the %d of the run or more", path,
                    out->nodes * out->per_node, devices);
    return ST_OK;
}

Status links_cluster(Cluster *out, const char *path, const DeviceList *list)
{
    return find_cluster(out, path, list, list->n);
}

SumCost links_cost(const Cluster *c, int devices)
{
    const double few = 1 << 10, many = 1 << 30, a = simulate_sum(c, devices, few), b = simulate_sum(c, devices, many),
                 per_byte = (b - a) / (many - few);

    return (SumCost){ .seconds = fmax(a - few * per_byte, 0),
                      .per_byte = per_byte,
                      .flops = c->flops,
                      .beside = c->overlap != OVERLAP_NONE };
}

Status links_decide(CollectiveOptions *b, SumCost *cost, const char *path, const DeviceList *list)
{
    const int devices = list->n * world_size(list->world);
    Cluster c;

    if (!path || b->sum_cost || devices == 1)
        return ST_OK;
    TRY(find_cluster(&c, path, list, devices));
    world_set_purpose(list->world, "--links");
    *cost = world_rank(list->world) ? (SumCost){ 0 } : links_cost(&c, devices);
    if (world_size(list->world) > 1) { /* rank 0's, as numbers: a bool from another process may hold anything */
        double v[] = { cost->seconds, cost->per_byte, cost->flops, cost->beside };

        TRY(world_share(list->world, 0, v, sizeof v));
        *cost = (SumCost){ v[0], v[1], v[2], v[3] != 0 };
    }
    b->sum_cost = cost;
    return ST_OK;
}

/* A sum over n devices takes 2 (n - 1) messages, and 2 (n - 1) / n of its bytes. */
double links_latency_bytes(const SumCost *cost, int devices)
{
    return cost && cost->per_byte > 0 ? cost->seconds / (cost->per_byte * devices) : 0;
}

Status links_settle(Options *o, const DeviceList *list)
{
    CollectiveOptions all = *collective_options(&o->build);
    SumCost cost;
    char text[4 * NUMBER_TEXT], a[NUMBER_TEXT], b[NUMBER_TEXT], c[NUMBER_TEXT];

    TRY(links_decide(&all, &cost, o->links, list));
    if (all.sum_cost == &cost) {
        snprintf(text, sizeof text, "%s,%s,%s,%d", text_float64(a, cost.seconds), text_float64(b, cost.per_byte),
                 text_float64(c, cost.flops), cost.beside);
        TRY(options_set(o, "links", text));
    }
    o->ways.latency_bytes =
        links_latency_bytes(collective_options(&o->build)->sum_cost, list->n * world_size(list->world));
    return ST_OK;
}
