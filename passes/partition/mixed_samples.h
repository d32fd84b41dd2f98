/* Nodes that mix samples of the batch: gathered, or exchanged for slices (mixed_samples.c). */
#ifndef DPX_MIXED_SAMPLES_H
#define DPX_MIXED_SAMPLES_H

#include "passes/partition/place.h"

/* By the node's rule, or in slices where that is better: its outputs in p->out, what rules see of them in t->seen, in
 * t->how what was chosen. */
Status mix_place(Placement *p, Placements *t, const Partition *part, Arena *a) CHECKED;

#endif
