/* Opening the accelerator behind a device. */
#ifndef DPX_ACCELERATOR_H
#define DPX_ACCELERATOR_H

#include "exec/device/device.h"

typedef struct {
    const Runtime *runtime; /* NULL: none is open */
    GpuDevice *gpu;
    GpuStream *stream; /* NULL: the device is described and runs nothing */
    GpuInfo info;
    char *description; /* JSON text; NULL: the device is there */
} Accelerator;

/* Errors are one line that begins with the device's name; a missing device lists those that are there. */
Status accelerator_open(Accelerator *out, const DeviceSpec *spec) CHECKED;
void accelerator_close(Accelerator *a);

#endif
