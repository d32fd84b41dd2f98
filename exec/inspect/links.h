/* What sums over devices cost, by a description of the devices and links. */
#ifndef DPX_LINKS_H
#define DPX_LINKS_H

#include "exec/device/device.h"
#include "exec/inspect/cluster.h"
#include "passes/pass.h"

enum { LINKS_TEXT = 128 };
#define LINKS_AUTO "auto" /* in place of a file */

/* By a file (docs/simulate.md), which rank 0 reads for all, or, with LINKS_AUTO, as all processes measure it: *cost,
 * lent to *b from here on.  All processes come here.  `path` NULL: nothing changes. */
Status links_decide(BuildOptions *b, SumCost *cost, const char *path, const DeviceList *list) CHECKED;
/* The devices of this process, as the file says or as they are measured. */
Status links_cluster(Cluster *out, const char *path, const DeviceList *list) CHECKED;
SumCost links_cost(const Cluster *c, int devices);
/* How many bytes take as long on a link between devices as an empty message, by the cost of sums of so many. */
double links_latency_bytes(const SumCost *cost, int devices);
/* As the option takes it. */
const char *links_text(char text[LINKS_TEXT], const SumCost *cost);

#endif
