/* rmsprop: torch.optim's RMSprop, which divides the gradient by the root of a running mean of its squares; `centered`
 * subtracts the square of the running mean.
 *
 *   d = g + weight_decay w,  v' = alpha v + (1 - alpha) d^2,  a' = alpha a + (1 - alpha) d
 *   q = d / (sqrt(v' [- a'^2]) + eps),  w' = w - lr q, or with momentum b' = momentum b + q,  w' = w - lr b' */
#include "graph/ops/binary.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/recipes/optimizer.h"

typedef struct {
    double alpha, eps, momentum, weight_decay;
    bool centered;
} RmsProp;

static void rmsprop_formula(UpdateRule *f, const void *settings)
{
    const RmsProp *s = settings;
    ValueId v = formula_state(f, "square_avg"), lr = formula_scalar(f, f->o->lr),
            d = formula_decayed(f, s->weight_decay);
    ValueId next = formula_mean(f, s->alpha, v, F(f, Mul, d, d), NO_VALUE), under = next, step;

    formula_next(f, v, next);
    if (s->centered) {
        ValueId a = formula_state(f, "grad_avg"), average = formula_mean(f, s->alpha, a, d, NO_VALUE);

        formula_next(f, a, average);
        under = F(f, Sub, next, F(f, Mul, average, average));
    }
    under = F(f, Sqrt, under);
    step = F(f, Div, d, F(f, Add, under, formula_number(f, s->eps)));
    if (s->momentum > 0) {
        ValueId b = formula_state(f, "momentum");

        step = F(f, Add, F(f, Mul, formula_number(f, s->momentum), b), step);
        formula_next(f, b, step);
    }
    formula_next(f, f->w, F(f, Sub, f->w, F(f, Mul, lr, step)));
}

static const Setting flags[] = {
    FLAG_DECAY("alpha", RmsProp, alpha, "0.99", "decay of the mean of squares"),
    FLAG_EPS(RmsProp, eps, "1e-8"),
    FLAG_MOMENTUM(RmsProp, momentum, "0"),
    { .name = "centered",
      .fallback = "false",
      .help = "subtract the square of the mean",
      SETTING_OF(RmsProp, centered) },
    FLAG_WEIGHT_DECAY(RmsProp, weight_decay, "0"),
    { .name = NULL },
};

DEFINE_OPTIMIZER(rmsprop,
                 .recipe = { .name = "rmsprop",
                             .help = "divides the gradient by the root of a running mean of its squares",
                             .flags = flags,
                             RECIPE_SETTINGS(RmsProp) },
                 .formula = rmsprop_formula);
