/* What a model got wrong in an evaluation: which classes it takes for which, the samples that it gets most wrong, and
 * predictions beside targets.  A page shows it; no decision of a run depends on it. */
#ifndef DPX_TOOLS_MISTAKES_H
#define DPX_TOOLS_MISTAKES_H

#include <jansson.h>

#include "tools/feed/feed.h"

typedef struct Mistakes Mistakes;

/* *out NULL: the loss compares no scores with a target that could be judged sample by sample (--loss output:NAME, soft
 * labels ...).  The feed is lent.  `rank`: of this process. */
Status mistakes_open(Mistakes **out, Feed *feed, const dpx_options *o, int rank) CHECKED;
void mistakes_free(Mistakes *m); /* NULL is legal */
/* Takes the samples of a batch whose targets this process has; targets that every process has whole are taken by rank
 * 0. After 2^26 scores the rest is left out. */
Status mistakes_add(Mistakes *m, const Loader *l, const Batch *b, const dpx_result *r) CHECKED;
/* What was found, to be released: {"step", "samples", "of", "classes": [names], "confusion": [[n]], "worst": [{"row",
 * "loss", "text", "from", "wrong": true or false, "png", "values": [[name, text]]}], "residuals": [[target,
 * prediction]]}; what does not apply is left out.  "png" is in base64.  The samples with the highest loss come first;
 * where few are wrong, some of them are right. */
Status mistakes_found(json_t **out, const Mistakes *m, int64_t step) CHECKED;
/* Adds what another process has found.  E_IO: it is something else. */
Status mistakes_join(json_t *found, const json_t *more) CHECKED;

#endif
