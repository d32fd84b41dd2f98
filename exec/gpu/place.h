/* How far the devices have come in a step, so that a step that does not end can say what it waits for, and for whom. */
#ifndef DPX_GPU_PLACE_H
#define DPX_GPU_PLACE_H

#include "exec/gpu/program.h"
#include "exec/world/world.h"

/* The places of a part: its collectives with other devices, numbered from 1 in their order, which is the same on all
 * devices; 0 is the beginning of the step, n_place + 1 its end.  Nothing where there are no other devices. */
Status gpu_place_plan(GpuPart *part) CHECKED;   /* numbers them; after the part's calls */
size_t gpu_place_bytes(const GpuPart *part);    /* that gpu_place_create takes of the device */
Status gpu_place_create(GpuPart *part) CHECKED; /* a DeviceJob's part */
void gpu_place_free(GpuPart *part);
/* Before a step in slot k: it is the next of the group's. */
void gpu_place_begin(GpuProgram *g, unsigned k);
/* Gives the stream `s` of the part's step in slot k what tells that it has come to a place. */
Status gpu_place_mark(GpuPart *part, int k, int place, GpuStream *s) CHECKED;
Status gpu_place_end(GpuPart *part, int k, GpuStream *s) CHECKED;

/* E_DEVICE: device d has waited in vain.  Names what the oldest step that has not ended waits for, and the devices and
 * processes that have not come to it; asks the other processes, which takes a moment. */
Status gpu_place_late(GpuGroup *g, int d) CHECKED;
/* The place of this process; `group` is its GpuGroup. */
WorldPlace gpu_place_of_process(void *group);

#endif
