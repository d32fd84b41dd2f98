/* Writes what a model predicts for all samples of a data set to files. */
#ifndef DPX_TOOLS_PREDICTIONS_H
#define DPX_TOOLS_PREDICTIONS_H

#include "tools/feed/feed.h"

typedef struct Predictions Predictions;

/* Makes the folder.  Later each prediction of all samples is written to FOLDER/NAME.npy; predictions of sequences
 * without their padding, with NAME.offsets.npy beside them.  `log` gets a line for outputs that hold no samples; they
 * are not written.  The feed is lent. */
Status predictions_open(Predictions **out, const char *folder, const Feed *feed, Progress *log) CHECKED;
/* Adds the predictions for the next samples. */
Status predictions_add(Predictions *p, const dpx_result *r) CHECKED;
/* Frees `p`, which may be NULL, and returns `st` or a failure to write.  The files appear only if `st` is ST_OK. */
Status predictions_close(Predictions *p, Status st) CHECKED;

#endif
