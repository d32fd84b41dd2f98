/* Cross-entropy of scores and class numbers in one pass over the scores, and its gradient;
 * passes/fuse/fuse_cross_entropy.c makes them of LogSoftmax and NllSum.  With L = log sum_c exp(x[c]) of each sample
 * and smoothing e,
 *
 *   num = sum over samples not ignored of  L - (1-e) x[t] - e/C sum_c x[c],   den = number of these samples
 *   dx[c] = dy (exp(x[c] - L) - (1-e) [c = t] - e/C)
 *
 * The backward pass computes the probabilities again, so only the scores are kept.  They may have 16 bits; sums are at
 * least float32. */
#include "graph/ir/grad.h"
#include "graph/ops/cross_entropy.gen.h"
#include "graph/ops/loss.h"

/* Float32 for 16-bit scores. */
static DType sum_type(DType t) { return t == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32; }

static Status cross_entropy_infer(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0), *target = in_value(g, n, 1);
    const DType t = sum_type(x->dtype);
    const Shape scalar = shape_scalar(), samples = *target->shape;

    TRY(loss_check_target(g, n, x->shape, target));
    if (x->shape->dim[1] < 1)
        return FAIL(E_SHAPE, "%s: there are no classes", node_text(g, n));
    set_out(g, n, 0, t, &scalar);
    set_out(g, n, 1, t, &scalar);
    set_out(g, n, 2, t, &samples);
    return ST_OK;
}

static Status cross_entropy_grad(Grad *gr)
{
    Graph *g = gr->g;
    const Node *n = gr->node;
    const Attr *attrs = ATTRS(INT("ignore_index", node_int(n, "ignore_index")),
                              FLOAT("label_smoothing", node_float(n, "label_smoothing")));

    if (has_value(grad_dout(gr, 2)))
        return FAIL(E_UNSUPPORTED, "%s: no gradient through its statistics", node_text(g, n));
    if (has_value(grad_dout(gr, 0)))
        grad_set(gr, 0,
                 EMIT(g, CrossEntropyGrad, attrs, grad_dout(gr, 0), grad_in(gr, 0), grad_in(gr, 1), grad_out(gr, 2)));
    return g->status;
}

static Status cross_entropy_place(Placement *p)
{
    int axis;

    loss_align_target(p, &axis);
    place_set_all(p, axis >= 0 ? PLACE_P : place_any(p, PL_L) ? PLACE_L : PLACE_B);
    if (axis >= 0)
        place_set(p, 2, p->in[1]);
    return ST_OK;
}

/* Inputs: dy, scores, target, statistics. */
static Status cross_entropy_infer_backward(Graph *g, Node *n)
{
    const Value *dy = in_value(g, n, 0), *x = in_value(g, n, 1), *target = in_value(g, n, 2), *l = in_value(g, n, 3);

    TRY(loss_check_target(g, n, x->shape, target));
    if (dy->shape->rank || dy->dtype != sum_type(x->dtype) || l->dtype != dy->dtype ||
        !shape_eq(l->shape, target->shape))
        return FAIL(E_SHAPE, "%s: the gradient of the sum or the statistics do not fit the scores", node_text(g, n));
    set_out(g, n, 0, x->dtype, x->shape);
    return ST_OK;
}

/* Scores, target and statistics are split along the same axis. */
static Status place_backward(Placement *p)
{
    int axis = -1;

    for (int i = 1; i < 4; i++)
        if (p->in[i].kind == PL_S && !(i == 1 && p->in[i].axis == 1))
            axis = i == 1 ? p->in[i].axis : loss_scores_axis(p->in[i].axis);
    if (axis < 0 && place_any(p, PL_L)) {
        place_set_all(p, PLACE_L);
        return ST_OK;
    }
    if (p->in[0].kind != PL_L)
        p->in[0] = PLACE_B;
    p->in[1] = axis < 0 ? PLACE_B : PLACE_S(axis);
    p->in[2] = p->in[3] = axis < 0 ? PLACE_B : PLACE_S(loss_target_axis(axis));
    place_set_all(p, p->in[1]);
    return ST_OK;
}

#define CROSS_ENTROPY                                                                           \
    .domain = "dpexec", .since = 1, .attrs = (const AttrDecl[])                                 \
    {                                                                                           \
        { "ignore_index", A_INT, .i = NO_INDEX }, { "label_smoothing", A_FLOAT, .f = 0 }, { 0 } \
    }

/* For each score: subtract the maximum, exponential, add; with smoothing one more addition.  For each sample:
 * logarithm, add the maximum, subtract the target's score, add to the sum. */
static int64_t cross_entropy_flops(const Graph *g, const Node *n)
{
    const Shape *scores = in_value(g, n, 0)->shape, *samples = in_value(g, n, 1)->shape;
    const int64_t each = node_float(n, "label_smoothing") > 0 ? 4 : 3;

    return shape_known(scores) && shape_known(samples) ? each * shape_numel(scores) + 4 * shape_numel(samples) : 0;
}

/* For each score: subtract the logarithm, exponential, subtract the target, multiply by dy. */
static int64_t cross_entropy_grad_flops(const Graph *g, const Node *n)
{
    const Shape *scores = in_value(g, n, 1)->shape;

    return shape_known(scores) ? 4 * shape_numel(scores) : 0;
}

DEFINE_OP(CrossEntropySum, .flops = cross_entropy_flops, .blocks = BLOCKS_PASS, CROSS_ENTROPY, .dtypes = DTYPES_FLOAT,
          .in_min = 2, .in_max = 2, .out_min = 3, .out_max = 3, .infer = cross_entropy_infer,
          .grad = cross_entropy_grad, .place = cross_entropy_place, .index_range = loss_index_range,
          .doc = "numerator and denominator of the cross-entropy of scores and class numbers, and the logarithms of "
                 "the softmax's denominators");

DEFINE_OP(CrossEntropyGrad, .flops = cross_entropy_grad_flops, .blocks = BLOCKS_PASS, CROSS_ENTROPY,
          .wide_in = 1 << 0 | 1 << 3, .in_min = 4, .in_max = 4, .out_min = 1, .out_max = 1, .inplace = { 1 << 1 },
          .infer = cross_entropy_infer_backward, .place = place_backward,
          .doc = "the gradient of CrossEntropySum by its scores, from (dy, scores, target, logarithms)");
