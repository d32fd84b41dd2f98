/* Concat and Split: the whole tensor as rows in which the parts stand side by side, all parts by one launch. */
#include <stdlib.h>

#include "graph/ops/concat.gen.h"
#include "graph/tensor/layout.h"
#include "kernels/cuda/cuda_move.h"

/* Part i: `width[i]` elements of each row, 0 for an absent one; they begin at `begin[i]`. */
typedef struct {
    int n_part, axis;    /* of what lies by rows in memory */
    int64_t rows, pitch; /* elements */
    size_t size, unit;   /* unit: bytes that every part begins at a multiple of */
    GpuKernel *kernel[MOVE_WIDTHS];
    int64_t begin[]; /* [n_part + 1] */
} State;

static void add_part(State *s, const Shape *part)
{
    s->begin[s->n_part + 1] = s->begin[s->n_part] + shape_count(part, s->axis, part->rank);
    s->n_part++;
}

static Status cuda_concat_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    bool join = n->op == &op_Concat;
    int count = join ? n->n_in : n->n_out;
    const Value *whole = join ? value(g, n->out[0]) : in_value(g, n, 0);
    const Layout order = node_layout(g, n);
    const Shape stored = layout_stored(order, whole->shape);
    State *s = calloc(1, sizeof *s + (size_t)(count + 1) * sizeof *s->begin);
    uint64_t bits = 0;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->axis = layout_position(order, stored.rank, (int)node_int(n, "axis"));
    s->size = dtype_size(whole->dtype);
    s->rows = shape_count(&stored, 0, s->axis);
    s->pitch = shape_count(&stored, s->axis, stored.rank);
    for (int i = 0; i < count; i++) {
        Shape part = layout_stored(order, value(g, join ? n->in[i] : n->out[i])->shape);

        add_part(s, &part);
        bits |= (uint64_t)s->begin[i + 1] * s->size;
    }
    s->unit = unit_of(bits);
    if ((st = unit_kernels(s->kernel, ctx, join ? "join" : "cut", s->size, s->unit))) {
        free(s);
        return st;
    }
    *state = s;
    return ST_OK;
}

/* Parts [first, last) of rows [row, row + rows), in units of `w` bytes. */
static Status run_group(const KernelCtx *ctx, const State *s, int64_t w, int first, int last, int64_t row, int64_t rows,
                        const Tensor *part, void *whole)
{
    int64_t size = (int64_t)s->size, from = s->begin[first];
    JoinBox box = { .n_part = last - first, .pitch = s->pitch * size / w, .first = from * size / w };
    char *base = (char *)whole + row * s->pitch * size;

    for (int i = first; i < last; i++) {
        int64_t width = s->begin[i + 1] - s->begin[i];

        box.begin[i - first + 1] = (s->begin[i + 1] - from) * size / w;
        box.part[i - first] = part[i].data ? (uintptr_t)part[i].data + (uint64_t)(row * width * size) : 0;
    }
    box.n = rows * box.begin[box.n_part];
    box.by_row = divisor_of(box.begin[box.n_part]);
    if (!box.n)
        return ST_OK;
    return cuda_launch(ctx, s->kernel[log2_of((size_t)w)], move_blocks(box.n), MOVE_THREADS, 0, CUDA_ARGS(&box, &base));
}

/* Groups of rows and of parts that one launch takes. */
static Status run_parts(const KernelCtx *ctx, const State *s, const Tensor *part, void *whole)
{
    uint64_t bits = (uintptr_t)whole;
    int64_t most = s->pitch ? INT32_MAX / s->pitch : 0;
    size_t here, w;

    for (int i = 0; i < s->n_part; i++)
        bits |= (uintptr_t)part[i].data;
    here = unit_of(bits);
    w = here < s->unit ? here : s->unit;
    for (int64_t row = 0; most && row < s->rows; row += most)
        for (int first = 0; first < s->n_part; first += JOIN_PARTS) {
            int last = first + JOIN_PARTS < s->n_part ? first + JOIN_PARTS : s->n_part;

            TRY(run_group(ctx, s, (int64_t)w, first, last, row, s->rows - row < most ? s->rows - row : most, part,
                          whole));
        }
    return ST_OK;
}

static Status cuda_concat_run_concat(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return run_parts(ctx, state, in, out[0].data);
}

static Status cuda_concat_run_split(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return run_parts(ctx, state, out, in[0].data);
}

/* A row's units are counted in 31 bits; an absent output would leave its size unknown. */
static bool cuda_concat_fits(const Graph *g, const Node *n)
{
    bool join = n->op == &op_Concat;
    const Layout order = node_layout(g, n);
    const Shape whole = layout_stored(order, value(g, join ? n->out[0] : n->in[0])->shape);

    for (int i = 0; i < n->n_out; i++)
        if (!has_out(n, i))
            return false;
    return shape_count(&whole, layout_position(order, whole.rank, (int)node_int(n, "axis")), whole.rank) < INT32_MAX;
}

DEFINE_KERNEL(cuda_concat, .op = &op_Concat, .layouts = kernel_channels_last, .supports = cuda_concat_fits,
              .prepare = cuda_concat_prepare, .run = cuda_concat_run_concat, .release = free);
DEFINE_KERNEL(cuda_split, .op = &op_Split, .layouts = kernel_channels_last, .supports = cuda_concat_fits,
              .prepare = cuda_concat_prepare, .run = cuda_concat_run_split, .release = free);
