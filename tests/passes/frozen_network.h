/* Networks with an open batch, as an exporter writes them for one batch size. */
#ifndef DPX_TESTS_FROZEN_NETWORK_H
#define DPX_TESTS_FROZEN_NETWORK_H

#include "graph/ir/graph.h"

/* Has the input of a random network (tests/passes/random_networks.h) the batch? */
bool random_network_has_batch(const Value *input);
/* Gives the inputs that have the batch this size; -1 opens it. */
void random_network_batch(Graph *g, int64_t batch);
/* *out: the text of the network with the size of its batch in constants; the caller frees it. */
Status frozen_network(char **out, const char *open, int64_t batch) CHECKED;

#endif
