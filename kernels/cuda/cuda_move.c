/* Plans a strided copy: neighbouring dimensions that both sides walk with one stride are merged, then the widest unit
 * is taken that the inner dimension and every stride are multiples of.  Where the sides are contiguous along different
 * dimensions, tiles are turned. */
#include "kernels/cuda/cuda_move.h"

#include <stdio.h>

enum { TILE_LEAST = 16 }; /* a shorter side leaves most of a tile's threads without work */

Divisor divisor_of(int64_t d)
{
    Divisor r = { .d = (unsigned)d };

    if (d < 1 || d > INT32_MAX)
        return (Divisor){ 1, 1, 0 }; /* not asked for */
    while (r.shift < 31 && (INT64_C(1) << r.shift) < d)
        r.shift++;
    r.mul = (unsigned)(((UINT64_C(1) << 32) * ((UINT64_C(1) << r.shift) - (uint64_t)d)) / (uint64_t)d + 1);
    return r;
}

/* ---- planning ---- */

/* Drops dimensions of 1 and merges neighbours; innermost first.  False: too many are left. */
static bool cuda_move_merge(MovePlan *p, const MoveDims *d)
{
    const int64_t *dim = d->dim, *to = d->to, *from = d->from;

    for (int i = d->rank - 1; i >= 0; i--) {
        int last = p->rank - 1;

        p->n *= dim[i];
        if (dim[i] == 1)
            continue;
        if (p->rank && to[i] == p->dim[last] * p->to[last] && from[i] == p->dim[last] * p->from[last]) {
            p->dim[last] *= dim[i];
            continue;
        }
        if (p->rank == MOVE_RANK)
            return false;
        p->dim[p->rank] = dim[i];
        p->to[p->rank] = to[i];
        p->from[p->rank++] = from[i];
    }
    return true;
}

/* Bytes that all of the box is made of; the inner dimension counts by its size, the others by their strides. */
static size_t common_unit(const MovePlan *p)
{
    uint64_t bits = (uint64_t)p->dim[0] * p->size;

    for (int i = 1; i < p->rank; i++)
        bits |= (uint64_t)p->to[i] * p->size | (uint64_t)p->from[i] * p->size;
    return unit_of(bits);
}

static int contiguous_source(const MovePlan *p)
{
    for (int i = 0; i < p->rank; i++)
        if (p->from[i] == 1)
            return i;
    return 0;
}

static bool tiles_fit(const MovePlan *p)
{
    int64_t tile = p->size < 8 ? 64 : 32, tiles = (p->dim[p->a] / tile + 1) * (p->dim[0] / tile + 1);

    return p->a > 0 && p->to[0] == 1 && p->dim[0] >= TILE_LEAST && p->dim[p->a] >= TILE_LEAST && tiles < INT32_MAX &&
           tiles * (p->n / p->dim[0] / p->dim[p->a]) < INT32_MAX;
}

bool move_plan(MovePlan *out, size_t size, const MoveDims *d)
{
    MovePlan p = { .kind = MOVE_UNITS, .size = size, .unit = size, .n = 1 };

    for (int i = 0; i < d->rank; i++)
        if (!d->dim[i]) {
            *out = (MovePlan){ .kind = MOVE_NOTHING };
            return true;
        }
    if (!cuda_move_merge(&p, d))
        return false;
    if (!p.rank || (p.rank == 1 && p.to[0] == 1 && p.from[0] == 1)) {
        p.kind = MOVE_ALL;
    } else if (p.to[0] == 1 && p.from[0] == 1) {
        p.unit = common_unit(&p);
    } else if (p.to[0] == 1 && p.from[0] == 0) {
        uint64_t bits = (uint64_t)p.dim[0] * size;

        for (int i = 1; i < p.rank; i++)
            bits |= (uint64_t)p.to[i] * size;
        if (unit_of(bits) == 16 && size < 16 && p.n * (int64_t)size / 16 < INT32_MAX)
            p.kind = MOVE_SPLAT;
    } else {
        p.a = contiguous_source(&p);
        if (tiles_fit(&p))
            p.kind = MOVE_TILES;
    }
    *out = p;
    return true;
}

/* ---- kernels ---- */

Status unit_kernels(GpuKernel *kernel[MOVE_WIDTHS], const KernelCtx *ctx, const char *base, size_t least, size_t most)
{
    char name[64];

    for (size_t w = least; w <= most; w *= 2) {
        snprintf(name, sizeof name, "%s_%zu", base, w);
        TRY(cuda_kernel(&kernel[log2_of(w)], ctx, name, DT_NONE));
    }
    return ST_OK;
}

/* Units of fewer bytes are for tensors that begin between two wider ones. */
Status move_prepare(MovePlan *p, const KernelCtx *ctx)
{
    static const char *const turns[] = { "turn_11", "turn_v1", "turn_1v", "turn_vv" };
    char name[64];

    if (p->kind == MOVE_UNITS)
        return unit_kernels(p->kernel, ctx, p->n > INT32_MAX ? "move_wide" : "move", p->size, p->unit);
    if (p->kind == MOVE_SPLAT) {
        TRY(unit_kernels(p->kernel, ctx, "move", p->size, p->size));
        snprintf(name, sizeof name, "splat_%zu", p->size);
        return cuda_kernel(&p->kernel[4], ctx, name, DT_NONE);
    }
    for (int i = 0; i < 4 && p->kind == MOVE_TILES; i++) {
        snprintf(name, sizeof name, "%s_%zu", turns[i], p->size);
        TRY(cuda_kernel(&p->kernel[i], ctx, name, DT_NONE));
    }
    return ST_OK;
}

/* ---- running ---- */

/* In units of `w` bytes, both sides contiguous along the inner dimension when w is more than an element. */
static MoveBox units_box(const MovePlan *p, int64_t w)
{
    int64_t size = (int64_t)p->size;
    MoveBox box = { .rank = p->rank, .n = p->n * size / w };

    for (int i = 0; i < p->rank; i++) {
        bool inner = i == 0 && w > size;

        box.dim[i] = inner ? p->dim[i] * size / w : p->dim[i];
        box.to[i] = inner ? 1 : p->to[i] * size / w;
        box.from[i] = inner ? 1 : p->from[i] * size / w;
        box.by[i] = divisor_of(box.dim[i]);
    }
    return box;
}

static Status run_units(const KernelCtx *ctx, const MovePlan *p, void *to, const void *from)
{
    size_t here = unit_of((uintptr_t)to | (uintptr_t)from), w = here < p->unit ? here : p->unit;
    MoveBox box = units_box(p, (int64_t)w);

    return cuda_launch(ctx, p->kernel[log2_of(w)], move_blocks(box.n), MOVE_THREADS, 0, CUDA_ARGS(&box, &to, &from));
}

static Status run_splat(const KernelCtx *ctx, const MovePlan *p, void *to, const void *from)
{
    int64_t v = 16 / (int64_t)p->size;
    MoveBox box = { .rank = p->rank, .n = p->n / v };

    if ((uintptr_t)to % 16) {
        box = units_box(p, (int64_t)p->size);
        return cuda_launch(ctx, p->kernel[log2_of(p->size)], move_blocks(box.n), MOVE_THREADS, 0,
                           CUDA_ARGS(&box, &to, &from));
    }
    for (int i = 0; i < p->rank; i++) {
        box.dim[i] = i ? p->dim[i] : p->dim[i] / v;
        box.to[i] = i ? p->to[i] / v : 1;
        box.from[i] = i ? p->from[i] : 0;
        box.by[i] = divisor_of(box.dim[i]);
    }
    return cuda_launch(ctx, p->kernel[4], move_blocks(box.n), MOVE_THREADS, 0, CUDA_ARGS(&box, &to, &from));
}

/* Do all rows along dimension `inner`, `stride` of the others, begin and end on boundaries of `v` elements? */
static bool in_vectors(const MovePlan *p, const int64_t *stride, int inner, int64_t v, const void *base)
{
    if (p->dim[inner] % v || (uintptr_t)base % ((size_t)v * p->size))
        return false;
    for (int i = 0; i < p->rank; i++)
        if (i != inner && stride[i] % v)
            return false;
    return true;
}

static Status run_tiles(const KernelCtx *ctx, const MovePlan *p, void *to, const void *from)
{
    int64_t tile = p->size < 8 ? 64 : 32, v = p->size == 1 ? 4 : 16 / (int64_t)p->size;
    int which = in_vectors(p, p->from, p->a, v, from) + 2 * in_vectors(p, p->to, 0, v, to);
    int64_t ta = (p->dim[p->a] + tile - 1) / tile, tb = (p->dim[0] + tile - 1) / tile;
    TileBox box = { .a = p->dim[p->a],
                    .b = p->dim[0],
                    .from_b = p->from[0],
                    .to_a = p->to[p->a],
                    .tiles_a = divisor_of(ta),
                    .tiles_b = divisor_of(tb),
                    .outer.n = 1 };

    for (int i = 1; i < p->rank; i++) {
        int k = box.outer.rank;

        if (i == p->a)
            continue;
        box.outer.dim[k] = p->dim[i];
        box.outer.to[k] = p->to[i];
        box.outer.from[k] = p->from[i];
        box.outer.by[k] = divisor_of(p->dim[i]);
        box.outer.n *= p->dim[i];
        box.outer.rank++;
    }
    return cuda_launch(ctx, p->kernel[which], (unsigned)(box.outer.n * ta * tb), MOVE_THREADS, 0,
                       CUDA_ARGS(&box, &to, &from));
}

Status move_same(const KernelCtx *ctx, void *to, const void *from, size_t bytes)
{
    if (to != from && bytes)
        TRY_CUDA(ctx, runtime.copy(ctx->stream, to, from, bytes));
    return ST_OK;
}

Status move_run(const KernelCtx *ctx, const MovePlan *p, void *to, const void *from)
{
    switch (p->kind) {
    case MOVE_NOTHING: return ST_OK;
    case MOVE_ALL: return move_same(ctx, to, from, (size_t)p->n * p->size);
    case MOVE_SPLAT: return run_splat(ctx, p, to, from);
    case MOVE_TILES: return run_tiles(ctx, p, to, from);
    default: return run_units(ctx, p, to, from);
    }
}
