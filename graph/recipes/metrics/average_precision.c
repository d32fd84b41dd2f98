/* average-precision: the mean over positive targets of the precision at their score, the sum over thresholds of
 * (R_n - R_(n-1)) P_n. */
#include "graph/recipes/metric.h"

DEFINE_METRIC(average_precision,
              .recipe = { .name = "average-precision",
                          .form = "average-precision[:BINS]",
                          .help = "the mean precision at the positive targets' scores; BINS as for auc",
                          .args = rank_args,
                          .flags = rank_flags,
                          RECIPE_SETTINGS(RankBins) },
              .target = TARGET_CLASSES, .binary = true, .table = true, .lines = 2, .lists = true, .emit = emit_ranks,
              .value = rank_precision, .bound = rank_precision_bound);
