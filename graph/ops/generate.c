/* Tensors from shapes and scalars: Constant, ConstantOfShape, Shape, Size, Range, EyeLike. */
#include <math.h>
#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"

/* ---- Constant ---- */

/* value_float, value_ints ... become `value`. */
static Status import_constant(Graph *g, Node *n, int opset)
{
    const Attr *a = NULL;
    Tensor *t;
    Attr value = { .name = "value", .type = A_TENSOR };
    Shape s = shape_scalar();

    (void)opset;
    for (int i = 0; i < n->n_attr; i++)
        if (!strncmp(n->attr[i].name, "value_", 6))
            a = &n->attr[i];
    if (!a)
        return ST_OK;
    if (a->type != A_INT && a->type != A_FLOAT && a->type != A_INTS && a->type != A_FLOATS)
        return FAIL(E_UNSUPPORTED, "%s: a constant by '%s' is not supported", node_text(g, n), a->name);
    if (a->type == A_INTS || a->type == A_FLOATS)
        s = SHAPE(a->n);
    t = tensor_create(g->arena, a->type == A_INT || a->type == A_INTS ? DT_INT64 : DT_FLOAT32, &s);
    if (!t)
        return FAIL_NOMEM();
    for (int64_t i = 0; i < tensor_numel(t); i++)
        switch (a->type) {
        case A_INT: tensor_set_int(t, i, a->i); break;
        case A_INTS: tensor_set_int(t, i, a->ints[i]); break;
        case A_FLOAT: tensor_set_float(t, i, a->f); break;
        default: tensor_set_float(t, i, a->floats[i]);
        }
    value.tensor = t;
    node_set_attr(g, n, &value);
    node_remove_attr(g, n, a->name);
    return g->status;
}

static Status infer_constant(Graph *g, Node *n)
{
    const Tensor *t = node_attr(n, "value")->tensor;

    if (!t || t->dtype == DT_STRING || !dtype_size(t->dtype))
        return FAIL(E_UNSUPPORTED, "%s: a constant of type %s is not supported", node_text(g, n),
                    dtype_name(t ? t->dtype : DT_NONE));
    set_out(g, n, 0, t->dtype, &t->shape);
    return ST_OK;
}

DEFINE_OP(Constant, .flops_of = FLOPS_OF_NOTHING, .since = 13, .from = 12, .in_min = 0, .in_max = 0, .out_min = 1,
          .out_max = 1, .attrs = (const AttrDecl[]){ { "value", A_TENSOR, .rule = ATTR_REQUIRED }, { 0 } },
          .import = import_constant, .infer = infer_constant, .grad = grad_none, .place = place_all_b,
          .doc = "a tensor written in the model");

/* ---- ConstantOfShape ---- */

/* Makes the default, float32 zero, explicit, so that passes can convert its type. */
static Status import_constant_of_shape(Graph *g, Node *n, int opset)
{
    Shape one = SHAPE(1);
    Attr value = { .name = "value", .type = A_TENSOR };

    (void)opset;
    if (node_attr(n, "value"))
        return ST_OK;
    if (!(value.tensor = tensor_create(g->arena, DT_FLOAT32, &one)))
        return FAIL_NOMEM();
    node_set_attr(g, n, &value);
    return g->status;
}

static Status infer_constant_of_shape(Graph *g, Node *n)
{
    const Tensor *v = node_attr(n, "value")->tensor;
    Shape y = shape_unknown();
    DType t = v ? v->dtype : DT_FLOAT32;

    if (v && tensor_numel(v) != 1)
        return FAIL(E_MODEL, "%s: value must have one element", node_text(g, n));
    if (t == DT_STRING || !dtype_size(t))
        return FAIL(E_UNSUPPORTED, "%s: a constant of type %s is not supported", node_text(g, n), dtype_name(t));
    if (value_const(g, n->in[0])) {
        TRY(value_const_ints(g, n->in[0], y.dim, MAX_RANK, &y.rank));
        TRY(shape_check(&y, dtype_size(t)));
    }
    set_out(g, n, 0, t, &y);
    return ST_OK;
}

DEFINE_OP(ConstantOfShape, .flops_of = FLOPS_OF_NOTHING, .since = 9, .in_min = 1, .in_max = 1, .out_min = 1,
          .out_max = 1, .shape_in = 1, .attrs = (const AttrDecl[]){ { "value", A_TENSOR, .s = NULL }, { 0 } },
          .import = import_constant_of_shape, .infer = infer_constant_of_shape, .grad = grad_none, .place = place_all_b,
          .doc = "a tensor full of one value (0)");

/* ---- Shape, Size ---- */

static Status infer_shape(Graph *g, Node *n)
{
    const int rank = in_value(g, n, 0)->shape->rank;
    int64_t start = node_int(n, "start"), end = node_int(n, "end");
    Shape y;

    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    node_set_int(g, n, "start", start);
    node_set_int(g, n, "end", end);
    y = SHAPE(end - start);
    set_out(g, n, 0, DT_INT64, &y);
    return g->status;
}

/* Older opsets give all dimensions; inference has set "end" to the rank. */
static bool respell_shape(Graph *g, Node *n, int opset)
{
    (void)opset;
    if (node_int(n, "end") == in_value(g, n, 0)->shape->rank)
        node_remove_attr(g, n, "end");
    return respell_without(g, n, "start") && respell_without(g, n, "end");
}

DEFINE_OP(Shape, .since = 15, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, .flags = OPF_SHAPE_ONLY,
          .attrs = (const AttrDecl[]){ { "start", A_INT, .i = 0 }, { "end", A_INT, .i = INT64_MAX }, { 0 } },
          .respell = respell_shape, .infer = infer_shape, .grad = grad_none, .place = place_all_b,
          .doc = "the dimensions from start to end");

static Status infer_size(Graph *g, Node *n)
{
    Shape y = shape_scalar();

    set_out(g, n, 0, DT_INT64, &y);
    return ST_OK;
}

DEFINE_OP(Size, .since = 13, .from = 1, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, .flags = OPF_SHAPE_ONLY,
          .infer = infer_size, .grad = grad_none, .place = place_all_b, .doc = "the number of elements");

/* ---- Range ---- */

static Status range_count(const Graph *g, const Node *n, int64_t *count)
{
    const Tensor *t[3];
    double from, to, step, c;

    for (int i = 0; i < 3; i++)
        if (tensor_numel(t[i] = value_const(g, n->in[i])) != 1)
            return FAIL(E_SHAPE, "%s: input %d must be a scalar", node_text(g, n), i);
    from = tensor_float(t[0], 0);
    to = tensor_float(t[1], 0);
    step = tensor_float(t[2], 0);
    c = ceil((to - from) / step);
    if (step == 0 || !(c < 0x1p40))
        return FAIL(E_SHAPE, "%s: a range from %g to %g by %g, expected a step other than 0 and less than 2^40 numbers",
                    node_text(g, n), from, to, step);
    *count = c > 0 ? (int64_t)c : 0;
    return ST_OK;
}

static Status infer_range(Graph *g, Node *n)
{
    Shape y = shape_unknown();

    TRY(infer_same_dtype(g, n, 0, 3));
    if (value_const(g, n->in[0]) && value_const(g, n->in[1]) && value_const(g, n->in[2])) {
        y = SHAPE(0);
        TRY(range_count(g, n, &y.dim[0]));
    }
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return ST_OK;
}

DEFINE_OP(Range, .setting_in = 7, .since = 11, .in_min = 3, .in_max = 3, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_NUMERIC, .flags = OPF_DYNAMIC, .infer = infer_range, .grad = grad_none, .place = place_all_b,
          .doc = "start, start + delta ... below limit");

/* ---- EyeLike ---- */

static Status infer_eye_like(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    DType t = node_int(n, "dtype") ? (DType)node_int(n, "dtype") : x->dtype;

    if (x->shape->rank != 2)
        return FAIL(E_SHAPE, "%s: an input of rank %d is no matrix", node_text(g, n), x->shape->rank);
    if (t == DT_STRING || !dtype_size(t))
        return FAIL(E_UNSUPPORTED, "%s: type %s is not supported", node_text(g, n), dtype_name(t));
    set_out(g, n, 0, t, x->shape);
    return ST_OK;
}

DEFINE_OP(EyeLike, .since = 9, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, .flags = OPF_SHAPE_ONLY,
          .attrs = (const AttrDecl[]){ { "dtype", A_INT, .range = R_DTYPE }, { "k", A_INT, .i = 0 }, { 0 } },
          .infer = infer_eye_like, .grad = grad_none, .place = place_all_b,
          .doc = "ones on diagonal k, zeros elsewhere");
