/* Which axis of an input, of the scores and of their target carries the batch, as the options and the names of
 * dimensions tell. */
#ifndef DPX_BATCH_AXIS_H
#define DPX_BATCH_AXIS_H

#include "passes/pass.h"

/* The batch's axis of the input that says first what the batch is, and its length there: a symbol's name, or the size
 * baked in at export. */
typedef struct {
    const char *symbol;
    int64_t size;
    int axis;
} BatchDim;

/* Of `rank` axes, of which negative ones count from the end; -1: there is no such axis, or the rank is not known (-1)
 * and decides. */
int batch_input_axis(const BatchInput *b, int rank);
/* The axis that --batch-input names in an input of this name and rank; -1: none. */
int named_batch_axis(const BuildOptions *opt, const char *name, int rank);
/* By --batch-input; else by the dimension whose name speaks most of a batch: one called a batch on the first axis, one
 * with "batch" in its name on another, any on the first axis but one called like a time, N or B on another, any on the
 * first axis.  Else the first axis of the first input that has one, without a symbol; size -1: open, or no input
 * carries a batch. */
BatchDim find_batch_dim(const Graph *g, const BuildOptions *opt);
/* Of an input whose first axis is fixed to more than one: its only open axis, unless its name says a time or a side of
 * an image.  Either may carry the batch; -1: that is no question, or something tells. */
int rival_batch_axis(const Graph *g, const BuildOptions *opt, const Value *v);
/* The first axis of this name; -1: none. */
int symbol_axis(const char *const *dim_param, int rank, const char *symbol);

/* The axis of the scores that carries the batch: the one with the batch's name; else the inputs' axis or the first, by
 * their lengths. */
int scores_batch_axis(const Graph *g, const BuildOptions *opt, const Output *scores);
/* That of their target, which a class loss wants without the axis of the classes; `classes`: that axis, 0 when it is
 * not known. */
int target_batch_axis(const BuildOptions *opt, int scores, int classes);

/* The criterion notes it in the target that it adds, for the partition. */
Status mark_batch_axis(Graph *g, const BuildOptions *opt, Value *target, int axis) CHECKED;
int marked_batch_axis(const Graph *g, const BuildOptions *opt, const Value *target); /* -1: nothing is noted */

/* The axis along which data for the input, or for the target that the loss adds, has its samples; 0 where nothing
 * tells. */
int data_batch_axis(const Graph *model, const BuildOptions *opt, const char *name);
/* The axis along which replicas share such data, as far as it can be told without a batch: -1 where every one has all
 * of it.  Without names, an input whose first axis is open, or was the batch's size at export. */
int data_split_axis(const Graph *model, const BuildOptions *opt, const char *name);

#endif
