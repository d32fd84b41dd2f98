/* per-class: precision, recall, F1 and support, the number of targets, of each class. */
#include "graph/recipes/metric.h"

enum { COLUMNS = 4 };

static void per_class_rows(double *out, const MetricTotals *t)
{
    for (int64_t c = 0; c < t->sum->shape.dim[0]; c++) {
        const ClassCounts n = class_counts(t->sum, c);

        *out++ = class_precision(&n);
        *out++ = class_recall(&n);
        *out++ = class_f1(&n);
        *out++ = n.targets;
    }
}

DEFINE_METRIC(per_class,
              .recipe = { .name = "per-class",
                          .help = "precision, recall, F1 and number of targets of each class",
                          .flags = counted_classes_flags,
                          RECIPE_SETTINGS(CountedClasses) },
              .target = TARGET_CLASSES, .binary = true, .table = true, .emit = emit_confusion, .rows = per_class_rows,
              .columns = COLUMNS);
