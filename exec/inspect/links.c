/* What a simulated sum costs is a latency and so much a byte, whatever the algorithm: two sizes tell both. */
#include "exec/inspect/links.h"

#include <math.h>

#include "exec/inspect/simulate.h"
#include "exec/world/world.h"
#include "graph/base/numtext.h"

static Status read_cost(SumCost *out, const char *path, int devices)
{
    const double few = 1 << 10, many = 1 << 30;
    Cluster c;
    double a, b;

    TRY(cluster_read(&c, path));
    if (c.nodes * c.per_node < devices)
        return FAIL(E_INVALID, "--links %s: describes %d devices, expected the %d of the run or more", path,
                    c.nodes * c.per_node, devices);
    a = simulate_sum(&c, devices, few);
    b = simulate_sum(&c, devices, many);
    *out = (SumCost){ .per_byte = (b - a) / (many - few), .flops = c.flops, .beside = c.overlap != OVERLAP_NONE };
    out->seconds = fmax(a - few * out->per_byte, 0);
    return ST_OK;
}

Status links_decide(BuildOptions *b, SumCost *cost, const char *path, const DeviceList *list)
{
    const int devices = list->n * world_size(list->world);

    if (!path || b->sum_cost || devices == 1)
        return ST_OK;
    *cost = (SumCost){ 0 };
    if (!world_rank(list->world))
        TRY(read_cost(cost, path, devices));
    if (world_size(list->world) > 1)
        TRY(world_share(list->world, 0, cost, sizeof *cost));
    b->sum_cost = cost;
    return ST_OK;
}

const char *links_text(char text[LINKS_TEXT], const SumCost *cost)
{
    char a[NUMBER_TEXT], b[NUMBER_TEXT], c[NUMBER_TEXT];

    snprintf(text, LINKS_TEXT, "%s,%s,%s,%d", text_float64(a, cost->seconds), text_float64(b, cost->per_byte),
             text_float64(c, cost->flops), cost->beside);
    return text;
}
