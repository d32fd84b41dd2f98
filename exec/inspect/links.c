/* What a simulated sum costs is a latency and so much a byte, whatever the algorithm: two sizes tell both. */
#include "exec/inspect/links.h"

#include <math.h>
#include <string.h>

#include "exec/inspect/measure.h"
#include "exec/inspect/simulate.h"
#include "exec/world/world.h"
#include "graph/base/numtext.h"

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

/* Rank 0's, as numbers: another process is not believed to send a bool. */
static Status share_cost(SumCost *cost, World *w)
{
    double v[] = { cost->seconds, cost->per_byte, cost->flops, cost->beside };

    TRY(world_share(w, 0, v, sizeof v));
    *cost = (SumCost){ v[0], v[1], v[2], v[3] != 0 };
    return ST_OK;
}

Status links_decide(BuildOptions *b, SumCost *cost, const char *path, const DeviceList *list)
{
    const int devices = list->n * world_size(list->world);
    Cluster c;

    if (!path || b->sum_cost || devices == 1)
        return ST_OK;
    TRY(find_cluster(&c, path, list, devices));
    world_set_purpose(list->world, "--links");
    *cost = world_rank(list->world) ? (SumCost){ 0 } : links_cost(&c, devices);
    if (world_size(list->world) > 1)
        TRY(share_cost(cost, list->world));
    b->sum_cost = cost;
    return ST_OK;
}

/* A sum is 2 (n - 1) messages, and 2 (n - 1) / n of its bytes. */
double links_latency_bytes(const SumCost *cost, int devices)
{
    return cost && cost->per_byte > 0 ? cost->seconds / (cost->per_byte * devices) : 0;
}

enum { LINKS_TEXT = 128 };

/* As the option takes it. */
static const char *links_text(char text[LINKS_TEXT], const SumCost *cost)
{
    char a[NUMBER_TEXT], b[NUMBER_TEXT], c[NUMBER_TEXT];

    snprintf(text, LINKS_TEXT, "%s,%s,%s,%d", text_float64(a, cost->seconds), text_float64(b, cost->per_byte),
             text_float64(c, cost->flops), cost->beside);
    return text;
}

Status links_settle(Options *o, const DeviceList *list)
{
    BuildOptions all = o->build;
    SumCost cost;
    char text[LINKS_TEXT];

    TRY(links_decide(&all, &cost, o->links, list));
    if (all.sum_cost == &cost)
        TRY(options_set(o, "links", links_text(text, &cost)));
    o->ways.latency_bytes = links_latency_bytes(o->build.sum_cost, list->n * world_size(list->world));
    return ST_OK;
}
