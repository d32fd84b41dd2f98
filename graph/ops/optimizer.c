/* Updates of parameters: the formulas of torch.optim's SGD, Adam and AdamW, the norm that clipping needs, and the rule
 * of a dynamic loss scale.
 *
 * Everything is whole on every replica: gradients are reduced before they come here, so all replicas decide alike. */
#include "graph/grad.h"
#include "graph/place.h"

/* Input i, when it is there, says whether the update happens; if not, the outputs are the states as they were, to the
 * bit. */
static Status check_apply(const Graph *g, const Node *n, int i)
{
    char text[SHAPE_TEXT];

    if (!has_in(n, i) || (in_value(g, n, i)->dtype == DT_BOOL && !in_value(g, n, i)->shape.rank))
        return ST_OK;
    return FAIL(E_SHAPE, "%s: input %d is %s%s, expected bool[]", node_text(g, n), i,
                dtype_name(in_value(g, n, i)->dtype), shape_text(&in_value(g, n, i)->shape, text));
}

/* Inputs [1, apply) but `scalars` look like input 0; outputs too. */
static Status infer_like_param(Graph *g, Node *n, unsigned scalars, int apply)
{
    const Value *w = in_value(g, n, 0);
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    TRY(check_apply(g, n, apply));
    for (int i = 1; i < n->n_in && i < apply; i++) {
        const Value *v = has_in(n, i) ? in_value(g, n, i) : NULL;
        Shape want = scalars >> i & 1 ? shape_scalar() : w->shape;

        if (!v || (v->dtype == DT_INT64 && (scalars >> i & 1) && i == 5 && v->shape.rank == 0))
            continue;
        if (v->dtype != w->dtype || !shape_eq(&v->shape, &want))
            return FAIL(E_SHAPE, "%s: input %d is %s%s, expected %s%s", node_text(g, n), i, dtype_name(v->dtype),
                        shape_text(&v->shape, a), dtype_name(w->dtype), shape_text(&want, b));
    }
    for (int i = 0; i < n->n_out; i++)
        set_out(g, n, i, w->dtype, &w->shape);
    return ST_OK;
}

static Status infer_sgd(Graph *g, Node *n)
{
    if (n->n_out == 2 && !has_in(n, 3))
        return FAIL(E_SHAPE, "%s: a momentum comes out but none goes in", node_text(g, n));
    return infer_like_param(g, n, 1u << 2, 4);
}

static Status infer_adam(Graph *g, Node *n)
{
    if (in_value(g, n, 5)->dtype != DT_INT64)
        return FAIL(E_SHAPE, "%s: the step is %s, expected int64", node_text(g, n),
                    dtype_name(in_value(g, n, 5)->dtype));
    return infer_like_param(g, n, 1u << 2 | 1u << 5, 6);
}

#define SGD_ATTRS \
    { "momentum", A_FLOAT, .f = 0 }, { "nesterov", A_INT, .i = 0 }, { "weight_decay", A_FLOAT, .f = 0 }
#define ADAM_ATTRS                                                                                   \
    { "beta1", A_FLOAT, .f = 0.9 }, { "beta2", A_FLOAT, .f = 0.999 }, { "eps", A_FLOAT, .f = 1e-8 }, \
        { "weight_decay", A_FLOAT, .f = 0 },                                                         \
    {                                                                                                \
        "decoupled", A_INT, .i = 0                                                                   \
    }

DEFINE_OP(SgdUpdate, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 3, .in_max = 5, .out_min = 1,
          .out_max = 2, .dtypes = DTYPES_F32_F64, .inplace = { 1, 1 << 3 },
          .attrs = (const AttrDecl[]){ SGD_ATTRS, { 0 } }, .infer = infer_sgd, .grad = grad_none, .place = place_update,
          .flags = OPF_ELEMENTS,
          .doc = "d = g + weight_decay w; m' = momentum m + d; w' = w - lr (nesterov ? d + momentum m' : m'); "
                 "inputs w, g, lr, m, apply (bool: else all stays)");

DEFINE_OP(AdamUpdate, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 6, .in_max = 7, .out_min = 3,
          .out_max = 3, .dtypes = DTYPES_F32_F64, .inplace = { 1, 1 << 3, 1 << 4 },
          .attrs = (const AttrDecl[]){ ADAM_ATTRS, { 0 } }, .infer = infer_adam, .grad = grad_none,
          .place = place_update, .flags = OPF_ELEMENTS,
          .doc = "m' = b1 m + (1-b1) g; v' = b2 v + (1-b2) g^2; w' = w - lr/(1-b1^t) m' / (sqrt(v')/sqrt(1-b2^t) + "
                 "eps), t = step + 1; "
                 "weight decay is added to g, or with decoupled scales w by 1 - lr weight_decay first; inputs w, g, "
                 "lr, m, v, step, apply");

/* ---- all parameters of a device in one node (passes/fuse/group_updates.c) ----
 *
 * Inputs: for each parameter its state (the parameter, then its moments), then for each its gradient, then what all
 * share; the outputs are the next states in their order. */

/* `per` states a parameter; `shared` inputs behind the gradients, the first the learning rate, an int64 scalar the
 * step; then, both optional, what each gradient is multiplied by, and whether the update happens. */
static Status infer_all(Graph *g, Node *n, int per, int shared)
{
    int count = node_int(n, "count") > n->n_in ? 0 : (int)node_int(n, "count"), states = count * per;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (count < 1 || n->n_out != states || n->n_in < states + count + shared || n->n_in > states + count + shared + 2)
        return FAIL(E_MODEL, "%s: %d inputs and %d outputs for %d parameters", node_text(g, n), n->n_in, n->n_out,
                    count);
    TRY(check_apply(g, n, states + count + shared + 1));
    for (int i = 0; i < n->n_in && i < states + count + shared + 1; i++) {
        const int of = i < states ? i / per * per : i < states + count ? (i - states) * per : 0;
        const Value *v = has_in(n, i) ? in_value(g, n, i) : NULL, *w = in_value(g, n, of);
        Shape want = i < states + count ? w->shape : shape_scalar();
        bool is_step = shared == 2 && i == states + count + 1;

        if (!v && i == states + count + shared)
            continue;
        if (!v)
            return FAIL(E_MODEL, "%s: input %d is absent", node_text(g, n), i);
        if (v->dtype != (is_step ? DT_INT64 : in_value(g, n, 0)->dtype) || !shape_eq(&v->shape, &want))
            return FAIL(E_SHAPE, "%s: input %d is %s%s, expected %s%s", node_text(g, n), i, dtype_name(v->dtype),
                        shape_text(&v->shape, a), dtype_name(is_step ? DT_INT64 : in_value(g, n, 0)->dtype),
                        shape_text(&want, b));
    }
    for (int i = 0; i < n->n_out; i++)
        set_out(g, n, i, in_value(g, n, i)->dtype, &in_value(g, n, i)->shape);
    return ST_OK;
}

static Status infer_sgd_all(Graph *g, Node *n) { return infer_all(g, n, n->n_out > node_int(n, "count") ? 2 : 1, 1); }

static Status infer_adam_all(Graph *g, Node *n) { return infer_all(g, n, 3, 2); }

#define ALL                                                                                              \
    .domain = "dpexec", .since = 1, .in_max = -1, .out_min = 1, .out_max = -1, .dtypes = DTYPES_F32_F64, \
    .flags = OPF_INPLACE_EACH | OPF_GAPS, .grad = grad_none, .place = place_all_b

DEFINE_OP(SgdUpdateAll, ALL, .in_min = 3,
          .attrs = (const AttrDecl[]){ { "count", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE },
                                       SGD_ATTRS,
                                       { 0 } },
          .infer = infer_sgd_all,
          .doc = "SgdUpdate of `count` parameters; inputs w, m (with momentum) of each, g of each, lr, and optionally "
                 "what each g is multiplied by, apply");

DEFINE_OP(AdamUpdateAll, ALL, .in_min = 6,
          .attrs = (const AttrDecl[]){ { "count", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE },
                                       ADAM_ATTRS,
                                       { 0 } },
          .infer = infer_adam_all,
          .doc = "AdamUpdate of `count` parameters; inputs w, m, v of each, g of each, lr, step, and optionally what "
                 "each g is multiplied by, apply");

/* ---- clipping ---- */

static Status check_present(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (!has_in(n, i))
            return FAIL(E_MODEL, "%s: input %d is absent", node_text(g, n), i);
    return ST_OK;
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

    if (scale->shape.rank || good->shape.rank || good->dtype != DT_INT64)
        return FAIL(E_SHAPE, "%s: expected a scale, a count of int64 and a bool, all scalars", node_text(g, n));
    TRY(check_apply(g, n, 2));
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
