/* fuse-max-pool: MaxPool leaves the place of each maximum in its window for its gradient.
 *
 *   MaxPool(x), MaxPoolGrad(dy, x)   become   MaxPoolPlaces(x) -> (y, places), MaxPoolPlacesGrad(dy, places)
 *
 * Without it the gradient looks for the maxima again, from the whole input; with it, it reads a byte for each result,
 * and the input need not be kept for it.  Legal where both have one window and read one input, on one device for one
 * replica, when the device computes both nodes: places follow from the input and the window alone, so the bits are
 * the same.  Behind layout, which decides how results are stored: places are stored as they are. */
#include <string.h>

#include "graph/ops/pool.h"
#include "graph/ops/pool.gen.h"
#include "graph/ir/readers.h"
#include "passes/pass.h"

typedef struct {
    Graph *g;
    Uses uses;
    Draft pool, grad;
} Fusing;

static bool same_list(const Node *a, const Node *b, const char *name)
{
    int m, n;
    const int64_t *x = node_ints(a, name, &m), *y = node_ints(b, name, &n);

    return m == n && !memcmp(x, y, (size_t)n * sizeof *x);
}

static bool same_window(const Node *a, const Node *b)
{
    return same_list(a, b, "kernel_shape") && same_list(a, b, "strides") && same_list(a, b, "pads") &&
           same_list(a, b, "dilations") && node_int(a, "ceil_mode") == node_int(b, "ceil_mode");
}

/* The MaxPool, or what an earlier step made of it, that `grad` is a gradient of; NULL: none that computes no indices.
 */
static Node *pool_of(const Fusing *f, const Node *grad)
{
    const Uses *u = &f->uses;
    const uint32_t x = grad->in[1].i;

    for (uint32_t i = u->first[x]; i < u->first[x + 1]; i++) {
        Node *n = u->reader[i].n;
        const bool plain = n->op == &op_MaxPool && has_out(n, 0) && !has_out(n, 1);

        if ((plain || n->op == &op_MaxPoolPlaces) && same_place(n, grad) && same_window(n, grad))
            return n;
    }
    return NULL;
}

/* Does a byte count the window's positions? */
static bool fuse_max_pool_counted(const Node *n)
{
    int rank;
    const int64_t *kernel = node_ints(n, "kernel_shape", &rank);
    int64_t places = 1;

    for (int i = 0; i < rank && places <= POOL_PLACES; i++)
        places *= kernel[i];
    return places <= POOL_PLACES;
}

/* The places that `pool` makes, or will make when f->pool becomes it. */
static ValueId places_of(Fusing *f, Node *pool)
{
    Graph *g = f->g;
    ValueId places;

    if (pool->op == &op_MaxPoolPlaces)
        return pool->out[1];
    draft_begin(&f->pool, pool, &op_MaxPoolPlaces);
    places = draft_new_out(&f->pool, 1, pool->out[0], ".places");
    if (has_value(places))
        value(g, places)->layout = value(g, pool->out[0])->layout;
    return !g->status && draft_is_supported(&f->pool) ? places : NO_VALUE;
}

static bool fuse_max_pool_take(Fusing *f, Node *grad)
{
    Node *pool = pool_of(f, grad);
    const Shape *x = in_value(f->g, grad, 1)->shape;
    const bool fresh = pool && pool->op == &op_MaxPool;
    ValueId places;

    if (!pool || !shape_known(x) || !fuse_max_pool_counted(grad))
        return false;
    places = places_of(f, pool);
    if (!has_value(places))
        return false;
    draft_begin(&f->grad, grad, &op_MaxPoolPlacesGrad);
    draft_attrs(&f->grad, ATTRS(INTS("spatial", x->rank - 2, x->dim + 2)));
    draft_in(&f->grad, 1, places);
    if (!draft_is_supported(&f->grad))
        return false;
    if (fresh)
        draft_apply(&f->pool);
    draft_apply(&f->grad);
    return !f->g->status;
}

static Status fuse_max_pool_run(Graph *g, PassCtx *ctx)
{
    Fusing f = { .g = g };
    bool looked = false;

    if (!target_fuses(build_target(ctx->opt), &op_MaxPoolPlaces))
        return ST_OK;
    pass_draft(&f.pool, g, ctx);
    pass_draft(&f.grad, g, ctx);
    FOR_NODES(g, n) {
        if (n->op != &op_MaxPoolGrad)
            continue;
        if (!looked)
            TRY(uses_find(&f.uses, g, ctx->scratch));
        looked = true;
        ctx->n_changed += fuse_max_pool_take(&f, n);
    }
    return ctx->n_changed && !g->status ? graph_sort(g) : g->status;
}

const Pass pass_fuse_max_pool = { .name = "fuse-max-pool",
                                  .summary = "let MaxPool leave the places of maxima for its gradient",
                                  .modes = MODES_LEARN,
                                  .run = fuse_max_pool_run };
