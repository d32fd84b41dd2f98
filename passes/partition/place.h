/* How the batch is divided, and where every value of the training graph lives. */
#ifndef DPX_PASS_PLACE_H
#define DPX_PASS_PLACE_H

#include "graph/ir/placement_rules.h"
#include "passes/pass.h"
#include "passes/division.h"

typedef struct {
    int replicas, devices;
    const int *device_of;       /* [replicas], non-decreasing: replica -> index of its device */
    const int *first_replica;   /* [devices + 1]: device d has replicas [first_replica[d], first_replica[d+1]) */
    Split batch;                /* by replica; total 0 also when no input carries a batch */
    const int *batch_axis;      /* by value id: the batch's axis of an input, or -1 */
    const Split *const *shard;  /* by value id: how a state's elements are cut, by device; NULL: whole */
    const Split *const *update; /* by value id: how the update of a parameter is shared out; NULL: as its states are */
    int output_device;          /* that outputs are put together on */
    int loss_device;            /* that alone computes the loss, of the whole batch; -1: each replica of its part */
    bool outputs_apart;         /* they are not, where they are split */
    MixMode mix;                /* as a choice is made; MIX_GATHER also where there is none */
    bool once;                  /* a state that is cut is put together once in a step, else for every use */
    const int *like;            /* [devices] the device that stands for it in the graph, itself where it is shown */
    const Variants *variants;   /* of replicas whose parts are shorter; NULL: none is */
    const int *shown;           /* [devices + 1] how many devices before it are shown: its number in the graph */
} Partition;

/* The replica of a device that is shown which stands for r. */
static inline int replica_like(const Partition *p, int r)
{
    const int d = p->device_of[r];

    return p->first_replica[p->like[d]] + (r - p->first_replica[d]);
}

/* Decides which inputs carry the batch (see the .c file) and how it is divided.  Reports the inputs. */
/* Batch-norms in training whose statistics are of one value per channel: E_SHAPE, or a warning (one_value.c). */
Status check_statistics(const Graph *g, const Partition *p, const BuildOptions *opt, Report *report, Arena *a) CHECKED;
Status partition_decide(Partition *out, const Graph *g, const BuildOptions *opt, Arena *a, Report *report) CHECKED;

/* Which device has which replicas, of a partition whose numbers of both are known. */
Status partition_map(Partition *p, const BuildOptions *opt, Arena *a) CHECKED;
/* The parts of n samples, [p->replicas], of a partition whose devices are known. */
Status batch_divide(int64_t *count, int64_t *offset, int64_t n, const Partition *p, const BuildOptions *opt,
                    Arena *a) CHECKED;

/* The samples [from, to) of a batch that the replicas of devices [first, first + n) take when it is divided so. */
Status batch_part(int64_t *from, int64_t *to, const BuildOptions *opt, int64_t samples, int first, int n) CHECKED;

/* Where the parts of all replicas begin, [replicas + 1], the last the end; and the replicas [first, last) of devices
 * [device, device + n). */
Status batch_offsets(int64_t *offset, int *first, int *last, const BuildOptions *opt, int64_t samples, int device,
                     int n) CHECKED;

/* SPLIT_WEIGHTS: the weight of each replica, [replicas]. */
Status batch_weights(double *weight, const BuildOptions *opt) CHECKED;

/* How the states that each device is to have only a piece of are cut (passes/partition/shard.c): `shard` and
 * `update` of a Partition of which all else is known. */
Status shard_states(Partition *p, const Graph *g, const BuildOptions *opt, Arena *a, Report *report) CHECKED;
/* By node index: what is computed for gradients alone, behind the losses. */
const bool *find_backward(const Graph *g, Arena *a);

/* Slices along an axis of a size that the batch does not divide (passes/partition/mixed_samples.c). */
typedef struct SliceSplit SliceSplit;
struct SliceSplit {
    Split split;
    SliceSplit *next;
};

/* Placements.asked: whole, or where rules see it, by whom comes before in the order; there by anybody, when all nodes
 * were visited before. */
enum { ASKED_WHOLE = 1, ASKED_SEEN = 2, ASKED_BEFORE = 4 };

typedef struct {
    Place *value;     /* by value id: where it lives as it is produced */
    Place *seen;      /* by value id: where rules take it to live, `value` but for what is computed in slices */
    uint8_t *asked;   /* by value id: for what it is converted to */
    const char **how; /* by node index, of what mixes samples: which way was chosen and why; NULL: there is one */
    SliceSplit *slices;
    Place **want;         /* by node index: [n_in] what the node needs its inputs to be */
    bool *early;          /* by value id: a partial sum that is reduced where it is made */
    const Split **pieces; /* by value id: of an early sum, the pieces that readers want; NULL: all of it */
    const bool *there;    /* by node index: on Partition.loss_device alone; NULL: none is */
    int *home;         /* by node index: 1 + the replica of whose part alone it is computed; HOME_CUT, HOME_JOINED; 0 */
    int *home_of;      /* by value id: of the node that makes it, or of the part that it is; 0 */
    const bool *given; /* by value id: the graph gives it out, or a state becomes it */
    bool *varies;      /* by value id: not the same for all replicas (variants_spread); NULL: all are */
    bool *own;         /* by node index: reads such a one that is not split; NULL: none does */
} Placements;

/* Nodes that cut a divided value into the replicas' parts, and that join them (passes/partition/part_replicas.c). */
enum { HOME_CUT = -1, HOME_JOINED = -2 };

/* For Placements.home of the node, whose inputs' placements are known; and what the node then needs and has. */
int home_find(const Placements *t, const Placement *p, const Partition *part);
void home_place(Placements *t, Placement *p, const Partition *part, int home);

/* What nodes see of an early sum. */
static inline Place place_early(const Placements *t, ValueId v)
{
    return t->pieces[v.i] ? PLACE_PIECES(t->pieces[v.i]) : PLACE_B;
}

/* Visits the nodes in order and applies their rules; g must be sorted and its shapes known.  Reports what mixes
 * samples. */
Status place_graph(Placements *out, const Graph *g, const Partition *p, Arena *a, Report *report) CHECKED;

#endif
