/* Descriptions of clusters: JSON files (docs/simulate.md) of machines that need not be there. */
#ifndef DPX_CLUSTER_H
#define DPX_CLUSTER_H

#include "graph/base/status.h"
#include "graph/tensor/dtype.h"

enum { CLUSTER_DEVICES = 10000, CLUSTER_COUNTS = 64, CLUSTER_RATES = 64, CLUSTER_TEXT = 64 };

typedef enum {
    WIRE_SHARES,      /* each device sums its share of what all send it: exec/run/collective_span.c */
    WIRE_RING,        /* pieces go round by neighbours, those of a node side by side */
    WIRE_HIERARCHICAL /* summed within nodes, halved and doubled between them, given to all within nodes */
} WireAlgorithm;

/* What goes on beside what is computed. */
typedef enum {
    OVERLAP_NONE,
    OVERLAP_ALL, /* collectives */
    OVERLAP_SUMS /* sums as they are made; what all get of them is given when all is computed, as parameter servers do
                  */
} Overlap;

typedef struct {
    double bandwidth; /* bytes a second, in each direction */
    double latency;   /* seconds */
} Link;

/* What a second of a device does of one operator. */
typedef struct {
    char op[CLUSTER_TEXT];
    double flops, bytes; /* one of them; the other is 0 */
} OpRate;

typedef struct {
    char name[CLUSTER_TEXT];
    bool accelerator;
    double cores;              /* of a device; 0: nothing is shared */
    double flops, flops_half;  /* a second: products of 32 and 64, and of 16 bits */
    double bandwidth;          /* of its memory, bytes a second */
    double memory;             /* bytes; 0: not told */
    double launch;             /* seconds that a node takes at least */
    double between_steps;      /* seconds from the last node of a step to the first of the next */
    double samples_per_second; /* of one device on its own, as measured; 0: as its rates say */
    OpRate rate[CLUSTER_RATES];
    int n_rate;
    int nodes, per_node;
    double node_cores, node_bandwidth; /* that a node's devices share; 0: each has its own */
    double node_slowdown;              /* of long work, when all devices of a node have some; 0: none */
    double jitter;                     /* seconds: by how much a device is late where all meet, on average */
    Link within, between;              /* of a pair of devices of a node; of a node to all others */
    WireAlgorithm algorithm;
    Overlap overlap;
    bool strong;                        /* the batch is that of all devices, however many; else of each */
    int count[CLUSTER_COUNTS], n_count; /* of how many devices it is asked */
} Cluster;

/* The expected latest of n devices, each late by an exponentially distributed time of mean 1: the harmonic number
 * (Renyi, On the theory of order statistics, 1953). */
double cluster_latest(double n);

/* E_INVALID names the file, and all keys that are wrong, with what was expected and found. */
Status cluster_read(Cluster *out, const char *path) CHECKED;

#endif
