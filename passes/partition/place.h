/* How the batch is divided, and where every value of the training graph lives. */
#ifndef DPX_PASS_PLACE_H
#define DPX_PASS_PLACE_H

#include "graph/place.h"
#include "passes/pass.h"

typedef struct {
    int replicas, devices;
    const int *device_of;          /* [replicas], non-decreasing: replica -> index of its device */
    const int *first_replica;      /* [devices + 1]: device d has replicas [first_replica[d], first_replica[d+1]) */
    int64_t batch;                 /* 0 also when no input carries a batch */
    const int64_t *count, *offset; /* [replicas]: samples of replica r, and those in front of them */
    const int *batch_axis;         /* by value id: the batch's axis of an input, or -1 */
} Partition;

/* Decides which inputs carry the batch (see the .c file) and how it is divided.  Reports the inputs. */
Status partition_decide(Partition *out, const Graph *g, const BuildOptions *opt, Arena *a, Report *report) CHECKED;

/* The part of a split axis of size dim that is replica r's. */
static inline int64_t part_count(const Partition *p, int64_t dim, int r)
{
    return p->batch ? dim / p->batch * p->count[r] : 0;
}
static inline int64_t part_offset(const Partition *p, int64_t dim, int r)
{
    return p->batch ? dim / p->batch * p->offset[r] : 0;
}

typedef struct {
    Place *value; /* by value id: where it lives as it is produced */
    Place **want; /* by node index: [n_in] what the node needs its inputs to be */
    bool *early;  /* by value id: a partial sum that is reduced where it is made: nodes see it as B */
} Placements;

/* Visits the nodes in order and applies their rules; g must be sorted and its shapes known.  Reports what mixes
 * samples. */
Status place_graph(Placements *out, const Graph *g, const Partition *p, Arena *a, Report *report) CHECKED;

#endif
