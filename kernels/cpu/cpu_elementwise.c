/* The walk over rows of elementwise kernels: a thread seeks its first row and runs on to the end of its share. */
#include "kernels/cpu/cpu_elementwise.h"

#include <string.h>

/* The pattern of the walk's rows.  Rows of one element match any pattern. */
static unsigned row_pattern(const BroadcastWalk *w)
{
    unsigned pattern = 0;

    for (int k = 0; k < w->n; k++)
        pattern |= (unsigned)(w->row > 1 && w->row_stride[k] == 0) << k;
    return pattern;
}

Status elementwise_prepare(void **state, const Graph *g, const Node *n, int operands, const RowFn *table)
{
    const Value *y = value(g, n->out[0]);
    Elementwise e = { .total = shape_numel(y->shape), .out_size = dtype_size(y->dtype) };
    Tensor in[MAX_OPERANDS] = { { 0 } };

    for (int k = 0; k < operands; k++)
        if (has_in(n, k)) {
            in[k].shape = *in_value(g, n, k)->shape;
            e.in_size[k] = dtype_size(in_value(g, n, k)->dtype);
        }
    memcpy(e.pattern, table, sizeof *table << operands);
    e.walk = walk_start(y->shape, operands, in);
    e.fn = table[row_pattern(&e.walk)];
    return kernel_state(state, &e, sizeof e);
}

/* Puts the walk on row `index`. */
static void walk_seek(BroadcastWalk *w, int64_t index)
{
    for (int i = 0; i < w->rank; i++) {
        w->at[i] = index % w->dim[i];
        index /= w->dim[i];
        for (int k = 0; k < w->n; k++)
            w->offset[k] += w->at[i] * w->stride[k][i];
    }
}

void elementwise_range(const Elementwise *e, const Tensor *in, void *y, int64_t from, int64_t to)
{
    BroadcastWalk w = e->walk;
    int64_t skip = from % w.row;
    char *at = y;

    walk_seek(&w, from / w.row);
    while (from < to) {
        const char *row[MAX_OPERANDS] = { NULL };
        int64_t n = w.row - skip < to - from ? w.row - skip : to - from;

        for (int k = 0; k < w.n; k++)
            if (in[k].data)
                row[k] = (const char *)in[k].data + (size_t)(w.offset[k] + skip * w.row_stride[k]) * e->in_size[k];
        e->fn(at, row[0], row[1], row[2], n, e->param);
        at += (size_t)n * e->out_size;
        from += n;
        skip = 0;
        walk_next(&w);
    }
}

Status elementwise_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Elementwise *e = state;
    const int threads = e->total < PARALLEL_ELEMENTS && !ctx->grain ? 1 : ctx->n_threads;

    if (!e->total)
        return ST_OK;
    if (threads < 2) {
        elementwise_range(e, in, out->data, 0, e->total);
        return ST_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < threads; t++) {
        int64_t from = e->total / 64 * t / threads * 64,
                to = t + 1 < threads ? e->total / 64 * (t + 1) / threads * 64 : e->total;

        elementwise_range(e, in, (char *)out->data + (size_t)from * e->out_size, from, to);
    }
    return ST_OK;
}
