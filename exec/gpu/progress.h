/* The progress of a program's devices within a step, so that the error of a hung step can name what it waits for, and
 * the devices that are missing (exec/device/hang_report.h).
 *
 * The marks of a part are its collectives with other devices.  They are numbered from 1 in their order, which is the
 * same on all devices; 0 is the beginning of the step, n_mark + 1 its end.  With a single device there are no marks,
 * and these functions do nothing. */
#ifndef DPX_GPU_PROGRESS_H
#define DPX_GPU_PROGRESS_H

#include "exec/gpu/part.h"

Status gpu_progress_plan(GpuPart *part) CHECKED;   /* numbers the marks, once the part has its calls */
size_t gpu_progress_bytes(const GpuPart *part);    /* bytes that gpu_progress_create allocates on the device */
Status gpu_progress_create(GpuPart *part) CHECKED; /* on the device's thread */
void gpu_progress_free(GpuPart *part);
/* Begins a step in slot k, which is the group's next. */
void gpu_progress_begin(GpuProgram *g, unsigned k);
/* Let the part's step in slot k write that its stream `s` has reached a mark, and its end. */
Status gpu_progress_mark(GpuPart *part, int k, int mark, GpuStream *s) CHECKED;
Status gpu_progress_end(GpuPart *part, int k, GpuStream *s) CHECKED;

/* For the program's GpuUserClass. */
bool gpu_progress_oldest(const GpuUser *u, GpuStepProgress *out);
const char *gpu_progress_name(const GpuUser *u, int mark);

#endif
