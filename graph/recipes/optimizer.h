/* An optimizer: how a parameter follows from its gradient, and what it remembers besides. */
#ifndef DPX_OPTIMIZER_H
#define DPX_OPTIMIZER_H

#include "graph/ir/emit.h"
#include "graph/recipes/recipe.h"

/* A step of training, as the formula for parameters of one type sees it. */
typedef struct {
    Graph *g;
    DType type;
    ValueId lr;   /* 0-d, of any type */
    ValueId step; /* int64 0-d: updates done before this one */
    ValueId ok;   /* whether the update happens; NO_VALUE: always */
    double clip;  /* the most of each element of a gradient; 0: unbounded */
    double ema;   /* decay of a mean of the parameters; 0: none */
    bool pieces;  /* gradients and states may be cut into pieces (--shard) */
} OptimizerStep;

#define EMA_SUFFIX "ema"

/* What a parameter's updates are multiplied by, in float64, of the norms of the parameter and of another of its
 * tensors; emitted into g. */
typedef ValueId NormScale(Graph *g, const void *settings, ValueId w, ValueId x);

/* The update as a formula of one element: elementwise operators over values of no type yet. */
enum { FORMULA_STATES = 8, FORMULA_SCALARS = 16 };
typedef struct {
    Graph *g; /* of the formula */
    const OptimizerStep *o;
    ValueId w, grad, given_grad;                         /* given_grad: before each element is clipped */
    ValueId state[FORMULA_STATES], next[FORMULA_STATES]; /* w first */
    const char *suffix[FORMULA_STATES];
    int n_state;
    ValueId scalar[FORMULA_SCALARS], given[FORMULA_SCALARS]; /* given: in o->g */
    int n_scalar;
    struct {
        ValueId of; /* NO_VALUE: none */
        int scalar;
        NormScale *scale;
        const void *settings;
    } norm; /* what is given differs from parameter to parameter */
} UpdateRule;

typedef struct {
    Recipe recipe;
    void (*formula)(UpdateRule *f, const void *settings); /* failure is sticky in f->o->g or f->g */
    bool of_file; /* there is none: updates are those that the model comes with (Value.next) */
} OptimizerDef;

#define DEFINE_OPTIMIZER(ident, ...) const OptimizerDef optimizer_##ident = { __VA_ARGS__ }

/* The formula for parameters of o->type; what it needs of scalars is emitted into o->g.  The caller frees out->g. */
Status optimizer_formula(UpdateRule *out, const OptimizerStep *o, const OptimizerDef *def,
                         const void *settings) CHECKED;
/* Appends the update of parameter w of that type to its step's graph. */
void optimizer_emit(const UpdateRule *f, ValueId w, ValueId grad);

/* ---- what formulas are made of ---- */

ValueId formula_node(UpdateRule *f, const OpDef *op, int n, const ValueId *in);
/* F(f, Mul, x, y); at most one inside another, as EMIT. */
#define F(f, Op, ...) formula_node((f), &op_##Op, EMIT_N(__VA_ARGS__), (const ValueId[]){ __VA_ARGS__ })
/* The number rounded to the parameters' type. */
ValueId formula_number(UpdateRule *f, double v);
/* A scalar of the graph of training: f->o->lr, or what was emitted there in float64, rounded once. */
ValueId formula_scalar(UpdateRule *f, ValueId v);
/* The learning rate in float64, as the parameters' type has it: what to compute other scalars with. */
ValueId formula_lr64(const UpdateRule *f);
/* State PARAM.suffix, a literal, which starts as zeros and must be given its next value. */
ValueId formula_state(UpdateRule *f, const char *suffix);
/* A scalar of each parameter by itself, of the norms of w and of x, which may be any value of the formula so far;
 * `settings` must outlive the formula.  Once in a formula. */
ValueId formula_norm_scale(UpdateRule *f, ValueId x, NormScale *scale, const void *settings);
/* above / under, or 1 where one of two norms is 0; for a NormScale. */
ValueId formula_quotient(Graph *g, ValueId w, ValueId x, ValueId above, ValueId under);
/* 1 - beta^t at step t, the first being 1, in float64: what corrects a mean of decay beta for its start at zero. */
ValueId formula_correction(const UpdateRule *f, double beta);
/* beta x + ((1 - beta) y) [z] */
ValueId formula_mean(UpdateRule *f, double beta, ValueId x, ValueId y, ValueId z);
/* grad + weight_decay w */
ValueId formula_decayed(UpdateRule *f, double weight_decay);
void formula_next(UpdateRule *f, ValueId state, ValueId next); /* state: f->w, or of formula_state */

/* Flags that several optimizers have. */
#define FLAG_WEIGHT_DECAY(Struct, field, what)                                                                      \
    {                                                                                                               \
        .name = "weight-decay", .metavar = "X", .fallback = "0", .help = what, SETTING_OF(Struct, field), .min = 0, \
        .max = SETTING_REAL_MAX                                                                                     \
    }
#define FLAG_MOMENTUM(Struct, field)                                                                                   \
    {                                                                                                                  \
        .name = "momentum", .metavar = "X", .fallback = "0", .help = "share of the last step that goes into the next", \
        SETTING_OF(Struct, field), .min = 0, .max = 1                                                                  \
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
