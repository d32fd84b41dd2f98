/* adam and adamw: torch.optim's Adam, and AdamW with decoupled weight decay.
 *
 *   d = g + weight_decay w,  m' = beta1 m + (1 - beta1) d,  v' = beta2 v + (1 - beta2) d^2
 *   w' = w - (lr / (1 - beta1^t)) m' / (sqrt(v') / sqrt(1 - beta2^t) + eps)
 *
 * With amsgrad, w' uses the largest v' so far.  adamw has d = g, and w (1 - lr weight_decay) in place of w in w'.
 * Scalars are computed in float64 and rounded once. */
#include "graph/ops/binary.gen.h"
#include "graph/ops/preview_training.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/recipes/optimizer.h"

void formula_adam(UpdateRule *f, const Adam *s, bool decoupled)
{
    Graph *g = f->o->g;
    const ValueId m = formula_state(f, "exp_avg"), v = formula_state(f, "exp_avg_sq"), lr = formula_lr64(f),
                  size = formula_scalar(f, EMIT(g, Div, NULL, lr, formula_correction(f, s->beta1))),
                  root = formula_scalar(f, EMIT(g, Sqrt, NULL, formula_correction(f, s->beta2))),
                  d = decoupled ? f->grad : formula_decayed(f, s->weight_decay),
                  m1 = formula_mean(f, s->beta1, m, d, NO_VALUE), v1 = formula_mean(f, s->beta2, v, d, d);
    ValueId under = v1, w = f->w;

    if (s->amsgrad) {
        const ValueId most = formula_state(f, "max_exp_avg_sq");

        under = F(f, Max, most, v1);
        formula_next(f, most, under);
    }
    under = F(f, Div, F(f, Sqrt, under), root);
    under = F(f, Add, under, formula_number(f, s->eps));
    if (decoupled && s->weight_decay > 0) {
        const ValueId part = EMIT(g, Mul, NULL, lr, emit_scalar(g, DT_FLOAT64, s->weight_decay));

        w = F(f, Mul, w, formula_scalar(f, EMIT(g, Sub, NULL, emit_scalar(g, DT_FLOAT64, 1), part)));
    }
    formula_next(f, f->w, F(f, Sub, w, F(f, Div, F(f, Mul, size, m1), under)));
    formula_next(f, m, m1);
    formula_next(f, v, v1);
}

static void adam_formula(UpdateRule *f, const void *settings) { formula_adam(f, settings, false); }
static void adamw_formula(UpdateRule *f, const void *settings) { formula_adam(f, settings, true); }

#define FLAGS(decay)                                                                                              \
    (const Setting[])                                                                                             \
    {                                                                                                             \
        FLAG_DECAY("beta1", Adam, beta1, "0.9", "decay of the first moment"),                                     \
            FLAG_DECAY("beta2", Adam, beta2, "0.999", "decay of the second moment"), FLAG_EPS(Adam, eps, "1e-8"), \
            FLAG_WEIGHT_DECAY(Adam, weight_decay, decay),                                                         \
            { .name = "amsgrad",                                                                                  \
              .fallback = "false",                                                                                \
              .help = "divide by the largest second moment so far",                                               \
              SETTING_OF(Adam, amsgrad) },                                                                        \
        {                                                                                                         \
            .name = NULL                                                                                          \
        }                                                                                                         \
    }

DEFINE_OPTIMIZER(adam,
                 .recipe = { .name = "adam",
                             .help = "moments of the gradient, corrected for their start",
                             .flags = FLAGS("0"),
                             RECIPE_SETTINGS(Adam) },
                 .formula = adam_formula, .lr = "0.001");
DEFINE_OPTIMIZER(adamw,
                 .recipe = { .name = "adamw",
                             .help = "adam with decoupled weight decay",
                             .flags = FLAGS("0.01"),
                             RECIPE_SETTINGS(Adam) },
                 .formula = adamw_formula, .lr = "0.001");
