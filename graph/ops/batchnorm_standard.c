/* The steps of training batch-norm (batchnorm.c) in ONNX's operators, for one replica, in the statistics' type.  A rule
 * leaves a node as it is if it does more: a clamped variance, a fused Relu. */
#include "graph/ops/batchnorm_standard.h"

#include "graph/ir/emit.h"
#include "graph/ops/batchnorm.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"

/* v [C] reshaped to broadcast against x. */
static ValueId along_channels(Graph *g, ValueId v, const Shape *x)
{
    Shape s = { .rank = x->rank - 1, .dim = { x->dim[1] } };

    for (int i = 1; i < s.rank; i++)
        s.dim[i] = 1;
    return emit_reshape(g, v, &s);
}

static int other_axes(const Shape *x, int64_t axes[MAX_RANK])
{
    int n = 0;

    for (int i = 0; i < x->rank; i++)
        if (i != 1)
            axes[n++] = i;
    return n;
}

static ValueId channel_mean(Graph *g, ValueId x)
{
    int64_t axes[MAX_RANK];
    const int n = other_axes(value(g, x)->shape, axes);

    return EMIT(g, ReduceMean, ATTRS(INT("keepdims", 0)), x, emit_ints(g, n, axes));
}

static ValueId channel_sum(Graph *g, ValueId x)
{
    int64_t axes[MAX_RANK];
    const int n = other_axes(value(g, x)->shape, axes);

    return emit_reduce_sum(g, x, n, axes, false);
}

static ValueId next_running(Graph *g, const Node *n, ValueId old, ValueId now)
{
    const DType t = value(g, now)->dtype;
    ValueId kept = EMIT(g, Mul, NULL, old, emit_scalar(g, t, node_float(n, "keep")));
    ValueId taken = EMIT(g, Mul, NULL, now, emit_scalar(g, t, node_float(n, "take")));

    return EMIT(g, Add, NULL, kept, taken);
}

/* Computes the statistics from BatchNormStats' input, since one replica needs no rows of statistics. */
Status batch_norm_standard_merge(Graph *g, Node *n)
{
    const Node *stats = in_value(g, n, 0)->producer;
    const Shape *x = stats && stats->op == &op_BatchNormStats ? in_value(g, stats, 0)->shape : NULL, one = SHAPE(1);
    const DType t = (DType)node_int(n, "dtype");
    ValueId mean, var, d;
    ValueId data;
    double count;

    if (!x)
        return ST_OK;
    data = emit_cast(g, stats->in[0], t);
    count = (double)(shape_numel(x) / x->dim[1]);
    mean = channel_mean(g, data);
    d = EMIT(g, Sub, NULL, data, along_channels(g, mean, x));
    var = channel_mean(g, EMIT(g, Mul, NULL, d, d));
    graph_replace(g, n->out[0], mean);
    graph_replace(g, n->out[1], var);
    graph_replace(g, n->out[2], emit_full(g, t, &one, count));
    if (has_out(n, 3))
        graph_replace(g, n->out[3], next_running(g, n, n->in[1], mean));
    if (has_out(n, 4) && node_int(n, "unbiased")) {
        const ValueId size = emit_scalar(g, t, count); /* the only constant that depends on the batch size */
        const ValueId factor = EMIT(g, Div, NULL, size, EMIT(g, Sub, NULL, size, emit_scalar(g, t, 1)));

        var = EMIT(g, Mul, NULL, var, factor);
    }
    if (has_out(n, 4))
        graph_replace(g, n->out[4], next_running(g, n, n->in[2], var));
    return g->status;
}

/* 1 / sqrt(var + epsilon), reshaped to broadcast against x. */
static ValueId inverse_deviation(Graph *g, const Node *n, ValueId var, const Shape *x)
{
    ValueId wide = EMIT(g, Add, NULL, var, emit_scalar(g, value(g, var)->dtype, node_float(n, "epsilon")));

    return along_channels(g, EMIT(g, Reciprocal, NULL, EMIT(g, Sqrt, NULL, wide)), x);
}

static ValueId standardised(Graph *g, const Node *n, ValueId mean, ValueId var)
{
    const Shape *x = in_value(g, n, 0)->shape;
    const ValueId data = emit_cast(g, n->in[0], g->status ? DT_NONE : value(g, mean)->dtype);
    ValueId d = EMIT(g, Sub, NULL, data, along_channels(g, mean, x));

    return EMIT(g, Mul, NULL, d, inverse_deviation(g, n, var, x));
}

Status batch_norm_standard_apply(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    ValueId y;

    if (node_int(n, "clamp"))
        return ST_OK;
    y = standardised(g, n, n->in[1], n->in[2]);
    y = EMIT(g, Mul, NULL, y, along_channels(g, n->in[3], x));
    y = EMIT(g, Add, NULL, y, along_channels(g, n->in[4], x));
    graph_replace(g, n->out[0], emit_cast(g, y, in_value(g, n, 0)->dtype));
    return g->status;
}

Status batch_norm_standard_grad_stats(Graph *g, Node *n)
{
    const ValueId zero = emit_ints(g, 1, (int64_t[]){ 0 });
    ValueId dy, sum, product;

    if (has_in(n, 4))
        return ST_OK;
    dy = emit_cast(g, n->in[1], in_value(g, n, 2)->dtype);
    sum = EMIT(g, Unsqueeze, NULL, channel_sum(g, dy), zero);
    product = channel_sum(g, EMIT(g, Mul, NULL, dy, standardised(g, n, n->in[2], n->in[3])));
    product = EMIT(g, Unsqueeze, NULL, product, zero);
    graph_replace(g, n->out[0], EMIT(g, Concat, ATTRS(INT("axis", 0)), sum, product));
    return g->status;
}

/* Row k of sums [2, C]. */
static ValueId sums_row(Graph *g, ValueId sums, int k)
{
    return EMIT(g, Gather, ATTRS(INT("axis", 0)), sums, emit_scalar(g, DT_INT64, k));
}

/* scale / sqrt(var + epsilon) (dy - sums[0] / n - xhat sums[1] / n) */
Status batch_norm_standard_grad_input(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    ValueId mean, slope, d, xhat, factor;

    if (has_in(n, 7) || has_out(n, 1))
        return ST_OK;
    mean = EMIT(g, Div, NULL, sums_row(g, n->in[5], 0), n->in[6]);
    slope = EMIT(g, Div, NULL, sums_row(g, n->in[5], 1), n->in[6]);
    d = emit_cast(g, n->in[1], in_value(g, n, 2)->dtype);
    d = EMIT(g, Sub, NULL, d, along_channels(g, mean, x));
    xhat = standardised(g, n, n->in[2], n->in[3]);
    slope = EMIT(g, Mul, NULL, xhat, along_channels(g, slope, x));
    d = EMIT(g, Sub, NULL, d, slope);
    factor = along_channels(g, n->in[4], x);
    factor = EMIT(g, Mul, NULL, factor, inverse_deviation(g, n, n->in[3], x));
    graph_replace(g, n->out[0], emit_cast(g, EMIT(g, Mul, NULL, d, factor), in_value(g, n, 0)->dtype));
    return g->status;
}

Status batch_norm_standard_grad_params(Graph *g, Node *n)
{
    if (has_out(n, 0))
        graph_replace(g, n->out[0], sums_row(g, n->in[0], 1));
    if (has_out(n, 1))
        graph_replace(g, n->out[1], sums_row(g, n->in[0], 0));
    return g->status;
}
