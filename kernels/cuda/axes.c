/* Plans a reduction: its axes become runs or columns, in as many parts as fill a device. */
#include "kernels/cuda/axes.h"

#include "graph/tensor/layout.h"

enum { TEAMS = 2048, FLIGHT = 4 };

/* ---- axes ---- */

void axes_add(Axes *a, bool reduced, int64_t dim, int64_t stride)
{
    bool joins = a->n && a->reduced[a->n - 1] == reduced;

    if (dim == 1)
        return;
    a->n += !joins;
    a->reduced[a->n - 1] = reduced;
    a->dim[a->n - 1] = joins ? a->dim[a->n - 1] * dim : dim;
    a->stride[a->n - 1] = stride;
}

Axes axes_merge(const Value *x, unsigned mask)
{
    Axes a = { 0 };
    int64_t stride[MAX_RANK];

    layout_strides(x->layout, x->shape, stride);
    for (int k = 0; k < x->shape->rank; k++) {
        int i = layout_axis(x->layout, x->shape->rank, k);

        axes_add(&a, mask >> i & 1, x->shape->dim[i], stride[i]);
    }
    return a;
}

bool axes_keep_order(const Value *x, const Value *y, unsigned mask)
{
    int last = -1;

    for (int k = 0; k < x->shape->rank; k++) {
        int axis = layout_axis(x->layout, x->shape->rank, k), in_y = axis, at;

        if (mask >> axis & 1 || x->shape->dim[axis] == 1)
            continue;
        for (int i = 0; y->shape->rank < x->shape->rank && i < axis; i++)
            in_y -= mask >> i & 1;
        at = layout_position(y->layout, y->shape->rank, in_y);
        if (at < last)
            return false;
        last = at;
    }
    return true;
}

/* The axes of one kind before the last axis; their number of elements. */
static int64_t walk_axes(Walk *w, const Axes *a, bool reduced, int n)
{
    int64_t count = 1;

    w->n = 0;
    for (int i = 0; i < n; i++)
        if (a->reduced[i] == reduced) {
            w->dim[w->n] = (unsigned)a->dim[i];
            w->stride[w->n++] = a->stride[i];
            count *= a->dim[i];
        }
    return count;
}

static unsigned clamp_parts(int64_t wanted, int64_t possible)
{
    int64_t parts = wanted < possible ? wanted : possible;

    return (unsigned)(parts < 1 ? 1 : parts);
}

unsigned reduction_chunks(int64_t n, int offset, int v) { return (unsigned)((n + offset + v - 1) / v); }

static void plan_runs(ReductionPlan *p, const Axes *a, int v)
{
    Reduction *r = &p->r;
    int64_t work;

    r->n = a->dim[a->n - 1];
    r->runs = walk_axes(&r->reduced, a, true, a->n - 1);
    r->outputs = walk_axes(&r->kept, a, false, a->n - 1);
    p->even = r->n % v == 0;
    for (int i = 0; i < a->n - 1; i++)
        p->even = p->even && a->stride[i] % v == 0;
    work = r->runs * reduction_chunks(r->n, p->even ? 0 : v - 1, v);
    for (p->lanes = 1; p->lanes < work && p->lanes < WARP_SIZE;)
        p->lanes *= 2;
    r->parts = clamp_parts(TEAMS / (r->outputs + 1), work / (2 * FLIGHT * WARP_SIZE));
}

/* A tile: neighbouring columns of which each thread of a row of the block takes `width`. */
static int64_t column_tiles(const ReductionPlan *p, int64_t width)
{
    return p->r.outputs / p->r.inner * ((p->r.inner / width + p->x - 1) / p->x);
}

static void plan_columns(ReductionPlan *p, const Axes *a, int v, int width)
{
    Reduction *r = &p->r;
    bool scalar = a->n == 0;
    int64_t tiles;

    r->inner = scalar ? 1 : a->dim[a->n - 1];
    r->n = walk_axes(&r->reduced, a, true, a->n - 1);
    r->outputs = walk_axes(&r->kept, a, false, a->n - 1) * r->inner;
    p->columns = true;
    p->even = r->inner % v == 0;
    for (p->x = 1; p->x < r->inner / width && p->x < WARP_SIZE;)
        p->x *= 2;
    for (p->y = REDUCTION_THREADS / p->x; p->y > 1 && p->y >= 2 * r->n;)
        p->y /= 2;
    tiles = r->inner ? column_tiles(p, width) : 0;
    r->parts = clamp_parts(TEAMS / 2 / (tiles + 1), r->n / (2 * FLIGHT * (int64_t)p->y));
}

void reduction_plan(ReductionPlan *p, const Axes *a, int v, int width)
{
    *p = (ReductionPlan){ .columns = !a->n || !a->reduced[a->n - 1] };
    if (p->columns)
        plan_columns(p, a, v, width);
    else
        plan_runs(p, a, v);
}

/* ---- launches ---- */

unsigned reduction_run_blocks(const ReductionPlan *p)
{
    return cuda_blocks(p->r.outputs * p->r.parts, REDUCTION_THREADS / p->lanes, MOST_BLOCKS);
}

unsigned reduction_column_blocks(const ReductionPlan *p, int64_t width)
{
    return cuda_blocks(column_tiles(p, width) * p->r.parts, 1, MOST_BLOCKS);
}

Status reduction_add_parts(const KernelCtx *ctx, const ReductionPlan *p, GpuKernel *k, void *scratch, void *y)
{
    const unsigned parts = p->r.parts;

    return cuda_launch(ctx, k, cuda_blocks(p->r.outputs, 1, MOST_BLOCKS),
                       parts < REDUCTION_THREADS ? (parts + WARP_SIZE - 1) / WARP_SIZE * WARP_SIZE : REDUCTION_THREADS,
                       0, CUDA_ARGS(&scratch, &y, (void *)&p->r));
}
