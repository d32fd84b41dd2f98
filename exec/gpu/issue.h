/* Issues one device's step in slot k to its streams; all functions run on the device's thread. */
#ifndef DPX_GPU_ISSUE_H
#define DPX_GPU_ISSUE_H

#include "exec/gpu/part.h"

/* Gives the step its addresses, and kernels their tables of addresses. */
Status gpu_part_bind(GpuPart *part, int k) CHECKED;
/* Copies the step's inputs, and lets the copy stream upload them. */
Status gpu_part_upload(GpuPart *part, int k) CHECKED;
/* Gives all work of the step to the streams. */
Status gpu_part_issue(GpuPart *part, int k) CHECKED;

#endif
