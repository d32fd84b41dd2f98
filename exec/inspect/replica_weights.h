/* Weights by which a batch is split over the replicas of a run. */
#ifndef DPX_REPLICA_WEIGHTS_H
#define DPX_REPLICA_WEIGHTS_H

#include "exec/device/device.h"
#include "passes/options/replicas.h"

/* With SPLIT_WEIGHTS or SPLIT_AUTO, writes a weight for each replica to `weight` and lends it to *b.  With SPLIT_AUTO
 * the weights are measured on the devices of all processes, which all call this.  Otherwise nothing changes. */
Status split_decide(ReplicaOptions *b, double weight[MAX_REPLICAS], const DeviceList *list) CHECKED;
/* The weights as the option --split takes them, "1,0.5,0.5"; NULL: out of memory. */
const char *split_text(const ReplicaOptions *b, Arena *a);

#endif
