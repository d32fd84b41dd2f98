/* Diagnosis of a hung step: which collective it waits for, and which ranks are missing. */
#ifndef DPX_GPU_HANG_REPORT_H
#define DPX_GPU_HANG_REPORT_H

#include "exec/device/group.h"
#include "exec/world/world.h"

/* E_DEVICE: device d has waited in vain.  Names what the oldest step that has not ended waits for, and the devices and
 * processes that have not come to it; asks the other processes, which takes a moment. */
Status gpu_late(GpuGroup *g, int d) CHECKED;
/* How far this process has come; `group` is its GpuGroup. */
WorldProgress gpu_late_progress(void *group);

#endif
