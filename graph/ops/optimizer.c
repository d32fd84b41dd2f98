/* Inputs of parameter updates (graph/ops/update.c): the gradient norm for clipping, whether gradients are finite, and
 * the rule of a dynamic loss scale.
 *
 * Everything is whole on every replica: gradients are reduced before they come here, so all replicas make the same
 * decisions. */
#include <float.h>

#include "graph/ir/body.h"
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/update.h"
#include "graph/ops/where.gen.h"

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
    if (node_int(n, "scaled") && (n->n_in < 2 || in_value(g, n, n->n_in - 1)->shape->rank))
        return FAIL(E_SHAPE, "%s: the last input must be the scalar that the others are multiplied by",
                    node_text(g, n));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &scalar);
    set_out(g, n, 1, in_value(g, n, 0)->dtype, &scalar);
    return ST_OK;
}

static ValueId sum_of_squares(Graph *g, ValueId x)
{
    const int rank = value(g, x)->shape->rank;
    int64_t axes[MAX_RANK];

    for (int i = 0; i < rank; i++)
        axes[i] = i;
    return emit_reduce_sum(g, EMIT(g, Mul, NULL, x, x), rank, axes, false);
}

static Status standard_norm(Graph *g, Node *n)
{
    const bool scaled = node_int(n, "scaled");
    const DType t = in_value(g, n, 0)->dtype;
    ValueId norm = sum_of_squares(g, n->in[0]), scale;

    for (int i = 1; i < n->n_in - scaled; i++)
        norm = EMIT(g, Add, NULL, norm, sum_of_squares(g, n->in[i]));
    norm = EMIT(g, Sqrt, NULL, norm);
    if (scaled)
        norm = EMIT(g, Mul, NULL, norm, EMIT(g, Abs, NULL, n->in[n->n_in - 1]));
    scale = EMIT(g, Add, NULL, norm, emit_scalar(g, t, 1e-6));
    scale = EMIT(g, Div, NULL, emit_scalar(g, t, node_float(n, "max_norm")), scale);
    scale = EMIT(g, Min, NULL, scale, emit_scalar(g, t, 1));
    if (scaled)
        scale = EMIT(g, Mul, NULL, scale, n->in[n->n_in - 1]);
    graph_replace(g, n->out[0], norm);
    graph_replace(g, n->out[1], scale);
    return g->status;
}

DEFINE_OP(GlobalNorm, .layout = LAYOUT_EACH, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = -1, .out_min = 2,
          .out_max = 2, .dtypes = DTYPES_F32_F64,
          .attrs = (const AttrDecl[]){ { "max_norm", A_FLOAT, .rule = ATTR_REQUIRED },
                                       { "scaled", A_INT, .i = 0 },
                                       { 0 } },
          .infer = infer_norm, .grad = grad_none, .standard = standard_norm, .place = place_all_b,
          .doc = "norm = the square root of the sum of squares over all inputs, in their order; scale = min(1, "
                 "max_norm / (norm + 1e-6)); "
                 "with scaled the last input is a scalar s that the others are multiplied by: the norm is of the "
                 "products, scale is times s");

/* ---- the same over pieces ---- */

static int64_t pieces_of(int64_t numel) { return (numel + NORM_PIECE - 1) / NORM_PIECE; }

static Status infer_squares(Graph *g, Node *n)
{
    int n_count, n_from;
    const int64_t *count = node_ints(n, "count", &n_count), *from = node_ints(n, "from", &n_from);
    Shape sums = { 1, { 0 } };

    TRY(check_present(g, n));
    TRY(infer_same_dtype(g, n, 0, n->n_in));
    if (n_count != n->n_in || n_from != n->n_in)
        return FAIL(E_MODEL, "%s: 'count' has %d entries and 'from' %d, expected %d", node_text(g, n), n_count, n_from,
                    n->n_in);
    for (int i = 0; i < n->n_in; i++) {
        int64_t numel = shape_numel(in_value(g, n, i)->shape);

        if (count[i] > INT64_MAX / 2 / n->n_in || from[i] < -1 || (from[i] > 0 && from[i] % NORM_PIECE) ||
            (from[i] >= 0 && (numel > count[i] || from[i] > count[i] - numel)))
            return FAIL(E_SHAPE, "%s: input %d has %lld elements from %lld of %lld on", node_text(g, n), i,
                        (long long)numel, (long long)from[i], (long long)count[i]);
        sums.dim[0] += pieces_of(count[i]);
    }
    TRY(shape_check(&sums, sizeof(double)));
    set_out(g, n, 0, DT_FLOAT64, &sums);
    return ST_OK;
}

/* A device's pieces give it its sums, and zeros for the others'. */
static Status place_squares(Placement *p)
{
    Place sums = PLACE_B;

    for (int i = 0; i < p->node->n_in; i++) {
        if (p->in[i].kind == PL_S && place_by_device(p->in[i])) {
            sums = (Place){ .kind = PL_P, .split = p->in[i].split };
            continue;
        }
        if (p->in[i].kind == PL_S)
            place_mixes(p, "it has no rule for a split input");
        p->in[i] = PLACE_B;
    }
    place_set_all(p, sums);
    return ST_OK;
}

DEFINE_OP(SquareSums, .layout = LAYOUT_EACH, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = -1, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_F32_F64, .flags = OPF_PIECES,
          .attrs = (const AttrDecl[]){ { "count", A_INTS, .rule = ATTR_REQUIRED, .range = R_COUNTS },
                                       { "from", A_INTS, .rule = ATTR_REQUIRED },
                                       { 0 } },
          .infer = infer_squares, .grad = grad_none, .place = place_squares,
          .doc =
              "the sums of the squares of every 4096 elements of tensors of count[i] elements, one tensor behind the "
              "other; input i is elements from[i] on, with from[i] -1 it is left to another device: what is not "
              "there is 0");

static Status infer_norm_of_sums(Graph *g, Node *n)
{
    Shape scalar = shape_scalar();
    int n_count;
    const int64_t *count = node_ints(n, "count", &n_count);
    int64_t sums = 0;

    for (int i = 0; i < n_count; i++) {
        if (count[i] > INT64_MAX / 2 / n_count)
            return FAIL(E_SHAPE, "%s: a tensor of %lld elements is too large", node_text(g, n), (long long)count[i]);
        sums += pieces_of(count[i]);
    }
    if (in_value(g, n, 0)->shape->rank != 1 || in_value(g, n, 0)->shape->dim[0] != sums)
        return FAIL(E_SHAPE, "%s: expected %lld sums", node_text(g, n), (long long)sums);
    if (has_in(n, 1) && (in_value(g, n, 1)->shape->rank || !dtype_is_float(in_value(g, n, 1)->dtype)))
        return FAIL(E_SHAPE, "%s: input 1 must be the scalar that gradients are multiplied by", node_text(g, n));
    set_out(g, n, 0, DT_FLOAT64, &scalar);
    set_out(g, n, 1, DT_FLOAT64, &scalar);
    return ST_OK;
}

DEFINE_OP(NormOfSums, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 2, .out_min = 2, .out_max = 2,
          .dtypes = DTYPE_BIT(DT_FLOAT64),
          .attrs = (const AttrDecl[]){ { "max_norm", A_FLOAT, .rule = ATTR_REQUIRED },
                                       { "count", A_INTS, .rule = ATTR_REQUIRED, .range = R_COUNTS },
                                       { 0 } },
          .infer = infer_norm_of_sums, .grad = grad_none, .place = place_all_b,
          .doc = "GlobalNorm of tensors of count[i] elements, from their SquareSums, in double; input 1 is the scalar "
                 "that they are multiplied by");

/* ---- loss scaling ---- */

static Status infer_finite(Graph *g, Node *n)
{
    Shape scalar = shape_scalar();

    TRY(check_present(g, n));
    TRY(infer_same_dtype(g, n, 0, n->n_in));
    set_out(g, n, 0, DT_BOOL, &scalar);
    return ST_OK;
}

/* A finite number times 0 is 0; any other is NaN. */
static Status standard_finite(Graph *g, Node *n)
{
    const DType t = in_value(g, n, 0)->dtype;
    const ValueId zero = emit_scalar(g, t, 0);
    ValueId sum = NO_VALUE;

    for (int i = 0; i < n->n_in; i++) {
        const int rank = in_value(g, n, i)->shape->rank;
        const ValueId nothing = EMIT(g, Mul, NULL, n->in[i], zero);
        int64_t axes[MAX_RANK];
        ValueId one;

        for (int a = 0; a < rank; a++)
            axes[a] = a;
        one = emit_reduce_sum(g, nothing, rank, axes, false);
        sum = i ? EMIT(g, Add, NULL, sum, one) : one;
    }
    graph_replace(g, n->out[0], EMIT(g, Equal, NULL, sum, zero));
    return g->status;
}

DEFINE_OP(AllFinite, .layout = LAYOUT_EACH, .precision = PREC_WIDE, .domain = "dpexec", .since = 1, .in_min = 1,
          .in_max = -1, .out_min = 1, .out_max = 1, .dtypes = DTYPES_F32_F64, .infer = infer_finite, .grad = grad_none,
          .standard = standard_finite, .place = place_all_b,
          .doc = "whether no element of any input is infinite or not a number");

static Status infer_loss_scale(Graph *g, Node *n)
{
    const Value *scale = in_value(g, n, 0), *good = in_value(g, n, 1);
    char text[SHAPE_TEXT];

    if (scale->shape->rank || good->shape->rank || good->dtype != DT_INT64)
        return FAIL(E_SHAPE, "%s: expected a scale, a count of int64 and a bool, all scalars", node_text(g, n));
    if (in_value(g, n, 2)->dtype != DT_BOOL || in_value(g, n, 2)->shape->rank)
        return FAIL(E_SHAPE, "%s: input 2 is %s%s, expected bool[]", node_text(g, n),
                    dtype_name(in_value(g, n, 2)->dtype), shape_text(in_value(g, n, 2)->shape, text));
    if (!(node_float(n, "growth") > 0) || !(node_float(n, "backoff") > 0) || node_int(n, "interval") < 1)
        return FAIL(E_MODEL, "%s: growth, backoff and interval must be above 0", node_text(g, n));
    set_out(g, n, 0, scale->dtype, scale->shape);
    set_out(g, n, 1, DT_INT64, good->shape);
    return ST_OK;
}

static Status standard_loss_scale(Graph *g, Node *n)
{
    const ValueId scale = n->in[0], ok = n->in[2], zero = emit_scalar(g, DT_INT64, 0);
    const DType t = in_value(g, n, 0)->dtype;
    ValueId good = EMIT(g, Add, NULL, n->in[1], emit_scalar(g, DT_INT64, 1)), grows, up, next, normal;

    grows = EMIT(g, Equal, NULL, good, emit_scalar(g, DT_INT64, (double)node_int(n, "interval")));
    up = EMIT(g, Mul, NULL, scale, emit_scalar(g, t, node_float(n, "growth")));
    up = EMIT(g, Where, NULL, grows, up, scale);
    next = EMIT(g, Mul, NULL, scale, emit_scalar(g, t, node_float(n, "backoff")));
    next = EMIT(g, Where, NULL, ok, up, next);
    normal = EMIT(g, GreaterOrEqual, NULL, next, emit_scalar(g, t, FLT_MIN));
    normal = EMIT(g, And, NULL, normal, EMIT(g, LessOrEqual, NULL, next, emit_scalar(g, t, FLT_MAX)));
    graph_replace(g, n->out[0], EMIT(g, Where, NULL, normal, next, scale));
    good = EMIT(g, Where, NULL, EMIT(g, And, NULL, ok, EMIT(g, Not, NULL, grows)), good, zero);
    graph_replace(g, n->out[1], good);
    return g->status;
}

/* The rule of PyTorch's GradScaler (torch/amp/grad_scaler.py); unlike there the scale cannot fall to 0. */
DEFINE_OP(LossScaleUpdate, .precision = PREC_WIDE, .domain = "dpexec", .since = 1, .in_min = 3, .in_max = 3,
          .out_min = 2, .out_max = 2, .dtypes = DTYPES_F32_F64, .inplace = { 1, 1 << 1 },
          .attrs = (const AttrDecl[]){ { "growth", A_FLOAT, .f = 2 },
                                       { "backoff", A_FLOAT, .f = 0.5 },
                                       { "interval", A_INT, .i = 2000, .range = R_POSITIVE },
                                       { 0 } },
          .infer = infer_loss_scale, .grad = grad_none, .standard = standard_loss_scale, .place = place_all_b,
          .doc = "inputs scale, good, ok; not ok: scale' = backoff scale, good' = 0; else good' = good + 1, and when "
                 "that is interval: "
                 "scale' = growth scale, good' = 0; scale stays where scale' is not a normal float32 number");
