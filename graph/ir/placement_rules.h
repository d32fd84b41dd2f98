/* Placements: how a logical value is spread over replicas or devices, and the rules by which operators pass them on.
 *
 * passes/partition/place.c visits the nodes in order and calls op->place with the placements of the inputs.  The rule
 * may request other placements of its inputs (place_need; passes/partition/expand.c inserts the conversion) and must
 * set the placement of every output.  Conversions: P->B AllReduce, S->B AllGather, B->S each replica takes its slice,
 * L->S a slice of its own value, P->S ReduceScatter, S->S along another axis AllToAll, L->B broadcast of replica 0's
 * value, B->L a copy, B->P replica 0 has the value and the others zeros. */
#ifndef DPX_PLACEMENT_RULES_H
#define DPX_PLACEMENT_RULES_H

#include "graph/ir/op.h"

/* Consecutive pieces of the batch, one for each replica, or of a state's elements, one for each device (a state lives
 * once per device, whatever its replicas are).  Pieces may be empty.  An axis k times as long as `total` (rows [N*T] of
 * a batch of N) is split in pieces k times as long: of 3 = 2 + 1 samples with 5 rows each, 10 and 5 rows.
 * Splits are equal when their contents are. */
typedef struct {
    bool by_device; /* piece i belongs to device i, else to replica i */
    int n;
    int64_t total;                 /* sum of all counts */
    const int64_t *count, *offset; /* [n] length of the piece, and sum of the lengths before it */
} Split;

bool split_eq(const Split *a, const Split *b); /* NULLs are equal */
/* Length and offset of piece i of an axis of size dim. */
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
    PL_S, /* split along `axis`, whose size is a multiple of split->total */
    PL_P, /* each replica holds a partial sum of it */
    PL_L  /* each replica has its own, unrelated value (local batch-norm statistics), in the shape of one replica */
} PlaceKind;

/* Instead of an axis: the elements in row-major order are split as one axis. */
enum { AXIS_ELEMENTS = -1 };

typedef struct {
    PlaceKind kind;
    int axis;           /* PL_S; otherwise 0 */
    int64_t blocks;     /* PL_S: number of equal blocks that the axis consists of; a replica has its part of each.  1,
                         * but T for rows [T*N] into which [T,N] with the batch N was flattened.  PL_L of an input: G
                         * > 0 requests the values of the replica's group, stacked; each group has G replicas, the last
                         * may have fewer.  Otherwise 0 */
    const Split *split; /* PL_S, else NULL; a rule may leave NULL for Placement.split.  PL_P: a split by device: each
                         * device holds a partial sum, not each replica */
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
    const Split *split; /* the one split of all split inputs (place_by_rule sees to that); the batch's when none is */
    Place *in;          /* [n_in] placements of the inputs; place_need changes them to those that the node needs */
    Place *out;         /* [n_out] */
    const char *mixes;  /* set by place_mixes: why the node mixes samples of the batch, for the report */
};

static inline bool place_eq(Place a, Place b)
{
    return a.kind == b.kind && a.axis == b.axis && a.blocks == b.blocks && split_eq(a.split, b.split);
}
/* Does each device have one copy or piece of it, rather than each replica? */
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
bool place_any(const Placement *p, PlaceKind kind); /* does a present input have that kind? */
/* Records that this operator mixes samples of the batch; a collective makes it right, and the run reports it. */
void place_mixes(Placement *p, const char *why);

/* ---- common rules, for OpDef.place ---- */
/* Gathers every input first, and reports mixing when one was split. */
Status place_all_b(Placement *p) CHECKED;
Status place_elementwise(Placement *p) CHECKED; /* NumPy broadcasting; P inputs are reduced first, any L makes L */
/* An optimizer's formula for a parameter: element by element if its states are split by device, else all whole. */
Status place_update(Placement *p) CHECKED;
Status place_linear(Placement *p) CHECKED; /* elementwise and linear in the only data input: S, P, L pass through */
Status place_add(Placement *p) CHECKED;    /* sums: all P stays P, else elementwise */
Status place_mul(Placement *p) CHECKED;    /* P * B stays P (input 0 or 1), else elementwise */
Status place_div(Placement *p) CHECKED;    /* floats: P / B stays P; else elementwise, as integers truncate */
/* Attribute "axis" must not be split (it is gathered and reported); else as elementwise. */
Status place_all_but_axis(Placement *p) CHECKED;
/* Data movement, linear in input 0: a split goes from axis a to axis to[a], or is gathered first (mixing, for the
 * reason `why`) if to[a] < 0; P and L pass through; every other input must be B. */
Status place_moved(Placement *p, const int to[MAX_RANK], const char *why) CHECKED;
/* S(0) of input 0 passes to every output, other inputs are B: Conv, pooling ... */
Status place_batch0(Placement *p) CHECKED;
/* Output 0 has input 0's elements in the same order under another shape; other inputs are B. */
Status place_reshape(Placement *p) CHECKED;
Status place_expand(Placement *p) CHECKED; /* input 0 is broadcast to output 0's shape; other inputs are B */
/* Reduction of input 0 over the axes in `mask`; `sum`: linear, so a split axis in the mask gives P. */
Status place_reduce(Placement *p, unsigned mask, bool keepdims, bool sum) CHECKED;
/* May a value of that shape have placement `at`?  Each block's size must be a multiple of split->total. */
bool place_can_split(const Placement *p, const Shape *s, Place at);
/* Calls the operator's rule after ensuring what every rule relies on: all split inputs have one Split; splits by device
 * reach only operators that compute element by element; splits in blocks reach only operators that pass them on
 * (OpDef.blocks), with the same number of blocks in all inputs. */
Status place_by_rule(Placement *p) CHECKED;

#endif
