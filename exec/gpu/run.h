/* Steps that were captured as one graph. */
#ifndef DPX_GPU_RUN_H
#define DPX_GPU_RUN_H

#include "exec/gpu/part.h"

/* Its captured steps; those under way go on.  A communicator can be ended only when no graph holds a collective of
 * it. */
void gpu_program_drop_graphs(GpuProgram *g);

#endif
