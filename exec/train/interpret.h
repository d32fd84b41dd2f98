/* Interpreted steps: graphs whose shapes depend on data. */
#ifndef DPX_INTERPRET_H
#define DPX_INTERPRET_H

#include "exec/device/device_set.h"
#include "exec/run/program.h"
#include "exec/state/state.h"

typedef struct {
    States *states;
    const DeviceSet *devices;
    bool in_pieces; /* states are cut */
    int64_t memory; /* BuildOptions.plan_memory: what is computed is charged as what is planned */
} Interpretation;

/* `*arena`, which is freed first, gets the values; `out` [g->n_output] those of the outputs, which lie there, in the
 * inputs or in states. */
Status interpret_step(Arena **arena, NamedTensor *out, const Graph *g, const Interpretation *how, const NamedTensor *in,
                      int n_in) CHECKED;

#endif
