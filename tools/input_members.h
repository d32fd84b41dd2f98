/* Finds which members a sequence or optional input has, by the names of the arrays at hand. */
#ifndef DPX_TOOLS_INPUT_MEMBERS_H
#define DPX_TOOLS_INPUT_MEMBERS_H

#include "tools/feed.h"

/* The i-th name of an array, of those that are given; NULL: there are no more. */
typedef const char *ArrayName(void *user, int i);

/* dpx_model_load_within, where arrays NAME.0, NAME.1, ... are of a sequence NAME, and an optional input of which there
 * is no array is absent, which `log` (NULL: nobody) is told. */
Status members_load(dpx_model **out, const Args *a, ArrayName *name, void *user, Progress *log) CHECKED;
/* The same of the data set of the flag, which is opened, in front of feed_open, where the model has such inputs. */
Status members_load_fed(dpx_model **out, Feed *f, const Args *a, const char *flag, Progress *log) CHECKED;

#endif
