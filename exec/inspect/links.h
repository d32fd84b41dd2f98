/* What sums over devices cost, by a description of the devices and links. */
#ifndef DPX_LINKS_H
#define DPX_LINKS_H

#include "exec/device/device.h"
#include "exec/inspect/cluster.h"
#include "exec/train/options.h"
#include "passes/pass.h"

#define LINKS_AUTO "auto" /* in place of a file */

/* By a file (docs/simulate.md), which rank 0 reads for all, or, with LINKS_AUTO, as all processes measure it: *cost,
 * lent to *b from here on.  All processes come here.  `path` NULL: nothing changes. */
Status links_decide(BuildOptions *b, SumCost *cost, const char *path, const DeviceList *list) CHECKED;
/* The same for a run on these devices: --links becomes what sums cost, which a run that goes on is given again, and
 * o->ways say which sums are sent whole. */
Status links_settle(Options *o, const DeviceList *list) CHECKED;
/* The devices of this process, as the file says or as they are measured. */
Status links_cluster(Cluster *out, const char *path, const DeviceList *list) CHECKED;
/* Of sums over so many devices of that cluster. */
SumCost links_cost(const Cluster *c, int devices);
/* How many bytes take as long on a link between devices as an empty message, by the cost of sums of so many. */
double links_latency_bytes(const SumCost *cost, int devices);

#endif
