/* Unique: the different slices of a tensor, with indices and counts. */
#include "graph/ops/unique.gen.h"
#include "graph/ops/unique_slices.h"

#include "kernels/ref/ref.h"

/* The state's axis may be UNIQUE_FLAT; its mode: the slices are sorted. */
static Status ref_unique_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    RefNode p = ref_node(g, n);

    p.axis = node_int(n, "axis") == INT64_MIN ? UNIQUE_FLAT : p.axis;
    p.mode = node_int(n, "sorted");
    ctx->scratch_bytes = sizeof(int64_t) * 4 * (size_t)unique_slices(in_value(g, n, 0)->shape, p.axis);
    return kernel_state(state, &p, sizeof p);
}

static void copy_slices(Tensor *y, const Tensor *x, int axis, const int64_t *first, int64_t count)
{
    const bool flat = axis == UNIQUE_FLAT;
    const int64_t n = unique_slices(&x->shape, axis), outer = flat ? 1 : shape_count(&x->shape, 0, axis);
    const size_t row = (size_t)(flat ? 1 : shape_count(&x->shape, axis + 1, x->shape.rank)) * dtype_size(x->dtype);

    for (int64_t o = 0; o < outer && row; o++)
        for (int64_t i = 0; i < count; i++)
            memcpy((char *)y->data + (size_t)(o * count + i) * row,
                   (const char *)x->data + (size_t)(o * n + first[i]) * row, row);
}

static Status ref_unique_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const int64_t n = unique_slices(&in[0].shape, p->axis);
    int64_t *group = ctx->scratch, *first = group + n, *counts;
    const int64_t count = unique_find(&in[0], p->axis, p->mode != 0, group, first, first + n);

    copy_slices(&out[0], &in[0], p->axis, first, count);
    if (p->n_out > 1 && out[1].data)
        memcpy(out[1].data, first, (size_t)count * sizeof *first);
    if (p->n_out > 2 && out[2].data)
        memcpy(out[2].data, group, (size_t)n * sizeof *group);
    if (p->n_out <= 3 || !(counts = out[3].data))
        return ST_OK;
    memset(counts, 0, (size_t)count * sizeof *counts);
    for (int64_t i = 0; i < n; i++)
        counts[group[i]]++;
    return ST_OK;
}

DEFINE_KERNEL(ref_unique, .op = &op_Unique, .prepare = ref_unique_prepare, .run = ref_unique_run, .release = free);
