/* The state of the search for constants that hold a batch's size (rebatch.c), and what is decided where a node stands
 * (rebatch_decide.c). */
#ifndef DPX_REBATCH_DECIDE_H
#define DPX_REBATCH_DECIDE_H

#include "graph/ir/op.h"
#include "passes/model/rebatch.h"

typedef struct {
    Graph *g;
    PassCtx *ctx;
    World world[REBATCH_WORLDS]; /* at b0, then at two other sizes */
    int64_t size[REBATCH_WORLDS];
    Edit *edit;
    size_t n_edit, cap_edit;
    uint8_t *choice, *choices; /* by node: which of how many axes a Reshape gives to the batch */
    int64_t *inner;      /* by value: what is in front of the batch within the axis that holds it, [5, N] as [5N]; 0:
                            nothing;  -1: it lies in pieces */
    int64_t *front;      /* by node: that of the rows which it takes; 0: it takes none */
    bool open;           /* inputs have open sizes besides the batch */
    bool decide;         /* Reshapes are decided */
    bool at_b0;          /* what failed does so at b0 too, or depends on data: nothing can be said */
    bool soft;           /* what failed is a shape that does not grow evenly */
    bool lost;           /* what failed takes rows that no other constant makes of all samples */
    bool by_sample;      /* what failed is a convolution with a group for each sample; `lost` then too */
    bool mixed;          /* what failed is no fault but mixes samples */
    bool *may_mix;       /* by node: it does, whatever axes Reshapes choose */
    bool kept;           /* what failed has as many rows at any size as the batch had */
    int probe;           /* the world in which inference failed; 0: that is not what failed */
    const char *why;     /* the message of what failed */
    const Node *decided; /* the first Decided node that is another at another size; NULL: none */
    int trials;
    bool second; /* an edit is tried beside another */
    bool tried;  /* the worlds are those of an edit that did not help */
} Rebatch;

/* The shape that a value has in a world. */
const Shape *rebatch_shape(const Rebatch *r, int world, ValueId v);
/* The one axis along which the value grows with the batch, and by nothing else; -1. */
int rebatch_axis(const Rebatch *r, ValueId v);
/* Does every axis grow with the batch by a fixed amount a sample? */
bool rebatch_evenly(const Rebatch *r, ValueId v);
Status rebatch_add(Rebatch *r, const Edit *e) CHECKED;
/* Keeps the reason of a failure.  `text` NULL: there was no memory for it. */
Status rebatch_say(Rebatch *r, const char *text) CHECKED;
/* What the node takes of its first input's batch. */
Status rebatch_select(const Rebatch *r, uint32_t node, Selection *s) CHECKED;
/* Makes the node follow the batch where that can be told from the node alone (Rebatch.decide).  *good becomes false
 * where it takes rows that nothing makes follow, and without `decide` where it is given a size of the batch. */
Status rebatch_decide(Rebatch *r, uint32_t node, bool edited, bool *good) CHECKED;
/* Where the batch is within its axis: a Reshape keeps what is in front of it, others the axis. */
void rebatch_follow(Rebatch *r, const Node *n, ValueId out);

/* Axes whose size the batch changes; 0 where nothing is known. */
int rebatch_n_growing(const Rebatch *r, ValueId v);
bool rebatch_has_attribute(const Node *n, const char *name);
/* Begins a search of its own in `g` at the size b0; *good: every node agrees at all sizes.  rebatch_close ends it,
 * after a failure as well. */
Status rebatch_try(Rebatch *r, Graph *g, PassCtx *ctx, int64_t b0, bool *good) CHECKED;
void rebatch_close(Rebatch *r);

/* Warns where another axis than the first may be the batch, of a file that fixes its size (rebatch_time.c). */
Status rebatch_note_time(const Rebatch *r) CHECKED;
/* Warns, where batches of `want` are asked for, of numbers that may count the samples of the file's batch
 * (rebatch_counts.c). */
Status rebatch_note_counts(const Rebatch *r, int64_t want) CHECKED;

#endif
