/* A metric: what is measured of the scores besides the loss.
 *
 * It gives sums over the batch, which add up exactly over replicas and batches, whatever their sizes, and the number
 * that follows from the sums of all.  Of most metrics that is a sum and what it weighs, and their quotient. */
#ifndef DPX_METRIC_H
#define DPX_METRIC_H

#include "graph/recipes/loss.h"

typedef struct {
    Recipe recipe;
    TargetKind target; /* goes with losses of this kind */
    bool soft;         /* takes probabilities; else the most probable class is the target */
    bool falls;        /* the smaller the better */
    bool table;        /* b->sum is a tensor whose elements add up each for itself */
    void (*emit)(LossBody *b, const void *settings); /* as of a loss; `weights` is not there */
    /* Of the sums over all batches, of which something counted; NULL: sum / weight, and of a table the table itself. */
    double (*value)(const Tensor *sum, double weight, const void *settings);
} MetricDef;

#define DEFINE_METRIC(ident, ...) const MetricDef metric_##ident = { __VA_ARGS__ }

/* ---- metrics of classes ---- */

/* Where the target is not ignored, as bool; NO_VALUE: none is. */
ValueId emit_counted(LossBody *b, const IgnoredClass *ignored);
/* The confusion matrix as b->sum, int64 [classes, classes]: in row t and column p how many targets t have their largest
 * score, of equals the first, at p.  A target that is ignored is nowhere. */
void emit_confusion(LossBody *b, const IgnoredClass *ignored);

/* What a confusion matrix says of a class, as sums of counts. */
typedef struct {
    double hits, targets, predictions;
} ClassCounts;

ClassCounts class_counts(const Tensor *confusion, int64_t c);

/* precision, recall and f1: a score of each class, and how the classes' scores become one. */
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
/* `score` of the counts of a class; a class that neither the targets nor the predictions have, or that is ignored, has
 * no part in averages. */
double class_average(const Tensor *confusion, const void *settings, double (*score)(const ClassCounts *));

#include "graph/recipes/metrics.gen.h"

#endif
