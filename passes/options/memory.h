/* Options of memory: bounds of planning, and how much of the scores exists at once. */
#ifndef DPX_PASSES_OPTIONS_MEMORY_H
#define DPX_PASSES_OPTIONS_MEMORY_H

#include <stdint.h>

typedef struct BuildOptions BuildOptions;

typedef struct MemoryOptions {
    int64_t plan_memory; /* bytes that planning may take; 0: see exec/plan/plan_budget.h */
    int64_t max_nodes;   /* the most nodes with functions inlined and loops unrolled or run; 0: ONNX_MAX_NODES */
    /* Rows of a cross-entropy's scores that are computed at once (passes/plan/chunk_loss.c); 0: all; -1: by their
     * size. */
    int64_t chunk_rows;
} MemoryOptions;

const MemoryOptions *memory_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
