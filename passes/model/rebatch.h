/* A model at other batch sizes than the one that its constants were written for: edits of constants, trial models,
 * bound to one batch size each, and rows that nodes take of the batch. */
#ifndef DPX_REBATCH_H
#define DPX_REBATCH_H

#include "passes/pass.h"

/* A change of the model that changes nothing at the batch size of the file. */
typedef enum {
    EDIT_ELEMENT, /* one number of an integer constant at one input of one node grows with the batch */
    EDIT_ROWS,    /* a constant whose rows along `at` are equal is one row, expanded to the batch */
    EDIT_RANGE,   /* an integer constant 0, step, 2 step ... counts on to the batch */
    EDIT_LIST     /* a list of rows at one input of one node becomes that of all samples */
} EditKind;

/* Rows [front, batch, behind] of `width` indices each.  The list holds the rows of the first sample; each further
 * sample adds `step` to index `part`, which selects along an axis [any, batch, step].  Example: GatherND of x [N,5,8]
 * by the rows [[0,4]] for one sample, which become [[0,4], [1,4], ...]: front 1, behind 1, step 1, width 2, part 0. */
typedef struct {
    int64_t front, behind, step;
    int width, part;
} RowList;

typedef struct {
    EditKind kind;
    uint32_t node; /* EDIT_ELEMENT, EDIT_LIST: index of the node that reads the constant */
    int in;        /* EDIT_ELEMENT, EDIT_LIST: the input at which it does */
    ValueId value; /* EDIT_ROWS, EDIT_RANGE: the constant, changed for all readers */
    int at;        /* EDIT_ELEMENT: index of the element; others: the axis */
    int64_t size;  /* EDIT_ELEMENT: the element as it was written; EDIT_RANGE: the step */
    RowList list;  /* EDIT_LIST */
} Edit;

/* Does the edit change the input of one node, rather than the constant for all its readers? */
static inline bool edits_reader(const Edit *e) { return e->kind == EDIT_ELEMENT || e->kind == EDIT_LIST; }

/* A copy of the model with its inputs bound to one batch size. */
typedef struct {
    Graph *g;
    int64_t batch;
} TrialModel;

/* Sizes of trial models that --input-shape leaves open. */
enum { OPEN_SIZE = 16, OTHER_OPEN_SIZE = 32 };

/* Makes a copy of g that borrows its constants.  Sizes that --input-shape leaves open become `open`.  The caller frees
 * w->g, after a failure as well. */
Status trial_open(TrialModel *w, const Graph *g, const BuildOptions *opt, int64_t batch, int64_t open) CHECKED;

/* ---- mark_batch.c ---- */
/* Infers types and shapes of all values, where they can be inferred. */
Status trial_infer(Graph *g, PassCtx *ctx) CHECKED;

enum { LESS_SAMPLES = 2, MORE_SAMPLES = 3 }; /* batch sizes whose shapes are compared */
enum { GROWS_NOWHERE = -1, GROWS_OTHERWISE = -2 };
/* The one axis that is proportional to the batch, for a value with these shapes at LESS_SAMPLES and MORE_SAMPLES. */
int growing_axis(const Shape *less, const Shape *more);

/* ---- rebatch_select.c ---- */
enum { REBATCH_TRIALS = 3 }; /* at the size of the file, then at two others */

typedef enum {
    SELECT_OTHER,   /* takes no rows along the axis, or is unknown */
    SELECT_FOLLOWS, /* takes equally many rows of each sample at all sizes */
    SELECT_WRITTEN, /* does so at the file's size only; the edits make it follow */
    SELECT_LOSES,   /* does so at the file's size only, and no edit makes it follow */
    SELECT_OWN      /* takes the same rows at any size, not equally many of each sample */
} SelectKind;

typedef struct {
    SelectKind kind;
    const char *reason; /* SELECT_LOSES */
    int64_t front;      /* the result's (select_rows); 0: unknown */
    int64_t n_row, first_row;
    Edit edit[2];
    int n_edit;
} Selection;

/* Determines which rows the node takes of its first input, whose `axis` is [front, batch, any]. */
Status select_rows(Selection *out, const TrialModel *trial, uint32_t node, int axis, int64_t front) CHECKED;

/* Does this node of the first trial model, which takes all rows along `axis` of its first input at the size of the
 * file, give that number of rows at any size? */
bool keeps_b0_rows(const TrialModel *trial, const Node *n, int axis);
/* The integers at an input, if they are the same, MAX_RANK at most, at every size; else NULL. */
const Tensor *fixed_ints(const TrialModel *trial, uint32_t node, int in);

/* ---- rebatch_edit.c ---- */
/* Are all rows along the axis equal to the bit? */
bool rows_equal(const Tensor *t, int axis);
/* Are these integers 0, step, 2 step ..., two or more? */
bool counts_on(const Tensor *t, int64_t *step);
/* Has the tensor, whose rows along `at` are equal, equal rows along `axis` as well, so that these are an expanded row?
 * A float tensor of one number (zeros, ones) is no evidence: its elements may be parameters. */
bool rows_equal_too(const Tensor *t, int at, int axis);
/* Makes the edit in a trial model, by a constant for w->batch; the file's constants are for batches of b0. EDIT_ELEMENT
 * and EDIT_LIST need the input to be inferred. */
Status trial_edit(TrialModel *w, const Edit *e, int64_t b0) CHECKED;
/* Makes the edit in the model, for any batch size, which nodes read off `batch_axis` of `batch_input`.  `known`: the
 * trial models at b0 and at another size, inferred.  `other`: if inputs have open sizes besides the batch, the model at
 * b0 with other values of these, inferred; else NULL.  The caller sorts the graph afterwards. */
Status edit_model(Graph *g, const Edit *e, int64_t b0, const TrialModel *known, const Graph *other, ValueId batch_input,
                  int batch_axis) CHECKED;

#endif
