/* muon: steps along the orthogonalized momentum of matrices (Jordan and others, "Muon: An optimizer for hidden layers
 * in neural networks", 2024; torch.optim's Muon).
 *
 *   m' = momentum m + (1 - momentum) g,  u = momentum m' + (1 - momentum) g, without Nesterov's momentum m'
 *   w' = w (1 - lr weight_decay) - lr a NS(u)
 *
 * NS(u) approaches U V' of u = U S V': Newton and Schulz' iteration x' = a x + (b A + c A A) x, A = x x', from u
 * divided by its Frobenius norm.  a is 0.2 sqrt(max(out, in)), which gives a step the size of adamw's (Liu and others,
 * "Muon is Scalable for LLM Training", 2025), or sqrt(max(1, out / in)).
 *
 * Embeddings, weights of the last layer, vectors and single numbers are updated by adamw. */
#include <math.h>

#include "graph/ops/binary.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/recipes/optimizer.h"

typedef struct {
    Adam adam; /* for all others; its weight decay holds for matrices, too */
    double momentum;
    int64_t steps;
    bool nesterov, original;
} Muon;

static const double EPS = 1e-7;                          /* least norm */
static const double A = 3.4445, B = -4.7750, C = 2.0315; /* of the iteration */

static bool is_hidden(const Value *w) { return w->matrix != MATRIX_NONE; }

/* Transposes the last two axes. */
static ValueId flip(Graph *g, ValueId x)
{
    int64_t perm[MAX_RANK];
    const int rank = g->status ? 0 : value(g, x)->shape->rank;

    if (rank < 2)
        return NO_VALUE;
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return emit_transpose(g, x, rank, perm);
}

/* NS(x) of matrices [..., rows, columns], rows <= columns. */
static ValueId orthogonalize(const OptimizerStep *o, const Muon *s, ValueId x)
{
    Graph *g = o->g;
    const int rank = g->status ? 2 : value(g, x)->shape->rank;
    const int64_t axes[] = { rank - 2, rank - 1 };
    const ValueId norm = EMIT(g, Sqrt, NULL, emit_reduce_sum(g, EMIT(g, Mul, NULL, x, x), 2, axes, true)),
                  a = direction_number(o, A), b = direction_number(o, B), c = direction_number(o, C);

    x = EMIT(g, Div, NULL, x, EMIT(g, Max, NULL, norm, direction_number(o, EPS)));
    for (int64_t i = 0; i < s->steps && !g->status; i++) {
        const ValueId gram = EMIT(g, MatMul, NULL, x, flip(g, x)), square = EMIT(g, MatMul, NULL, gram, gram),
                      linear = EMIT(g, Mul, NULL, b, gram),
                      factor = EMIT(g, Add, NULL, linear, EMIT(g, Mul, NULL, c, square)),
                      change = EMIT(g, MatMul, NULL, factor, x);

        x = EMIT(g, Add, NULL, EMIT(g, Mul, NULL, a, x), change);
    }
    return x;
}

/* The shape of a parameter as matrices [..., rows, columns]. */
static Shape matrices(const Value *w)
{
    Shape s = *w->shape;

    if (w->matrix == MATRIX_FLAT)
        s = (Shape){ 2, { s.dim[0], s.dim[0] ? shape_numel(w->shape) / s.dim[0] : 0 } };
    return s;
}

static double scale(const Muon *s, const Shape *m, bool in_out)
{
    const double rows = (double)m->dim[m->rank - 2], columns = (double)m->dim[m->rank - 1],
                 out = in_out ? columns : rows, in = in_out ? rows : columns;

    return s->original ? sqrt(fmax(1, out / in)) : 0.2 * sqrt(fmax(out, in));
}

static ValueId muon_direction(const OptimizerStep *o, const void *settings, ValueId w, ValueId grad)
{
    const Muon *s = settings;
    Graph *g = o->g;
    const Shape whole = *value(g, w)->shape, m = matrices(value(g, w));
    const bool tall = m.dim[m.rank - 2] > m.dim[m.rank - 1];
    const double by = scale(s, &m, value(g, w)->matrix == MATRIX_IN_OUT);
    const ValueId state = direction_state(o, w, "momentum_buffer", &whole),
                  next = direction_mix(o, state, grad, direction_number(o, 1 - s->momentum));
    ValueId x = s->nesterov ? direction_mix(o, grad, next, direction_number(o, s->momentum)) : next;

    direction_next(o, state, next);
    x = emit_reshape(g, x, &m);
    x = orthogonalize(o, s, tall ? flip(g, x) : x);
    x = emit_reshape(g, tall ? flip(g, x) : x, &whole);
    return EMIT(g, Mul, NULL, x, direction_number(o, by));
}

static void matrix_formula(UpdateRule *f, const void *settings)
{
    const Muon *s = settings;
    Graph *g = f->o->g;
    const ValueId lr = formula_scalar(f, f->o->lr), step = F(f, Mul, lr, f->grad);
    ValueId w = f->w;

    if (s->adam.weight_decay > 0) {
        const ValueId lr64 = formula_lr64(f),
                      part = EMIT(g, Mul, NULL, lr64, emit_scalar(g, DT_FLOAT64, s->adam.weight_decay));

        w = F(f, Mul, w, formula_scalar(f, EMIT(g, Sub, NULL, emit_scalar(g, DT_FLOAT64, 1), part)));
    }
    formula_next(f, f->w, F(f, Sub, w, step));
}

static void muon_formula(UpdateRule *f, const void *settings)
{
    formula_adam(f, &((const Muon *)settings)->adam, true);
}

static const Setting flags[] = {
    FLAG_MOMENTUM(Muon, momentum, "0.95"),
    { .name = "nesterov", .fallback = "true", .help = "Nesterov's momentum", SETTING_OF(Muon, nesterov) },
    { .name = "ns-steps",
      .metavar = "N",
      .fallback = "5",
      .help = "steps of the Newton-Schulz iteration",
      SETTING_OF(Muon, steps),
      .min = 1,
      .max = 99 },
    { .name = "adjust-lr",
      .metavar = "HOW",
      .fallback = "match-rms-adamw",
      .help = "factor of a matrix's learning rate: match-rms-adamw, 0.2 sqrt(max(out, in)); original, sqrt(max(1, out "
              "/ in))",
      SETTING_CHOICE_OF(Muon, original, "match-rms-adamw|original") },
    FLAG_DECAY("beta1", Muon, adam.beta1, "0.9", "decay of the first moment (muon: of other tensors)"),
    FLAG_DECAY("beta2", Muon, adam.beta2, "0.95", "decay of the second moment (muon: of other tensors)"),
    FLAG_EPS(Muon, adam.eps, "1e-10"),
    FLAG_WEIGHT_DECAY(Muon, adam.weight_decay, "0.1"),
    { .name = NULL },
};

DEFINE_OPTIMIZER(muon,
                 .recipe = { .name = "muon",
                             .help = "orthogonalized momentum for matrices; adamw for embeddings, the last layer and "
                                     "vectors",
                             .flags = flags,
                             RECIPE_SETTINGS(Muon) },
                 .formula = muon_formula, .lr = "0.001", .others = "adamw",
                 .matrix = { is_hidden, muon_direction, matrix_formula });
