/* Which axis of an input, of the scores and of their target carries the batch, by the options and the names of
 * dimensions. */
#ifndef DPX_BATCH_AXIS_H
#define DPX_BATCH_AXIS_H

#include "passes/pass.h"

struct BatchInput; /* passes/options/batch.h */

/* The batch's axis of the first input that shows the batch, and its length there: a symbol's name, or the size at
 * export. */
typedef struct {
    const char *symbol;
    int64_t size;
    int axis;
} BatchDim;

/* Does it name the input, or the sequence that the input is a member of? */
bool batch_input_names(const struct BatchInput *b, const Value *input);
/* Are both inputs tensors of one sequence? */
bool same_sequence(const Value *a, const Value *b);
/* The axis that --batch-input names in an input; -1: none, or it is counted from the end and the rank is not known.  A
 * member of a named sequence has the sequence's axis, or -1 if the member has no axes. */
int named_batch_axis(const BuildOptions *opt, const Value *input);
/* `axis` counted from the start for that rank; -1: out of range. */
static inline int axis_of_rank(int axis, int rank)
{
    return axis < -rank || axis >= rank ? -1 : axis < 0 ? axis + rank : axis;
}
/* Ranks the name of an input's dimension, the most likely batch first: "batch", N or B on the first axis; "batch" in
 * its name on another; any name on the first axis but a time's; N or B on another; any on the first axis; otherwise
 * NONE. */
enum { BATCH_NAME_FIRST, BATCH_NAME_WORD, BATCH_NAME_ANY, BATCH_NAME_LETTER, BATCH_NAME_TIME, BATCH_NAME_NONE };
int batch_name_distance(const char *symbol, int axis);
/* The bits of the axes of an input along which the batch's samples lie, by --batch-input or else by the model
 * (passes/model/find_batch.c). False: neither is known, and names and sizes decide. */
bool known_batch_axes(unsigned *out, const Graph *g, const BuildOptions *opt, const Value *input);
/* The only axis that the bits name; -1: they name none, or several. */
static inline int only_axis(unsigned axes) { return axes && !(axes & (axes - 1)) ? __builtin_ctz(axes) : -1; }
/* Found by --batch-input, by the model, or by the dimension with the least batch_name_distance.  If none of them finds
 * it, the result is the first axis of the first input that has axes, without a symbol; size -1: open, or no input
 * carries a batch. */
BatchDim find_batch_dim(const Graph *g, const BuildOptions *opt);
/* The only open axis of an input whose first axis is fixed to more than one, unless its name means a time or a side of
 * an image.  Either axis may carry the batch; -1: there is no such axis, or other evidence decides. */
int rival_batch_axis(const Graph *g, const BuildOptions *opt, const Value *v);
/* The first axis of this name; -1: none. */
int symbol_axis(const char *const *dim_param, int rank, const char *symbol);

/* The axis of the scores that carries the batch: the one with the batch's name; otherwise the inputs' axis or the
 * first, by their lengths. */
int scores_batch_axis(const Graph *g, const BuildOptions *opt, const Output *scores);
/* The batch's axis of their target, which lacks the classes' axis for a class loss; `classes`: that axis, 0 if unknown.
 */
int target_batch_axis(const BuildOptions *opt, int scores, int classes);

/* The criterion marks the batch's axis in the target that it adds, for the partition. */
Status mark_batch_axis(Graph *g, const BuildOptions *opt, Value *target, int axis) CHECKED;
int marked_batch_axis(const Graph *g, const BuildOptions *opt, const Value *target); /* -1: nothing is noted */

/* The axis along which data for the input, or for the target that the loss adds, has its samples; 0 without evidence;
 * negative if --batch-input counts it from the end and the rank is not known. */
int data_batch_axis(const Graph *model, const BuildOptions *opt, const char *name);
/* The axis along which such data are split over replicas, as far as it is known without a batch; -1: every replica has
 * all of it.  Without names, the first axis is split if it is open or was the batch's size at export. */
int data_split_axis(const Graph *model, const BuildOptions *opt, const char *name);

#endif
