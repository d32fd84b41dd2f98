/* Transpose and Expand shared among the team.
 *
 * Transpose: of the two inner loops one walks the innermost axis of x, the other that of y, in tiles that stay in
 * cache; when both axes are the same one, lines are copied.  The other axes are one counter, cut among the team. */
#include "graph/ops/layout.gen.h"
#include "kernels/cpu/team.h"
#include "kernels/ref/ref.h"

enum { TILE = 32 };

/* y's axes: `outer` ones counted together, then a (innermost of x) and b (innermost of y), strides in elements. */
typedef struct {
    int n_outer;
    int64_t dim[MAX_RANK], xs[MAX_RANK], ys[MAX_RANK];
    int64_t a, b;       /* sizes; a = 1 when x and y have the same innermost axis */
    int64_t xa, xb, ya; /* strides: of a in x (1) and y, of b in x; b in y is 1 */
    int64_t outer;
    size_t size;
} Plan;

static void add_outer(Plan *p, int64_t d, int64_t xs, int64_t ys)
{
    p->dim[p->n_outer] = d;
    p->xs[p->n_outer] = xs;
    p->ys[p->n_outer++] = ys;
    p->outer *= d;
}

/* Output axis i has size dim[i] and steps xs[i] in x, ys[i] in y; an innermost axis of 1 is no axis. */
static void plan_axes(Plan *p, int rank, const int64_t *dim, const int64_t *xs, const int64_t *ys)
{
    int a = -1, b = -1;

    for (int i = 0; i < rank; i++) {
        a = dim[i] != 1 && xs[i] == 1 ? i : a;
        b = dim[i] != 1 ? i : b;
    }
    p->outer = p->a = p->b = 1;
    for (int i = 0; i < rank; i++)
        if (i != b && i != a)
            add_outer(p, dim[i], xs[i], ys[i]);
    if (b >= 0) {
        p->b = dim[b];
        p->xb = xs[b];
    }
    if (a >= 0 && a != b) {
        p->a = dim[a];
        p->xa = xs[a];
        p->ya = ys[a];
    }
}

static bool movable(const Graph *g, const Node *n)
{
    size_t size = dtype_size(in_value(g, n, 0)->dtype);

    return size == 4 || size == 8;
}

static Status prepare_transpose(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int64_t x_stride[MAX_RANK], xs[MAX_RANK], ys[MAX_RANK], dim[MAX_RANK];
    Shape y = { .rank = x->rank };
    Plan p = { .size = dtype_size(in_value(g, n, 0)->dtype) };
    int count;
    const int64_t *perm = node_ints(n, "perm", &count);

    (void)ctx;
    shape_strides(x, x_stride);
    for (int i = 0; i < count; i++) {
        y.dim[i] = dim[i] = x->dim[perm[i]];
        xs[i] = x_stride[perm[i]];
    }
    shape_strides(&y, ys);
    plan_axes(&p, count, dim, xs, ys);
    return kernel_state(state, &p, sizeof p);
}

#define BODY "kernels/cpu/cpu_layout.inc"
#define TYPES (OF_U32 | OF_U64)
#include "kernels/each_type.inc"

static Status cpu_layout_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;
    int team = team_size(ctx, tensor_numel(&out[0]));

    if (!tensor_numel(&out[0]))
        return ST_OK;
#pragma omp parallel for num_threads(team) schedule(static)
    for (int64_t o = 0; o < p->outer; o++) {
        int64_t left = o, x = 0, y = 0;

        for (int i = p->n_outer - 1; i >= 0; i--) {
            x += left % p->dim[i] * p->xs[i];
            y += left % p->dim[i] * p->ys[i];
            left /= p->dim[i];
        }
        if (p->size == 4)
            move_u32(p, (const uint32_t *)in[0].data + x, (uint32_t *)out[0].data + y);
        else
            move_u64(p, (const uint64_t *)in[0].data + x, (uint64_t *)out[0].data + y);
    }
    return ST_OK;
}

DEFINE_KERNEL(cpu_transpose, .op = &op_Transpose, .rank = 10, .supports = movable, .prepare = prepare_transpose,
              .run = cpu_layout_run, .release = free);

/* ---- Expand: a transpose whose stretched axes step 0 in x ---- */

static Status prepare_expand(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *y = value(g, n->out[0])->shape;
    int64_t x_stride[MAX_RANK], xs[MAX_RANK] = { 0 }, ys[MAX_RANK];
    Plan p = { .size = dtype_size(in_value(g, n, 0)->dtype) };

    (void)ctx;
    shape_strides(x, x_stride);
    shape_strides(y, ys);
    for (int i = 0; i < x->rank; i++)
        xs[y->rank - x->rank + i] = x->dim[i] == 1 ? 0 : x_stride[i];
    plan_axes(&p, y->rank, y->dim, xs, ys);
    return kernel_state(state, &p, sizeof p);
}

DEFINE_KERNEL(cpu_expand, .op = &op_Expand, .rank = 10, .supports = movable, .prepare = prepare_expand,
              .run = cpu_layout_run, .release = free);
