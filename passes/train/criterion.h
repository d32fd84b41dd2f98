/* What the criterion makes of the outputs of a model. */
#ifndef DPX_PASS_CRITERION_H
#define DPX_PASS_CRITERION_H

#include "passes/pass.h"

/* Is it the name of an output that the criterion adds, in place of one that the model may have? */
bool criterion_adds(const char *output);
/* [g->n_output]: is the output a loss that the model computes itself, by the options' loss?  E_INVALID: it is to
 * compute one, and none of its outputs is. */
Status criterion_find_losses(bool *is_loss, const Graph *g, const BuildOptions *opt) CHECKED;

/* The name under which an output of the model is logged: its own, unless that is the total's. */
const char *criterion_log_name(const char *output);

#endif
