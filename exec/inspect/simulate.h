/* What a step would cost on a cluster that need not be there. */
#ifndef DPX_SIMULATE_H
#define DPX_SIMULATE_H

#include <stdio.h>

#include "exec/inspect/cluster.h"
#include "exec/train/options.h"
#include "passes/report.h"

typedef struct {
    int devices, shown;     /* shown: of how many of them the graph was made */
    char shard[16];         /* the level */
    int64_t batch;          /* samples of a step, of all devices */
    double latency_bytes;   /* as a run knows it of its links (exec/run/collective_span.h); 0: it does not */
    double seconds;         /* of a step */
    double compute, wire;   /* of these: the busiest device's nodes; the collectives, which may go on beside them */
    double within, between; /* bytes that a device sends to others of its node, and a node to other nodes */
    double arena, states, constants, staging; /* bytes of memory, of the device that needs most; staging: what comes
                                               * from others before it is added or used */
    double flops;                             /* of the busiest device */
    int collectives;
} Simulated;

static inline double simulated_memory(const Simulated *s) { return s->arena + s->states + s->constants + s->staging; }

typedef struct {
    const Cluster *cluster;
    Simulated *row; /* to be freed by free() */
    int n_row;
} Simulation;

/* For each number of devices of the cluster, and each level of --shard unless the options give one: the step that the
 * options describe, --batch-size being that of one device (or of all: Cluster.strong).  One device of each class of
 * equal ones is planned; `expand`: every one, for at most 64.  `rates`, when not NULL: a --trace of the same step on
 * one device, from which the cluster's rates are taken. */
Status simulate(Simulation *out, const Graph *model, const Options *o, Cluster *cluster, const char *rates,
                bool expand) CHECKED;

void simulation_print(const Simulation *s, FILE *to);
void simulation_print_json(const Simulation *s, FILE *to);

/* ---- of one planned graph ---- */

/* A step of `s->devices` devices: seconds, bytes, staging, FLOPs and collectives.  `slower`: by what the seconds of
 * each node are multiplied.  `r`: a report of this graph, whose phases and collectives are told theirs; NULL: none. */
Status simulate_step(Simulated *s, const Cluster *c, const Graph *g, double slower, Report *r) CHECKED;
/* By what the nodes of the model's step on one device take longer than the cluster's rates say, where it was measured.
 */
Status simulate_slower(double *out, const Graph *model, const Options *o, Cluster *c) CHECKED;
/* Seconds of a sum of so many bytes for all of `devices` devices. */
double simulate_sum(const Cluster *c, int devices, double bytes);
/* Bytes of the node's inputs and outputs, each counted once. */
double simulate_bytes(const Graph *g, const Node *n);
/* A view, or what passes between devices. */
bool simulate_is_free(const Node *n);
/* The rates of the operators of `g`, a step on one device, as the trace of that step has them. */
Status simulate_read_rates(Cluster *c, const Graph *g, const char *path) CHECKED;

#endif
