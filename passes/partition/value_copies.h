/* The copies of values that make up the graph of all replicas. */
#ifndef DPX_VALUE_COPIES_H
#define DPX_VALUE_COPIES_H

#include "passes/partition/variants.h"

typedef struct SplitCopies SplitCopies;

typedef struct {
    const Shape *shape;
    DType dtype;
} Whole;

typedef struct {
    Graph *g;
    Arena *a;    /* scratch */
    Arena *once; /* scratch for the copies of one node */
    const Partition *p;
    const Placements *t;
    uint32_t n_value; /* the unpartitioned graph's: the tables' size */
    Whole *of;        /* by value id: the value of the unpartitioned graph, whose place its first copy may take */
    ValueId **native; /* by value id: the copies as t->value says, [copies_in]; NULL: not yet */
    ValueId *there;   /* by value id: the whole on the loss's device, made there alone or put together for it; or on the
                         device of the only replica that has it (Placements.only_on) */
    bool *made_there; /* by value id */
    ValueId **whole;  /* by value id: the copies [devices] of a value that is not B, once somebody needs them */
    SplitCopies **split;  /* by value id: parts of a value that is not split that way */
    ValueId **other;      /* by value id: the inputs that stand for pieces of other sizes, ended by NO_VALUE */
    ValueId ***gathered;  /* by value id, of a state in pieces: its copies [devices] by use, [uses]; NULL: not yet */
    ValueId **borrowed;   /* by variant and its value id: its constants; NULL: there are no variants */
    const bool *backward; /* by node index; NULL: no state is in pieces */
    int turns;            /* the most replicas of a device */
} Expander;

/* How many copies a value has in the placement: one for each device or replica. */
static inline int copies_in(const Expander *x, Place at)
{
    return place_by_device(at) ? x->p->devices : x->p->replicas;
}

/* The replica of copy i, or -1 if it is the device's, and its device. */
static inline int replica_of(Place at, int i) { return place_by_device(at) ? -1 : i; }
static inline int device_of(const Expander *x, Place at, int i) { return place_by_device(at) ? i : x->p->device_of[i]; }

/* The copy that stands for copy i: itself where the device is shown. */
static inline int copy_like(const Expander *x, Place at, int i)
{
    return place_by_device(at) ? x->p->like[i] : replica_like(x->p, i);
}

/* The entry of the list of copies for copy i of a device that is not shown: `like`, the copy of the device that stands
 * for it, or, if that is a piece of another size, an input of the graph. */
ValueId stand_in(Expander *x, ValueId v, Place at, int i, ValueId like);

/* The shape of piece i of a tensor of shape `whole`, and of copy i of v, at placement `at`. */
Shape piece_shape(const Shape *whole, Place at, int i);
Shape local_shape(const Expander *x, ValueId v, Place at, int i);
/* "v@r1", or r < 0 "v@d0"; "" when memory ran out, and the graph has failed.  Devices have the numbers of the
 * partition, and in the graph those of Partition.shown. */
const char *copy_name(const Expander *x, ValueId v, int r, int d);
void mark_copy(const Expander *x, ValueId copy, const char *logical, int r, int d);

/* The functions below return NULL or NO_VALUE after a failure, which is in g->status (fail_or_nomem).
 *
 * The copies of v in the placement `want`, [copies_in]. */
const ValueId *copies_of(Expander *x, ValueId v, Place want);
/* Is v gathered anew for every use, so that it is whole for a short time only? */
bool is_gathered(const Expander *x, ValueId v);
/* The gathered copies of v, [devices], that n's copy of replica r reads; r < 0: a device's copy. */
const ValueId *gathered_for(Expander *x, ValueId v, const Node *n, int r);
/* The whole value on the device that returns the graph's outputs. */
ValueId given_out(Expander *x, ValueId v);
/* The whole value on the device of the loss, for nodes that only that device computes. */
ValueId whole_there(Expander *x, ValueId v);
/* The parts of a split value, [replicas] or [devices]; *at: its placement.  NULL: the value is not split, or a failure.
 */
const ValueId *own_parts(Expander *x, ValueId v, Place *at);
/* The replicas' rows of a value placed L, stacked, [devices]. */
const ValueId *stacked(Expander *x, ValueId v);
/* Copy i, at placement `at`, of a constant. */
ValueId const_part(Expander *x, ValueId v, Place at, int i);
/* Copy i, at placement `at`, of a tensor, as a constant of that name. */
ValueId tensor_part(Expander *x, const char *name, const Tensor *t, Place at, int i);
/* Appends a node whose outputs are copies of v: for output i on device device[i]; replica[i] >= 0 names "v@r1", else
 * "v@d0". */
Node *emit_copies(Expander *x, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in, ValueId v, int n_out,
                  const int *replica, const int *device);
/* A copy of v, of replica r or r < 0 device d, under another shape. */
ValueId reshape_copy(Expander *x, ValueId v, ValueId copy, const Shape *to, int r, int d);

/* ---- passes/partition/short_parts.c: parts of different lengths ---- */

static inline bool varies(const Expander *x, ValueId v) { return x->t->varies && x->t->varies[v.i]; }
/* Cuts replica r's part, in the length of the longest, to its own length. */
ValueId cut_part(Expander *x, ValueId v, ValueId part, Place at, int r);
/* The parts in the length of the longest, zeros behind their own ends; NULL as above. */
const ValueId *padded_parts(Expander *x, ValueId v, const ValueId *parts, Place at);
/* The constant that the copy of n for replica r reads instead of its constant input i; NO_VALUE without a failure:
 * input i. */
ValueId own_constant(Expander *x, const Node *n, int i, int r);
/* A node that draws for all positions of the longest, of which replica r has some: out [2] receives its outputs. */
Status draw_part(Expander *x, const Node *n, const ValueId *in, int r, ValueId out[2]) CHECKED;

/* ---- passes/partition/expand.c ---- */
/* Random numbers are keyed by the position in the whole value, wherever the part is computed: n is the copy of `of` for
 * replica r. */
Status set_random_key(Expander *x, const Node *of, Node *n, int r) CHECKED;

static inline Status fail_or_nomem(const Expander *x) { return x->g->status ? x->g->status : FAIL_NOMEM(); }

#endif
