/* Options of replicas: how many there are, on which devices, and how samples are divided among them. */
#ifndef DPX_PASSES_OPTIONS_REPLICAS_H
#define DPX_PASSES_OPTIONS_REPLICAS_H

#include <stdint.h>

#include "passes/division.h"

typedef struct BuildOptions BuildOptions;

enum { REPRESENTATIVES = 4 };

typedef struct ReplicaOptions {
    int replicas; /* logical; 0 or 1 with one device: the graph stays as it is */
    int devices;
    /* The number of devices of which the graph shows at most REPRESENTATIVES, one for each class of equal ones
     * (passes/partition/divide.c); `devices` is then REPRESENTATIVES.  0: it shows all. */
    int world;
    const int *device_of_replica; /* [replicas], non-decreasing; NULL: contiguous, as even as possible */
    SplitMode split;
    const double *weight; /* [n_weight] SPLIT_WEIGHTS: of each device, or of each replica; none negative, not all 0 */
    int n_weight;
    int64_t samples_each; /* every replica takes so many samples until none are left, whatever `split`; 0: unset */
} ReplicaOptions;

const ReplicaOptions *replica_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
