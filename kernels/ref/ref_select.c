/* Choosing elements: OneHot, NonZero, Compress, Trilu, TopK. */
#include "graph/ops/select.gen.h"
#include "kernels/ref/ref_move.h"

static const char *ref_select_element(const Tensor *t, int64_t i)
{
    return (const char *)t->data + (size_t)i * dtype_size(t->dtype);
}

static void ref_select_put(Tensor *y, int64_t i, const void *from)
{
    memcpy((char *)y->data + (size_t)i * dtype_size(y->dtype), from, dtype_size(y->dtype));
}

/* ---- OneHot: indices outside of [-depth, depth) light nothing ---- */

static Status run_one_hot(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    int axis = p->axis < 0 ? p->axis + out[0].shape.rank : p->axis;
    int64_t depth = out[0].shape.dim[axis], inner = shape_count(&in[0].shape, axis, in[0].shape.rank),
            n = tensor_numel(&in[0]);

    (void)ctx;
    ref_fill(dtype_size(in[2].dtype), tensor_numel(&out[0]), out[0].data, in[2].data);
    for (int64_t i = 0; i < n; i++) {
        double at = tensor_float(&in[0], i);

        at = at < 0 ? at + (double)depth : at;
        if (at >= 0 && at < (double)depth && at == (double)(int64_t)at)
            ref_select_put(&out[0], (i / inner * depth + (int64_t)at) * inner + i % inner,
                           ref_select_element(&in[2], 1));
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_one_hot, .op = &op_OneHot, .prepare = ref_node_prepare, .run = run_one_hot, .release = free);

/* ---- NonZero ---- */

static Status run_non_zero(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    int64_t n = tensor_numel(&in[0]), count = out[0].shape.dim[1], found = 0, stride[MAX_RANK], *y = out[0].data;

    (void)ctx;
    (void)state;
    shape_strides(&in[0].shape, stride);
    for (int64_t i = 0; i < n && found < count; i++) {
        if (tensor_float(&in[0], i) == 0)
            continue;
        for (int a = 0; a < in[0].shape.rank; a++)
            y[a * count + found] = i / stride[a] % in[0].shape.dim[a];
        found++;
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_non_zero, .op = &op_NonZero, .run = run_non_zero);

/* ---- Compress: without an axis x is one row of elements ---- */

static Status run_compress(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    bool flat = out[0].shape.rank != in[0].shape.rank || p->axis < 0;
    const Shape *x = &in[0].shape;
    int64_t outer = flat ? 1 : shape_count(x, 0, p->axis), d = flat ? shape_numel(x) : x->dim[p->axis];
    size_t row = (size_t)(flat ? 1 : shape_count(x, p->axis + 1, x->rank)) * dtype_size(in[0].dtype);
    char *y = out[0].data;

    (void)ctx;
    for (int64_t o = 0; o < outer && row; o++)
        for (int64_t i = 0; i < d && i < tensor_numel(&in[1]); i++)
            if (((const uint8_t *)in[1].data)[i]) {
                memcpy(y, (const char *)in[0].data + (size_t)(o * d + i) * row, row);
                y += row;
            }
    return ST_OK;
}

static Status prepare_compress(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    RefNode p = ref_node(g, n);

    (void)ctx;
    p.axis = node_int(n, "axis") == INT64_MIN ? -1 : (int)node_int(n, "axis");
    return kernel_state(state, &p, sizeof p);
}

DEFINE_KERNEL(ref_compress, .op = &op_Compress, .prepare = prepare_compress, .run = run_compress, .release = free);

/* ---- Trilu ---- */

/* The state's mode: the upper triangle stays. */
static Status prepare_trilu(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_mode_prepare(state, g, n, node_int(n, "upper"));
}

static Status run_trilu(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const Shape *x = &in[0].shape;
    int64_t rows = x->dim[x->rank - 2], cols = x->dim[x->rank - 1], n = tensor_numel(&in[0]);
    int64_t k = ref_in(p, in, 1) ? tensor_int(&in[1], 0) : 0;
    const uint64_t zero = 0;

    (void)ctx;
    k = k < -rows ? -rows : k > cols ? cols : k; /* beyond that nothing changes, and sums cannot overflow */
    for (int64_t i = 0; i < n; i++) {
        int64_t r = i / cols % rows, c = i % cols;
        bool keep = p->mode ? c >= r + k : c <= r + k;

        ref_select_put(&out[0], i, keep ? ref_select_element(&in[0], i) : (const char *)&zero);
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_trilu, .op = &op_Trilu, .prepare = prepare_trilu, .run = run_trilu, .release = free);

/* ---- TopK: of equals the first; NaN counts as the largest ---- */

/* The state's mode: the largest are wanted. */
static Status prepare_top_k(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_mode_prepare(state, g, n, node_int(n, "largest"));
}

/* Exact for every type: 64-bit integers as such, the others as doubles.  < 0: a stands before b. */
static int order(const Tensor *x, int64_t a, int64_t b, bool largest)
{
    int c;

    if (x->dtype == DT_UINT64) {
        uint64_t u = ((const uint64_t *)x->data)[a], v = ((const uint64_t *)x->data)[b];
        c = u < v ? -1 : u > v;
    } else if (x->dtype == DT_INT64) {
        int64_t u = tensor_int(x, a), v = tensor_int(x, b);
        c = u < v ? -1 : u > v;
    } else {
        double u = tensor_float(x, a), v = tensor_float(x, b);
        c = u != u || v != v ? (u != u) - (v != v) : u < v ? -1 : u > v;
    }
    c = largest ? -c : c;
    return c ? c : a < b ? -1 : a > b;
}

/* Each of the k is the first in order of those behind the one before it. */
static Status run_top_k(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const bool largest = p->mode != 0;
    const Shape *x = &in[0].shape;
    int64_t d = x->dim[p->axis], k = out[0].shape.dim[p->axis], inner = shape_count(x, p->axis + 1, x->rank);
    int64_t lines = k ? tensor_numel(&out[0]) / k : 0, *index = out[1].data;

    (void)ctx;
    for (int64_t l = 0; l < lines; l++) {
        int64_t base = l / inner * d * inner + l % inner, to = l / inner * k * inner + l % inner, last = -1;

        for (int64_t j = 0; j < k; j++) {
            int64_t best = -1;

            for (int64_t i = 0; i < d; i++) {
                int64_t at = base + i * inner;

                if ((last < 0 || order(&in[0], last, at, largest) < 0) &&
                    (best < 0 || order(&in[0], at, best, largest) < 0))
                    best = at;
            }
            ref_select_put(&out[0], to + j * inner, ref_select_element(&in[0], best));
            index[to + j * inner] = (best - base) / inner;
            last = best;
        }
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_top_k, .op = &op_TopK, .prepare = prepare_top_k, .run = run_top_k, .release = free);
