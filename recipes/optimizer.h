/* An optimizer: how a parameter follows from its gradient, and what it remembers besides. */
#ifndef DPX_OPTIMIZER_H
#define DPX_OPTIMIZER_H

#include "graph/emit.h"
#include "recipes/recipe.h"

/* The update of one parameter. */
typedef struct {
    Graph *g;
    ValueId w, grad;
    ValueId lr;   /* 0-d, of w's type */
    ValueId step; /* int64 0-d: updates done before this one */
    ValueId ok;   /* whether the update happens; NO_VALUE: always */
} OptimizerStep;

typedef struct {
    Recipe recipe;
    void (*emit)(OptimizerStep *o, const void *settings); /* failure is sticky in o->g */
} OptimizerDef;

#define DEFINE_OPTIMIZER(ident, ...) const OptimizerDef optimizer_##ident = { __VA_ARGS__ }

/* State PARAM.suffix, zeros, of the parameter's type, shape and layout. */
ValueId optimizer_state(OptimizerStep *o, const char *suffix);

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

#include "recipes/optimizers.gen.h"

#endif
