/* A program on accelerators: what exec/run/program.h uses where devices have streams. */
#ifndef DPX_GPU_PROGRAM_H
#define DPX_GPU_PROGRAM_H

#include "exec/plan/prepared.h"

typedef struct GpuProgram GpuProgram;

/* Allocates all memory that steps use; E_NOMEM lists what a step needs.  `p` already has its output tensors, and is
 * lent for the life of the program. */
Status gpu_program_create(GpuProgram **out, Prepared *p) CHECKED;
void gpu_program_free(GpuProgram *g); /* waits for the steps under way; NULL is legal */

/* Begins a step with the inputs in Prepared.storage, which are copied before it returns.  After a failure nothing is
 * under way. */
Status gpu_program_begin(GpuProgram *g) CHECKED;
unsigned gpu_program_turn(const GpuProgram *g); /* number of steps begun */
/* Waits until step `turn`, the gpu_program_turn after it began, has ended; it must be one of the last two.  The
 * program's outputs are then that step's. */
Status gpu_program_wait(GpuProgram *g, unsigned turn) CHECKED;

#endif
