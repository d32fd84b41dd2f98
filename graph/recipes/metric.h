/* The definition of a metric.
 *
 * A metric gives sums over the batch, which add up exactly over replicas and batches of any size, and a function that
 * computes its value from the totals.  Most metrics have a sum and a weight; the value is their quotient. */
#ifndef DPX_METRIC_H
#define DPX_METRIC_H

#include "graph/recipes/loss.h"

/* The totals over all batches, which are not empty. */
typedef struct {
    const Tensor *sum; /* int64 or float64 */
    double weight;     /* 0 with a table */
    bool binary;       /* of a binary loss */
    const void *settings;
} MetricTotals;

typedef struct {
    Recipe recipe;
    TargetKind target; /* for losses of this kind */
    bool binary;       /* for binary losses, too */
    bool soft;         /* takes probabilities; false: the most probable class is the target */
    bool falls;        /* smaller is better */
    bool table;        /* b->sum is a matrix, whose elements add up one by one */
    int64_t lines;     /* of the table; 0: it is square */
    bool lists;        /* with b->exact, b->sum is float64 [..., 2], and batches append their pairs */
    void (*emit)(LossBody *b, const void *settings); /* as for a loss, without `weights` */
    /* Computes the value from the totals; NULL: sum / weight, or the table itself.  NaN from counts: it is not
     * defined, as where all targets are of one class. */
    double (*value)(const MetricTotals *t);
    double (*bound)(const MetricTotals *t); /* the most by which the value may be wrong; NULL: it is exact */
    /* Computes a table of `columns` numbers for each class from a confusion matrix; NULL: the table is b->sum. */
    void (*rows)(double *out, const MetricTotals *t);
    int columns;
    /* Where sums do not add up by Add: adds `more` to `into`, in a graph and in memory, all zeros being nothing. */
    ValueId (*emit_merge)(Graph *g, ValueId into, ValueId more);
    void (*merge)(double *into, const double *more, int64_t n); /* of n elements each */
} MetricDef;

#define DEFINE_METRIC(ident, ...) const MetricDef metric_##ident = { __VA_ARGS__ }

/* ---- metrics of classes; those of a binary loss are 0 and 1 ---- */

/* The probability above which a prediction of a binary loss is positive. */
typedef struct {
    bool given;
    double at;
} Threshold;

/* Settings of metrics that count classes. */
typedef struct {
    IgnoredClass ignored;
    Threshold threshold;
} CountedClasses;

/* --ignore-index and --threshold, for settings that begin with CountedClasses. */
extern const Setting counted_classes_flags[];

/* Emits a bool for each target: it is not ignored.  NO_VALUE: no class is ignored. */
ValueId emit_counted(LossBody *b, const IgnoredClass *ignored);
/* Emit a bool for each target of a binary loss: it is positive, above 0.5; it is predicted to be. */
ValueId emit_positive(LossBody *b);
ValueId emit_predicted(LossBody *b, const Threshold *threshold);
/* The number of classes.  Fails, in b->g, where settings do not go with a binary loss, or with another. */
int64_t metric_classes(LossBody *b, const CountedClasses *settings);
/* Emits the confusion matrix as b->sum, int64 [classes, classes]: element (t, p) is the number of targets t whose
 * largest score, the first of equal ones, is p.  Ignored targets do not count.  The settings begin with CountedClasses.
 */
void emit_confusion(LossBody *b, const void *settings);

/* The counts of a class in a confusion matrix. */
typedef struct {
    double hits, targets, predictions;
} ClassCounts;

ClassCounts class_counts(const Tensor *confusion, int64_t c);
/* Scores of a class.  0 / 0 is 0, as with zero_division=0 in scikit-learn. */
double class_precision(const ClassCounts *n);
double class_recall(const ClassCounts *n);
double class_f1(const ClassCounts *n);

/* Settings of precision, recall and f1: how the scores of the classes are averaged. */
typedef struct {
    CountedClasses counted;
    int how;       /* CLASS_UNSET ... */
    int64_t class; /* with CLASS_ONE */
} ClassAverage;

/* CLASS_UNSET: of a binary loss, the positive class alone; else as CLASS_MACRO. */
enum { CLASS_UNSET, CLASS_MACRO, CLASS_MICRO, CLASS_WEIGHTED, CLASS_ONE };

extern const Setting class_average_args[];
void emit_class_average(LossBody *b, const void *settings);
/* Averages `score`, a function of a class's counts.  A class that is ignored, or that neither targets nor predictions
 * have, does not count. */
double class_average(const MetricTotals *t, double (*score)(const ClassCounts *));

/* ---- metrics of an order: how scores of positive and negative targets lie among each other ---- */

/* Settings of auc and average-precision. */
typedef struct {
    int64_t bins;
    IgnoredClass ignored;
} RankBins;

extern const Setting rank_args[], rank_flags[];
/* Emits as b->sum the histograms of the scores of negative and positive targets, int64 [2, bins], or with b->exact
 * each score with its target, 0, 1, or -1 for one that does not count. */
void emit_ranks(LossBody *b, const void *settings);
double rank_auc(const MetricTotals *t);
double rank_auc_bound(const MetricTotals *t);
double rank_precision(const MetricTotals *t);
double rank_precision_bound(const MetricTotals *t);

#include "graph/recipes/metrics.gen.h"

#endif
