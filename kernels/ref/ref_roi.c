/* Pooling of regions and its gradients.  A region whose numbers are not finite gives NaN, and gets no gradient. */
#include <math.h>
#include <stdio.h>

#include "graph/ops/roi.gen.h"
#include "kernels/ref/ref.h"

/* x[samples, channels, size[0], size[1]], y[regions, channels, bins[0], bins[1]] */
typedef struct {
    int64_t samples, channels, regions, size[2], bins[2], ratio;
    double scale;
    bool half_pixel, max;
    char what[200]; /* for errors found in data */
} Plan;

static Status ref_roi_make_plan(void **state, const Graph *g, const Node *n, const Shape *x, const Shape *y)
{
    Plan p = { .samples = x->dim[0],
               .channels = x->dim[1],
               .regions = y->dim[0],
               .size = { x->dim[2], x->dim[3] },
               .bins = { y->dim[2], y->dim[3] },
               .scale = node_float(n, "spatial_scale") };

    if (node_attr(n, "mode")) {
        p.ratio = node_int(n, "sampling_ratio");
        p.half_pixel = !strcmp(node_string(n, "coordinate_transformation_mode"), "half_pixel");
        p.max = !strcmp(node_string(n, "mode"), "max");
    }
    snprintf(p.what, sizeof p.what, "%s", node_text(g, n));
    return kernel_state(state, &p, sizeof p);
}

static Status ref_roi_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_roi_make_plan(state, g, n, in_value(g, n, 0)->shape, value(g, n->out[0])->shape);
}

static Status prepare_back(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_roi_make_plan(state, g, n, in_value(g, n, 1)->shape, in_value(g, n, 0)->shape);
}

/* ---- RoiAlign: samples ---- */

/* The samples [*lo, *hi) of a bin, of `count`, that may lie in [-1, size], when one follows another by `step`; of so
 * many that they are not counted exactly, none. */
static void ref_roi_within(double from, double step, int64_t size, double count, int64_t *lo, int64_t *hi)
{
    const double first = step > 0 ? floor((-1 - from) / step) - 1 : 0;
    const double end = step > 0 ? ceil(((double)size - from) / step) + 2 : count;

    *lo = first > 0 ? (int64_t)fmin(fmin(first, count), 0x1p50) : 0;
    *hi = (int64_t)fmin(fmin(fmax(end, 0), count), 0x1p50);
}

/* ---- MaxRoiPool: elements ---- */

/* The elements [*lo, *hi) of bin i of `bins` over `length` elements from `start`. */
static void bin_range(int64_t i, int64_t bins, int64_t start, int64_t length, int64_t size, int64_t *lo, int64_t *hi)
{
    const int64_t from = start + i * length / bins, to = start + ((i + 1) * length + bins - 1) / bins;

    *lo = from < 0 ? 0 : from > size ? size : from;
    *hi = to < 0 ? 0 : to > size ? size : to;
}

/* A number of a region in elements, rounded; kept to what integers can multiply, and 0 if it is none. */
static int64_t rounded(double v)
{
    const double most = 0x1p30;

    return isnan(v) ? 0 : (int64_t)round(v > most ? most : v < -most ? -most : v);
}

#define BODY "kernels/ref/ref_roi.inc"
#include "kernels/each_type.inc"

/* ---- what regions are of ---- */

static Status ref_roi_check_indices(const Plan *p, const Tensor *t)
{
    for (int64_t r = 0; r < p->regions; r++)
        if (((const int64_t *)t->data)[r] < 0 || ((const int64_t *)t->data)[r] >= p->samples)
            return FAIL(E_INVALID, "%s: batch_indices[%lld] is %lld, expected 0 to %lld", p->what, (long long)r,
                        (long long)((const int64_t *)t->data)[r], (long long)p->samples - 1);
    return ST_OK;
}

static Status check_rois(const Plan *p, const Tensor *rois)
{
    for (int64_t r = 0; r < p->regions; r++) {
        const double b = tensor_float(rois, r * 5);

        if (!(b >= 0 && b < (double)p->samples && b == floor(b)))
            return FAIL(E_INVALID, "%s: region %lld is of sample %.9g, expected 0 to %lld", p->what, (long long)r, b,
                        (long long)p->samples - 1);
    }
    return ST_OK;
}

RUN_FLOAT(align, align, state, in[0].data, in[1].data, in[2].data, out[0].data)
RUN_FLOAT(align_back, align_grad, state, in[0].data, in[1].data, in[2].data, in[3].data, out[0].data)
RUN_FLOAT(max_pool, max, state, in[0].data, in[1].data, out[0].data)
RUN_FLOAT(max_back, max_grad, state, in[0].data, in[1].data, in[2].data, out[0].data)

static Status run_align(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    TRY(ref_roi_check_indices(state, &in[2]));
    return align(ctx, state, in, out);
}

static Status run_align_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    TRY(ref_roi_check_indices(state, &in[3]));
    return align_back(ctx, state, in, out);
}

static Status ref_roi_run_max(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    TRY(check_rois(state, &in[1]));
    return max_pool(ctx, state, in, out);
}

static Status run_max_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    TRY(check_rois(state, &in[2]));
    return max_back(ctx, state, in, out);
}

DEFINE_KERNEL(ref_roi_align, .op = &op_RoiAlign, .dtypes = DTYPES_F32_F64, .prepare = ref_roi_prepare, .run = run_align,
              .release = free);
DEFINE_KERNEL(ref_roi_align_grad, .op = &op_RoiAlignGrad, .dtypes = DTYPES_F32_F64, .prepare = prepare_back,
              .run = run_align_grad, .release = free);
DEFINE_KERNEL(ref_max_roi_pool, .op = &op_MaxRoiPool, .dtypes = DTYPES_F32_F64, .prepare = ref_roi_prepare,
              .run = ref_roi_run_max, .release = free);
DEFINE_KERNEL(ref_max_roi_pool_grad, .op = &op_MaxRoiPoolGrad, .dtypes = DTYPES_F32_F64, .prepare = prepare_back,
              .run = run_max_grad, .release = free);
