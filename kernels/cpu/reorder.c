/* Values in another layout: of float32 by oneDNN, of anything else element by element. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/onednn.h"

static Layout from(const Graph *g, const Node *n) { return in_value(g, n, 0)->layout; }

static Layout to(const Graph *g, const Node *n) { return value(g, n->out[0])->layout; }

static bool any(const Graph *g, const Node *n)
{
    (void)g, (void)n;
    return true;
}

/* ---- by oneDNN ---- */

static bool supports(const Graph *g, const Node *n)
{
    const Shape *s = &in_value(g, n, 0)->shape;

    return s->rank >= 3 && s->rank <= 5 && shape_numel(s) > 0 && shape_numel(s) <= INT32_MAX &&
           onednn_stores(from(g, n)) && onednn_stores(to(g, n));
}

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Onednn *d;
    Status st = onednn_reorder(&d, ctx, &in_value(g, n, 0)->shape, from(g, n), to(g, n));

    if (st)
        return status_prefix(st, "%s", n->name);
    *state = d;
    return ST_OK;
}

static Status run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return onednn_reorder_run(state, ctx, in[0].data, out[0].data);
}

static void release(void *state) { onednn_free(state); }

/* ---- element by element ---- */

typedef struct {
    Layout from, to;
} Plan;

static Status prepare_any(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Plan *p = malloc(sizeof *p);

    (void)ctx;
    if (!p)
        return FAIL_NOMEM();
    *p = (Plan){ from(g, n), to(g, n) };
    *state = p;
    return ST_OK;
}

static Status run_any(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;
    const Shape *s = &in[0].shape;
    const size_t size = dtype_size(in[0].dtype);
    int64_t n = shape_numel(s), at[MAX_RANK] = { 0 };

    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        memcpy((char *)out[0].data + (size_t)layout_place(p->to, s, at) * size,
               (const char *)in[0].data + (size_t)layout_place(p->from, s, at) * size, size);
        for (int k = s->rank - 1; k >= 0 && ++at[k] == s->dim[k]; k--)
            at[k] = 0;
    }
    return ST_OK;
}

DEFINE_KERNEL(cpu_reorder, .op = &op_Reorder, .dtypes = DTYPE_BIT(DT_FLOAT32), .layouts = any, .supports = supports,
              .prepare = prepare, .run = run, .release = release);
DEFINE_KERNEL(cpu_reorder_any, .op = &op_Reorder, .rank = 10, .layouts = any, .prepare = prepare_any, .run = run_any,
              .release = free);
