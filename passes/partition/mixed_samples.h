/* Nodes that mix samples of the batch: gathered, or exchanged for slices (mixed_samples.c). */
#ifndef DPX_MIXED_SAMPLES_H
#define DPX_MIXED_SAMPLES_H

#include "passes/partition/place.h"

/* Places the node by its rule, or in slices if that is better: its outputs in p->out, their placements for rules in
 * t->seen, the choice in t->how. */
Status mix_place(Placement *p, Placements *t, const Partition *part, Arena *a) CHECKED;

#endif
