/* --links: the cost of sums over devices, from a description or a measurement of devices and links. */
#ifndef DPX_LINKS_H
#define DPX_LINKS_H

#include "exec/device/device.h"
#include "exec/inspect/cluster.h"
#include "exec/train/options.h"
#include "passes/options/collectives.h"
#include "passes/pass.h"

#define LINKS_AUTO "auto" /* in place of a file */

/* Lets passes know the cost of sums: sets *cost and lends it to *b.  Rank 0 reads it from the file `path`
 * (docs/reference/simulate.md) for all processes; with LINKS_AUTO all processes measure it together.  All processes
 * call this.  Does nothing when `path` is NULL, when *b has a cost, or with one device. */
Status links_decide(CollectiveOptions *b, SumCost *cost, const char *path, const DeviceList *list) CHECKED;
/* Does the same for a run on these devices.  The option --links becomes the cost itself, so that a resumed run has the
 * same; o->ways gets the size up to which sums are sent whole. */
Status links_settle(Options *o, const DeviceList *list) CHECKED;
/* The cluster of this process's devices, from the file or as measured. */
Status links_cluster(Cluster *out, const char *path, const DeviceList *list) CHECKED;
/* The cost of sums over `devices` devices of that cluster. */
SumCost links_cost(const Cluster *c, int devices);
/* The number of bytes that take as long on a link as an empty message, by the cost of sums over `devices` devices; 0:
 * the cost is unknown (NULL) or does not grow with bytes. */
double links_latency_bytes(const SumCost *cost, int devices);

#endif
