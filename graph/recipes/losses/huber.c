/* huber: with d = y - t, d^2 / 2 if |d| <= delta, otherwise delta (|d| - delta / 2).  PyTorch's HuberLoss.
 *
 * With c = d clipped to -delta..delta, both are c (d - c / 2), whose derivative is c. */
#include "graph/ops/binary.gen.h"
#include "graph/ops/where.gen.h"
#include "graph/recipes/loss.h"

typedef struct {
    double delta;
} Huber;

static void huber_emit_loss(LossBody *b, const void *settings)
{
    Graph *g = b->g;
    const double delta = ((const Huber *)settings)->delta;
    const DType t = value(g, b->y)->dtype;
    ValueId d = EMIT(g, Sub, NULL, b->y, b->target), low = emit_scalar(g, t, -delta), high = emit_scalar(g, t, delta);
    ValueId c = EMIT(g, Clip, NULL, d, low, high), half = EMIT(g, Mul, NULL, c, emit_scalar(g, t, 0.5));

    b->sum = EMIT(g, Mul, NULL, c, EMIT(g, Sub, NULL, d, half));
}

static const Setting args[] = {
    { .name = "delta",
      .metavar = "DELTA",
      .fallback = "1",
      .help = "error where the loss changes from quadratic to linear",
      SETTING_OF(Huber, delta),
      .min = 0,
      .above_min = true,
      .max = SETTING_REAL_MAX },
    { .name = NULL },
};

DEFINE_LOSS(huber,
            .recipe = { .name = "huber",
                        .form = "huber[:DELTA]",
                        .help = "squared error up to DELTA [1], linear beyond",
                        .args = args,
                        RECIPE_SETTINGS(Huber) },
            .target = TARGET_VALUES, .emit = huber_emit_loss);
