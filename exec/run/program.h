/* Programs: what the executor runs.  Per device a flat list of prepared kernel calls with fixed addresses. */
#ifndef DPX_PROGRAM_H
#define DPX_PROGRAM_H

#include "exec/plan/prepared.h"

typedef struct Program Program;

/* Chooses and prepares a kernel for every node of `g`, whose nodes are in order of execution (passes/plan/schedule.h),
 * and plans its memory.  Takes the graph, also on failure.  E_UNSUPPORTED lists all nodes that have no kernel; E_NOMEM
 * says what a device's memory would have to hold. */
Status program_compile(Program **out, Graph *g, const ProgramOptions *opt) CHECKED;
void program_free(Program *p); /* NULL is legal */

/* Runs one step.  `in`: every input of the graph by name, of its type and shape, in any order; read in place.  On
 * return the outputs are readable until the next step of any program that shares the arenas.  After a failure in the
 * middle of a step the state that the graph updates is undefined. */
Status program_run(Program *p, const NamedTensor *in, int n) CHECKED;
/* Begins a step; on accelerators it returns before the step ends.  The inputs may be reused on return.  Errors may
 * appear in a later call.  Input i of the graph is in[place[i]].  With `part` each tensor holds only that part of the
 * whole (exec/plan/input_part.h), which must be the part that the devices of this process read; NULL: all of it. */
Status program_begin(Program *p, const NamedTensor *in, const int *place, const GivenPart *part) CHECKED;
unsigned program_turn(const Program *p); /* the number of the last step begun, for program_wait */
/* Waits for the end of the step with that number; at most one other may have begun since.  The outputs are then that
 * step's. */
Status program_wait(Program *p, unsigned turn) CHECKED;
/* The graph's outputs, in order: of the step that was run or waited for last. */
const NamedTensor *program_outputs(const Program *p, int *n);

/* place[i]: which tensor of `in` has the name of the graph's input i.  E_INVALID lists all inputs that are not given.
 */
Status program_find_inputs(int *place, const Graph *g, const NamedTensor *in, int n) CHECKED;

const Graph *program_graph(const Program *p); /* scheduled */
const MemoryPlan *program_plan(const Program *p);
/* The staging memory of a device, in bytes, that CPU collectives need outside the arena when each device is its own
 * process: for tensors from other processes, and for a library that adds. */
Status program_staging_bytes(size_t *out, const Program *p, int device) CHECKED;
/* The kernel that runs the node at this position of the schedule; NULL for views and collectives. */
const char *program_kernel(const Program *p, uint32_t node);
/* Records when every step of the following runs began and ended; NULL: no more. */
void program_set_trace(Program *p, Trace *t);

#endif
