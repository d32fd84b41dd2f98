/* The accelerator behind a device: opening and closing it. */
#ifndef DPX_ACCELERATOR_H
#define DPX_ACCELERATOR_H

#include "exec/device/device.h"

typedef struct {
    const Runtime *runtime; /* NULL: none is open */
    GpuDevice *gpu;
    GpuStream *stream; /* NULL: the device is described and runs nothing */
    GpuInfo info;
    char *description; /* JSON text of a described device; NULL: a real one */
} Accelerator;

/* Opens a device.  Error messages begin with its name; for a missing device they list those that are present. */
Status accelerator_open(Accelerator *out, const DeviceSpec *spec) CHECKED;
void accelerator_close(Accelerator *a);

#endif
