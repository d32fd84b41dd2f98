/* What updates of parameters (graph/ops/update.c) go by: the norm that clipping needs, whether gradients are finite,
 * and the rule of a dynamic loss scale.
 *
 * Everything is whole on every replica: gradients are reduced before they come here, so all replicas decide alike. */
#include "graph/body.h"
#include "graph/grad.h"
#include "graph/place.h"

/* ---- clipping ---- */

static Status check_present(const Graph *g, const Node *n)
{
    return status_prefix(node_check_present(n), "%s", node_text(g, n));
}

static Status infer_norm(Graph *g, Node *n)
{
    Shape scalar = shape_scalar();

    TRY(check_present(g, n));
    TRY(infer_same_dtype(g, n, 0, n->n_in));
    if (node_int(n, "scaled") && (n->n_in < 2 || in_value(g, n, n->n_in - 1)->shape.rank))
        return FAIL(E_SHAPE, "%s: the last input must be the scalar that the others are multiplied by",
                    node_text(g, n));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &scalar);
    set_out(g, n, 1, in_value(g, n, 0)->dtype, &scalar);
    return ST_OK;
}

DEFINE_OP(GlobalNorm, .layout = LAYOUT_EACH, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = -1, .out_min = 2,
          .out_max = 2, .dtypes = DTYPES_F32_F64,
          .attrs = (const AttrDecl[]){ { "max_norm", A_FLOAT, .rule = ATTR_REQUIRED },
                                       { "scaled", A_INT, .i = 0 },
                                       { 0 } },
          .infer = infer_norm, .grad = grad_none, .place = place_all_b,
          .doc = "norm = the square root of the sum of squares over all inputs, in their order; scale = min(1, "
                 "max_norm / (norm + 1e-6)); "
                 "with scaled the last input is a scalar s that the others are multiplied by: the norm is of the "
                 "products, scale is times s");

/* ---- loss scaling ---- */

static Status infer_finite(Graph *g, Node *n)
{
    Shape scalar = shape_scalar();

    TRY(check_present(g, n));
    TRY(infer_same_dtype(g, n, 0, n->n_in));
    set_out(g, n, 0, DT_BOOL, &scalar);
    return ST_OK;
}

DEFINE_OP(AllFinite, .layout = LAYOUT_EACH, .precision = PREC_WIDE, .domain = "dpexec", .since = 1, .in_min = 1,
          .in_max = -1, .out_min = 1, .out_max = 1, .dtypes = DTYPES_F32_F64, .infer = infer_finite, .grad = grad_none,
          .place = place_all_b, .doc = "whether no element of any input is infinite or not a number");

static Status infer_loss_scale(Graph *g, Node *n)
{
    const Value *scale = in_value(g, n, 0), *good = in_value(g, n, 1);
    char text[SHAPE_TEXT];

    if (scale->shape.rank || good->shape.rank || good->dtype != DT_INT64)
        return FAIL(E_SHAPE, "%s: expected a scale, a count of int64 and a bool, all scalars", node_text(g, n));
    if (in_value(g, n, 2)->dtype != DT_BOOL || in_value(g, n, 2)->shape.rank)
        return FAIL(E_SHAPE, "%s: input 2 is %s%s, expected bool[]", node_text(g, n),
                    dtype_name(in_value(g, n, 2)->dtype), shape_text(&in_value(g, n, 2)->shape, text));
    if (!(node_float(n, "growth") > 0) || !(node_float(n, "backoff") > 0) || node_int(n, "interval") < 1)
        return FAIL(E_MODEL, "%s: growth, backoff and interval must be above 0", node_text(g, n));
    set_out(g, n, 0, scale->dtype, &scale->shape);
    set_out(g, n, 1, DT_INT64, &good->shape);
    return ST_OK;
}

/* The rule of PyTorch's GradScaler (torch/amp/grad_scaler.py); unlike there the scale cannot fall to 0. */
DEFINE_OP(LossScaleUpdate, .precision = PREC_WIDE, .domain = "dpexec", .since = 1, .in_min = 3, .in_max = 3,
          .out_min = 2, .out_max = 2, .dtypes = DTYPES_F32_F64, .inplace = { 1, 1 << 1 },
          .attrs = (const AttrDecl[]){ { "growth", A_FLOAT, .f = 2 },
                                       { "backoff", A_FLOAT, .f = 0.5 },
                                       { "interval", A_INT, .i = 2000, .range = R_POSITIVE },
                                       { 0 } },
          .infer = infer_loss_scale, .grad = grad_none, .place = place_all_b,
          .doc = "inputs scale, good, ok; not ok: scale' = backoff scale, good' = 0; else good' = good + 1, and when "
                 "that is interval: "
                 "scale' = growth scale, good' = 0; scale stays where scale' is not a normal float32 number");
