/* What the devices and links that are there can do. */
#ifndef DPX_MEASURE_H
#define DPX_MEASURE_H

#include <stdio.h>

#include "exec/device/device.h"
#include "exec/inspect/cluster.h"

/* FLOP/s of products of float32 on the device with its team, at its best moment in a tenth of a second or so: what else
 * runs on the machine counts as little as can be. */
Status measure_flops(double *out, const DeviceSpec *d) CHECKED;
/* The devices of all processes, which all come here, as if all were the slowest, and as if each machine had as many
 * processes as the fullest: the same for all. */
Status measure_cluster(Cluster *out, const DeviceList *list) CHECKED;
/* As cluster_read takes it. */
void cluster_print(const Cluster *c, FILE *to);

#endif
