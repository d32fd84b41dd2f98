/* Readers of options about the model's parameters, for the table of options; `to` is an Options. */
#ifndef DPX_OPTIONS_PARAMETERS_H
#define DPX_OPTIONS_PARAMETERS_H

#include "exec/train/options.h"

/* --freeze, --train, --untie, --stop-gradient: adds to the list of the option's name. */
Status options_add_pattern(const Setting *r, void *to, const char *value) CHECKED;
/* --state BUFFER=VALUE: likewise. */
Status options_add_state(const Setting *r, void *to, const char *value) CHECKED;
/* --parameters FILE */
Status options_set_parameters(const Setting *r, void *to, const char *value) CHECKED;
/* --head N or NAME=N */
Status options_set_head(const Setting *r, void *to, const char *value) CHECKED;
/* Copies these lists from `o`. */
Status options_copy_patterns(Options *copy, const Options *o) CHECKED;

#endif
