/* Which axis of an input, of the scores and of their target carries the batch, as the options and the names of
 * dimensions tell. */
#ifndef DPX_BATCH_AXIS_H
#define DPX_BATCH_AXIS_H

#include "passes/pass.h"

struct BatchInput; /* passes/options/batch.h */

/* The batch's axis of the input that says first what the batch is, and its length there: a symbol's name, or the size
 * baked in at export. */
typedef struct {
    const char *symbol;
    int64_t size;
    int axis;
} BatchDim;

/* Does it name the input, or the sequence that the input is a member of? */
bool batch_input_names(const struct BatchInput *b, const Value *input);
/* Are both inputs tensors of one sequence? */
bool same_sequence(const Value *a, const Value *b);
/* The axis that --batch-input names in an input; -1: none, or it is counted from the end and the rank is not known.  Of
 * a member of a sequence that is named, the sequence's; -1 where the member has no axes. */
int named_batch_axis(const BuildOptions *opt, const Value *input);
/* The axis that is meant, of that rank; -1: there is none such. */
static inline int axis_of_rank(int axis, int rank)
{
    return axis < -rank || axis >= rank ? -1 : axis < 0 ? axis + rank : axis;
}
/* How little the name of an input's dimension speaks of a batch: one called so, or N or B, on the first axis; one with
 * "batch" in its name on another; any on the first axis but one called like a time; N or B on another; any on the first
 * axis; else NONE. */
enum { BATCH_NAME_FIRST, BATCH_NAME_WORD, BATCH_NAME_ANY, BATCH_NAME_LETTER, BATCH_NAME_TIME, BATCH_NAME_NONE };
int batch_name_distance(const char *symbol, int axis);
/* The bits of the axes of an input along which the batch's samples lie, as --batch-input says, else as the model does
 * (passes/model/find_batch.c).  False: neither is known, and names and sizes tell. */
bool known_batch_axes(unsigned *out, const Graph *g, const BuildOptions *opt, const Value *input);
/* The only axis that the bits name; -1: they name none, or several. */
static inline int only_axis(unsigned axes) { return axes && !(axes & (axes - 1)) ? __builtin_ctz(axes) : -1; }
/* By --batch-input; as the model says; else by the dimension whose name speaks most of a batch: one called a batch on
 * the first axis, one with "batch" in its name on another, any on the first axis but one called like a time, N or B on
 * another, any on the first axis.  Else the first axis of the first input that has one, without a symbol; size -1:
 * open, or no input carries a batch. */
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
 * tells; negative where --batch-input counts it from the end, and the rank is not known. */
int data_batch_axis(const Graph *model, const BuildOptions *opt, const char *name);
/* The axis along which replicas share such data, as far as it can be told without a batch: -1 where every one has all
 * of it.  Without names, an input whose first axis is open, or was the batch's size at export. */
int data_split_axis(const Graph *model, const BuildOptions *opt, const char *name);

#endif
