/* schedule-free-adamw: adamw without momentum, whose iterates are averaged in place of a falling learning rate (Defazio
 * and others, "The Road Less Scheduled", 2024, algorithm 1; the package schedulefree's AdamWScheduleFree).
 *
 * Gradients are taken at the parameter y, a point between the iterate z and the mean x:
 *
 *   v' = beta2 v + (1 - beta2) g^2,  d = g / (sqrt(v' / (1 - beta2^t)) + eps) + weight_decay y
 *   z' = z - lr d,  x' = (1 - c) x + c z',  y' = (1 - beta1) z' + beta1 x'
 *
 * at step t, the first being 1, from z = x = y.  A step weighs t^POWER times the highest rate so far to the power
 * LR_POWER; c is its share of the weights so far, 0 if these are 0.  x is state PARAM.ema. */
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"
#include "graph/recipes/optimizer.h"

typedef struct {
    double beta1, beta2, eps, weight_decay, power, lr_power;
} ScheduleFree;

/* c, in float64. */
static ValueId share(UpdateRule *f, const ScheduleFree *s)
{
    Graph *g = f->o->g;
    const ValueId most = formula_shared(f, "lr_max"), sum = formula_shared(f, "weight_sum"),
                  zero = emit_scalar(g, DT_FLOAT64, 0), top = EMIT(g, Max, NULL, most, formula_lr64(f)),
                  before = emit_cast(g, f->o->step, DT_FLOAT64),
                  t = EMIT(g, Add, NULL, before, emit_scalar(g, DT_FLOAT64, 1)),
                  by_step = EMIT(g, Pow, NULL, t, emit_scalar(g, DT_FLOAT64, s->power)),
                  by_rate = EMIT(g, Pow, NULL, top, emit_scalar(g, DT_FLOAT64, s->lr_power)),
                  weight = EMIT(g, Mul, NULL, by_step, by_rate), all = EMIT(g, Add, NULL, sum, weight),
                  none = EMIT(g, Equal, NULL, all, zero);

    formula_shared_next(f, most, top);
    formula_shared_next(f, sum, all);
    return EMIT(g, Where, NULL, none, zero, EMIT(g, Div, NULL, weight, all));
}

static void schedule_free_formula(UpdateRule *f, const void *settings)
{
    const ScheduleFree *s = settings;
    Graph *g = f->o->g;
    const ValueId z = formula_state(f, "z"), x = formula_state(f, EMA_SUFFIX), v = formula_state(f, "exp_avg_sq"),
                  first = formula_is_first(f), lr = formula_scalar(f, f->o->lr),
                  correction = formula_scalar(f, formula_correction(f, s->beta2)), c64 = share(f, s),
                  c = formula_scalar(f, c64),
                  keep = formula_scalar(f, EMIT(g, Sub, NULL, emit_scalar(g, DT_FLOAT64, 1), c64)),
                  z0 = F(f, Where, first, f->w, z), x0 = F(f, Where, first, f->w, x),
                  v1 = formula_mean(f, s->beta2, v, f->grad, f->grad), root = F(f, Sqrt, F(f, Div, v1, correction));
    ValueId d = F(f, Div, f->grad, F(f, Add, root, formula_number(f, s->eps))), z1, x1;

    if (s->weight_decay > 0)
        d = F(f, Add, d, F(f, Mul, formula_number(f, s->weight_decay), f->w));
    z1 = F(f, Sub, z0, F(f, Mul, lr, d));
    x1 = F(f, Mul, keep, x0);
    x1 = F(f, Add, x1, F(f, Mul, c, z1));
    formula_next(f, f->w, formula_mean(f, s->beta1, x1, z1, NO_VALUE));
    formula_next(f, z, z1);
    formula_next(f, x, x1);
    formula_next(f, v, v1);
}

#define POWER(flag, field, value, what)                                                                           \
    {                                                                                                             \
        .name = flag, .metavar = "X", .fallback = value, .help = what, SETTING_OF(ScheduleFree, field), .min = 0, \
        .max = 100                                                                                                \
    }

static const Setting flags[] = {
    FLAG_DECAY("beta1", ScheduleFree, beta1, "0.9",
               "decay of the first moment (schedule-free-adamw: share of the mean in the parameter)"),
    FLAG_DECAY("beta2", ScheduleFree, beta2, "0.999", "decay of the second moment"),
    FLAG_EPS(ScheduleFree, eps, "1e-8"),
    FLAG_WEIGHT_DECAY(ScheduleFree, weight_decay, "0"),
    POWER("average-power", power, "0", "step N has the weight N^X in the average"),
    POWER("average-lr-power", lr_power, "2",
          "a step has the weight R^X in the average, R the highest learning rate so far"),
    { .name = NULL },
};

DEFINE_OPTIMIZER(schedule_free_adamw,
                 .recipe = { .name = "schedule-free-adamw",
                             .help = "adamw that averages its parameters in place of a falling learning rate",
                             .flags = flags,
                             RECIPE_SETTINGS(ScheduleFree) },
                 .formula = schedule_free_formula, .lr = "0.0025", .averages = true);
