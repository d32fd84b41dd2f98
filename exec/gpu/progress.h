/* How far a program's devices have come in a step, so that a step that does not end can say what it waits for, and for
 * whom (exec/device/hang_report.h). */
#ifndef DPX_GPU_PROGRESS_H
#define DPX_GPU_PROGRESS_H

#include "exec/gpu/part.h"

/* The marks of a part: its collectives with other devices, numbered from 1 in their order, which is the same on all
 * devices; 0 is the beginning of the step, n_mark + 1 its end.  Nothing where there are no other devices. */
Status gpu_progress_plan(GpuPart *part) CHECKED;   /* numbers them; after the part's calls */
size_t gpu_progress_bytes(const GpuPart *part);    /* that gpu_progress_create takes of the device */
Status gpu_progress_create(GpuPart *part) CHECKED; /* a DeviceJob's part */
void gpu_progress_free(GpuPart *part);
/* Before a step in slot k: it is the next of the group's. */
void gpu_progress_begin(GpuProgram *g, unsigned k);
/* Gives the stream `s` of the part's step in slot k what tells that it has come to a mark. */
Status gpu_progress_mark(GpuPart *part, int k, int mark, GpuStream *s) CHECKED;
Status gpu_progress_end(GpuPart *part, int k, GpuStream *s) CHECKED;

/* Of a GpuUserClass: the program's. */
bool gpu_progress_oldest(const GpuUser *u, GpuLag *out);
const char *gpu_progress_name(const GpuUser *u, int mark);

#endif
