/* fuse-norm-grad: LayerNormGrad adds the gradient of the residual stream.
 *
 *   Add(LayerNormGrad(x, dy, scale), d)   becomes   LayerNormGrad(x, dy, scale, d)
 *
 * as in a transformer whose blocks compute x + f(norm(x)): the gradient of x is that by the norm plus that of the
 * result.  As a node of its own the Add reads two tensors and writes one; taken in it costs one more reading.  Legal
 * where nothing else reads the gradient by the norm, d has its type, shape and layout, and both nodes are on one device
 * for one replica.  The sum is rounded once instead of twice.  A d that the LayerNormGrad would have to wait for is not
 * taken in: x and dy would take memory until then.  Behind fuse-product, which adds the gradient by a norm in the
 * product that makes d; before fuse-elementwise, which would take the Add. */
#include "graph/ops/layernorm.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/layernorm.gen.h"
#include "graph/ir/reachable.h"
#include "graph/ir/readers.h"
#include "passes/pass.h"

typedef struct {
    Graph *g;
    Uses uses;
    Reachability paths;
    Draft draft;
} Fusing;

static bool fuse_norm_grad_alike(const Graph *g, ValueId a, ValueId b)
{
    const Value *x = value(g, a), *y = value(g, b);

    return x->dtype == y->dtype && shape_eq(x->shape, y->shape) && x->layout == LAYOUT_ROWS && y->layout == LAYOUT_ROWS;
}

/* The LayerNormGrad at input i of `add` takes in the other input. */
static bool fuse_norm_grad_take(Fusing *f, Node *add, int i)
{
    Node *grad = inner_maker(&f->uses, add->in[i]);
    const ValueId d = add->in[1 - i];
    Draft *draft = &f->draft;

    if (!grad || grad->op != &op_LayerNormGrad || !value_eq(grad->out[0], add->in[i]) ||
        has_in(grad, LAYER_NORM_GRAD_ADDED) || !same_place(grad, add) || !fuse_norm_grad_alike(f->g, grad->out[0], d) ||
        !fuse_norm_grad_alike(f->g, d, add->out[0]) || !reach_is_available(&f->paths, d, grad))
        return false;
    draft_begin(draft, grad, &op_LayerNormGrad);
    draft_in(draft, LAYER_NORM_GRAD_ADDED, d);
    draft_out(draft, 0, add->out[0]);
    draft_absorb(draft, add);
    if (!draft_try_apply(draft))
        return false;
    if (maker(f->g, d))
        reach_add_edge(&f->paths, maker(f->g, d), grad);
    return true;
}

static bool found(const Graph *g)
{
    FOR_NODES(g, n)
        if (n->op == &op_LayerNormGrad)
            return true;
    return false;
}

static Status fuse_norm_grad_run(Graph *g, PassCtx *ctx)
{
    Fusing f = { .g = g };

    if (!target_fuses(build_target(ctx->opt), &op_LayerNormGrad) || !found(g))
        return ST_OK;
    pass_draft(&f.draft, g, ctx);
    TRY(graph_sort(g));
    TRY(uses_find(&f.uses, g, ctx->scratch));
    TRY(reach_begin(&f.paths, g, ctx->scratch));
    FOR_NODES(g, n)
        for (int i = 0; n->op == &op_Add && i < 2; i++)
            ctx->n_changed += fuse_norm_grad_take(&f, n, i);
    return ctx->n_changed && !g->status ? graph_sort(g) : g->status;
}

const Pass pass_fuse_norm_grad = { .name = "fuse-norm-grad",
                                   .summary = "add the gradient of the residual stream in LayerNormGrad",
                                   .modes = MODES_LEARN,
                                   .run = fuse_norm_grad_run };
