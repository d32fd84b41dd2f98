/* Training graphs from a forward graph written as text: what the tests of the partition start from. */
#ifndef DPX_TESTS_TRAIN_H
#define DPX_TESTS_TRAIN_H

#include "exec/inspect/verify.h"
#include "graph/ir/graph.h"
#include "passes/division.h"
#include "passes/report.h"

typedef struct {
    int replicas, devices;
    SplitMode split;
    const double *weight; /* [n_weight] */
    int n_weight;
    const int *device_of_replica;
    bool bucket;
    MixMode mix;
} Division;

/* The text's output "loss" is differentiated by every trainable state; w := w - learning_rate * gradient.  `%B` in the
 * text stands for the batch size.  States get random values.  NULL (and a failed test) when that cannot be done. */
Graph *train_graph(const char *text, int64_t batch);
/* A partitioned copy; failures are the caller's to check. */
Status train_divide(Graph **out, const Graph *g, const Division *how, Report *report);
/* Runs both and checks that every tensor agrees to `limit`. */
void train_check(const char *text, int64_t batch, const Division *how, double limit);
/* For batches that divide, do not divide and are smaller than the number of replicas. */
void train_check_all(const char *text);

#endif
