/* Counts the members of sequence and optional inputs by the names of the given arrays. */
#ifndef DPX_TOOLS_INPUT_MEMBERS_H
#define DPX_TOOLS_INPUT_MEMBERS_H

#include "tools/feed/feed.h"

/* Loads the model (dpx_model_load_within).  A sequence input NAME has the arrays NAME.0, NAME.1, ... as members; an
 * optional input without an array is absent, which is noted in `log`, unless NULL.
 *
 * The arrays are those of the flag's data set.  Where the model has such inputs, the data set is opened and left in *f
 * for feed_open.  f NULL: they are those that --input gives. */
Status members_load(dpx_model **out, const Args *a, Feed *f, const char *flag, Progress *log) CHECKED;

#endif
