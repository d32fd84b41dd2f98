/* Giving one device's step in slot k to its streams; on the device's thread. */
#ifndef DPX_GPU_ISSUE_H
#define DPX_GPU_ISSUE_H

#include "exec/gpu/part.h"

/* The step has its addresses, and kernels their tables of them. */
Status gpu_part_bind(GpuPart *part, int k) CHECKED;
/* Its inputs are copied, and uploaded when the copy stream gets there. */
Status gpu_part_upload(GpuPart *part, int k) CHECKED;
/* All of its work is given to the streams. */
Status gpu_part_issue(GpuPart *part, int k) CHECKED;

#endif
