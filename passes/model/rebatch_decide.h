/* The search for constants that hold the batch size: its state (rebatch.c), and the edits that a node needs by itself
 * (rebatch_decide.c). */
#ifndef DPX_REBATCH_DECIDE_H
#define DPX_REBATCH_DECIDE_H

#include "graph/ir/op.h"
#include "passes/model/rebatch.h"

typedef struct {
    Graph *g;
    PassCtx *ctx;
    TrialModel trial[REBATCH_TRIALS]; /* at b0, then at two other sizes */
    int64_t size[REBATCH_TRIALS];
    Edit *edit;
    size_t n_edit, cap_edit;
    uint8_t *choice, *n_choice; /* by node: the number of the axis that a Reshape gives to the batch, of how many */
    int64_t *batch_front; /* by value: elements in front of the batch within its axis ([5, N] as [5N]: 5); 0: none;
                             -1: the batch lies in pieces */
    int64_t *rows_front;  /* by node: batch_front of the rows that the node takes; 0: it takes none */
    bool open_dims;       /* inputs have open sizes besides the batch */
    bool b0_known;        /* the file's batch size is known, and Reshapes are edited by it */
    int attempts;         /* edits and choices tried so far */
    bool second_edit;     /* an edit is tried beside another */
    bool stale;           /* the trial models contain an edit that did not help */

    /* why the present walk ended */
    bool undecidable;    /* the node fails at b0 too, or depends on data */
    bool uneven;         /* an output does not grow evenly with the batch */
    bool loses_rows;     /* the node takes rows, and no other constant makes it take those of all samples */
    bool by_sample;      /* it is a convolution with a group for each sample; loses_rows is set as well */
    bool mixes;          /* it mixes samples, which is no fault */
    bool keeps_size;     /* it has as many rows at any size as the batch had */
    int failed_trial;    /* the trial model in which inference failed; 0: inference did not fail */
    const char *reason;  /* a message */
    const Node *decided; /* the first Decided node whose value differs at another size; NULL: none */

    bool *may_mix; /* by node: it mixes samples whatever axes Reshapes choose */
} Rebatch;

/* The shape of a value in a trial model. */
const Shape *rebatch_shape(const Rebatch *r, int trial, ValueId v);
/* The one axis whose size is proportional to the batch, if no other axis changes with the batch; else -1. */
int rebatch_axis(const Rebatch *r, ValueId v);
/* Does every axis grow with the batch by a fixed amount a sample? */
bool rebatch_evenly(const Rebatch *r, ValueId v);
/* Appends a copy of *e to the edits. */
Status rebatch_add(Rebatch *r, const Edit *e) CHECKED;
/* Copies `text` to r->reason.  `text` may be NULL after an allocation that failed: E_NOMEM. */
Status rebatch_set_reason(Rebatch *r, const char *text) CHECKED;
/* Determines which rows of its first input's batch the node takes. */
Status rebatch_select(const Rebatch *r, uint32_t node, Selection *s) CHECKED;
/* Makes the node follow the batch where the node alone shows how.  `edited`: an edit of the search changes the node
 * already.  *good becomes false where the node takes rows and no edit makes it follow; with b0 unknown, also where it
 * is given a size of the batch. */
Status rebatch_decide(Rebatch *r, uint32_t node, bool edited, bool *good) CHECKED;
/* Sets batch_front of an output: a Reshape keeps the elements in front of the batch, others keep its axis. */
void rebatch_follow(Rebatch *r, const Node *n, ValueId out);

/* Number of axes whose size depends on the batch; 0 where a shape is unknown. */
int rebatch_n_growing(const Rebatch *r, ValueId v);
/* Does the node's operator declare this attribute? */
bool rebatch_has_attribute(const Node *n, const char *name);
/* Begins a search of its own in `g` at the size b0; *good: every node agrees at all sizes.  The caller calls
 * rebatch_close, after a failure as well. */
Status rebatch_try(Rebatch *r, Graph *g, PassCtx *ctx, int64_t b0, bool *good) CHECKED;
void rebatch_close(Rebatch *r);

/* Warns where another axis than the first may be the batch, in a file that fixes the batch size (rebatch_time.c). */
Status rebatch_note_time(const Rebatch *r) CHECKED;
/* For runs with batches of `want`: warns of numbers that may count the samples of the file's batch
 * (rebatch_counts.c). */
Status rebatch_note_counts(const Rebatch *r, int64_t want) CHECKED;

#endif
