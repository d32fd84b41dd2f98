/* adagrad: torch.optim's Adagrad, which divides by the root of the sum of squares.
 *
 *   d = g + weight_decay w,  s' = s + d^2,  w' = w - lr / (1 + (t - 1) lr_decay) d / (sqrt(s') + eps)
 *
 * at step t, the first being 1.  In PyTorch s begins as initial_accumulator_value; here it begins as 0, and that value
 * is added where s is read. */
#include "graph/ops/binary.gen.h"
#include "graph/ops/preview_training.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/recipes/optimizer.h"

typedef struct {
    double eps, weight_decay, lr_decay, initial;
} Adagrad;

/* lr / (1 + (t - 1) lr_decay) */
static ValueId rate(UpdateRule *f, double lr_decay)
{
    Graph *g = f->o->g;
    ValueId by;

    if (lr_decay == 0)
        return formula_scalar(f, f->o->lr);
    by = emit_cast(g, f->o->step, DT_FLOAT64);
    by = EMIT(g, Mul, NULL, by, emit_scalar(g, DT_FLOAT64, lr_decay));
    by = EMIT(g, Add, NULL, by, emit_scalar(g, DT_FLOAT64, 1));
    return formula_scalar(f, EMIT(g, Div, NULL, formula_lr64(f), by));
}

static void adagrad_formula(UpdateRule *f, const void *settings)
{
    const Adagrad *s = settings;
    const ValueId sum = formula_state(f, "sum"), lr = rate(f, s->lr_decay), d = formula_decayed(f, s->weight_decay);
    const ValueId next = F(f, Add, sum, F(f, Mul, d, d));
    const ValueId root = F(f, Sqrt, s->initial > 0 ? F(f, Add, next, formula_number(f, s->initial)) : next);
    ValueId step = F(f, Div, d, F(f, Add, root, formula_number(f, s->eps)));

    formula_next(f, f->w, F(f, Sub, f->w, F(f, Mul, lr, step)));
    formula_next(f, sum, next);
}

static const Setting flags[] = {
    FLAG_EPS(Adagrad, eps, "1e-10"),
    { .name = "lr-decay",
      .metavar = "X",
      .fallback = "0",
      .help = "the learning rate is divided by 1 + X * (steps so far)",
      SETTING_OF(Adagrad, lr_decay),
      .min = 0,
      .max = SETTING_REAL_MAX },
    { .name = "initial-sum",
      .metavar = "X",
      .fallback = "0",
      .help = "first value of the sum of squares",
      SETTING_OF(Adagrad, initial),
      .min = 0,
      .max = SETTING_REAL_MAX },
    FLAG_WEIGHT_DECAY(Adagrad, weight_decay, "0"),
    { .name = NULL },
};

DEFINE_OPTIMIZER(adagrad,
                 .recipe = { .name = "adagrad",
                             .help = "divides by the root of the sum of squares",
                             .flags = flags,
                             RECIPE_SETTINGS(Adagrad) },
                 .formula = adagrad_formula);
