/* sgd: torch.optim's SGD, with momentum and Nesterov's momentum. */
#include "graph/recipes/optimizer.h"

typedef struct {
    double momentum, weight_decay;
    bool nesterov;
} Sgd;

static void emit_update(OptimizerStep *o, const void *settings)
{
    const Sgd *s = settings;
    const Attr *attrs =
        ATTRS(FLOAT("momentum", s->momentum), INT("nesterov", s->nesterov), FLOAT("weight_decay", s->weight_decay));
    ValueId next[2], m;

    if (s->momentum == 0) {
        graph_add_update(o->g, o->w, EMIT(o->g, SgdUpdate, attrs, o->w, o->grad, o->lr, NO_VALUE, o->ok));
        return;
    }
    m = optimizer_state(o, "momentum");
    EMIT_MULTI(o->g, SgdUpdate, attrs, 2, next, o->w, o->grad, o->lr, m, o->ok);
    graph_add_update(o->g, o->w, next[0]);
    graph_add_update(o->g, m, next[1]);
}

static Status check(const void *settings)
{
    const Sgd *s = settings;

    return s->nesterov && s->momentum == 0 ? FAIL(E_INVALID, "--nesterov needs --momentum above 0") : ST_OK;
}

static const Setting flags[] = {
    FLAG_MOMENTUM(Sgd, momentum),
    { .name = "nesterov", .fallback = "false", .help = "Nesterov's momentum", SETTING_OF(Sgd, nesterov) },
    FLAG_WEIGHT_DECAY(Sgd, weight_decay, "L2 term in the gradient (adamw, lion: decoupled decay)"),
    { .name = NULL },
};

DEFINE_OPTIMIZER(sgd,
                 .recipe = { .name = "sgd",
                             .help = "stochastic gradient descent",
                             .flags = flags,
                             RECIPE_SETTINGS(Sgd),
                             .check = check },
                 .emit = emit_update);
