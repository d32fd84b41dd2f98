/* One graph for batches of any size, of graphs that are each for one. */
#ifndef DPX_ANY_BATCH_H
#define DPX_ANY_BATCH_H

#include "passes/report.h"

/* Makes the graph for batches of this size; `report` may be NULL. */
typedef Status BuildAtBatch(Graph **out, void *user, int64_t batch, Report *report);

/* The graph that `build` makes, where the size of the batch is that of an input's axis, which gets the name `symbol`
 * (NULL: "batch").  E_UNSUPPORTED lists the nodes that can be made for one size alone. */
Status any_batch(Graph **out, BuildAtBatch *build, void *user, const char *symbol, Report *report) CHECKED;

#endif
