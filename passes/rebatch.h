/* A model at other batch sizes than the one that its constants were written for: what passes/rebatch.c and
 * rebatch_edit.c share, and passes/mark_batch.c. */
#ifndef DPX_REBATCH_H
#define DPX_REBATCH_H

#include "passes/pass.h"

/* A change of the model that is none at the size it was written for. */
typedef enum {
    EDIT_ELEMENT, /* one number of an integer constant at one input of one node grows with the batch */
    EDIT_ROWS,    /* a constant whose rows along `at` are equal is one row, expanded to the batch */
    EDIT_RANGE    /* an integer constant 0, step, 2 step ... counts on to the batch */
} EditKind;

typedef struct {
    EditKind kind;
    uint32_t node; /* EDIT_ELEMENT: index of the reader */
    int in;        /* and which of its inputs */
    ValueId value; /* EDIT_ROWS, EDIT_RANGE: the constant, changed for all readers */
    int at;        /* EDIT_ELEMENT: which element; EDIT_ROWS: which axis */
    int64_t size;  /* EDIT_ELEMENT: the element as it was written; EDIT_RANGE: the step */
} Edit;

/* The model with its inputs bound to one batch size. */
typedef struct {
    Graph *g;
    int64_t batch;
} World;

/* A copy of g, whose constants must outlive it; sizes that --input-shape leaves open are some number.  w->g is the
 * caller's to free even on failure. */
Status open_world(World *w, const Graph *g, const BuildOptions *opt, int64_t batch) CHECKED;

/* ---- rebatch_edit.c ---- */
bool rows_equal(const Tensor *t, int axis);
/* Has the tensor, whose rows along `at` are equal, equal rows along `axis` as well, so that these are one, expanded?
 * One number everywhere (zeros, ones) is no evidence: as many numbers may be meant. */
bool rows_equal_too(const Tensor *t, int at, int axis);
/* Makes the edit in a world whose constants were written for batches of b0: by a constant.  EDIT_ELEMENT: once the
 * input is known. */
Status edit_world(World *w, const Edit *e, int64_t b0) CHECKED;
/* Makes it in the model, for any batch size.  `known` are the worlds at b0 and at another size, inferred throughout;
 * `open`: inputs have open dimensions besides the batch.  The graph is to be sorted afterwards. */
Status edit_model(Graph *g, const Edit *e, int64_t b0, const World *known, bool open, ValueId batch_input,
                  int batch_axis) CHECKED;

#endif
