/* Steps that are captured as graphs. */
#ifndef DPX_GPU_RUN_H
#define DPX_GPU_RUN_H

#include "exec/gpu/part.h"

/* Frees the program's captured steps; steps under way go on.  A communicator can be ended only when no graph holds a
 * collective of it. */
void gpu_program_drop_graphs(GpuProgram *g);

#endif
