/* Simulation of training steps on a cluster that need not exist. */
#ifndef DPX_SIMULATE_H
#define DPX_SIMULATE_H

#include <stdio.h>

#include "exec/inspect/cluster.h"
#include "exec/train/options.h"
#include "passes/report.h"

typedef struct {
    int devices, shown;     /* shown: how many of them the graph has */
    char shard[16];         /* the level of --shard */
    int64_t batch;          /* samples of a step, of all devices */
    double latency_bytes;   /* up to which sums are sent whole (exec/run/collective_span.h); 0: unknown */
    double seconds;         /* of a step */
    double compute, wire;   /* of these: the busiest device's nodes; the collectives, which may overlap with them */
    double within, between; /* bytes that a device sends to others of its node, and a node to other nodes */
    double arena, states, constants, staging; /* bytes of memory of the device that needs most; staging: bytes that
                                               * come from others before they are added or used */
    double flops;                             /* of the busiest device */
    int collectives;
} Simulated;

static inline double simulated_memory(const Simulated *s) { return s->arena + s->states + s->constants + s->staging; }

typedef struct {
    const Cluster *cluster;
    Simulated *row; /* the caller frees it by free() */
    int n_row;
} Simulation;

/* Simulates a step for each number of devices of the cluster, and for each level of --shard unless the options give
 * one.  --batch-size is that of one device, or with Cluster.strong that of all.  One device of each class of equal ones
 * is planned; with `expand` every one, up to 64.  `rates`, which may be NULL, is a --trace of the same step on one
 * device, from which the cluster's rates are taken. */
Status simulate(Simulation *out, const Graph *model, const Options *o, Cluster *cluster, const char *rates,
                bool expand) CHECKED;

void simulation_print(const Simulation *s, FILE *to);
void simulation_print_json(const Simulation *s, FILE *to);

/* ---- one planned graph ---- */

/* Times a step of s->devices devices: fills seconds, bytes, staging, FLOPs and collectives of *s.  The seconds of each
 * node are multiplied by `slowdown`.  `r`, which may be NULL, is a report of this graph and receives the seconds of its
 * phases and collectives. */
Status simulate_step(Simulated *s, const Cluster *c, const Graph *g, double slowdown, Report *r) CHECKED;
/* The factor by which the measured step of the model on one device is slower than the cluster's rates say; 1: no step
 * was measured. */
Status simulate_slowdown(double *out, const Graph *model, const Options *o, Cluster *c) CHECKED;
/* Seconds of an all-reduce of `bytes` bytes over `devices` devices. */
double simulate_sum(const Cluster *c, int devices, double bytes);
/* Bytes of the node's inputs and outputs, each counted once. */
double simulate_bytes(const Graph *g, const Node *n);
/* Whether the node computes nothing: a view or a collective. */
bool simulate_is_free(const Node *n);
/* Sets the cluster's rates of the operators of `g`, a step on one device, from the --trace of that step at `path`. */
Status simulate_read_rates(Cluster *c, const Graph *g, const char *path) CHECKED;

#endif
