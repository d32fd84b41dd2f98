/* lion: the sign of an interpolated momentum (Chen and others, "Symbolic Discovery of Optimization Algorithms", 2023,
 * algorithm 2), with decoupled weight decay:
 *
 *   w' = w - lr (sign(beta1 m + (1 - beta1) g) + weight_decay w),  m' = beta2 m + (1 - beta2) g */
#include "graph/ops/binary.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/recipes/optimizer.h"

typedef struct {
    double beta1, beta2, weight_decay;
} Lion;

static void lion_formula(UpdateRule *f, const void *settings)
{
    const Lion *s = settings;
    ValueId m = formula_state(f, "exp_avg"), lr = formula_scalar(f, f->o->lr),
            step = F(f, Sign, formula_mean(f, s->beta1, m, f->grad, NO_VALUE));

    if (s->weight_decay > 0)
        step = F(f, Add, step, F(f, Mul, formula_number(f, s->weight_decay), f->w));
    formula_next(f, f->w, F(f, Sub, f->w, F(f, Mul, lr, step)));
    formula_next(f, m, formula_mean(f, s->beta2, m, f->grad, NO_VALUE));
}

static const Setting flags[] = {
    FLAG_DECAY("beta1", Lion, beta1, "0.9", "decay of the first moment"),
    FLAG_DECAY("beta2", Lion, beta2, "0.99", "decay of the second moment (lion: of the momentum)"),
    FLAG_WEIGHT_DECAY(Lion, weight_decay, "0"),
    { .name = NULL },
};

DEFINE_OPTIMIZER(lion,
                 .recipe = { .name = "lion",
                             .help = "the sign of a momentum; decoupled weight decay",
                             .flags = flags,
                             RECIPE_SETTINGS(Lion) },
                 .formula = lion_formula, .lr = "0.0001");
