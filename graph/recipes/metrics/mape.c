/* mape: the mean of |y - t| / max(|t|, eps) as a fraction, not in percent; eps is that of float64, as in scikit-learn.
 */
#include <float.h>

#include "graph/ops/binary.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/recipes/metric.h"

static void mape_emit_metric(LossBody *b, const void *settings)
{
    Graph *g = b->g;
    const ValueId y = emit_cast(g, b->y, DT_FLOAT64), t = emit_cast(g, b->target, DT_FLOAT64);
    ValueId size, error;

    (void)settings;
    size = EMIT(g, Abs, NULL, t);
    size = EMIT(g, Max, NULL, size, emit_scalar(g, DT_FLOAT64, DBL_EPSILON));
    error = EMIT(g, Abs, NULL, EMIT(g, Sub, NULL, y, t));
    b->sum = EMIT(g, Div, NULL, error, size);
}

DEFINE_METRIC(mape, .recipe = { .name = "mape", .help = "mean absolute percentage error, as a fraction" },
              .target = TARGET_VALUES, .falls = true, .emit = mape_emit_metric);
