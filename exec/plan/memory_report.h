/* The memory that a planned step needs of a device, in numbers and as a table for people. */
#ifndef DPX_MEMORY_REPORT_H
#define DPX_MEMORY_REPORT_H

#include "exec/device/device.h"
#include "exec/plan/program_log.h"
#include "passes/plan/plan_memory.h"

typedef struct {
    size_t arena, states;
    size_t constants;           /* that the device's nodes read; their copies, where the device has memory of its own */
    size_t inputs, collectives; /* of a program of an accelerator: exec/gpu/program.c */
    size_t host;                /* pinned memory of the host */
    int64_t available;          /* of the device, before a part of it was allocated; < 0: not known */
} MemoryNeed;

/* Arena, states and constants; the rest is 0 and not known.  `copies`: the device has memory of its own. */
Status memory_need(MemoryNeed *out, const Graph *g, const MemoryPlan *plan, int device, bool copies) CHECKED;
size_t memory_total(const MemoryNeed *need); /* of the device */

/* "Conv conv1", or "Add_33" for a node whose name already says what it does. */
const char *node_label(char *text, size_t n, const Node *node);

typedef void MemoryLine(void *user, const char *line);
/* Writes, a line each without its end: the buffers alive where the arena is fullest, the largest first, with the nodes
 * between which they live; then the largest states. */
Status memory_table(const Graph *g, const MemoryPlan *plan, int device, MemoryLine *line, void *user) CHECKED;

/* After an allocation for the device failed with E_NOMEM: that again, as one line that says what the step needs and
 * what there is. The log, which may be NULL, receives the table. */
Status memory_short(Device *d, const Graph *g, const MemoryPlan *plan, int device, const MemoryNeed *need,
                    ProgramLog *log, void *user) CHECKED;

#endif
