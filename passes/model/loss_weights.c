/* Weights of a loss: constants that only multiply the loss's terms, by class or by sample.
 *
 * A loss that such a tensor multiplies is least where the tensor is -inf: nobody trains it.  From the tensor to the
 * loss everything is linear in it (products with what does not depend on it, sums, means, a ratio of two sums), and
 * some product is with what the model's own weights decide.  What passes a logarithm, an exponential or a product of
 * matrices is learned: temperatures, log-variances, class centres.
 *
 * Example: mean(-(pos_weight * t * log(s) + (1 - t) * log(1 - s))) is linear in pos_weight. */
#include "graph/recipes/loss.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/unary.gen.h"
#include "passes/model/parameters.h"
#include "passes/options/recipes.h"

typedef struct {
    Reach *r;
    const bool *is_loss; /* [n_output] */
    bool *of_weights;    /* by value id: depends on what stands where weights do */
    bool *other;         /* by value id: an output that is no loss depends on it */
    bool *depends;       /* by value id: on the tensor at hand */
} Weights;

static bool stands_as_weight(const Reach *r, const Node *n, int i)
{
    return has_value(n->in[i]) && r->constant[n->in[i].i] && n->op->param_in && !(n->op->flags & OPF_PARAM_MAYBE) &&
           i < 8 && n->op->param_in >> i & 1;
}

static void find_of_weights(Weights *w)
{
    FOR_NODES(w->r->g, n) {
        bool any = false;

        for (int i = 0; n->op && i < n->n_in; i++)
            any = any || stands_as_weight(w->r, n, i) || (has_value(n->in[i]) && w->of_weights[n->in[i].i]);
        for (int i = 0; i < n->n_out; i++)
            w->of_weights[n->out[i].i] |= any && has_value(n->out[i]);
    }
}

/* Returns whether there is such an output, of what weights decide. */
static bool find_other(Weights *w)
{
    const Graph *g = w->r->g;
    bool any = false;

    for (int i = 0; i < g->n_output; i++)
        if (!w->is_loss[i]) {
            w->other[g->output[i].value.i] = true;
            any = any || w->of_weights[g->output[i].value.i];
        }
    for (uint32_t k = g->n_node; k-- > 0;) {
        const Node *n = g->node[k];
        bool other = false;

        for (int i = 0; i < n->n_out; i++)
            other = other || (has_value(n->out[i]) && w->other[n->out[i].i]);
        for (int i = 0; other && i < n->n_in; i++)
            w->other[n->in[i].i] |= has_value(n->in[i]);
    }
    return any;
}

/* ---- one tensor ---- */

static bool depends_in(const Weights *w, const Node *n, int i) { return has_in(n, i) && w->depends[n->in[i].i]; }

/* Is output 0 linear in the inputs that depend on the tensor, all of which are floats of data?  `weighs` is set where a
 * product is with what weights decide. */
static bool is_linear(const Weights *w, const Node *n, bool *weighs)
{
    if (n->op == &op_Mul) {
        const int at = depends_in(w, n, 1);

        *weighs = *weighs || w->of_weights[n->in[1 - at].i];
        return !depends_in(w, n, 1 - at);
    }
    if (n->op == &op_Div)
        return depends_in(w, n, 0);
    if (n->op == &op_Sub || n->op == &op_Neg || n->op == &op_Mean || n->op->flags & OPF_SUM)
        return true;
    for (int i = 0; i < n->n_in; i++)
        if (depends_in(w, n, i) && !op_moves(n->op, i) &&
            !(i == 0 && (n->op == &op_ReduceSum || n->op == &op_ReduceMean)))
            return false;
    return true;
}

/* Does a derivative pass from an input that depends on the tensor? */
static bool passes(const Weights *w, const Node *n)
{
    bool any = false, floats = false;

    for (int i = 0; i < n->n_in; i++)
        any = any || (depends_in(w, n, i) && !(i < 8 && n->op->setting_in >> i & 1));
    for (int i = 0; i < n->n_out; i++)
        floats = floats || (has_value(n->out[i]) && dtype_is_float(value(w->r->g, n->out[i])->dtype));
    return any && floats && !(n->op->flags & OPF_SHAPE_ONLY);
}

static bool only_weighs(Weights *w, uint32_t tensor)
{
    const Graph *g = w->r->g;
    bool weighs = false, reaches = false;

    for (uint32_t i = 1; i < g->n_value; i++)
        w->depends[i] = i == tensor;
    FOR_NODES(g, n) {
        if (!n->op || !w->r->live[n->index] || !passes(w, n))
            continue;
        if (!is_linear(w, n, &weighs))
            return false;
        for (int i = 0; i < n->n_out; i++)
            w->depends[n->out[i].i] |= has_value(n->out[i]);
    }
    for (int i = 0; i < g->n_output; i++)
        reaches = reaches || w->depends[g->output[i].value.i];
    return weighs && reaches;
}

/* ---- all of them ---- */

/* A number, or what --loss names. */
static Status find_losses(bool *is_loss, bool *any, const Graph *g, const BuildOptions *opt)
{
    RecipeSettings s;
    const bool own = loss_is_output(opt);

    if (own)
        TRY(recipe_take(&s, &recipe_options(opt)->loss->recipe, "loss", recipe_options(opt)->loss_args,
                        recipe_options(opt)->settings, g->arena));
    for (int i = 0; i < g->n_output; i++) {
        const Value *v = value(g, g->output[i].value);

        is_loss[i] = dtype_is_float(v->dtype) && ((shape_known(v->shape) && v->shape->rank == 0) ||
                                                  (own && recipe_options(opt)->loss->is_loss(&s, g->output[i].name)));
        *any = *any || is_loss[i];
    }
    return ST_OK;
}

Status loss_weights_find(Reach *r, const BuildOptions *opt, Arena *a)
{
    const Graph *g = r->g;
    bool *is_loss = ARENA_NEW(a, bool, (size_t)g->n_output + 1), any = false, others;
    Weights w = { .r = r,
                  .is_loss = is_loss,
                  .of_weights = ARENA_NEW(a, bool, g->n_value),
                  .other = ARENA_NEW(a, bool, g->n_value),
                  .depends = ARENA_NEW(a, bool, g->n_value) };

    r->weighs = ARENA_NEW(a, bool, g->n_value);
    r->of_loss = ARENA_NEW(a, bool, g->n_value);
    if (!is_loss || !w.of_weights || !w.other || !w.depends || !r->weighs || !r->of_loss)
        return FAIL_NOMEM();
    if (loss_has_target(opt))
        return ST_OK;
    TRY(find_losses(is_loss, &any, g, opt));
    if (!any)
        return ST_OK;
    find_of_weights(&w);
    others = find_other(&w);
    for (uint32_t i = 1; i < g->n_value; i++) {
        if (g->value[i]->kind != V_CONST || !(r->reach[i] & ~REACH_SETTING) || w.other[i])
            continue;
        r->of_loss[i] = others;
        r->weighs[i] = only_weighs(&w, i);
    }
    return ST_OK;
}
