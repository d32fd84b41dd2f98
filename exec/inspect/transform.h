/* What graph-transform and dpx_transform share: the graph that a run would execute, at any stage, in any format. */
#ifndef DPX_TRANSFORM_H
#define DPX_TRANSFORM_H

#include <stdio.h>

#include "exec/train/options.h"
#include "graph/onnx/onnx.h"
#include "passes/pass.h"
#include "passes/report.h"

/* Runs the passes up to `until` (NULL: all) on a copy of the model, for a training graph if the options name a loss,
 * else for inference.  `report` may be NULL; a whole run fills its loads and peaks.  A model that is a step
 * (graph_is_step), written by transform_write, is copied with its types inferred; options and `until` are refused. */
Status transform_run(Graph **out, const Graph *model, const Options *o, const char *until, Report *report) CHECKED;
/* E_MODEL when it is such a step. */
Status transform_check_model(const Graph *model) CHECKED;
/* The whole pipeline for one mode, of a model that is no step; `report` may be NULL. */
Status transform_build(Graph **out, const Graph *model, const Options *o, BuildMode mode, Report *report) CHECKED;
/* The step of one replica that the options describe, in operators of ai.onnx alone: inputs are the batch and its
 * targets; learning rates are states like all others; outputs "loss" and, for every state NAME that changes,
 * "NAME.next".  E_UNSUPPORTED lists all operators that ONNX has no words for.  `report` may be NULL. */
Status transform_standard(Graph **out, const Graph *model, const Options *o, Report *report) CHECKED;
/* The model, in evaluation, with the gradients of its output `of` by the inputs or parameters `names`, "x,w", in such
 * operators: outputs "NAME.grad".  An output that is no single number is weighed, element by element, by an input
 * "seed", and the gradients are those of the sum. */
Status transform_gradients(Graph **out, const Graph *model, const Options *o, const char *of,
                           const char *names) CHECKED;
/* As a file whose inputs are the states too, their values the defaults. */
enum { STANDARD_OPSET = 18, BFLOAT16_OPSET = 22 }; /* at least: reductions of ScatterElements; Conv of bfloat16 */
Status transform_write_standard(const Graph *g, const OnnxModel *onnx, const char *path) CHECKED;
/* What passes are told: the options, and what is decided by looking at the devices that they name.  Stays where it is
 * while it is read: `build` points into it. */
typedef struct {
    BuildOptions build; /* for no target in particular */
    bool cuda;          /* the devices are accelerators */
    double weight[MAX_REPLICAS];
    SumCost cost;
} TransformBuild;

Status transform_options(TransformBuild *out, const Options *o, BuildMode mode) CHECKED;

/* Do the options say how large batches are?  Else --standard and --gradient-of write graphs for any (any_batch.h). */
bool transform_one_size(const Graph *model, const BuildOptions *build);

/* An ONNX file of the model with the step of its training that the options describe as its training_info: on one
 * replica, of the batch at hand, at the learning rate of the first step; with `standard` in operators of ONNX, but for
 * what holds a run to its sizes.  `given`: the model alone, where `model` is with the training_info of its file; else
 * NULL. */
Status transform_write_training(const Graph *model, const Graph *given, const OnnxModel *onnx, const Options *o,
                                bool standard, const char *path) CHECKED;

/* "txt", "dot", "svg", "html", "json" or "onnx"; NULL: unknown ending. */
const char *transform_format(const char *path);
Status transform_check_format(const char *format) CHECKED;
/* Writes a text format to a stream.  Pictures show the model, of which g was made, beside it; NULL: not. */
Status transform_print(FILE *to, const Graph *g, const Graph *model, const char *format) CHECKED;
/* Writes any format to a file, under a temporary name first. */
Status transform_write(const Graph *g, const Graph *model, const OnnxModel *onnx, const char *format,
                       const char *path) CHECKED;

#endif
