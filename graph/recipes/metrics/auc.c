/* auc: the area under the ROC curve, which is the probability that a positive target has a greater score than a
 * negative one; equal scores count half. */
#include "graph/recipes/metric.h"

DEFINE_METRIC(auc,
              .recipe = { .name = "auc",
                          .form = "auc[:BINS]",
                          .help = "the area under the ROC curve, of a binary loss or two classes; in a run by BINS "
                                  "[4096] bins of scores, with the most that this may change",
                          .args = rank_args,
                          .flags = rank_flags,
                          RECIPE_SETTINGS(RankBins) },
              .target = TARGET_CLASSES, .binary = true, .table = true, .lines = 2, .lists = true, .emit = emit_ranks,
              .value = rank_auc, .bound = rank_auc_bound);
