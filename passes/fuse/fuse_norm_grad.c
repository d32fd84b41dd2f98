/* fuse-norm-grad: LayerNormGrad adds the gradient of the residual stream.
 *
 *   Add(LayerNormGrad(x, dy, scale), d)   becomes   LayerNormGrad(x, dy, scale, d)
 *
 * A transformer's blocks compute x + f(norm(x)), so the gradient of x is that through the norm plus that of the result.
 * A separate Add reads two tensors and writes one; fused, it reads one.  Legal where nothing else reads the gradient
 * through the norm, d has its type, shape and layout, and both nodes are on one device for one replica. The sum is
 * rounded once instead of twice.  The pass leaves a d that the LayerNormGrad would have to wait for: x and dy would
 * take memory until then.  It runs behind fuse-product, which adds the gradient through a norm in the product that
 * makes d, and before fuse-elementwise, which would fuse the Add. */
#include "graph/ir/reachable.h"
#include "graph/ir/readers.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/layernorm.gen.h"
#include "graph/ops/layernorm.h"
#include "passes/pass.h"

/* Have the values one type and shape, and are both stored by rows? */
static bool fuse_norm_grad_alike(const Graph *g, ValueId a, ValueId b)
{
    const Value *x = value(g, a), *y = value(g, b);

    return x->dtype == y->dtype && shape_eq(x->shape, y->shape) && x->layout == LAYOUT_ROWS && y->layout == LAYOUT_ROWS;
}

/* Fuses `add` into the LayerNormGrad at its input i. */
static bool fuse_norm_grad_take(Draft *draft, const Uses *u, Reachability *paths, Node *add, int i)
{
    const Graph *g = u->g;
    Node *grad = inner_maker(u, add->in[i]);
    const ValueId d = add->in[1 - i];

    if (!grad || grad->op != &op_LayerNormGrad || !value_eq(grad->out[0], add->in[i]) ||
        has_in(grad, LAYER_NORM_GRAD_ADDED) || !same_place(grad, add) || !fuse_norm_grad_alike(g, grad->out[0], d) ||
        !fuse_norm_grad_alike(g, d, add->out[0]) || !reach_is_available(paths, d, grad))
        return false;
    draft_begin(draft, grad, &op_LayerNormGrad);
    draft_in(draft, LAYER_NORM_GRAD_ADDED, d);
    draft_out(draft, 0, add->out[0]);
    draft_absorb(draft, add);
    if (!draft_try_apply(draft))
        return false;
    if (maker(g, d))
        reach_add_edge(paths, maker(g, d), grad);
    return true;
}

static Status fuse_norm_grad_run(Graph *g, PassCtx *ctx)
{
    Draft d;
    Uses u;
    Reachability paths;
    bool any = false;

    FOR_NODES(g, n)
        any |= n->op == &op_LayerNormGrad;
    if (!any || !target_fuses(build_target(ctx->opt), &op_LayerNormGrad))
        return ST_OK;
    pass_draft(&d, g, ctx);
    TRY(graph_sort(g));
    TRY(uses_find(&u, g, ctx->scratch));
    TRY(reach_begin(&paths, g, ctx->scratch));
    FOR_NODES(g, n)
        for (int i = 0; n->op == &op_Add && i < 2; i++)
            ctx->n_changed += fuse_norm_grad_take(&d, &u, &paths, n, i);
    return ctx->n_changed && !g->status ? graph_sort(g) : g->status;
}

const Pass pass_fuse_norm_grad = { .name = "fuse-norm-grad",
                                   .summary = "add the gradient of the residual stream in LayerNormGrad",
                                   .modes = MODES_LEARN,
                                   .run = fuse_norm_grad_run };
