/* What the devices and links that are there can do. */
#ifndef DPX_MEASURE_H
#define DPX_MEASURE_H

#include "exec/device/device.h"

/* FLOP/s of products of float32 on the device with its team, at its best moment in a tenth of a second or so: what else
 * runs on the machine counts as little as can be. */
Status measure_flops(double *out, const DeviceSpec *d) CHECKED;

#endif
