/* What a model got wrong in an evaluation: which classes it takes for which, the samples that it gets most wrong, and
 * predictions beside targets.  A page shows it; no decision of a run depends on it. */
#ifndef DPX_TOOLS_MISTAKES_H
#define DPX_TOOLS_MISTAKES_H

#include "tools/feed/feed.h"

typedef struct Mistakes Mistakes;

/* *out NULL: the loss compares no scores with a target that could be judged sample by sample (--loss output:NAME, soft
 * labels ...).  The feed is lent. */
Status mistakes_open(Mistakes **out, const Feed *feed, const dpx_options *o) CHECKED;
void mistakes_free(Mistakes *m); /* NULL is legal */
/* Takes the samples of a batch whose targets this process has.  After 2^26 scores the rest is left out. */
Status mistakes_add(Mistakes *m, const Loader *l, const Batch *b, const dpx_result *r) CHECKED;
/* Writes {"step", "samples", "of", "confusion": [[n]], "worst": [{"row", "from", "loss", "text", "png"}], "residuals":
 * [[target, prediction]]}; lists that do not apply are left out.  "png" is in base64. */
Status mistakes_write(const Mistakes *m, const char *path, int64_t step) CHECKED;

#endif
