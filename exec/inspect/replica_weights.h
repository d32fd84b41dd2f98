/* Weights by which a batch is divided over the replicas of a run. */
#ifndef DPX_REPLICA_WEIGHTS_H
#define DPX_REPLICA_WEIGHTS_H

#include "exec/device/device.h"
#include "passes/pass.h"

/* With parts by weight: a weight for each replica, into `weight`, lent to *b from here on; of SPLIT_AUTO as the devices
 * of all processes are found to be, so all come here.  Else nothing changes. */
Status split_decide(BuildOptions *b, double weight[MAX_REPLICAS], const DeviceList *list) CHECKED;
/* "1,0.5,0.5": as the option takes it; NULL: no memory. */
const char *split_text(const BuildOptions *b, Arena *a);

#endif
