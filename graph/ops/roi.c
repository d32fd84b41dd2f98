/* Pooling of regions: RoiAlign, MaxRoiPool.
 *
 * x[N,C,H,W], a region in each row of rois, y[regions,C,h,w].  A region names its sample by the position in the whole
 * batch, so regions may be split while each replica has all samples; the gradient by x is then a partial sum.  No
 * gradient flows to regions, as in PyTorch. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/roi.gen.h"
#include "graph/ops/roi_standard.h"

enum { SAMPLES_MAX = 4096 }; /* along an axis of a bin */

/* ---- inference: the data is input `at`, its regions follow ---- */

static Status check_regions(const Graph *g, const Node *n, int at, int64_t columns)
{
    const Shape *x = in_value(g, n, at)->shape, *rois = in_value(g, n, at + 1)->shape;
    char text[SHAPE_TEXT];

    TRY(infer_same_dtype(g, n, 0, at + 2));
    if (x->rank != 4)
        return FAIL(E_SHAPE, "%s: input %s, expected [batch, channels, height, width]", node_text(g, n),
                    shape_text(x, text));
    if (!x->dim[2] || !x->dim[3])
        return FAIL(E_SHAPE, "%s: input %s has no elements in a channel", node_text(g, n), shape_text(x, text));
    if (rois->rank != 2 || rois->dim[1] != columns)
        return FAIL(E_SHAPE, "%s: rois are %s, expected [regions, %lld]", node_text(g, n), shape_text(rois, text),
                    (long long)columns);
    return ST_OK;
}

static Status pooled(Shape *y, const Graph *g, const Node *n, int at, int64_t h, int64_t w)
{
    *y = SHAPE(in_value(g, n, at + 1)->shape->dim[0], in_value(g, n, at)->shape->dim[1], h, w);
    return shape_check(y, sizeof(double));
}

static Status align_shape(Shape *y, const Graph *g, const Node *n, int at)
{
    const Value *index = in_value(g, n, at + 2);
    const int64_t samples = node_int(n, "sampling_ratio");

    TRY(check_regions(g, n, at, 4));
    if (index->dtype != DT_INT64 || index->shape->rank != 1 ||
        index->shape->dim[0] != in_value(g, n, at + 1)->shape->dim[0])
        return FAIL(E_SHAPE, "%s: batch_indices must be int64[%lld]", node_text(g, n),
                    (long long)in_value(g, n, at + 1)->shape->dim[0]);
    if (samples > SAMPLES_MAX)
        return FAIL(E_UNSUPPORTED, "%s: sampling_ratio %lld, at most %d is supported", node_text(g, n),
                    (long long)samples, SAMPLES_MAX);
    return pooled(y, g, n, at, node_int(n, "output_height"), node_int(n, "output_width"));
}

static Status max_shape(Shape *y, const Graph *g, const Node *n, int at)
{
    int count;
    const int64_t *size = node_ints(n, "pooled_shape", &count);

    TRY(check_regions(g, n, at, 5));
    if (count != 2)
        return FAIL(E_SHAPE, "%s: pooled_shape has %d entries, expected 2", node_text(g, n), count);
    return pooled(y, g, n, at, size[0], size[1]);
}

static Status infer_pooled(Graph *g, Node *n, Status (*shape_of)(Shape *, const Graph *, const Node *, int))
{
    Shape y;

    TRY(shape_of(&y, g, n, 0));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return g->status;
}

static Status infer_back(Graph *g, Node *n, Status (*shape_of)(Shape *, const Graph *, const Node *, int))
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT];
    Shape y;

    TRY(shape_of(&y, g, n, 1));
    if (!shape_eq(&y, in_value(g, n, 0)->shape))
        return FAIL(E_SHAPE, "%s: the output gradient is %s, expected %s", node_text(g, n),
                    shape_text(in_value(g, n, 0)->shape, a), shape_text(&y, b));
    return infer_like(g, n, 1);
}

static Status infer_align(Graph *g, Node *n) { return infer_pooled(g, n, align_shape); }
static Status infer_align_grad(Graph *g, Node *n) { return infer_back(g, n, align_shape); }
static Status infer_max(Graph *g, Node *n) { return infer_pooled(g, n, max_shape); }
static Status infer_max_grad(Graph *g, Node *n) { return infer_back(g, n, max_shape); }

/* ---- gradients ---- */

static Status grad_align(Grad *gr)
{
    const Node *n = gr->node;
    const Attr *how = ATTRS(
        STRING("mode", node_string(n, "mode")),
        STRING("coordinate_transformation_mode", node_string(n, "coordinate_transformation_mode")),
        INT("output_height", node_int(n, "output_height")), INT("output_width", node_int(n, "output_width")),
        INT("sampling_ratio", node_int(n, "sampling_ratio")), FLOAT("spatial_scale", node_float(n, "spatial_scale")));

    if (grad_wanted(gr, 0))
        grad_set(gr, 0,
                 EMIT(gr->g, RoiAlignGrad, how, grad_dout(gr, 0), grad_in(gr, 0), grad_in(gr, 1), grad_in(gr, 2)));
    return gr->g->status;
}

static Status grad_max(Grad *gr)
{
    int count;
    const int64_t *size = node_ints(gr->node, "pooled_shape", &count);
    const Attr *how =
        ATTRS(INTS("pooled_shape", count, size), FLOAT("spatial_scale", node_float(gr->node, "spatial_scale")));

    if (grad_wanted(gr, 0))
        grad_set(gr, 0, EMIT(gr->g, MaxRoiPoolGrad, how, grad_dout(gr, 0), grad_in(gr, 0), grad_in(gr, 1)));
    return gr->g->status;
}

/* ---- placement ---- */

/* Is an input split along `axis`?  The data, input `at`, counts only along the channels. */
static bool is_split(const Placement *p, int at, int axis)
{
    for (int i = 0; i < p->node->n_in; i++)
        if (p->in[i].kind == PL_S && p->in[i].axis == axis && (axis == 0 ? i != at : i <= at))
            return true;
    return false;
}

static void place_like(Placement *p, int at, Place regions, Place data, Place out)
{
    for (int i = 0; i < p->node->n_in; i++)
        p->in[i] = i == at ? data : regions;
    place_set_all(p, out);
}

static Status place_regions(Placement *p, int at, Place out_of_split)
{
    if (p->in[at].kind == PL_S && p->in[at].axis != 1)
        place_mixes(p, p->in[at].axis ? "its regions reach along the split axis"
                                      : "a region may be of any sample of the batch");
    if (place_any(p, PL_L))
        place_like(p, at, PLACE_L, PLACE_L, PLACE_L);
    else if (is_split(p, at, 0))
        place_like(p, at, PLACE_S(0), PLACE_B, out_of_split);
    else if (is_split(p, at, 1)) {
        place_like(p, at, PLACE_B, PLACE_S(1), PLACE_S(1));
        if (at)
            p->in[0] = PLACE_S(1);
    } else
        place_like(p, at, PLACE_B, PLACE_B, PLACE_B);
    return ST_OK;
}

static Status place(Placement *p) { return place_regions(p, 0, PLACE_S(0)); }
static Status place_back(Placement *p) { return place_regions(p, 1, PLACE_P); }

/* ---- spellings ---- */

/* Before opset 16 positions had no shift of half a pixel. */
static Status import_align(Graph *g, Node *n, int opset)
{
    if (opset < 16)
        node_set_string(g, n, "coordinate_transformation_mode", "output_half_pixel");
    return g->status;
}

static bool respell_align(Graph *g, Node *n, int opset)
{
    if (opset >= 16)
        return true;
    if (opset < 10 || strcmp(node_string(n, "coordinate_transformation_mode"), "output_half_pixel") != 0)
        return false;
    node_remove_attr(g, n, "coordinate_transformation_mode");
    return true;
}

static int64_t index_range(const Graph *g, const Node *n, int i)
{
    return i == n->n_in - 1 ? in_value(g, n, i - 2)->shape->dim[0] : -1;
}

#define ALIGN_ATTRS                                                                                                  \
    (const AttrDecl[])                                                                                               \
    {                                                                                                                \
        { "mode", A_STRING, .s = "avg", .words = "avg max" },                                                        \
            { "coordinate_transformation_mode", A_STRING, .s = "half_pixel",                                         \
              .words = "half_pixel output_half_pixel" },                                                             \
            { "output_height", A_INT, .i = 1, .range = R_POSITIVE },                                                 \
            { "output_width", A_INT, .i = 1, .range = R_POSITIVE }, { "sampling_ratio", A_INT, .range = R_NATURAL }, \
            { "spatial_scale", A_FLOAT, .f = 1 },                                                                    \
        {                                                                                                            \
            0                                                                                                        \
        }                                                                                                            \
    }
#define MAX_ATTRS                                                                                                  \
    (const AttrDecl[])                                                                                             \
    {                                                                                                              \
        { "pooled_shape", A_INTS, .rule = ATTR_REQUIRED, .range = R_STEPS }, { "spatial_scale", A_FLOAT, .f = 1 }, \
        {                                                                                                          \
            0                                                                                                      \
        }                                                                                                          \
    }

DEFINE_OP(RoiAlign, .precision = PREC_WIDE, .since = 22, .from = 16, .in_min = 3, .in_max = 3, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_FLOAT, .setting_in = 2, .attrs = ALIGN_ATTRS, .import = import_align,
          .respell = respell_align, .infer = infer_align, .grad = grad_align, .place = place,
          .index_range = index_range, .doc = "bins of regions: the mean or maximum of samples between elements");

DEFINE_OP(RoiAlignGrad, .domain = "dpexec", .precision = PREC_WIDE, .since = 1, .in_min = 4, .in_max = 4, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_FLOAT, .attrs = ALIGN_ATTRS, .infer = infer_align_grad,
          .standard = roi_standard_align_grad, .place = place_back,
          .doc = "gradient of RoiAlign by x, from (dy, x, rois, batch_indices)");

DEFINE_OP(MaxRoiPool, .precision = PREC_WIDE, .since = 22, .from = 1, .in_min = 2, .in_max = 2, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_FLOAT, .setting_in = 2, .attrs = MAX_ATTRS, .infer = infer_max,
          .grad = grad_max, .place = place, .doc = "bins of regions: the maximum of their elements");

DEFINE_OP(MaxRoiPoolGrad, .domain = "dpexec", .precision = PREC_WIDE, .since = 1, .in_min = 3, .in_max = 3,
          .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, .attrs = MAX_ATTRS, .infer = infer_max_grad,
          .standard = roi_standard_max_grad, .place = place_back,
          .doc = "gradient of MaxRoiPool by x, from (dy, x, rois)");
