/* fuse-max-pool: MaxPool records the place of each maximum in its window, for its gradient.
 *
 *   MaxPool(x), MaxPoolGrad(dy, x)   become   MaxPoolPlaces(x) -> (y, places), MaxPoolPlacesGrad(dy, places)
 *
 * Without places the gradient searches the whole input for the maxima again.  With them it reads a byte for each
 * result, and the input need not be kept for it.  Legal where both have one window and read one input, on one device
 * for one replica, if the device computes both nodes.  Places depend on the input and the window alone, so the bits are
 * the same.  The pass runs behind layout, which decides how results, and so places, are stored. */
#include <string.h>

#include "graph/ir/readers.h"
#include "graph/ops/pool.gen.h"
#include "graph/ops/pool.h"
#include "passes/pass.h"

static bool same_list(const Node *a, const Node *b, const char *name)
{
    int m, n;
    const int64_t *x = node_ints(a, name, &m), *y = node_ints(b, name, &n);

    return m == n && !memcmp(x, y, (size_t)n * sizeof *x);
}

/* The node that `grad` is the gradient of: a MaxPool without indices, or the MaxPoolPlaces that an earlier step made of
 * it.  NULL: there is none. */
static Node *pool_of(const Uses *u, const Node *grad)
{
    const uint32_t x = grad->in[1].i;

    for (uint32_t i = u->first[x]; i < u->first[x + 1]; i++) {
        Node *n = u->reader[i].n;
        const bool plain = n->op == &op_MaxPool && has_out(n, 0) && !has_out(n, 1);

        if ((plain || n->op == &op_MaxPoolPlaces) && same_place(n, grad) && same_list(n, grad, "kernel_shape") &&
            same_list(n, grad, "strides") && same_list(n, grad, "pads") && same_list(n, grad, "dilations") &&
            node_int(n, "ceil_mode") == node_int(grad, "ceil_mode"))
            return n;
    }
    return NULL;
}

/* Turns `grad` into a MaxPoolPlacesGrad, and its MaxPool into a MaxPoolPlaces.  A byte must hold the window's places.
 */
static bool fuse_max_pool_take(Draft *pool_draft, Draft *grad_draft, const Uses *u, Node *grad)
{
    Graph *g = grad_draft->g;
    Node *pool = pool_of(u, grad);
    const Shape *x = in_value(g, grad, 1)->shape;
    const bool fresh = pool && pool->op == &op_MaxPool;
    int rank;
    const int64_t *kernel = node_ints(grad, "kernel_shape", &rank);
    int64_t n_places = 1;
    ValueId places;

    for (int i = 0; i < rank && n_places <= POOL_PLACES; i++)
        n_places *= kernel[i];
    if (!pool || !shape_known(x) || n_places > POOL_PLACES)
        return false;
    places = fresh ? NO_VALUE : pool->out[1];
    if (fresh) {
        draft_begin(pool_draft, pool, &op_MaxPoolPlaces);
        places = draft_new_out(pool_draft, 1, pool->out[0], ".places");
        if (has_value(places))
            value(g, places)->layout = value(g, pool->out[0])->layout;
        if (g->status || !draft_is_supported(pool_draft))
            return false;
    }
    if (!has_value(places))
        return false;
    draft_begin(grad_draft, grad, &op_MaxPoolPlacesGrad);
    draft_attrs(grad_draft, ATTRS(INTS("spatial", x->rank - 2, x->dim + 2)));
    draft_in(grad_draft, 1, places);
    if (!draft_is_supported(grad_draft))
        return false;
    if (fresh)
        draft_apply(pool_draft);
    draft_apply(grad_draft);
    return !g->status;
}

static Status fuse_max_pool_run(Graph *g, PassCtx *ctx)
{
    Draft pool, grad;
    Uses u;
    bool uses_known = false;

    if (!target_fuses(build_target(ctx->opt), &op_MaxPoolPlaces))
        return ST_OK;
    pass_draft(&pool, g, ctx);
    pass_draft(&grad, g, ctx);
    FOR_NODES(g, n) {
        if (n->op != &op_MaxPoolGrad)
            continue;
        if (!uses_known)
            TRY(uses_find(&u, g, ctx->scratch));
        uses_known = true;
        ctx->n_changed += fuse_max_pool_take(&pool, &grad, &u, n);
    }
    return ctx->n_changed && !g->status ? graph_sort(g) : g->status;
}

const Pass pass_fuse_max_pool = { .name = "fuse-max-pool",
                                  .summary = "let MaxPool record the places of maxima for its gradient",
                                  .modes = MODES_LEARN,
                                  .run = fuse_max_pool_run };
