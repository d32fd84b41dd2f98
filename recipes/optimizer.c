/* What optimizers share. */
#include "recipes/optimizer.h"

ValueId optimizer_state(OptimizerStep *o, const char *suffix)
{
    const Value *w = value(o->g, o->w);
    const char *name = arena_printf(o->g->arena, "%s.%s", w->name, suffix);
    const Tensor *zero = tensor_create(o->g->arena, w->dtype, &w->shape);
    ValueId v;

    if (!name || !zero) {
        graph_fail_nomem(o->g);
        return NO_VALUE;
    }
    v = graph_add_const_nocopy(o->g, name, zero);
    if (has_value(v)) {
        value(o->g, v)->kind = V_STATE;
        value(o->g, v)->layout = w->layout;
    }
    return v;
}
