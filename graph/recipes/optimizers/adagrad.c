/* adagrad: torch.optim's: the sum of squares divides.
 *
 *   d = g + weight_decay w,  s' = s + d^2,  w' = w - lr d / (sqrt(s') + eps) */
#include "graph/recipes/optimizer.h"

typedef struct {
    double eps, weight_decay;
} Adagrad;

static void formula(UpdateRule *f, const void *settings)
{
    const Adagrad *s = settings;
    ValueId sum = formula_state(f, "sum"), lr = formula_scalar(f, f->o->lr), d = formula_decayed(f, s->weight_decay);
    ValueId next = F(f, Add, sum, F(f, Mul, d, d)), root = F(f, Sqrt, next);
    ValueId step = F(f, Div, d, F(f, Add, root, formula_number(f, s->eps)));

    formula_next(f, f->w, F(f, Sub, f->w, F(f, Mul, lr, step)));
    formula_next(f, sum, next);
}

static const Setting flags[] = {
    FLAG_EPS(Adagrad, eps, "1e-10"),
    FLAG_WEIGHT_DECAY(Adagrad, weight_decay, "L2 term in the gradient"),
    { .name = NULL },
};

DEFINE_OPTIMIZER(adagrad,
                 .recipe = { .name = "adagrad",
                             .help = "divides by the root of the sum of squares",
                             .flags = flags,
                             RECIPE_SETTINGS(Adagrad) },
                 .formula = formula);
