/* The text of a plan: everything that planning decides for a model and flags, in sections that begin "== NAME". */
#ifndef DPX_TESTS_PLANS_PLAN_TEXT_H
#define DPX_TESTS_PLANS_PLAN_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include "tests/plans/corpus.h"

/* Figures of the plan, added up over its graphs and devices. */
typedef struct {
    int graphs, nodes, collectives, warnings;
    int64_t flops, peak;
} PlanFigures;

/* Writes the plan.  A refusal by dpexec is a section "refused" with its message, and no failure here.
 *
 * Flags are options of dpexec, without which plans of `dpexec --dry-run` have their defaults, and these:
 *
 *     mode M                a graph of this mode (train, accumulate, apply, finish, eval, predict, infer); may repeat.
 *                           Otherwise the graphs of a run: inference without a loss
 *     sizes N               the length of open dimensions of inputs, but the batch's
 *     until PASS            the graph after this pass
 *     target-shape 4,5      the shape of the targets
 *     class-weights 1,2,3   weights of classes
 *     dry-run               the program, for described devices
 *     picture FORMAT        the graph as dot, svg, html or json
 *     standard              the step in operators of ai.onnx alone
 *     gradient-of OUTPUT    gradients of the output by the names of with-respect-to
 *     summary DEPTH         the table of layers
 *     parameters            the table of parameters
 *     simulate FILE         steps on a described cluster
 *     training-info         the file with training_info, read again
 *     reach NAME:AXIS:SIZES how far each replica's part of an input reaches
 *     window N              the step of the next token of a text of at most N tokens
 *     verify                the partitioned graph against the whole one: do they agree?
 *     export                the model as a file for inference, read again */
Status plan_text(FILE *to, PlanFigures *figures, const char *model, const PlanCase *c) CHECKED;

#endif
