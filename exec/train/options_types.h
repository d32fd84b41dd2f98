/* Readers of options that name types, for the table of options; `to` is an Options. */
#ifndef DPX_OPTIONS_TYPES_H
#define DPX_OPTIONS_TYPES_H

#include "graph/recipes/setting.h"

/* --dtype, --reduce-dtype, --precision */
Status options_set_dtype(const Setting *r, void *to, const char *value) CHECKED;
Status options_set_reduce_dtype(const Setting *r, void *to, const char *value) CHECKED;
/* float16 has a dynamic scale of its loss, unless one was given. */
Status options_set_precision(const Setting *r, void *to, const char *value) CHECKED;
Status options_set_loss_scale(const Setting *r, void *to, const char *value) CHECKED;

#endif
