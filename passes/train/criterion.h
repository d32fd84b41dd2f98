/* Which outputs of a model are losses, predictions or log variables, and their names. */
#ifndef DPX_PASS_CRITERION_H
#define DPX_PASS_CRITERION_H

#include "passes/pass.h"

/* The model's name of an output of an evaluation that is a prediction; NULL: passes added the output. */
const char *criterion_prediction(const char *output);
/* [g->n_output]: is the output a loss that the model computes itself, by the options' loss?  E_INVALID: the options ask
 * for such a loss, and no output is one. */
Status criterion_find_losses(bool *is_loss, const Graph *g, const BuildOptions *opt) CHECKED;

/* Are the means of all outputs logged, and the losses among them added up?  There must be a loss. */
bool criterion_logs_outputs(const BuildOptions *opt);
/* Is the loss the mean of numbers that the model computes for the replicas' parts (passes/partition/part_losses.c)? */
bool criterion_takes_own_means(const BuildOptions *opt);

/* The name under which an output of the model is logged: its own, unless that is the total's; NAME for a list of
 * outputs NAME.0, NAME.1, ...  It may be in the arena; NULL: no memory. */
const char *criterion_log_name(Arena *a, const Graph *g, int output);
/* Is the output the loss of that name, or in the list of that name? */
bool criterion_in_loss(const Graph *g, int output, const char *loss);

#endif
