/* Counts the members of sequence and optional inputs by the names of the given arrays. */
#ifndef DPX_TOOLS_INPUT_MEMBERS_H
#define DPX_TOOLS_INPUT_MEMBERS_H

#include "tools/feed.h"

/* The name of given array i; NULL: there are no more. */
typedef const char *ArrayName(void *user, int i);

/* Loads the model (dpx_model_load_within).  A sequence input NAME has the arrays NAME.0, NAME.1, ... as members; an
 * optional input without an array is absent, which is noted in `log`, unless NULL. */
Status members_load(dpx_model **out, const Args *a, ArrayName *name, void *user, Progress *log) CHECKED;
/* Does the same with the arrays of the flag's data set.  Where the model has such inputs, the data set is opened and
 * left in *f for feed_open. */
Status members_load_fed(dpx_model **out, Feed *f, const Args *a, const char *flag, Progress *log) CHECKED;

#endif
