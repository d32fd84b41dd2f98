/* How the batch is divided, and where every value of the training graph lives. */
#ifndef DPX_PASS_PLACE_H
#define DPX_PASS_PLACE_H

#include "graph/ir/placement_rules.h"
#include "passes/division.h"
#include "passes/pass.h"

typedef struct {
    int replicas, devices;
    const int *device_of;       /* [replicas], non-decreasing: replica -> index of its device */
    const int *first_replica;   /* [devices + 1]: device d has replicas [first_replica[d], first_replica[d+1]) */
    Split batch;                /* by replica; total 0 also when no input carries a batch */
    const int *batch_axis;      /* by value id: the batch's axis of an input, or -1 */
    const Split *const *shard;  /* by value id: how a state's elements are cut, by device; NULL: whole */
    const Split *const *update; /* by value id: how the update of a parameter is divided; NULL: like its states */
    int output_device;          /* puts outputs together */
    int loss_device;            /* alone computes the loss of the whole batch; -1: each replica computes its part's */
    bool outputs_apart;         /* split outputs are not put together */
    MixMode mix;                /* MIX_GATHER also if there is no choice */
    bool once;                  /* a state that is cut is put together once in a step; false: for every use */
    const int *like; /* [devices] the device that stands for it in the graph; a shown device stands for itself */
    const Variants *variants; /* of replicas whose parts are shorter; NULL: none */
    const int *shown; /* [devices + 1] the number of shown devices before it, which is its number in the graph */
} Partition;

/* The replica of a shown device that stands for r. */
static inline int replica_like(const Partition *p, int r)
{
    const int d = p->device_of[r];

    return p->first_replica[p->like[d]] + (r - p->first_replica[d]);
}

/* Decides which inputs carry the batch (divide.c) and how it is divided.  Reports the inputs. */
Status partition_decide(Partition *out, const Graph *g, const BuildOptions *opt, Arena *a, Report *report) CHECKED;
/* Finds batch-norms in training with one value per channel: E_SHAPE, or a warning (one_value.c). */
Status check_statistics(const Graph *g, const Partition *p, const BuildOptions *opt, Report *report, Arena *a) CHECKED;

/* Assigns replicas to devices: sets device_of and first_replica of a partition whose numbers of both are known. */
Status partition_map(Partition *p, const BuildOptions *opt, Arena *a) CHECKED;
/* Divides n samples: [p->replicas] counts and offsets, for a partition whose devices are known. */
Status batch_divide(int64_t *count, int64_t *offset, int64_t n, const Partition *p, const BuildOptions *opt,
                    Arena *a) CHECKED;

/* The samples [from, to) of a batch for the replicas of devices [first, first + n). */
Status batch_part(int64_t *from, int64_t *to, const BuildOptions *opt, int64_t samples, int first, int n) CHECKED;

/* The beginnings of all replicas' parts and the end, [replicas + 1]; and the replicas [first, last) of devices [device,
 * device + n). */
Status batch_offsets(int64_t *offset, int *first, int *last, const BuildOptions *opt, int64_t samples, int device,
                     int n) CHECKED;

/* SPLIT_WEIGHTS: the weight of each replica, [replicas]. */
Status batch_weights(double *weight, const BuildOptions *opt) CHECKED;

/* Cuts the states of which each device keeps only a piece (passes/partition/shard.c): sets `shard` and `update` of a
 * Partition that is otherwise complete. */
Status shard_states(Partition *p, const Graph *g, const BuildOptions *opt, Arena *a, Report *report) CHECKED;
/* By node index: is the node computed for gradients alone, after the losses? */
const bool *find_backward(const Graph *g, Arena *a);

/* Slices along an axis of a size that the batch does not divide (passes/partition/mixed_samples.c). */
typedef struct SliceSplit SliceSplit;
struct SliceSplit {
    Split split;
    SliceSplit *next;
};

/* Placements.asked: an earlier node wants it whole; an earlier node wants it where rules see it; some node did so in
 * the visit of all nodes before. */
enum { ASKED_WHOLE = 1, ASKED_SEEN = 2, ASKED_BEFORE = 4 };

typedef struct {
    Place *value;     /* by value id: its placement when produced */
    Place *seen;      /* by value id: its placement for rules: `value`, except for results in slices */
    uint8_t *asked;   /* by value id: the conversions that nodes want */
    const char **how; /* by index of a node that mixes samples: the chosen way and why; NULL: there is only one */
    SliceSplit *slices;
    Place **want;         /* by node index: [n_in] the placements that it needs of its inputs */
    bool *early;          /* by value id: a partial sum that is reduced when made */
    const Split **pieces; /* by value id: of an early sum, the pieces that readers want; NULL: all of it */
    const bool *there;    /* by node index: on Partition.loss_device alone; NULL: no node */
    int *only_on; /* by node index: 1 + the only replica that computes it; PARTS_CUT, PARTS_JOINED; 0: every one */
    int *value_only_on; /* by value id: 1 + the only replica that has it; 0: not only one */
    const bool *given;  /* by value id: an output, or the next value of a state */
    bool *varies;       /* by value id: not the same for all replicas (variants_spread); NULL: all are */
    bool *own;          /* by node index: reads a value that varies and is not split; NULL: no node */
} Placements;

/* Nodes that cut a divided value into the replicas' parts, and that join them (passes/partition/part_replicas.c). */
enum { PARTS_CUT = -1, PARTS_JOINED = -2 };

/* part_replica_find returns Placements.only_on of a node whose inputs' placements are known; part_replica_place sets
 * the placements of the node's inputs and outputs for it. */
int part_replica_find(const Placements *t, const Placement *p, const Partition *part);
void part_replica_place(Placements *t, Placement *p, const Partition *part, int only_on);

/* Is a value divided over the replicas along an axis, in one block each? */
static inline bool place_by_replica(Place at)
{
    return at.kind == PL_S && at.blocks == 1 && at.axis >= 0 && !place_by_device(at);
}

/* The placement that nodes see of an early sum. */
static inline Place place_early(const Placements *t, ValueId v)
{
    return t->pieces[v.i] ? PLACE_PIECES(t->pieces[v.i]) : PLACE_B;
}

/* Visits the nodes in order and applies their rules; g must be sorted and its shapes known.  Reports nodes that mix
 * samples. */
Status place_graph(Placements *out, const Graph *g, const Partition *p, Arena *a, Report *report) CHECKED;

#endif
