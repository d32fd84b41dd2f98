/* LayerNormalization: y = (x - mean) * inv_std * scale + bias over the axes from `axis` on.
 *
 * The backward pass is one node.  It computes mean and inv_std again from x (a row stays in cache, so that is cheap and
 * keeps nothing alive) and gives all three gradients; those of scale and bias are partial sums when the rows are split.
 * It may add another tensor to dx, the gradient along a residual block's skip connection, before dx is rounded to 16
 * bits.  GroupNormalization, InstanceNormalization and RMSNormalization are lowered to simpler operators. */
#include "graph/ops/layernorm.h"

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/layernorm.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"

static Status check_vector(const Graph *g, const Node *n, int i, const Shape *x, int axis)
{
    Shape rest = { .rank = x->rank - axis }, out;
    char found[SHAPE_TEXT], wanted[SHAPE_TEXT];

    for (int k = axis; k < x->rank; k++)
        rest.dim[k - axis] = x->dim[k];
    TRY(shape_broadcast(&out, &rest, in_value(g, n, i)->shape, node_text(g, n)));
    if (!shape_eq(&out, &rest))
        return FAIL(E_SHAPE, "%s: input %d is %s, expected %s", node_text(g, n), i,
                    shape_text(in_value(g, n, i)->shape, found), shape_text(&rest, wanted));
    return ST_OK;
}

/* Scale and bias may be float32 where the data has 16 bits.  Mean and inverse deviation are kept in the type they are
 * computed in: float32, or float64 for float64 data. */
static Status layernorm_infer(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape kept = *x->shape;
    int axis;

    TRY(infer_axis(g, n, x->shape->rank));
    TRY(infer_wide_dtype(g, n, 1, n->n_in));
    axis = (int)node_int(n, "axis");
    for (int i = 1; i < n->n_in; i++)
        if (has_in(n, i))
            TRY(check_vector(g, n, i, x->shape, axis));
    for (int k = axis; k < kept.rank; k++)
        kept.dim[k] = 1;
    set_out(g, n, 1, x->dtype == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32, &kept);
    set_out(g, n, 2, x->dtype == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32, &kept);
    return infer_like(g, n, 0);
}

/* x, dy, scale and optionally an addend for dx -> dx, dscale, dbias. */
static Status layernorm_infer_backward(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0), *dy = in_value(g, n, 1);
    const Value *added = has_in(n, LAYER_NORM_GRAD_ADDED) ? in_value(g, n, LAYER_NORM_GRAD_ADDED) : NULL;
    Shape rest = { 0 };
    int axis;

    TRY(infer_axis(g, n, x->shape->rank));
    TRY(infer_same_dtype(g, n, 0, 2));
    TRY(infer_wide_dtype(g, n, 2, 3));
    axis = (int)node_int(n, "axis");
    if (!shape_eq(x->shape, dy->shape))
        return FAIL(E_SHAPE, "%s: input and output gradient differ in shape", node_text(g, n));
    if (added && (added->dtype != x->dtype || !shape_eq(x->shape, added->shape)))
        return FAIL(E_SHAPE, "%s: input %d is not of the type and shape of input 0, to whose gradient it is added",
                    node_text(g, n), LAYER_NORM_GRAD_ADDED);
    for (int k = axis; k < x->shape->rank; k++)
        rest.dim[rest.rank++] = x->shape->dim[k];
    if (!shape_eq(in_value(g, n, 2)->shape, &rest))
        return FAIL(E_SHAPE, "%s: scale does not have the normalised shape", node_text(g, n));
    set_out(g, n, 0, x->dtype, x->shape);
    set_out(g, n, 1, in_value(g, n, 2)->dtype, &rest);
    set_out(g, n, 2, in_value(g, n, 2)->dtype, &rest);
    return ST_OK;
}

/* The gradient by x through outputs Mean and InvStdDev: (dmean - dinv * inv^3 * (x - mean)) / n, computed in their
 * type.
 */
static ValueId through_statistics(Grad *gr, ValueId dmean, ValueId dinv)
{
    Graph *g = gr->g;
    const Value *xv = grad_in_value(gr, 0);
    DType own = xv->dtype, wide = own == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32;
    Shape shape = *xv->shape;
    int axis = (int)node_int(gr->node, "axis");
    double count = (double)shape_count(&shape, axis, shape.rank);
    ValueId x = emit_cast(g, grad_in(gr, 0), wide), mean = grad_out(gr, 1), inv = grad_out(gr, 2), total = dmean, d;
    int64_t axes[MAX_RANK];

    for (int k = axis; k < shape.rank; k++)
        axes[k - axis] = k;
    if (has_value(dinv)) {
        ValueId cube = EMIT(g, Mul, NULL, EMIT(g, Mul, NULL, inv, inv), inv);

        if (!has_value(mean)) {
            mean = emit_reduce_sum(g, x, shape.rank - axis, axes, true);
            mean = EMIT(g, Mul, NULL, mean, emit_scalar(g, wide, 1 / count));
        }
        d = EMIT(g, Mul, NULL, dinv, cube);
        d = EMIT(g, Mul, NULL, d, EMIT(g, Sub, NULL, mean, x));
        total = has_value(dmean) ? EMIT(g, Add, NULL, d, dmean) : d;
    }
    total = EMIT(g, Mul, NULL, total, emit_scalar(g, wide, 1 / count));
    return emit_expand(g, emit_cast(g, total, own), &shape);
}

static Status layernorm_grad(Grad *gr)
{
    Graph *g = gr->g;
    const Node *n = gr->node;
    const Attr *attrs = ATTRS(INT("axis", node_int(n, "axis")), FLOAT("epsilon", node_float(n, "epsilon")));
    ValueId d[3] = { NO_VALUE }, dy = grad_dout(gr, 0), through;
    const Shape *x = grad_in_value(gr, 0)->shape;
    int axis = (int)node_int(n, "axis");
    Shape rest = shape_of(x->rank - axis, x->dim + axis);

    if (has_value(dy))
        EMIT_MULTI(g, LayerNormGrad, attrs, 3, d, grad_in(gr, 0), dy, emit_expand(g, grad_in(gr, 1), &rest));
    if (grad_wanted(gr, 0) && (has_value(grad_dout(gr, 1)) || has_value(grad_dout(gr, 2)))) {
        through = through_statistics(gr, grad_dout(gr, 1), grad_dout(gr, 2));
        d[0] = has_value(d[0]) ? EMIT(g, Add, NULL, d[0], through) : through;
    }
    grad_set(gr, 0, d[0]);
    for (int i = 1; i < 3; i++)
        if (has_value(d[i]))
            grad_set_unbroadcast(gr, i, d[i]);
    return g->status;
}

/* Expands a scale or bias to the normalised axes, since kernels do not broadcast it. */
static Status layernorm_lower(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int axis = (int)node_int(n, "axis");
    Shape rest = shape_of(x->rank - axis, x->dim + axis);

    for (int i = 1; i < 3; i++)
        if (has_in(n, i) && !shape_eq(in_value(g, n, i)->shape, &rest)) {
            ValueId full = emit_expand(g, n->in[i], &rest);

            if (!g->status)
                node_set_input(g, n, i, full);
        }
    return g->status;
}

/* ---- the gradient in ONNX's operators ---- */

static ValueId mean_of(Graph *g, ValueId x, int axis)
{
    int64_t axes[MAX_RANK];
    int n = 0;

    for (int i = axis; i < value(g, x)->shape->rank; i++)
        axes[n++] = i;
    return EMIT(g, ReduceMean, NULL, x, emit_ints(g, n, axes));
}

/* With s = dy scale and xhat = (x - mean) inv: dx = inv (s - mean(s) - xhat mean(s xhat)), plus the addend. */
static Status standard_grad(Graph *g, Node *n)
{
    const DType own = in_value(g, n, 0)->dtype, t = in_value(g, n, 2)->dtype;
    const ValueId x = emit_cast(g, n->in[0], t), dy = emit_cast(g, n->in[1], t);
    const int axis = (int)node_int(n, "axis");
    ValueId d, inv, xhat, s, slope, product;
    int64_t axes[MAX_RANK];

    for (int i = 0; i < axis; i++)
        axes[i] = i;
    d = EMIT(g, Sub, NULL, x, mean_of(g, x, axis));
    inv = mean_of(g, EMIT(g, Mul, NULL, d, d), axis);
    inv = EMIT(g, Add, NULL, inv, emit_scalar(g, t, node_float(n, "epsilon")));
    inv = EMIT(g, Reciprocal, NULL, EMIT(g, Sqrt, NULL, inv));
    xhat = EMIT(g, Mul, NULL, d, inv);
    s = EMIT(g, Mul, NULL, dy, n->in[2]);
    slope = mean_of(g, EMIT(g, Mul, NULL, s, xhat), axis);
    slope = EMIT(g, Mul, NULL, xhat, slope);
    s = EMIT(g, Sub, NULL, s, mean_of(g, s, axis));
    s = EMIT(g, Sub, NULL, s, slope);
    product = EMIT(g, Mul, NULL, dy, xhat);
    s = EMIT(g, Mul, NULL, s, inv);
    if (has_in(n, LAYER_NORM_GRAD_ADDED))
        s = EMIT(g, Add, NULL, s, emit_cast(g, n->in[LAYER_NORM_GRAD_ADDED], t));
    graph_replace(g, n->out[0], emit_cast(g, s, own));
    graph_replace(g, n->out[1], emit_reduce_sum(g, product, axis, axes, false));
    graph_replace(g, n->out[2], emit_reduce_sum(g, dy, axis, axes, false));
    return g->status;
}

/* ONNX's operator has scale and bias in the data's type, so with a float32 scale 16-bit data are cast to float32. */
static Status standard_wide(Graph *g, Node *n)
{
    const Attr *attrs = ATTRS(INT("axis", node_int(n, "axis")), FLOAT("epsilon", node_float(n, "epsilon")));
    const DType own = in_value(g, n, 0)->dtype;
    ValueId in[3] = { NO_VALUE }, out[3];

    for (int i = 0; i < n->n_in; i++)
        in[i] = has_value(n->in[i]) ? emit_cast(g, n->in[i], in_value(g, n, 1)->dtype) : NO_VALUE;
    emit_multi(g, &op_LayerNormalization, attrs, n->n_in, in, n->n_out, out);
    for (int i = 0; i < n->n_out && !g->status; i++)
        if (has_out(n, i))
            graph_replace(g, n->out[i], i ? out[i] : emit_cast(g, out[i], own));
    return g->status;
}

/* Attribute epsilon is float32.  For float64 data and an epsilon that float32 cannot represent, the formula is written
 * out with epsilon as a constant. */
static Status layernorm_standard(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const double epsilon = node_float(n, "epsilon");
    const int axis = (int)node_int(n, "axis");
    ValueId mean, d, inv, y;

    if (x->dtype != in_value(g, n, 1)->dtype)
        return standard_wide(g, n);
    if (x->dtype != DT_FLOAT64 || (double)(float)epsilon == epsilon)
        return ST_OK;
    mean = mean_of(g, n->in[0], axis);
    d = EMIT(g, Sub, NULL, n->in[0], mean);
    inv = mean_of(g, EMIT(g, Mul, NULL, d, d), axis);
    inv = EMIT(g, Sqrt, NULL, EMIT(g, Add, NULL, inv, emit_scalar(g, x->dtype, epsilon)));
    inv = EMIT(g, Reciprocal, NULL, inv);
    y = EMIT(g, Mul, NULL, EMIT(g, Mul, NULL, d, inv), n->in[1]);
    graph_replace(g, n->out[0], has_in(n, 2) ? EMIT(g, Add, NULL, y, n->in[2]) : y);
    if (has_out(n, 1))
        graph_replace(g, n->out[1], mean);
    if (has_out(n, 2))
        graph_replace(g, n->out[2], inv);
    return g->status;
}

/* ---- GroupNormalization, InstanceNormalization, RMSNormalization ---- */

/* v [C] reshaped to [1, C, 1, ...] with x's rank. */
static ValueId per_channel(Graph *g, ValueId v, const Shape *x)
{
    Shape s = { .rank = x->rank };

    for (int i = 0; i < x->rank; i++)
        s.dim[i] = i == 1 ? x->dim[1] : 1;
    return emit_reshape(g, v, &s);
}

/* Normalises groups of channels of each sample, then scales by channel, or by group as in opsets 18 to 20. */
static Status normalise_groups(Graph *g, Node *n, int64_t groups)
{
    Shape x = *in_value(g, n, 0)->shape, all = SHAPE(x.dim[1]), ones = SHAPE(shape_count(&x, 1, x.rank) / groups);
    DType t = in_value(g, n, 0)->dtype;
    ValueId scale = n->in[1], bias = n->in[2], y, parts;

    for (int i = 0; i < 2; i++) {
        ValueId *v = i ? &bias : &scale;
        Shape column = SHAPE(groups, 1), full = SHAPE(groups, x.dim[1] / groups);

        if (value(g, *v)->shape->dim[0] != x.dim[1])
            *v = emit_reshape(g, emit_expand(g, emit_reshape(g, *v, &column), &full), &all);
    }
    parts = EMIT(g, Reshape, NULL, n->in[0], emit_ints(g, 3, (int64_t[]){ 0, groups, ones.dim[0] }));
    y = EMIT(g, LayerNormalization, ATTRS(INT("axis", 2), FLOAT("epsilon", node_float(n, "epsilon"))), parts,
             emit_full(g, t, &ones, 1));
    x.dim[0] = 0; /* Reshape copies the input's size, so the constant does not fix the batch size */
    y = EMIT(g, Reshape, NULL, y, emit_ints(g, x.rank, x.dim));
    y = EMIT(g, Mul, NULL, y, per_channel(g, scale, &x));
    y = EMIT(g, Add, NULL, y, per_channel(g, bias, &x));
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

static Status infer_groups(Graph *g, Node *n, int64_t groups)
{
    const Shape *x = in_value(g, n, 0)->shape;

    TRY(infer_same_dtype(g, n, 0, 3));
    if (x->rank < 3 || x->dim[1] < 1 || groups < 1 || x->dim[1] % groups || !shape_count(x, 2, x->rank))
        return FAIL(E_SHAPE, "%s: expected [batch, channels, ...] with channels in %lld groups", node_text(g, n),
                    (long long)groups);
    for (int i = 1; i < 3; i++) {
        const Shape *s = in_value(g, n, i)->shape;

        if (s->rank != 1 || (s->dim[0] != x->dim[1] && s->dim[0] != groups))
            return FAIL(E_SHAPE, "%s: input %d must hold one number per channel", node_text(g, n), i);
    }
    return infer_like(g, n, 0);
}

static Status infer_group(Graph *g, Node *n) { return infer_groups(g, n, node_int(n, "num_groups")); }

static Status lower_group(Graph *g, Node *n) { return normalise_groups(g, n, node_int(n, "num_groups")); }

static Status infer_instance(Graph *g, Node *n)
{
    return infer_groups(g, n, in_value(g, n, 0)->shape->rank > 1 ? in_value(g, n, 0)->shape->dim[1] : 0);
}

static Status lower_instance(Graph *g, Node *n) { return normalise_groups(g, n, in_value(g, n, 0)->shape->dim[1]); }

/* The result has the scale's type. */
static Status infer_rms(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0), *scale = in_value(g, n, 1);

    TRY(infer_axis(g, n, x->shape->rank));
    TRY(check_vector(g, n, 1, x->shape, (int)node_int(n, "axis")));
    if (!(DTYPES_FLOAT & DTYPE_BIT(scale->dtype)))
        return FAIL(E_SHAPE, "%s: the scale is %s, expected floats", node_text(g, n), dtype_name(scale->dtype));
    set_out(g, n, 0, scale->dtype, x->shape);
    return ST_OK;
}

/* y = x / sqrt(mean(x^2) + epsilon) * scale; where types differ, x is normalised in its own first. */
static Status lower_rms(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    int64_t axes[MAX_RANK];
    int axis = (int)node_int(n, "axis"), count = x->shape->rank - axis;
    double elements = (double)shape_count(x->shape, axis, x->shape->rank);
    ValueId squares, mean, root, y;

    for (int k = 0; k < count; k++)
        axes[k] = axis + k;
    squares = EMIT(g, Mul, NULL, n->in[0], n->in[0]);
    mean = emit_reduce_sum(g, squares, count, axes, true);
    mean = EMIT(g, Mul, NULL, mean, emit_scalar(g, x->dtype, elements > 0 ? 1 / elements : 0));
    root = EMIT(g, Sqrt, NULL, EMIT(g, Add, NULL, mean, emit_scalar(g, x->dtype, node_float(n, "epsilon"))));
    y = emit_cast(g, EMIT(g, Div, NULL, n->in[0], root), in_value(g, n, 1)->dtype);
    y = EMIT(g, Mul, NULL, y, n->in[1]);
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

/* ---- placement ---- */

/* Splits the inputs with a bit in `data` along one axis before `axis`, or none; the others are B.  Returns the
 * placement of the data. */
static Place place_rows(Placement *p, unsigned data)
{
    int64_t axis = node_int(p->node, "axis");
    Place rows = PLACE_B;

    for (int i = 0; i < p->node->n_in; i++) {
        if (!(data >> i & 1))
            continue;
        if (p->in[i].kind == PL_S && p->in[i].axis >= axis)
            place_mixes(p, "it normalises along the split axis");
        else if (rows.kind == PL_B && (p->in[i].kind == PL_S || p->in[i].kind == PL_L))
            rows = p->in[i];
    }
    for (int i = 0; i < p->node->n_in; i++)
        p->in[i] = data >> i & 1 ? rows : PLACE_B;
    return rows;
}

static Status layernorm_place(Placement *p)
{
    place_set_all(p, place_rows(p, 1));
    return ST_OK;
}

static Status place_backward(Placement *p)
{
    Place rows = place_rows(p, 1 | 2 | 1u << LAYER_NORM_GRAD_ADDED), sums = rows.kind == PL_S ? PLACE_P : rows;

    place_set(p, 0, rows);
    place_set(p, 1, sums);
    place_set(p, 2, sums);
    return ST_OK;
}

#define EPSILON                       \
    {                                 \
        "epsilon", A_FLOAT, .f = 1e-5 \
    }
#define NORM .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, .flags = OPF_NORM

DEFINE_OP(LayerNormalization, .blocks = BLOCKS_PASS, .param_in = 6, .wide_in = 6, .since = 17, .in_min = 2, .in_max = 3,
          .out_min = 1, .out_max = 3, .dtypes = DTYPES_FLOAT, .flags = OPF_NORM,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .i = -1, .range = R_AXIS },
                                       EPSILON,
                                       { "stash_type", A_INT, .i = 1 },
                                       { 0 } },
          .doc = "(x - mean) * inv_std * scale + bias over the last axes", .infer = layernorm_infer,
          .grad = layernorm_grad, .lower = layernorm_lower, .standard = layernorm_standard, .place = layernorm_place);

DEFINE_OP(LayerNormGrad, .blocks = BLOCKS_PASS, .domain = "dpexec", .since = 1, .in_min = 3, .in_max = 4, .out_min = 3,
          .out_max = 3, .dtypes = DTYPES_FLOAT, .inplace = { 1 | 2 | 1 << LAYER_NORM_GRAD_ADDED },
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .i = -1, .range = R_AXIS }, EPSILON, { 0 } },
          .doc = "dx, dscale, dbias of LayerNormalization, from (x, dy, scale); a fourth input is added to dx",
          .infer = layernorm_infer_backward, .standard = standard_grad, .place = place_backward);

DEFINE_OP(GroupNormalization, .param_in = 6, .since = 21, .in_min = 3, .in_max = 3, NORM,
          .attrs = (const AttrDecl[]){ EPSILON,
                                       { "num_groups", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE },
                                       { "stash_type", A_INT, .i = 1 },
                                       { 0 } },
          .doc = "groups of channels normalised", .infer = infer_group, .lower = lower_group);

DEFINE_OP(InstanceNormalization, .param_in = 6, .since = 6, .in_min = 3, .in_max = 3, NORM,
          .attrs = (const AttrDecl[]){ EPSILON, { 0 } }, .doc = "every channel of every sample normalised",
          .infer = infer_instance, .lower = lower_instance);

DEFINE_OP(RMSNormalization, .param_in = 2, .since = 23, .in_min = 2, .in_max = 2, NORM,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .i = -1, .range = R_AXIS },
                                       EPSILON,
                                       { "stash_type", A_INT, .i = 1 },
                                       { 0 } },
          .doc = "x / sqrt(mean(x^2) + epsilon) * scale", .infer = infer_rms, .lower = lower_rms);
