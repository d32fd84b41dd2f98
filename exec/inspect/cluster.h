/* Descriptions of clusters: JSON files (docs/reference/simulate.md) of machines that need not exist. */
#ifndef DPX_CLUSTER_H
#define DPX_CLUSTER_H

#include "graph/base/status.h"
#include "graph/tensor/dtype.h"

enum { CLUSTER_DEVICES = 10000, CLUSTER_COUNTS = 64, CLUSTER_RATES = 64, CLUSTER_TEXT = 64 };

typedef enum {
    WIRE_SHARES,      /* each device sums its share of the data; all send it theirs: exec/run/collective_span.c */
    WIRE_RING,        /* pieces go round a ring, in which the devices of a node are neighbours */
    WIRE_HIERARCHICAL /* reduced within nodes, recursively halved and doubled between nodes, broadcast within nodes */
} WireAlgorithm;

/* Which communication overlaps with computation. */
typedef enum {
    OVERLAP_NONE,
    OVERLAP_ALL, /* all collectives */
    OVERLAP_SUMS /* sums overlap; their results are sent when everything is computed, as parameter servers do */
} Overlap;

typedef struct {
    double bandwidth; /* bytes a second, in each direction */
    double latency;   /* seconds */
} Link;

/* The measured rate of one operator on a device. */
typedef struct {
    char op[CLUSTER_TEXT];
    double flops, bytes; /* a second; one of the two is 0 */
} OpRate;

typedef struct {
    char name[CLUSTER_TEXT];
    bool accelerator;
    double cores;              /* of a device; 0: devices share no cores */
    double flops, flops_half;  /* a second: products of 32 and 64 bits, and of 16 bits */
    double bandwidth;          /* of its memory, bytes a second */
    double memory;             /* bytes; 0: unknown */
    double launch;             /* least seconds of a node */
    double between_steps;      /* seconds from the last node of a step to the first of the next */
    double samples_per_second; /* measured on one device alone; 0: computed from its rates */
    OpRate rate[CLUSTER_RATES];
    int n_rate;
    int nodes, per_node;
    double node_cores, node_bandwidth; /* shared by a node's devices; 0: each device has its own */
    double node_slowdown;              /* factor of long computations while all devices of a node compute; 0: none */
    double jitter;                     /* mean delay of a device at a collective, in seconds */
    Link within, between;              /* between two devices of a node; from a node to all others */
    WireAlgorithm algorithm;
    Overlap overlap;
    bool strong;                        /* strong scaling: the batch is shared by all devices; else each has one */
    int count[CLUSTER_COUNTS], n_count; /* the numbers of devices to simulate */
} Cluster;

/* The expected largest delay of n devices, each delayed by an exponentially distributed time of mean 1: the harmonic
 * number 1 + 1/2 + ... + 1/n (Renyi, On the theory of order statistics, 1953). */
double cluster_latest(double n);

/* Reads a description.  E_INVALID names the file and lists all wrong keys, each with the expected and the found value.
 */
Status cluster_read(Cluster *out, const char *path) CHECKED;

#endif
