/* The graph that a run would execute, at any stage, in any format: shared by graph-transform and dpx_transform. */
#ifndef DPX_TRANSFORM_H
#define DPX_TRANSFORM_H

#include <stdio.h>

#include "exec/train/options.h"
#include "graph/onnx/onnx.h"
#include "passes/pass.h"
#include "passes/report.h"

/* Runs the passes up to `until` (NULL: all) on a copy of the model: for training if the options name a loss, else for
 * inference.  `report` may be NULL; a whole run fills its loads and peaks.  A model that is a step written by
 * transform_write (graph_is_step) is copied with its types inferred; options and `until` are refused then. */
Status transform_run(Graph **out, const Graph *model, const Options *o, const char *until, Report *report) CHECKED;
/* E_MODEL when the model is such a step. */
Status transform_check_model(const Graph *model) CHECKED;
/* Runs the passes up to `until` for the next token of a text of at most `window` tokens (passes/generate). */
Status transform_next_token(Graph **out, const Graph *model, const Options *o, int64_t window, const char *until,
                            Report *report) CHECKED;
/* Runs the whole pipeline for one mode, on a copy of a model that is no step; `report` may be NULL. */
Status transform_build(Graph **out, const Graph *model, const Options *o, BuildMode mode, Report *report) CHECKED;
/* Builds the step of one replica that the options describe, in operators of ai.onnx alone.  Its inputs are the batch
 * and its targets; learning rates are states.  Its outputs are "loss" and, for every state NAME that changes,
 * "NAME.next". E_UNSUPPORTED lists all operators that ONNX does not have.  `report` may be NULL. */
Status transform_standard(Graph **out, const Graph *model, const Options *o, Report *report) CHECKED;
/* Builds the model, in evaluation mode, with gradients of its output `of` in operators of ai.onnx alone.  `names` lists
 * inputs and parameters, "x,w"; their gradients are outputs "NAME.grad".  An output with several elements is multiplied
 * by a new input "seed" of its shape, and the gradients are those of the sum. */
Status transform_gradients(Graph **out, const Graph *model, const Options *o, const char *of,
                           const char *names) CHECKED;
/* The least opsets: 18 has the reductions of ScatterElements, 22 has Conv of bfloat16. */
enum { STANDARD_OPSET = 18, BFLOAT16_OPSET = 22 };
/* Writes a file in which states are inputs too, with their values as defaults. */
Status transform_write_standard(const Graph *g, const OnnxModel *onnx, const char *path) CHECKED;
/* Whether the options give the batch size.  If not, --standard and --gradient-of write graphs for any (any_batch.h). */
bool transform_one_size(const Graph *model, const BuildOptions *build);

/* Writes an ONNX file of the model with one step of its training as training_info: of one replica, the batch size at
 * hand and the learning rate of the first step.  With `standard` the step has operators of ONNX only, but for the nodes
 * that check its sizes.  `given`: the model alone, where `model` is the one with the training_info of its file; else
 * NULL. */
Status transform_write_training(const Graph *model, const Graph *given, const OnnxModel *onnx, const Options *o,
                                bool standard, const char *path) CHECKED;

/* "txt", "dot", "svg", "html", "json" or "onnx", by the ending of the path; NULL: unknown ending. */
const char *transform_format(const char *path);
Status transform_check_format(const char *format) CHECKED;
/* Writes a text format to a stream.  A .dot picture shows `model`, from which g was made, beside it; the others show
 * the seconds in `r`, a report of g.  Both may be NULL. */
Status transform_print(FILE *to, const Graph *g, const Graph *model, const Report *r, const char *format) CHECKED;
/* Writes any format to a file, which appears whole or not at all. */
Status transform_write(const Graph *g, const Graph *model, const Report *r, const OnnxModel *onnx, const char *format,
                       const char *path) CHECKED;

#endif
