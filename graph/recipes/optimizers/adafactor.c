/* adafactor: divides by the root of a mean of squares, of which a matrix keeps one number a row and a column (Shazeer
 * and Stern, "Adafactor", 2018, algorithms 4 and 5; torch.optim's Adafactor).
 *
 *   s = t^DECAY,  v' = (1 - s) v + s g^2,  u = g / max(sqrt(v'), eps1)
 *   w' = w (1 - lr weight_decay) - max(eps2, rms(w)) min(lr, 1 / sqrt(t)) / max(1, rms(u) / CLIP) u
 *
 * at step t, the first being 1; rms is the root of the mean of squares.  Tensors of two axes and more keep the means of
 * v' over the last axis, r, and over the last but one, c, and use v' = r c / max(mean(r), eps1). */
#include <float.h>
#include <math.h>

#include "graph/ops/binary.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/recipes/optimizer.h"

typedef struct {
    double decay, eps1, eps2, clip, weight_decay;
} Adafactor;

static double eps1(const Adafactor *s, DType t)
{
    return s->eps1 > 0 ? s->eps1 : t == DT_FLOAT64 ? DBL_EPSILON : FLT_EPSILON;
}

/* t in float64. */
static ValueId step_number(const OptimizerStep *o)
{
    const ValueId before = emit_cast(o->g, o->step, DT_FLOAT64);

    return EMIT(o->g, Add, NULL, before, emit_scalar(o->g, DT_FLOAT64, 1));
}

/* s in float64. */
static ValueId new_share(const OptimizerStep *o, const Adafactor *s)
{
    const ValueId t = step_number(o);

    return EMIT(o->g, Pow, NULL, t, emit_scalar(o->g, DT_FLOAT64, s->decay));
}

/* max(eps2, |w| / sqrt(n)) / max(1, |u| / (sqrt(n) CLIP)) */
static ValueId adafactor_scale(Graph *g, const void *settings, const Norms *n)
{
    const Adafactor *s = settings;
    const ValueId root = emit_scalar(g, DT_FLOAT64, sqrt(n->count)),
                  limit = emit_scalar(g, DT_FLOAT64, sqrt(n->count) * s->clip),
                  eps2 = emit_scalar(g, DT_FLOAT64, s->eps2),
                  above = EMIT(g, Max, NULL, eps2, EMIT(g, Div, NULL, n->w, root)), one = emit_scalar(g, DT_FLOAT64, 1),
                  under = EMIT(g, Max, NULL, one, EMIT(g, Div, NULL, n->x, limit));

    return EMIT(g, Div, NULL, above, under);
}

/* The step from u. */
static void descend(UpdateRule *f, const Adafactor *s, ValueId u)
{
    Graph *g = f->o->g;
    const ValueId lr = formula_lr64(f), one = emit_scalar(g, DT_FLOAT64, 1),
                  bound = EMIT(g, Div, NULL, one, EMIT(g, Sqrt, NULL, step_number(f->o))),
                  rate = formula_scalar(f, EMIT(g, Min, NULL, lr, bound)),
                  scale = formula_norm_scale(f, u, adafactor_scale, s), step = F(f, Mul, F(f, Mul, rate, scale), u);
    ValueId w = f->w;

    if (s->weight_decay > 0) {
        const ValueId part = EMIT(g, Mul, NULL, lr, emit_scalar(g, DT_FLOAT64, s->weight_decay));

        w = F(f, Mul, w, formula_scalar(f, EMIT(g, Sub, NULL, one, part)));
    }
    formula_next(f, f->w, F(f, Sub, w, step));
}

static void adafactor_formula(UpdateRule *f, const void *settings)
{
    const Adafactor *s = settings;
    const ValueId v = formula_state(f, "variance"), share = formula_scalar(f, new_share(f->o, s)),
                  change = F(f, Sub, F(f, Mul, f->grad, f->grad), v), v1 = F(f, Add, v, F(f, Mul, share, change)),
                  root = F(f, Sqrt, v1), under = F(f, Max, root, formula_number(f, eps1(s, f->o->type)));

    formula_next(f, v, v1);
    descend(f, s, F(f, Div, f->grad, under));
}

/* ---- matrices ---- */

static bool is_matrix(const Value *w) { return w->shape->rank > 1; }

/* The mean of x over one axis, counted from the end; the axis stays. */
static ValueId mean_over(Graph *g, ValueId x, int64_t from_end)
{
    const int64_t axis = g->status ? 0 : value(g, x)->shape->rank - from_end;

    return emit(g, &op_ReduceMean, ATTRS(INT("keepdims", 1)), 2, (const ValueId[]){ x, emit_ints(g, 1, &axis) });
}

/* The next mean of squares over that axis. */
static ValueId next_mean(const OptimizerStep *o, ValueId w, const char *suffix, ValueId squares, ValueId share,
                         int64_t from_end)
{
    const ValueId mean = mean_over(o->g, squares, from_end);
    ValueId state, next;

    if (o->g->status)
        return NO_VALUE;
    state = direction_state(o, w, suffix, value(o->g, mean)->shape);
    next = direction_mix(o, state, mean, share);
    direction_next(o, state, next);
    return next;
}

static ValueId adafactor_direction(const OptimizerStep *o, const void *settings, ValueId w, ValueId grad)
{
    const Adafactor *s = settings;
    Graph *g = o->g;
    const double eps = eps1(s, o->type);
    const ValueId share = emit_cast(g, new_share(o, s), o->type), squares = EMIT(g, Mul, NULL, grad, grad),
                  rows = next_mean(o, w, "row_var", squares, share, 1),
                  columns = next_mean(o, w, "col_var", squares, share, 2), mean = mean_over(g, rows, 2),
                  all = EMIT(g, Max, NULL, mean, direction_number(o, eps));
    /* a row's share of all, times a column's mean */
    ValueId v = EMIT(g, Mul, NULL, EMIT(g, Div, NULL, rows, all), columns);

    v = EMIT(g, Sqrt, NULL, v);
    v = EMIT(g, Max, NULL, v, direction_number(o, eps));
    return EMIT(g, Div, NULL, grad, v);
}

static void matrix_formula(UpdateRule *f, const void *settings) { descend(f, settings, f->grad); }

static const Setting flags[] = {
    { .name = "beta2-decay",
      .metavar = "X",
      .fallback = "-0.8",
      .help = "step N has the share N^X in the second moment",
      SETTING_OF(Adafactor, decay),
      .min = -100,
      .max = 0 },
    { .name = "eps1",
      .metavar = "X",
      .fallback = "0",
      .help = "smallest root of the second moment; 0: the type's epsilon",
      SETTING_OF(Adafactor, eps1),
      .min = 0,
      .max = 1 },
    { .name = "eps2",
      .metavar = "X",
      .fallback = "1e-3",
      .help = "smallest RMS of a parameter that a step is scaled by",
      SETTING_OF(Adafactor, eps2),
      .min = 0,
      .max = SETTING_REAL_MAX },
    { .name = "clip-threshold",
      .metavar = "X",
      .fallback = "1",
      .help = "largest RMS of a step, before the learning rate",
      SETTING_OF(Adafactor, clip),
      .min = 1,
      .max = SETTING_REAL_MAX },
    FLAG_WEIGHT_DECAY(Adafactor, weight_decay, "0"),
    { .name = NULL },
};

DEFINE_OPTIMIZER(adafactor,
                 .recipe = { .name = "adafactor",
                             .help = "steps relative to the parameter's size; the second moment of a matrix keeps one "
                                     "number per row and column",
                             .flags = flags,
                             RECIPE_SETTINGS(Adafactor) },
                 .formula = adafactor_formula, .matrix = { is_matrix, adafactor_direction, matrix_formula });
