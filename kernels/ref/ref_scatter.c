/* Writing at indices, in their order: of equal indices the last one wins, or all are added, multiplied ... */
#include "graph/ops/scatter.gen.h"
#include "kernels/ref/ref_move.h"

typedef enum { R_NONE, R_ADD, R_MUL, R_MAX, R_MIN } Reduction;

/* The state's mode is a Reduction. */
static Status ref_scatter_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    static const char *const names[] = { "none", "add", "mul", "max", "min" };
    Reduction how = R_NONE;

    (void)ctx;
    for (int i = 0; i < 5; i++)
        if (!strcmp(node_string(n, "reduction"), names[i]))
            how = (Reduction)i;
    return ref_mode_prepare(state, g, n, how);
}

#define BODY "kernels/ref/ref_scatter.inc"
#define TYPES OF_NUMBERS
#include "kernels/each_type.inc"

static void combine(Reduction how, const Tensor *u, int64_t i, Tensor *y, int64_t at)
{
    static void (*const combine[DT_COUNT])(Reduction, void *, const void *) = { OF_EACH_NUMBER(combine) };
    const size_t size = dtype_size(u->dtype);
    void *into = (char *)y->data + (size_t)at * size;
    const void *update = (const char *)u->data + (size_t)i * size;

    if (how != R_NONE && combine[u->dtype])
        combine[u->dtype](how, into, update);
    else
        memcpy(into, update, size);
}

static void copy_data(const Tensor *x, Tensor *y)
{
    if (x->data != y->data && tensor_bytes(x))
        memcpy(y->data, x->data, tensor_bytes(x));
}

static Status ref_scatter_run_elements(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    int axis = p->axis;
    int64_t xs[MAX_RANK], us[MAX_RANK], n = tensor_numel(&in[1]), index;

    (void)ctx;
    copy_data(&in[0], &out[0]);
    shape_strides(&out[0].shape, xs);
    shape_strides(&in[1].shape, us);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;

        TRY(ref_index_in(&index, p, &in[1], i, out[0].shape.dim[axis]));
        for (int a = 0; a < out[0].shape.rank; a++)
            at += (a == axis ? index : i / us[a] % in[1].shape.dim[a]) * xs[a];
        combine((Reduction)p->mode, &in[2], i, &out[0], at);
    }
    return ST_OK;
}

static Status ref_scatter_run_nd(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const Shape *x = &out[0].shape, *ix = &in[1].shape;
    int k = (int)ix->dim[ix->rank - 1];
    int64_t n = shape_count(ix, 0, ix->rank - 1), inner = shape_count(x, k, x->rank), index;

    (void)ctx;
    copy_data(&in[0], &out[0]);
    for (int64_t i = 0; i < n && inner; i++) {
        int64_t row = 0;

        for (int a = 0; a < k; a++) {
            TRY(ref_index_in(&index, p, &in[1], i * k + a, x->dim[a]));
            row = row * x->dim[a] + index;
        }
        for (int64_t j = 0; j < inner; j++)
            combine((Reduction)p->mode, &in[2], i * inner + j, &out[0], row * inner + j);
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_scatter_elements, .op = &op_ScatterElements, .prepare = ref_scatter_prepare,
              .run = ref_scatter_run_elements, .release = free);
DEFINE_KERNEL(ref_scatter_nd, .op = &op_ScatterND, .prepare = ref_scatter_prepare, .run = ref_scatter_run_nd,
              .release = free);
