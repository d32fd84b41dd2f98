/* Placements: how a logical value is spread over replicas, and the rules by which operators pass them on.
 *
 * passes/partition/place.c visits the nodes in order and calls op->place with the placements that the inputs have.  The
 * rule may ask for other placements of its inputs (place_need: a conversion node will be inserted by
 * passes/partition/expand.c) and must set the placement of every output.  Conversions: P->B AllReduce, S->B AllGather,
 * B->S each replica takes its slice, P->S ReduceScatter, L->B replica 0's value is broadcast, B->L a copy, B->P replica
 * 0 has it and the others zeros. */
#ifndef DPX_PLACE_H
#define DPX_PLACE_H

#include "graph/op.h"

typedef enum {
    PL_B, /* every replica has all of it */
    PL_S, /* split along `axis`, whose size is a multiple of the batch size; parts in replica order */
    PL_P, /* each replica holds a partial sum of it */
    PL_L  /* each replica has its own, unrelated ones (local batch-norm statistics); shape as if there were one
           * replica */
} PlaceKind;

typedef struct {
    PlaceKind kind;
    int axis;       /* PL_S only, else 0 */
    int64_t blocks; /* PL_S only, else 0: the axis is that many blocks, of each of which a replica has its part.  1, but
                     * for rows [T*N] into which a batch [T,N] behind another axis was flattened: T */
} Place;

#define PLACE_B ((Place){ PL_B, 0, 0 })
#define PLACE_P ((Place){ PL_P, 0, 0 })
#define PLACE_L ((Place){ PL_L, 0, 0 })
#define PLACE_S(a) ((Place){ PL_S, (a), 1 })
#define PLACE_ROWS(a, n) ((Place){ PL_S, (a), (n) })

struct Placement {
    const Graph *g;
    const Node *node;
    int64_t batch;     /* the global batch size */
    Place *in;         /* [n_in] what the inputs have; place_need changes it to what the node wants */
    Place *out;        /* [n_out] */
    const char *mixes; /* set by place_mixes: why samples of the batch are mixed here, for the report */
};

static inline bool place_eq(Place a, Place b) { return a.kind == b.kind && a.axis == b.axis && a.blocks == b.blocks; }
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
/* May a value of that shape be split so?  (The size of each block is a multiple of the batch size.) */
bool place_can_split(const Placement *p, const Shape *s, Place at);
/* Calls the operator's rule, with what every rule can rely on seen to: splits in blocks reach only operators that pass
 * them on (OpDef.blocks), all of them alike. */
Status place_by_rule(Placement *p) CHECKED;

#endif
