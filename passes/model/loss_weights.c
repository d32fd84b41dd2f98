/* Recognition of a loss's weights: constants that only multiply its terms, by class or by sample.
 *
 * Nobody trains such a tensor, since the loss is least where the tensor is -inf.  The loss is linear in it: only sums,
 * means, ratios of two sums, and products with values that do not depend on it lie between, and one of these values
 * depends on the model's own weights.  A tensor that passes a logarithm, an exponential or a matrix product is learned:
 * a temperature, a log-variance, a class centre.
 *
 * Example: mean(-(pos_weight * t * log(s) + (1 - t) * log(1 - s))) is linear in pos_weight. */
#include "graph/ops/binary.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/recipes/loss.h"
#include "passes/model/parameters.h"
#include "passes/options/recipes.h"

/* By value id, sets `of_weights` (depends on a constant in the place of weights) and `other` (an output that is no loss
 * depends on it).  True: some output that is no loss depends on weights. */
static bool find_dependences(bool *of_weights, bool *other, const Reach *r, const bool *is_loss)
{
    const Graph *g = r->g;
    bool any = false;

    FOR_NODES(g, n) {
        bool depends = false;

        for (int i = 0; n->op && i < n->n_in; i++) {
            const bool place =
                n->op->param_in && !(n->op->flags & OPF_PARAM_MAYBE) && i < 8 && n->op->param_in >> i & 1;

            depends |= has_value(n->in[i]) && (of_weights[n->in[i].i] || (place && r->constant[n->in[i].i]));
        }
        for (int i = 0; i < n->n_out; i++)
            of_weights[n->out[i].i] |= depends && has_value(n->out[i]);
    }
    for (int i = 0; i < g->n_output; i++)
        if (!is_loss[i]) {
            other[g->output[i].value.i] = true;
            any = any || of_weights[g->output[i].value.i];
        }
    for (uint32_t k = g->n_node; k-- > 0;) {
        const Node *n = g->node[k];
        bool leads = false;

        for (int i = 0; i < n->n_out; i++)
            leads = leads || (has_value(n->out[i]) && other[n->out[i].i]);
        for (int i = 0; leads && i < n->n_in; i++)
            other[n->in[i].i] |= has_value(n->in[i]);
    }
    return any;
}

/* ---- one tensor; `depends`, by value id: depends on it ---- */

static bool depends_in(const bool *depends, const Node *n, int i) { return has_in(n, i) && depends[n->in[i].i]; }

/* Is output 0 linear in the inputs that depend on the tensor?  Sets *weighs at a product with a value that depends on
 * weights. */
static bool is_linear(const Node *n, const bool *depends, const bool *of_weights, bool *weighs)
{
    if (n->op == &op_Mul) {
        const int at = depends_in(depends, n, 1);

        *weighs = *weighs || of_weights[n->in[1 - at].i];
        return !depends_in(depends, n, 1 - at);
    }
    if (n->op == &op_Div)
        return depends_in(depends, n, 0);
    if (n->op == &op_Sub || n->op == &op_Neg || n->op == &op_Mean || n->op->flags & OPF_SUM)
        return true;
    for (int i = 0; i < n->n_in; i++)
        if (depends_in(depends, n, i) && !op_moves(n->op, i) &&
            !(i == 0 && (n->op == &op_ReduceSum || n->op == &op_ReduceMean)))
            return false;
    return true;
}

/* Does a derivative pass from an input that depends on the tensor? */
static bool passes(const Graph *g, const Node *n, const bool *depends)
{
    bool any = false, floats = false;

    for (int i = 0; i < n->n_in; i++)
        any = any || (depends_in(depends, n, i) && !(i < 8 && n->op->setting_in >> i & 1));
    for (int i = 0; i < n->n_out; i++)
        floats = floats || (has_value(n->out[i]) && dtype_is_float(value(g, n->out[i])->dtype));
    return any && floats && !(n->op->flags & OPF_SHAPE_ONLY);
}

/* Does a loss depend linearly on the tensor, by a product with a value that depends on weights? */
static bool only_weighs(bool *depends, const Reach *r, const bool *of_weights, uint32_t tensor)
{
    const Graph *g = r->g;
    bool weighs = false, reaches = false;

    for (uint32_t i = 1; i < g->n_value; i++)
        depends[i] = i == tensor;
    FOR_NODES(g, n) {
        if (!n->op || !r->live[n->index] || !passes(g, n, depends))
            continue;
        if (!is_linear(n, depends, of_weights, &weighs))
            return false;
        for (int i = 0; i < n->n_out; i++)
            depends[n->out[i].i] |= has_value(n->out[i]);
    }
    for (int i = 0; i < g->n_output; i++)
        reaches = reaches || depends[g->output[i].value.i];
    return weighs && reaches;
}

/* ---- all tensors ---- */

/* An output is a loss if it is one number, or if --loss names it. */
static Status find_losses(bool *is_loss, bool *any, const Graph *g, const BuildOptions *opt)
{
    const RecipeOptions *recipes = recipe_options(opt);
    const bool own = loss_is_output(opt);
    RecipeSettings s;

    if (own)
        TRY(recipe_take(&s, &recipes->loss->recipe, "loss", recipes->loss_args, recipes->settings, g->arena));
    for (int i = 0; i < g->n_output; i++) {
        const Value *v = value(g, g->output[i].value);

        is_loss[i] = dtype_is_float(v->dtype) && ((shape_known(v->shape) && v->shape->rank == 0) ||
                                                  (own && recipes->loss->is_loss(&s, g->output[i].name)));
        *any = *any || is_loss[i];
    }
    return ST_OK;
}

Status loss_weights_find(Reach *r, const BuildOptions *opt, Arena *a)
{
    const Graph *g = r->g;
    bool *is_loss = ARENA_NEW(a, bool, (size_t)g->n_output + 1), any = false, others;
    bool *of_weights = ARENA_NEW(a, bool, g->n_value), *other = ARENA_NEW(a, bool, g->n_value),
         *depends = ARENA_NEW(a, bool, g->n_value);

    r->weighs = ARENA_NEW(a, bool, g->n_value);
    r->of_loss = ARENA_NEW(a, bool, g->n_value);
    if (!is_loss || !of_weights || !other || !depends || !r->weighs || !r->of_loss)
        return FAIL_NOMEM();
    if (loss_has_target(opt))
        return ST_OK;
    TRY(find_losses(is_loss, &any, g, opt));
    if (!any)
        return ST_OK;
    others = find_dependences(of_weights, other, r, is_loss);
    for (uint32_t i = 1; i < g->n_value; i++) {
        if (g->value[i]->kind != V_CONST || !(r->reach[i] & ~REACH_SETTING) || other[i])
            continue;
        r->of_loss[i] = others;
        r->weighs[i] = only_weighs(depends, r, of_weights, i);
    }
    return ST_OK;
}
