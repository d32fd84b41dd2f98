/* lars: momentum with a rate for each parameter, from the norms of the parameter and its gradient (You, Gitman and
 * Ginsburg, "Large Batch Training of Convolutional Networks", 2017, algorithm 1):
 *
 *   l = trust |w| / (|g| + weight_decay |w|),  m' = momentum m + lr l (g + weight_decay w),  w' = w - m'
 *
 * If |w| or |g| is 0, a case that the paper leaves open, l is 1. */
#include "graph/ops/binary.gen.h"
#include "graph/recipes/optimizer.h"

typedef struct {
    double momentum, trust, weight_decay;
} Lars;

static ValueId rate(Graph *g, const void *settings, const Norms *n)
{
    const Lars *s = settings;
    const ValueId decayed = EMIT(g, Mul, NULL, emit_scalar(g, DT_FLOAT64, s->weight_decay), n->w),
                  under = EMIT(g, Add, NULL, n->x, decayed);

    return formula_quotient(g, n, EMIT(g, Mul, NULL, emit_scalar(g, DT_FLOAT64, s->trust), n->w), under);
}

static void lars_formula(UpdateRule *f, const void *settings)
{
    const Lars *s = settings;
    const ValueId lr = formula_scalar(f, f->o->lr), l = formula_norm_scale(f, f->grad, rate, s),
                  d = formula_decayed(f, s->weight_decay);
    ValueId step = F(f, Mul, lr, F(f, Mul, l, d));

    if (s->momentum > 0) {
        const ValueId m = formula_state(f, "momentum");

        step = F(f, Add, F(f, Mul, formula_number(f, s->momentum), m), step);
        formula_next(f, m, step);
    }
    formula_next(f, f->w, F(f, Sub, f->w, step));
}

static const Setting flags[] = {
    FLAG_MOMENTUM(Lars, momentum, "0"),
    { .name = "trust",
      .metavar = "X",
      .fallback = "0.001",
      .help = "norm of an update as a share of the parameter's norm",
      SETTING_OF(Lars, trust),
      .min = 0,
      .above_min = true,
      .max = SETTING_REAL_MAX },
    FLAG_WEIGHT_DECAY(Lars, weight_decay, "0"),
    { .name = NULL },
};

DEFINE_OPTIMIZER(lars,
                 .recipe = { .name = "lars",
                             .help = "momentum, with a rate for each parameter from its norm and its gradient's, for "
                                     "large batches",
                             .flags = flags,
                             RECIPE_SETTINGS(Lars) },
                 .formula = lars_formula);
