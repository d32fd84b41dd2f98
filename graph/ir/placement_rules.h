/* Placements: how a logical value is spread over replicas or devices, and the rules by which operators pass them on.
 *
 * passes/partition/place.c visits the nodes in order and calls op->place with the placements that the inputs have.  The
 * rule may ask for other placements of its inputs (place_need: a conversion node will be inserted by
 * passes/partition/expand.c) and must set the placement of every output.  Conversions: P->B AllReduce, S->B AllGather,
 * B->S each replica takes its slice, L->S of its own, P->S ReduceScatter, S->S along another axis AllToAll,
 * L->B replica 0's value is broadcast, B->L a copy, B->P replica 0 has it and the others zeros. */
#ifndef DPX_PLACEMENT_RULES_H
#define DPX_PLACEMENT_RULES_H

#include "graph/ir/op.h"

/* How something is cut into pieces, one behind the other: the batch, a piece for each replica, or the elements of a
 * state, a piece for each device (state lives once per device, whatever its replicas are).  Pieces may be empty.  An
 * axis that is k times as long as what is cut (rows [N*T] of a batch of N) is cut in pieces k times as long.
 * Splits are equal when their contents are. */
typedef struct {
    bool by_device; /* piece i is device i's, else replica i's */
    int n;
    int64_t total;                 /* of all counts */
    const int64_t *count, *offset; /* [n]: the piece's length, and what stands before it */
} Split;

bool split_eq(const Split *a, const Split *b); /* NULLs are equal */
/* Of piece i of an axis of size dim. */
static inline int64_t split_count(const Split *s, int64_t dim, int i)
{
    return s->total ? dim / s->total * s->count[i] : 0;
}
static inline int64_t split_offset(const Split *s, int64_t dim, int i)
{
    return s->total ? dim / s->total * s->offset[i] : 0;
}

typedef enum {
    PL_B, /* every replica has all of it */
    PL_S, /* split along `axis`, whose size is a multiple of what `split` cuts */
    PL_P, /* each replica holds a partial sum of it */
    PL_L  /* each replica has its own, unrelated ones (local batch-norm statistics); shape as if there were one
           * replica */
} PlaceKind;

/* Instead of an axis: all elements in the order of their rows, as if they stood in one axis; so do the pieces. */
enum { AXIS_ELEMENTS = -1 };

typedef struct {
    PlaceKind kind;
    int axis;           /* PL_S only, else 0 */
    int64_t blocks;     /* PL_S, else 0: the axis is that many blocks, of each of which a replica has its part.  1,
                         * but for rows [T*N] into which a batch [T,N] behind another axis was flattened: T.  Of an
                         * input that is wanted PL_L: G > 0: those of the replica's group, G replicas each but the last,
                         * one below the other */
    const Split *split; /* PL_S, else NULL; what a rule leaves NULL is Placement.split.  PL_P: by device: each device
                         * holds a partial sum, not each replica */
} Place;

#define PLACE_B ((Place){ .kind = PL_B })
#define PLACE_P ((Place){ .kind = PL_P })
#define PLACE_L ((Place){ .kind = PL_L })
#define PLACE_GROUPS(n) ((Place){ .kind = PL_L, .blocks = (n) })
#define PLACE_S(a) ((Place){ .kind = PL_S, .axis = (a), .blocks = 1 })
#define PLACE_ROWS(a, n) ((Place){ .kind = PL_S, .axis = (a), .blocks = (n) })
#define PLACE_PIECES(s) ((Place){ .kind = PL_S, .axis = AXIS_ELEMENTS, .blocks = 1, .split = (s) })

struct Placement {
    const Graph *g;
    const Node *node;
    const Split *split; /* of those inputs that are split: one for all, seen to by place_by_rule; the batch's when none
                         * is */
    Place *in;          /* [n_in] what the inputs have; place_need changes it to what the node wants */
    Place *out;         /* [n_out] */
    const char *mixes;  /* set by place_mixes: why samples of the batch are mixed here, for the report */
};

static inline bool place_eq(Place a, Place b)
{
    return a.kind == b.kind && a.axis == b.axis && a.blocks == b.blocks && split_eq(a.split, b.split);
}
/* Does each device have one copy of it, rather than each replica? */
static inline bool place_by_device(Place at) { return at.kind == PL_B || (at.split && at.split->by_device); }
static inline Place place_in(const Placement *p, int i) { return i < p->node->n_in ? p->in[i] : PLACE_B; }
static inline void place_need(Placement *p, int i, Place want)
{
    if (i < p->node->n_in)
        p->in[i] = want;
}
static inline void place_set(Placement *p, int o, Place have)
{
    if (o < p->node->n_out)
        p->out[o] = have;
}
void place_set_all(Placement *p, Place have);
bool place_any(const Placement *p, PlaceKind kind); /* does an input have it? */
/* Records that this operator mixes samples of the batch: made right by a collective, and reported. */
void place_mixes(Placement *p, const char *why);

/* ---- common rules, for OpDef.place ---- */
Status
place_all_b(Placement *p) CHECKED; /* everything is gathered first; reported as mixing when something was split */
Status place_elementwise(Placement *p) CHECKED; /* numpy broadcasting; P inputs are reduced first, any L makes L */
/* Of what an optimizer computes for a parameter: element by element where its states are split so, else all whole. */
Status place_update(Placement *p) CHECKED;
Status place_linear(Placement *p) CHECKED; /* elementwise of one data input and linear in it: S, P, L pass through */
Status place_add(Placement *p) CHECKED;    /* sums: all P stays P, else elementwise */
Status place_mul(Placement *p) CHECKED;    /* P * B stays P (input 0 or 1), else elementwise */
Status place_div(Placement *p) CHECKED;    /* of floats P / B stays P, else elementwise: integers truncate */
Status place_all_but_axis(
    Placement *p) CHECKED; /* attribute "axis" must not be split (it is gathered, reported); else passes */
/* Data movement, linear in input 0: a split goes from axis a to axis to[a], or is gathered first (mixing, for the
 * reason `why`) where to[a] < 0; P and L pass through; every other input must be B. */
Status place_moved(Placement *p, const int to[MAX_RANK], const char *why) CHECKED;
Status
place_batch0(Placement *p) CHECKED; /* S(0) of input 0 passes to every output, other inputs B: Conv, pooling ... */
Status
place_reshape(Placement *p) CHECKED; /* input 0's elements in the same order under output 0's shape; other inputs B */
Status place_expand(Placement *p) CHECKED; /* input 0 broadcast to output 0's shape; other inputs B */
/* Reduction of input 0 over the axes in `mask`; `sum`: linear, so that a split axis in the mask gives P. */
Status place_reduce(Placement *p, unsigned mask, bool keepdims, bool sum) CHECKED;
/* May a value of that shape be split so?  (The size of each block is a multiple of what is cut.) */
bool place_can_split(const Placement *p, const Shape *s, Place at);
/* Calls the operator's rule, with what every rule can rely on seen to: all that is split is split by one Split; splits
 * by device reach only operators that compute element by element, and in blocks only those that pass them on
 * (OpDef.blocks), all of them alike. */
Status place_by_rule(Placement *p) CHECKED;

#endif
