/* Values in another layout: of float32 by oneDNN, of anything else element by element. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/view.gen.h"
#include "kernels/cpu/onednn.h"

static Layout from(const Graph *g, const Node *n) { return in_value(g, n, 0)->layout; }

static Layout to(const Graph *g, const Node *n) { return value(g, n->out[0])->layout; }

static bool any(const Graph *g, const Node *n)
{
    (void)g, (void)n;
    return true;
}

/* ---- by oneDNN ---- */

static bool reorder_supports(const Graph *g, const Node *n)
{
    const Shape *s = in_value(g, n, 0)->shape;

    return s->rank >= 3 && s->rank <= 5 && shape_numel(s) > 0 && shape_numel(s) <= INT32_MAX &&
           onednn_stores(from(g, n)) && onednn_stores(to(g, n));
}

static Status reorder_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Onednn *d;
    Status st = onednn_reorder(&d, ctx, in_value(g, n, 0)->shape, from(g, n), to(g, n));

    if (st)
        return status_prefix(st, "%s", n->name);
    *state = d;
    return ST_OK;
}

static Status reorder_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return onednn_reorder_run(state, ctx, in[0].data, out[0].data);
}

static void release(void *state) { onednn_free(state); }

/* ---- element by element ---- */

/* An element's place is the sum of what its index along each axis adds, in any layout.  The state is a table of both:
 * an entry for each index along axis 0, then along axis 1 ... */
typedef struct {
    int64_t from, to;
} PlacePair;

static Status prepare_any(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *s = in_value(g, n, 0)->shape;
    int64_t index[MAX_RANK] = { 0 }, entries = 0;
    PlacePair *step;

    (void)ctx;
    for (int k = 0; k < s->rank; k++)
        entries += s->dim[k];
    if (!(step = malloc((size_t)(entries + 1) * sizeof *step)))
        return FAIL_NOMEM();
    *state = step;
    for (int k = 0; k < s->rank; index[k++] = 0)
        for (index[k] = 0; index[k] < s->dim[k]; index[k]++)
            *step++ = (PlacePair){ layout_place(from(g, n), s, index), layout_place(to(g, n), s, index) };
    return ST_OK;
}

/* The last axis, from where the others' indices lead. */
static void copy_last(const PlacePair *last, int64_t n, size_t size, PlacePair at, const char *x, char *y)
{
    if (size == 1)
        for (int64_t i = 0; i < n; i++)
            y[at.to + last[i].to] = x[at.from + last[i].from];
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(y + (size_t)(at.to + last[i].to) * size, x + (size_t)(at.from + last[i].from) * size, size);
}

static Status run_any(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Shape *s = &in[0].shape;
    const size_t size = dtype_size(in[0].dtype);
    const PlacePair *last = state;
    int64_t rows = shape_numel(s), index[MAX_RANK] = { 0 };

    (void)ctx;
    if (!rows || !s->rank) {
        memcpy(out[0].data, in[0].data, (size_t)rows * size);
        return ST_OK;
    }
    rows /= s->dim[s->rank - 1];
    for (int k = 0; k < s->rank - 1; k++)
        last += s->dim[k];
    for (int64_t r = 0; r < rows; r++) {
        const PlacePair *axis = state;
        PlacePair at = { 0, 0 };

        for (int k = 0; k < s->rank - 1; axis += s->dim[k++]) {
            at.from += axis[index[k]].from;
            at.to += axis[index[k]].to;
        }
        copy_last(last, s->dim[s->rank - 1], size, at, in[0].data, out[0].data);
        for (int k = s->rank - 2; k >= 0 && ++index[k] == s->dim[k]; k--)
            index[k] = 0;
    }
    return ST_OK;
}

DEFINE_KERNEL(cpu_reorder, .op = &op_Reorder, .dtypes = DTYPE_BIT(DT_FLOAT32), .layouts = any,
              .supports = reorder_supports, .prepare = reorder_prepare, .run = reorder_run, .release = release);
DEFINE_KERNEL(cpu_reorder_any, .op = &op_Reorder, .rank = 10, .layouts = any, .prepare = prepare_any, .run = run_any,
              .release = free);
