/* What the criterion makes of the outputs of a model. */
#ifndef DPX_PASS_CRITERION_H
#define DPX_PASS_CRITERION_H

#include "passes/pass.h"

/* The name of the model's output that is a prediction; NULL: the output of an evaluation is one that passes add. */
const char *criterion_prediction(const char *output);
/* [g->n_output]: is the output a loss that the model computes itself, by the options' loss?  E_INVALID: it is to
 * compute one, and none of its outputs is. */
Status criterion_find_losses(bool *is_loss, const Graph *g, const BuildOptions *opt) CHECKED;

/* Is the loss the mean of numbers that the model makes of the replicas' parts (passes/partition/part_losses.c)? */
bool criterion_takes_own_means(const BuildOptions *opt);

/* The name under which an output of the model is logged: its own, unless that is the total's; of a list, as outputs
 * NAME.0, NAME.1, ... are, NAME.  Maybe in the arena; NULL: no memory. */
const char *criterion_log_name(Arena *a, const Graph *g, int output);
/* Is the output the loss of that name, or one of such a list? */
bool criterion_in_loss(const Graph *g, int output, const char *loss);

#endif
