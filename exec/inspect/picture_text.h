/* What pictures write in their blocks. */
#ifndef DPX_INSPECT_PICTURE_TEXT_H
#define DPX_INSPECT_PICTURE_TEXT_H

#include "exec/inspect/picture_tree.h"
#include "passes/report.h"

/* "2.36 M params · 14.2 GFLOP · 37.1 MiB · 1.2 ms": what there is of these; NULL: out of memory. */
const char *picture_numbers(Arena *a, const Part *p);
/* The same of a phase, with what its collectives take. */
const char *picture_phase_numbers(Arena *a, const Block *b);
/* "conv1, bn1, relu ... 9 in all" of a block that is closed. */
const char *picture_contents(Arena *a, const Block *b);
/* "float32 [8,64,56,56]" or "" */
const char *picture_shape(Arena *a, const Part *p);
/* "all-reduce of gradient of fc, 452.4 KiB, 1.2 ms" */
const char *picture_bar_label(Arena *a, const Block *b);
/* "112 nodes on 4 devices · 13 collectives of 1.2 MiB · a step takes 12 ms"; `r` may be NULL. */
const char *picture_facts(Arena *a, const PictureTree *t, const Report *r);

#endif
