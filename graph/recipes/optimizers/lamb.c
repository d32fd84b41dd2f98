/* lamb: adam's step with decoupled weight decay, scaled to the norm of each parameter (You and others, "Large Batch
 * Optimization for Deep Learning: Training BERT in 76 minutes", 2020, algorithm 2, with phi(z) = z):
 *
 *   m' = beta1 m + (1 - beta1) g,  v' = beta2 v + (1 - beta2) g^2
 *   u = (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + eps) + weight_decay w,  w' = w - lr (|w| / |u|) u
 *
 * If |w| or |u| is 0, a case that the paper leaves open, their quotient is 1. */
#include "graph/ops/binary.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/recipes/optimizer.h"

typedef struct {
    double beta1, beta2, eps, weight_decay;
} Lamb;

static ValueId trust(Graph *g, const void *settings, const Norms *n)
{
    (void)settings;
    return formula_quotient(g, n, n->w, n->x);
}

static void lamb_formula(UpdateRule *f, const void *settings)
{
    const Lamb *s = settings;
    const ValueId m = formula_state(f, "exp_avg"), v = formula_state(f, "exp_avg_sq"),
                  c1 = formula_scalar(f, formula_correction(f, s->beta1)),
                  c2 = formula_scalar(f, formula_correction(f, s->beta2)),
                  m1 = formula_mean(f, s->beta1, m, f->grad, NO_VALUE),
                  v1 = formula_mean(f, s->beta2, v, f->grad, f->grad), lr = formula_scalar(f, f->o->lr);
    const ValueId root = F(f, Sqrt, F(f, Div, v1, c2)), under = F(f, Add, root, formula_number(f, s->eps));
    ValueId u = F(f, Div, F(f, Div, m1, c1), under);

    if (s->weight_decay > 0)
        u = F(f, Add, u, F(f, Mul, formula_number(f, s->weight_decay), f->w));
    formula_next(f, f->w, F(f, Sub, f->w, F(f, Mul, lr, F(f, Mul, formula_norm_scale(f, u, trust, s), u))));
    formula_next(f, m, m1);
    formula_next(f, v, v1);
}

static const Setting flags[] = {
    FLAG_DECAY("beta1", Lamb, beta1, "0.9", "decay of the first moment"),
    FLAG_DECAY("beta2", Lamb, beta2, "0.999", "decay of the second moment"),
    FLAG_EPS(Lamb, eps, "1e-6"),
    FLAG_WEIGHT_DECAY(Lamb, weight_decay, "0"),
    { .name = NULL },
};

DEFINE_OPTIMIZER(lamb,
                 .recipe = { .name = "lamb",
                             .help = "adamw with steps scaled to the norm of each parameter, for large batches",
                             .flags = flags,
                             RECIPE_SETTINGS(Lamb) },
                 .formula = lamb_formula);
