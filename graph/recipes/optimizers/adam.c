/* adam, and adamw, which differs in where the weight decays: torch.optim's. */
#include "graph/recipes/optimizer.h"

typedef struct {
    double beta1, beta2, eps, weight_decay;
} Adam;

static void emit_update(OptimizerStep *o, const Adam *s, bool decoupled)
{
    const Attr *attrs = ATTRS(FLOAT("beta1", s->beta1), FLOAT("beta2", s->beta2), FLOAT("eps", s->eps),
                              FLOAT("weight_decay", s->weight_decay), INT("decoupled", decoupled));
    ValueId m = optimizer_state(o, "exp_avg"), v, next[3];

    v = optimizer_state(o, "exp_avg_sq");
    EMIT_MULTI(o->g, AdamUpdate, attrs, 3, next, o->w, o->grad, o->lr, m, v, o->step, o->ok);
    graph_add_update(o->g, o->w, next[0]);
    graph_add_update(o->g, m, next[1]);
    graph_add_update(o->g, v, next[2]);
}

static void emit_adam(OptimizerStep *o, const void *settings) { emit_update(o, settings, false); }
static void emit_adamw(OptimizerStep *o, const void *settings) { emit_update(o, settings, true); }

#define FLAGS(decay)                                                                                              \
    (const Setting[])                                                                                             \
    {                                                                                                             \
        FLAG_DECAY("beta1", Adam, beta1, "0.9", "decay of the first moment"),                                     \
            FLAG_DECAY("beta2", Adam, beta2, "0.999", "decay of the second moment"), FLAG_EPS(Adam, eps, "1e-8"), \
            FLAG_WEIGHT_DECAY(Adam, weight_decay, decay),                                                         \
        {                                                                                                         \
            .name = NULL                                                                                          \
        }                                                                                                         \
    }

DEFINE_OPTIMIZER(adam,
                 .recipe = { .name = "adam",
                             .help = "moments of the gradient, corrected for their start",
                             .flags = FLAGS("L2 term in the gradient"),
                             RECIPE_SETTINGS(Adam) },
                 .emit = emit_adam);
DEFINE_OPTIMIZER(adamw,
                 .recipe = { .name = "adamw",
                             .help = "adam with decoupled weight decay",
                             .flags = FLAGS("decoupled decay"),
                             RECIPE_SETTINGS(Adam) },
                 .emit = emit_adamw);
