/* One graph for batches of any size, made from graphs that are each for one size. */
#ifndef DPX_ANY_BATCH_H
#define DPX_ANY_BATCH_H

#include "passes/build_parts.h"
#include "passes/report.h"

/* Builds the graph of the batch size that `parts` have; `user` is the caller's, and `report` may be NULL. */
typedef Status BuildAtBatch(Graph **out, const Graph *model, const BuildParts *parts, const void *user, Report *report);

/* Makes from the graphs that `build` returns one that takes its batch size from an input's axis; the axis gets the name
 * `symbol` (NULL: "batch").  Sets parts->batch.batch to several sizes.  `report` is handed to `build` once.
 * E_UNSUPPORTED lists the nodes with constants that follow the size in no way that can be written.  The caller frees
 * *out. */
Status any_batch(Graph **out, BuildAtBatch *build, const Graph *model, BuildParts *parts, const void *user,
                 const char *symbol, Report *report) CHECKED;

#endif
