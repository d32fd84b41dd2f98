/* A model at other batch sizes than the one that its constants were written for: what passes/model/rebatch.c,
 * rebatch_edit.c and rebatch_select.c share, and passes/model/mark_batch.c. */
#ifndef DPX_REBATCH_H
#define DPX_REBATCH_H

#include "passes/pass.h"

/* A change of the model that is none at the size it was written for. */
typedef enum {
    EDIT_ELEMENT, /* one number of an integer constant at one input of one node grows with the batch */
    EDIT_ROWS,    /* a constant whose rows along `at` are equal is one row, expanded to the batch */
    EDIT_RANGE,   /* an integer constant 0, step, 2 step ... counts on to the batch */
    EDIT_LIST     /* a list of rows at one input of one node is of all samples */
} EditKind;

/* Rows [front, batch, behind] of `width` indices each: those of the first sample stand in the list, and each further
 * sample adds `step` to index `part`, whose whole is [any, batch, step]. */
typedef struct {
    int64_t front, behind, step;
    int width, part;
} RowList;

typedef struct {
    EditKind kind;
    uint32_t node; /* EDIT_ELEMENT, EDIT_LIST: index of the reader */
    int in;        /* and which of its inputs */
    ValueId value; /* EDIT_ROWS, EDIT_RANGE: the constant, changed for all readers */
    int at;        /* EDIT_ELEMENT: which element; others: which axis */
    int64_t size;  /* EDIT_ELEMENT: the element as it was written; EDIT_RANGE: the step */
    RowList list;  /* EDIT_LIST */
} Edit;

static inline bool edits_reader(const Edit *e) { return e->kind == EDIT_ELEMENT || e->kind == EDIT_LIST; }

/* The model with its inputs bound to one batch size. */
typedef struct {
    Graph *g;
    int64_t batch;
} World;

/* Sizes of worlds that --input-shape leaves open. */
enum { OPEN_SIZE = 16, OTHER_OPEN_SIZE = 32 };

/* A copy of g, whose constants must outlive it; sizes that --input-shape leaves open are `open`.  w->g is the caller's
 * to free even on failure. */
Status open_world(World *w, const Graph *g, const BuildOptions *opt, int64_t batch, int64_t open) CHECKED;

/* ---- mark_batch.c ---- */
/* Types and shapes of its values, as far as they can be found. */
Status infer_world(Graph *g, PassCtx *ctx) CHECKED;

enum { LESS_SAMPLES = 2, MORE_SAMPLES = 3 }; /* batches whose shapes tell what grows with them */
enum { GROWS_NOWHERE = -1, GROWS_OTHERWISE = -2 };
/* The one axis that is a multiple of the batch, of a value that has these shapes for LESS_SAMPLES and MORE_SAMPLES. */
int growing_axis(const Shape *less, const Shape *more);

/* ---- rebatch_select.c ---- */
enum { REBATCH_WORLDS = 3 }; /* at the size of the file, then at two others */

typedef enum {
    SELECT_OTHER,   /* takes no rows along the axis, or nothing can be said */
    SELECT_FOLLOWS, /* as many of each sample at all sizes */
    SELECT_WRITTEN, /* at the file's size alone; the edits make it follow */
    SELECT_LOSES,   /* at the file's size alone, and nothing makes it follow */
    SELECT_OWN      /* the same rows at any size, not as many of each sample */
} SelectKind;

typedef struct {
    SelectKind kind;
    const char *why; /* SELECT_LOSES: what about it */
    int64_t front;   /* of the result (select_rows); 0: not known */
    int64_t n_row, first_row;
    Edit edit[2];
    int n_edit;
} Selection;

/* What the node takes of its first input, whose `axis` is [front, batch, any]. */
Status select_rows(Selection *out, const World *world, uint32_t node, int axis, int64_t front) CHECKED;

/* Does this node of the first world, which takes of the `axis` of its first input as many rows as there are at the size
 * of the file, give that many at any size? */
bool keeps_b0_rows(const World *world, const Node *n, int axis);
/* The integers at an input, where they are the same few at every size; NULL. */
const Tensor *fixed_ints(const World *world, uint32_t node, int in);

/* ---- rebatch_edit.c ---- */
bool rows_equal(const Tensor *t, int axis);
/* Are these integers 0, step, 2 step ..., two or more? */
bool counts_on(const Tensor *t, int64_t *step);
/* Has the tensor, whose rows along `at` are equal, equal rows along `axis` as well, so that these are one, expanded?
 * One number everywhere (zeros, ones) is no evidence: as many numbers may be meant. */
bool rows_equal_too(const Tensor *t, int at, int axis);
/* Makes the edit in a world whose constants were written for batches of b0: by a constant.  EDIT_ELEMENT, EDIT_LIST:
 * once the input is known. */
Status edit_world(World *w, const Edit *e, int64_t b0) CHECKED;
/* Makes it in the model, for any batch size.  `known` are the worlds at b0 and at another size, inferred throughout;
 * `other`: where inputs have open sizes besides the batch, the model at b0 with other ones of these, else NULL.  The
 * graph is to be sorted afterwards. */
Status edit_model(Graph *g, const Edit *e, int64_t b0, const World *known, const Graph *other, ValueId batch_input,
                  int batch_axis) CHECKED;

#endif
