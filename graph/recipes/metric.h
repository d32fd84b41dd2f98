/* The definition of a metric.
 *
 * A metric gives sums over the batch, which add up exactly over replicas and batches of any size, and a function that
 * computes its value from the totals.  Most metrics have a sum and a weight; the value is their quotient. */
#ifndef DPX_METRIC_H
#define DPX_METRIC_H

#include "graph/recipes/loss.h"

typedef struct {
    Recipe recipe;
    TargetKind target; /* for losses of this kind */
    bool soft;         /* takes probabilities; false: the most probable class is the target */
    bool falls;        /* smaller is better */
    bool table;        /* b->sum is a tensor, whose elements add up one by one */
    void (*emit)(LossBody *b, const void *settings); /* as for a loss, without `weights` */
    /* Computes the value from the totals, which are not empty; NULL: sum / weight, or the table itself. */
    double (*value)(const Tensor *sum, double weight, const void *settings);
} MetricDef;

#define DEFINE_METRIC(ident, ...) const MetricDef metric_##ident = { __VA_ARGS__ }

/* ---- metrics of classes ---- */

/* Emits a bool for each target: it is not ignored.  NO_VALUE: no class is ignored. */
ValueId emit_counted(LossBody *b, const IgnoredClass *ignored);
/* Emits the confusion matrix as b->sum, int64 [classes, classes]: element (t, p) is the number of targets t whose
 * largest score, the first of equal ones, is p.  Ignored targets do not count. */
void emit_confusion(LossBody *b, const IgnoredClass *ignored);

/* The counts of a class in a confusion matrix. */
typedef struct {
    double hits, targets, predictions;
} ClassCounts;

/* Settings of precision, recall and f1: how the scores of the classes are averaged. */
typedef struct {
    int how;       /* CLASS_MACRO ... */
    int64_t class; /* with CLASS_ONE */
    IgnoredClass ignored;
} ClassAverage;

enum { CLASS_MACRO, CLASS_MICRO, CLASS_WEIGHTED, CLASS_ONE };

Status set_class_average(const Setting *s, void *to, const char *value) CHECKED;
#define CLASS_AVERAGE_ARG                                                                       \
    {                                                                                           \
        .name = "average", .metavar = "AVERAGE", .fallback = "macro",                           \
        .help = "macro, micro, weighted by targets, or the number of the one class to look at", \
        .set = set_class_average, .at = offsetof(ClassAverage, how), .max = SETTING_COUNT_MAX   \
    }
void emit_class_average(LossBody *b, const void *settings);
/* Averages `score`, a function of a class's counts.  A class that is ignored, or that neither targets nor predictions
 * have, does not count. */
double class_average(const Tensor *confusion, const void *settings, double (*score)(const ClassCounts *));

#include "graph/recipes/metrics.gen.h"

#endif
