/* Diagnosis of a hung step: which collective it waits for, and which ranks are missing. */
#ifndef DPX_GPU_HANG_REPORT_H
#define DPX_GPU_HANG_REPORT_H

#include "exec/device/group.h"
#include "exec/world/world.h"

/* Returns the error of device d, whose step has not ended within the group's timeout: E_DEVICE, with the collective
 * that the oldest unfinished step waits for, and the devices and processes that have not come to it.  Asks the other
 * processes, which takes up to two seconds. */
Status hang_report(GpuGroup *g, int d) CHECKED;
/* The progress of this process, for world_set_progress; `group` is its GpuGroup. */
WorldProgress hang_report_progress(void *group);

#endif
