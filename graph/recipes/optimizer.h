/* The definition of an optimizer: a parameter's new value and states as a formula of its gradient. */
#ifndef DPX_OPTIMIZER_H
#define DPX_OPTIMIZER_H

#include "graph/ir/emit.h"
#include "graph/recipes/recipe.h"

/* A training step, for the formula of parameters of one type. */
typedef struct {
    Graph *g;
    DType type;
    ValueId lr;   /* 0-d, of any type */
    ValueId step; /* int64 0-d: number of earlier updates */
    ValueId ok;   /* condition on which the update happens; NO_VALUE: always */
    double clip;  /* limit of each element of a gradient; 0: none */
    double ema;   /* decay of a mean of the parameters; 0: none */
    bool pieces;  /* gradients and states may be cut into pieces (--shard) */
    int group;    /* the number of the group of parameters; 0: of those in no group */
} OptimizerStep;

#define EMA_SUFFIX "ema" /* of the state that is the mean of a parameter */

/* Two norms in float64: of a parameter and of another tensor of its shape, of `count` elements. */
typedef struct {
    ValueId w, x;
    double count;
} Norms;

/* Emits into g the factor of a parameter's updates, in float64. */
typedef ValueId NormScale(Graph *g, const void *settings, const Norms *n);

/* Emits into o->g, from a whole gradient, the tensor that stands for it in the formula. */
typedef ValueId Direction(const OptimizerStep *o, const void *settings, ValueId w, ValueId grad);

/* The update as a formula of one element: elementwise operators on values whose type is not set yet. */
enum { FORMULA_STATES = 8, FORMULA_SCALARS = 16 };
typedef struct {
    Graph *g; /* the formula */
    const OptimizerStep *o;
    ValueId w, grad, given_grad;                         /* given_grad: before clipping */
    ValueId state[FORMULA_STATES], next[FORMULA_STATES]; /* w is the first */
    const char *suffix[FORMULA_STATES];
    int n_state;
    ValueId scalar[FORMULA_SCALARS], given[FORMULA_SCALARS]; /* inputs of the formula, and their values in o->g */
    int n_scalar;
    struct {
        ValueId of; /* NO_VALUE: none */
        int scalar;
        NormScale *scale;
        const void *settings;
    } norm;               /* a scalar whose value differs between parameters */
    Direction *direction; /* NULL: none */
    const void *settings; /* for it */
} UpdateRule;

typedef struct {
    Recipe recipe;
    void (*formula)(UpdateRule *f, const void *settings); /* failure is sticky in f->o->g or f->g */
    /* Optional: another rule for some parameters, those that `takes`. */
    struct {
        bool (*takes)(const Value *w);
        Direction *direction;
        void (*formula)(UpdateRule *f, const void *settings);
    } matrix;
    const char
        *others;    /* its rule for matrices is for hidden ones (Value.matrix); all others are updated by this one */
    const char *lr; /* the learning rate where none is given; NULL: that of all */
    bool of_file;   /* no formula: the model's own updates are used (Value.next) */
    bool averages;  /* keeps state PARAM.ema, which evaluations and exports use in place of PARAM */
} OptimizerDef;

#define DEFINE_OPTIMIZER(ident, ...) const OptimizerDef optimizer_##ident = { __VA_ARGS__ }

/* Does the optimizer's rule for matrices update this parameter? */
bool optimizer_takes_matrix(const OptimizerDef *def, const Value *w);
/* Builds the formula for parameters of o->type, and emits its scalars into o->g.  `matrix`: by the rule for matrices.
 * The caller frees out->g. */
Status optimizer_formula(UpdateRule *out, const OptimizerStep *o, const OptimizerDef *def, const void *settings,
                         bool matrix) CHECKED;
/* Adds the update of parameter w, of that type, to the step's graph. */
void optimizer_emit(const UpdateRule *f, ValueId w, ValueId grad);

/* ---- parts of formulas ---- */

ValueId formula_node(UpdateRule *f, const OpDef *op, int n, const ValueId *in);
/* F(f, Mul, x, y) adds a node; nest at most one inside another, like EMIT. */
#define F(f, Op, ...) formula_node((f), &op_##Op, EMIT_N(__VA_ARGS__), (const ValueId[]){ __VA_ARGS__ })
/* The number rounded to the parameters' type. */
ValueId formula_number(UpdateRule *f, double v);
/* A scalar of the training graph as an input: f->o->lr, or a value in float64, rounded once to the parameters' type. */
ValueId formula_scalar(UpdateRule *f, ValueId v);
/* The learning rate in float64, rounded to the parameters' type first, for computing other scalars. */
ValueId formula_lr64(const UpdateRule *f);
/* Adds state PARAM.suffix, which starts as zeros and must get a next value; `suffix` is a literal. */
ValueId formula_state(UpdateRule *f, const char *suffix);
/* A float64 number that the parameters of a group share from step to step: state NAME, or NAME.k of group k, which
 * starts as 0.  Its next value is computed in f->o->g; all formulas of a group give it the same. */
ValueId formula_shared(UpdateRule *f, const char *name);
void formula_shared_next(UpdateRule *f, ValueId state, ValueId next);
/* Is this the first update?  A scalar of the formula. */
ValueId formula_is_first(UpdateRule *f);
/* A scalar that is computed for each parameter from the norms of w and of x, any value of the formula so far.
 * `settings` must outlive the formula.  At most once in a formula. */
ValueId formula_norm_scale(UpdateRule *f, ValueId x, NormScale *scale, const void *settings);
/* above / under, or 1 if one of the norms is 0; for a NormScale. */
ValueId formula_quotient(Graph *g, const Norms *n, ValueId above, ValueId under);
/* 1 - beta^t in float64 at step t, the first being 1: corrects a mean of decay beta for its start at zero. */
ValueId formula_correction(const UpdateRule *f, double beta);
/* beta x + ((1 - beta) y) [z] */
ValueId formula_mean(UpdateRule *f, double beta, ValueId x, ValueId y, ValueId z);
/* grad + weight_decay w */
ValueId formula_decayed(UpdateRule *f, double weight_decay);
void formula_next(UpdateRule *f, ValueId state, ValueId next); /* state: f->w, or a result of formula_state */

/* The settings and formula of adam; `decoupled`: of adamw. */
typedef struct {
    double beta1, beta2, eps, weight_decay;
    bool amsgrad;
} Adam;
void formula_adam(UpdateRule *f, const Adam *s, bool decoupled);

/* ---- parts of directions ---- */

/* Adds state PARAM.suffix of this shape, which starts as zeros. */
ValueId direction_state(const OptimizerStep *o, ValueId w, const char *suffix, const Shape *shape);
/* Gives it its next value, unless the update does not happen. */
void direction_next(const OptimizerStep *o, ValueId state, ValueId next);
/* x + by (y - x) */
ValueId direction_mix(const OptimizerStep *o, ValueId x, ValueId y, ValueId by);
ValueId direction_number(const OptimizerStep *o, double v);

/* Flags that several optimizers have. */
#define FLAG_WEIGHT_DECAY(Struct, field, value)                                               \
    {                                                                                         \
        .name = "weight-decay", .metavar = "X", .fallback = value,                            \
        .help = "weight decay, decoupled or as an L2 term in the gradient, by the optimizer", \
        SETTING_OF(Struct, field), .min = 0, .max = SETTING_REAL_MAX                          \
    }
#define FLAG_MOMENTUM(Struct, field, value)                                                                       \
    {                                                                                                             \
        .name = "momentum", .metavar = "X", .fallback = value,                                                    \
        .help = "share of the last update that goes into the next", SETTING_OF(Struct, field), .min = 0, .max = 1 \
    }
#define FLAG_DECAY(flag, Struct, field, value, what)                                                        \
    {                                                                                                       \
        .name = flag, .metavar = "X", .fallback = value, .help = what, SETTING_OF(Struct, field), .min = 0, \
        .max = 0.9999999999                                                                                 \
    }
#define FLAG_EPS(Struct, field, value)                                                        \
    {                                                                                         \
        .name = "eps", .metavar = "X", .fallback = value, .help = "added to the denominator", \
        SETTING_OF(Struct, field), .min = 0, .max = 1                                         \
    }

#include "graph/recipes/optimizers.gen.h"

#endif
