/* Measures what the present devices and links can do. */
#ifndef DPX_MEASURE_H
#define DPX_MEASURE_H

#include <stdio.h>

#include "exec/device/device.h"
#include "exec/inspect/cluster.h"

/* FLOP/s of products of that type on the device with its team, in the fastest of at least 5 runs and at least 0.15
 * seconds, so that other programs on the machine matter little; runs that take seconds are fewer. */
Status measure_flops(double *out, const DeviceSpec *d, DType type) CHECKED;
/* Bytes a second that the device reads and writes in an operator that computes almost nothing; the fastest, as well. */
Status measure_bytes(double *out, const DeviceSpec *d) CHECKED;
/* Describes the devices of all processes, which all call this and get the same.  All devices count as the slowest, and
 * all machines as having as many processes as the fullest. */
Status measure_cluster(Cluster *out, const DeviceList *list) CHECKED;
/* Writes the description that cluster_read reads. */
void cluster_print(const Cluster *c, FILE *to);

#endif
