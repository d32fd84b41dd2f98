/* A program on accelerators: what exec/run/program.h has behind it where devices have streams. */
#ifndef DPX_GPU_PROGRAM_H
#define DPX_GPU_PROGRAM_H

#include "exec/plan/prepared.h"

typedef struct GpuProgram GpuProgram;

/* Allocates all that the steps will use; E_NOMEM says what a step needs.  `p` has its tensors of outputs made, and is
 * lent for the life of the program. */
Status gpu_program_create(GpuProgram **out, Prepared *p) CHECKED;
void gpu_program_free(GpuProgram *g); /* NULL is legal; waits for what runs */

/* Begins a step with the inputs in Prepared.storage, which are copied before it returns, or leaves nothing under
 * way. */
Status gpu_program_begin(GpuProgram *g) CHECKED;
unsigned gpu_program_turn(const GpuProgram *g); /* how many steps have begun */
/* Waits until step `turn` (gpu_program_turn when it had begun), of the two begun last, has ended; the program's outputs
 * are then that step's. */
Status gpu_program_wait(GpuProgram *g, unsigned turn) CHECKED;

#endif
