/* What a model predicts for all samples of a data set, as files. */
#ifndef DPX_TOOLS_PREDICTIONS_H
#define DPX_TOOLS_PREDICTIONS_H

#include "tools/feed.h"

typedef struct Predictions Predictions;

/* FOLDER/NAME.npy for each prediction, of all samples of the data; of sequences without padding, and NAME.offsets.npy.
 * `log` is told of those that hold no samples, which are not written.  Only the folder is made; the feed is lent. */
Status predictions_open(Predictions **out, const char *folder, const Feed *feed, Progress *log) CHECKED;
/* Of the next samples of the set. */
Status predictions_add(Predictions *p, const dpx_result *r) CHECKED;
/* Frees `p`, NULL too.  `st` is how it went: the files appear with ST_OK alone. */
Status predictions_close(Predictions *p, Status st) CHECKED;

#endif
