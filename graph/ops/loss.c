/* Losses.  Each sums over its samples to a scalar numerator and denominator.  Under a split batch both are partial
 * sums, so numerator / denominator is the exact mean of the whole batch, for parts of any size.
 *
 * ONNX's two losses are lowered to LogSoftmax, NllSum or NllPerSample, and Div. */
#include "graph/ops/loss.h"

#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/traced_calls.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/loss.gen.h"
#include "graph/ops/scatter.gen.h"
#include "graph/ops/softmax.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

/* ---- scores [N, C, d...] against class numbers [N, d...] ---- */

Status loss_check_target(const Graph *g, const Node *n, const Shape *x, const Value *target)
{
    Shape t = { .rank = x->rank - 1 };
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    for (int i = 0; i < t.rank; i++)
        t.dim[i] = x->dim[i ? i + 1 : 0];
    if (x->rank < 2 || !shape_eq(&t, target->shape))
        return FAIL(E_SHAPE, "%s: target of shape %s for scores of shape %s", node_text(g, n),
                    shape_text(target->shape, a), shape_text(x, b));
    if (target->dtype != DT_INT64 && target->dtype != DT_INT32)
        return FAIL(E_SHAPE, "%s: target is %s, expected int32 or int64", node_text(g, n), dtype_name(target->dtype));
    return ST_OK;
}

static Status check_weights(const Graph *g, const Node *n, int i, DType t, int64_t classes)
{
    if (!has_in(n, i))
        return ST_OK;
    if (in_value(g, n, i)->dtype != t || in_value(g, n, i)->shape->rank != 1 ||
        in_value(g, n, i)->shape->dim[0] != classes)
        return FAIL(E_SHAPE, "%s: weights must be a vector of %lld %s", node_text(g, n), (long long)classes,
                    dtype_name(t));
    return ST_OK;
}

static Status check_nll(const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);

    TRY(loss_check_target(g, n, x->shape, in_value(g, n, 1)));
    return check_weights(g, n, 2, x->dtype, x->shape->dim[1]);
}

static Status infer_nll_sum(Graph *g, Node *n)
{
    Shape scalar = shape_scalar();

    TRY(check_nll(g, n));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &scalar);
    set_out(g, n, 1, in_value(g, n, 0)->dtype, &scalar);
    return ST_OK;
}

static Status infer_nll_per_sample(Graph *g, Node *n)
{
    TRY(check_nll(g, n));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, in_value(g, n, 1)->shape);
    return ST_OK;
}

/* The gradient of the numerator; the denominator does not depend on logp. */
static Status grad_nll(Grad *gr)
{
    Graph *g = gr->g;
    const Node *n = gr->node;
    const Attr *attrs = ATTRS(INT("ignore_index", node_int(n, "ignore_index")),
                              FLOAT("label_smoothing", node_float(n, "label_smoothing")));

    if (grad_wanted(gr, 2))
        return FAIL(E_UNSUPPORTED, "%s: no gradient by the class weights", node_text(g, n));
    if (!has_value(grad_dout(gr, 0)))
        return ST_OK;
    grad_set(gr, 0,
             EMIT(g, NllGrad, attrs, grad_dout(gr, 0), grad_in(gr, 1), emit_shape_const(g, grad_in_value(gr, 0)->shape),
                  grad_in(gr, 2)));
    return g->status;
}

void loss_align_target(Placement *p, int *axis)
{
    Place x = p->in[0];

    *axis = -1;
    if (x.kind == PL_S && x.axis == 1)
        place_mixes(p, "the classes are split");
    else if (x.kind == PL_S)
        *axis = x.axis;
    if (*axis < 0 && p->in[1].kind == PL_S)
        *axis = loss_scores_axis(p->in[1].axis);
    for (int i = 2; i < p->node->n_in; i++)
        p->in[i] = PLACE_B;
    if (*axis < 0 && place_any(p, PL_L))
        return;
    p->in[0] = *axis < 0 ? PLACE_B : PLACE_S(*axis);
    p->in[1] = *axis < 0 ? PLACE_B : PLACE_S(loss_target_axis(*axis));
}

static Status place_counted(Placement *p)
{
    int axis;

    loss_align_target(p, &axis);
    place_set_all(p, axis >= 0 ? PLACE_P : place_any(p, PL_L) ? PLACE_L : PLACE_B);
    return ST_OK;
}

static Status place_nll_per_sample(Placement *p)
{
    int axis;

    loss_align_target(p, &axis);
    place_set_all(p, axis >= 0 ? p->in[1] : place_any(p, PL_L) ? PLACE_L : PLACE_B);
    return ST_OK;
}

static const AttrDecl nll_attrs[] = { { "ignore_index", A_INT, .i = NO_INDEX },
                                      { "label_smoothing", A_FLOAT, .f = 0 },
                                      { 0 } };

int64_t loss_index_range(const Graph *g, const Node *n, int i)
{
    const Shape *scores = in_value(g, n, 0)->shape;

    return i == 1 && scores->rank >= 2 ? scores->dim[1] : -1;
}

/* ---- NllGrad ---- */

static Status infer_nll_grad(Graph *g, Node *n)
{
    const Value *dy = in_value(g, n, 0), *target = in_value(g, n, 1);
    Shape x = { 0 };

    TRY(value_const_ints(g, n->in[2], x.dim, MAX_RANK, &x.rank));
    TRY(shape_check(&x, dtype_size(dy->dtype)));
    TRY(loss_check_target(g, n, &x, target));
    TRY(check_weights(g, n, 3, dy->dtype, x.dim[1]));
    if (dy->shape->rank && !shape_eq(dy->shape, target->shape))
        return FAIL(E_SHAPE, "%s: the gradient is neither a scalar nor one number for each sample", node_text(g, n));
    set_out(g, n, 0, dy->dtype, &x);
    return ST_OK;
}

/* Linear in dy, which is a scalar or one number for each sample. */
static Status place_nll_grad(Placement *p)
{
    bool scalar = in_value(p->g, p->node, 0)->shape->rank == 0;
    Place dy = p->in[0], t = p->in[1];

    for (int i = 2; i < p->node->n_in; i++)
        p->in[i] = PLACE_B;
    if (t.kind == PL_P)
        p->in[1] = PLACE_B;
    if (t.kind == PL_S || dy.kind == PL_S) {
        int a = t.kind == PL_S ? t.axis : dy.axis;

        if (dy.kind != PL_L)
            p->in[0] = scalar ? PLACE_B : PLACE_S(a);
        p->in[1] = PLACE_S(a);
        place_set_all(p, PLACE_S(loss_scores_axis(a)));
        return ST_OK;
    }
    place_set_all(p, dy.kind == PL_P ? dy : place_any(p, PL_L) ? PLACE_L : PLACE_B);
    return ST_OK;
}

/* ---- NllSum, NllPerSample and NllGrad in ONNX's operators ---- */

/* Targets: for each sample, in the shape of the targets, its class (0 if ignored) and the class's weight. */
typedef struct {
    ValueId ignored; /* bool; NO_VALUE: no sample is ignored */
    ValueId label, weight;
    ValueId table; /* the weights as [1, C, 1...]; `table` and `weight` NO_VALUE: all weights are 1 */
    double smoothing;
    int64_t classes;
} Labels;

static Labels labels_of(Graph *g, const Node *n, ValueId target, ValueId weights, const Shape *x)
{
    Labels l = { .label = target, .smoothing = node_float(n, "label_smoothing"), .classes = x->dim[1] };
    const DType t = value(g, target)->dtype;
    Shape row = { .rank = x->rank };

    if (node_int(n, "ignore_index") != NO_INDEX) {
        l.ignored = EMIT(g, Equal, NULL, target, emit_scalar(g, t, (double)node_int(n, "ignore_index")));
        l.label = EMIT(g, Where, NULL, l.ignored, emit_scalar(g, t, 0), target);
    }
    if (!has_value(weights))
        return l;
    for (int i = 0; i < x->rank; i++)
        row.dim[i] = i == 1 ? x->dim[1] : 1;
    l.weight = EMIT(g, Gather, ATTRS(INT("axis", 0)), weights, l.label);
    l.table = emit_reshape(g, weights, &row);
    return l;
}

static ValueId zero_if_ignored(Graph *g, const Labels *l, ValueId x)
{
    return has_value(l->ignored) ? EMIT(g, Where, NULL, l->ignored, emit_scalar(g, value(g, x)->dtype, 0), x) : x;
}

static ValueId scaled(Graph *g, ValueId x, double by)
{
    return by == 1 ? x : EMIT(g, Mul, NULL, x, emit_scalar(g, value(g, x)->dtype, by));
}

static ValueId weighted(Graph *g, ValueId x, ValueId weight)
{
    return has_value(weight) ? EMIT(g, Mul, NULL, x, weight) : x;
}

/* The terms of the loss, one for each sample. */
static ValueId terms_of(Graph *g, const Labels *l, ValueId logp)
{
    const ValueId one = emit_ints(g, 1, (int64_t[]){ 1 });
    ValueId at = EMIT(g, Unsqueeze, NULL, l->label, one);
    ValueId picked = EMIT(g, GatherElements, ATTRS(INT("axis", 1)), logp, at), all;

    picked = weighted(g, scaled(g, EMIT(g, Squeeze, NULL, picked, one), l->smoothing - 1), l->weight);
    if (l->smoothing == 0)
        return zero_if_ignored(g, l, picked);
    all = emit_reduce_sum(g, weighted(g, logp, l->table), 1, (int64_t[]){ 1 }, false);
    picked = EMIT(g, Sub, NULL, picked, scaled(g, all, l->smoothing / (double)l->classes));
    return zero_if_ignored(g, l, picked);
}

/* The sum of all elements, a scalar. */
static ValueId loss_sum_of(Graph *g, ValueId x)
{
    const int rank = value(g, x)->shape->rank;
    int64_t axes[MAX_RANK];

    for (int i = 0; i < rank; i++)
        axes[i] = i;
    return emit_reduce_sum(g, x, rank, axes, false);
}

static Status standard_nll(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0), *t = in_value(g, n, 1);
    const Labels l = labels_of(g, n, n->in[1], has_in(n, 2) ? n->in[2] : NO_VALUE, x->shape);
    ValueId terms = terms_of(g, &l, n->in[0]), ones;

    if (n->op == &op_NllPerSample) {
        graph_replace(g, n->out[0], terms);
        return g->status;
    }
    ones = has_value(l.weight) ? l.weight : emit_full(g, x->dtype, t->shape, 1);
    graph_replace(g, n->out[0], loss_sum_of(g, terms));
    graph_replace(g, n->out[1], loss_sum_of(g, zero_if_ignored(g, &l, ones)));
    return g->status;
}

static Status standard_nll_grad(Graph *g, Node *n)
{
    const Shape *x = value(g, n->out[0])->shape, *t = in_value(g, n, 1)->shape;
    const Labels l = labels_of(g, n, n->in[1], has_in(n, 3) ? n->in[3] : NO_VALUE, x);
    const ValueId one = emit_ints(g, 1, (int64_t[]){ 1 }), at = EMIT(g, Unsqueeze, NULL, l.label, one);
    ValueId dy = zero_if_ignored(g, &l, scaled(g, emit_expand(g, n->in[0], t), -1)), base, hit;

    hit = weighted(g, scaled(g, dy, 1 - l.smoothing), l.weight);
    hit = EMIT(g, Unsqueeze, NULL, hit, one);
    base = scaled(g, EMIT(g, Unsqueeze, NULL, dy, one), l.smoothing / (double)l.classes);
    base = emit_expand(g, weighted(g, base, l.table), x);
    graph_replace(g, n->out[0],
                  EMIT(g, ScatterElements, ATTRS(INT("axis", 1), STRING("reduction", "add")), base, at, hit));
    return g->status;
}

/* For each sample: the weight, if there are weights, and two sums; with smoothing the weight and a sum for each
 * log-probability. */
static int64_t nll_flops(const Graph *g, const Node *n)
{
    const Shape *logp = in_value(g, n, 0)->shape, *samples = in_value(g, n, 1)->shape;
    const int64_t weighs = has_in(n, 2);

    if (!shape_known(logp) || !shape_known(samples))
        return 0;
    return (2 + weighs) * shape_numel(samples) +
           (node_float(n, "label_smoothing") > 0 ? (1 + weighs) * shape_numel(logp) : 0);
}

DEFINE_OP(NllSum, .flops = nll_flops, .blocks = BLOCKS_PASS, .precision = PREC_WIDE, .domain = "dpexec", .since = 1,
          .in_min = 2, .in_max = 3, .out_min = 2, .out_max = 2, .dtypes = DTYPES_F32_F64, .attrs = nll_attrs,
          .infer = infer_nll_sum, .grad = grad_nll, .standard = standard_nll, .place = place_counted,
          .index_range = loss_index_range,
          .doc = "num = -sum((1-e) w[t] logp[t] + e/C sum_c(w[c] logp[c])), den = sum(w[t]) over samples not ignored; "
                 "inputs logp, target, w");

DEFINE_OP(NllPerSample, .blocks = BLOCKS_PASS, .precision = PREC_WIDE, .domain = "dpexec", .since = 1, .in_min = 2,
          .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_F32_F64, .attrs = nll_attrs,
          .infer = infer_nll_per_sample, .grad = grad_nll, .standard = standard_nll, .place = place_nll_per_sample,
          .index_range = loss_index_range,
          .doc = "the terms of NllSum's numerator, 0 where ignored; inputs logp, target, w");

DEFINE_OP(NllGrad, .blocks = BLOCKS_PASS, .domain = "dpexec", .since = 1, .in_min = 3, .in_max = 4, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_F32_F64, .shape_in = 3, .attrs = nll_attrs, .infer = infer_nll_grad,
          .standard = standard_nll_grad, .place = place_nll_grad,
          .doc = "dlogp[c] = -dy ((1-e) w[t] [c = t] + e/C w[c]), 0 where ignored; inputs dy, target, shape, w");

/* ---- ONNX's losses ---- */

static Status infer_onnx(Graph *g, Node *n)
{
    const char *reduction = node_string(n, "reduction");
    Shape scalar = shape_scalar();

    TRY(check_nll(g, n));
    if (strcmp(reduction, "none") && strcmp(reduction, "sum") && strcmp(reduction, "mean"))
        return FAIL(E_MODEL, "%s: reduction '%s', expected none, sum or mean", node_text(g, n), reduction);
    set_out(g, n, 0, in_value(g, n, 0)->dtype, strcmp(reduction, "none") ? &scalar : in_value(g, n, 1)->shape);
    set_out(g, n, 1, in_value(g, n, 0)->dtype, in_value(g, n, 0)->shape);
    return ST_OK;
}

double loss_smoothing(const Node *n)
{
    double smoothing;

    return call_is(n->call, "aten.cross_entropy_loss") && call_number(n->call, 5, &smoothing) ? smoothing : 0;
}

/* If every sample counts 1, the denominator is a constant by the shapes and needs no collective.  With 16-bit scores
 * the sums are float32, and the result is rounded. */
static Status lower_nll(Graph *g, Node *n, ValueId logp)
{
    const Attr *attrs =
        ATTRS(INT("ignore_index", node_int(n, "ignore_index")), FLOAT("label_smoothing", loss_smoothing(n)));
    const DType type = value(g, logp)->dtype, sums = type == DT_FLOAT64 ? type : DT_FLOAT32;
    ValueId w = has_in(n, 2) ? emit_cast(g, n->in[2], sums) : NO_VALUE, out[2] = { NO_VALUE, NO_VALUE };
    const char *reduction = node_string(n, "reduction");

    logp = emit_cast(g, logp, sums);
    if (!strcmp(reduction, "none")) {
        out[0] = EMIT(g, NllPerSample, attrs, logp, n->in[1], w);
    } else {
        EMIT_MULTI(g, NllSum, attrs, 2, out, logp, n->in[1], w);
        if (!has_value(w) && node_int(n, "ignore_index") == NO_INDEX)
            out[1] = emit_scalar(g, sums, (double)shape_numel(in_value(g, n, 1)->shape));
        if (!strcmp(reduction, "mean"))
            out[0] = EMIT(g, Div, NULL, out[0], out[1]);
    }
    graph_replace(g, n->out[0], emit_cast(g, out[0], type));
    return g->status;
}

static Status lower_negative_log_likelihood(Graph *g, Node *n) { return lower_nll(g, n, n->in[0]); }

static Status lower_softmax_cross_entropy(Graph *g, Node *n)
{
    ValueId logp = EMIT(g, LogSoftmax, ATTRS(INT("axis", 1)), n->in[0]);

    TRY(lower_nll(g, n, logp));
    if (has_out(n, 1))
        graph_replace(g, n->out[1], logp);
    return g->status;
}

static const AttrDecl onnx_attrs[] = { { "ignore_index", A_INT, .i = NO_INDEX },
                                       { "reduction", A_STRING, .s = "mean", .words = "none mean sum" },
                                       { 0 } };

DEFINE_OP(SoftmaxCrossEntropyLoss, .setting_in = 4, .precision = PREC_WIDE, .since = 13, .from = 12, .in_min = 2,
          .in_max = 3, .out_min = 1, .out_max = 2, .dtypes = DTYPES_FLOAT, .attrs = onnx_attrs, .infer = infer_onnx,
          .lower = lower_softmax_cross_entropy, .index_range = loss_index_range,
          .doc = "cross-entropy of scores [N, C, d...] and class numbers [N, d...]; becomes LogSoftmax, NllSum, Div");

DEFINE_OP(NegativeLogLikelihoodLoss, .setting_in = 4, .precision = PREC_WIDE, .since = 13, .from = 12, .in_min = 2,
          .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, .attrs = onnx_attrs, .infer = infer_onnx,
          .lower = lower_negative_log_likelihood, .index_range = loss_index_range,
          .doc = "the mean of -logp at the class numbers; becomes NllSum, Div");

/* ---- elementwise losses ---- */

/* The kinds, and how many operations an element of the loss and of its gradient takes:
 *   mse          (x - t)^2, added up                         2 dy (x - t)
 *   l1           |x - t|, added up                           dy sign(x - t)
 *   bce          t log x + (1 - t) log(1 - x), subtracted    dy (x - t) / (x (1 - x))
 *   bce-logits   max(x, 0) - x t + log(1 + exp(-|x|))        dy (1 / (1 + exp(-x)) - t) */
static const struct ElementKind {
    const char *name;
    int flops, grad_flops;
} element_kinds[] = { { "mse", 3, 3 }, { "l1", 3, 3 }, { "bce", 8, 5 }, { "bce-logits", 10, 6 } };

static const struct ElementKind *element_kind(const Node *n)
{
    for (size_t i = 0; i < sizeof element_kinds / sizeof *element_kinds; i++)
        if (!strcmp(node_string(n, "kind"), element_kinds[i].name))
            return &element_kinds[i];
    return NULL;
}

static int64_t element_loss_flops(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;

    return shape_known(x) ? element_kind(n)->flops * shape_numel(x) : 0;
}

static int64_t element_loss_grad_flops(const Graph *g, const Node *n)
{
    const Shape *dx = value(g, n->out[0])->shape;

    return shape_known(dx) ? element_kind(n)->grad_flops * shape_numel(dx) : 0;
}

static Status infer_element(Graph *g, Node *n, int x)
{
    const Value *a = in_value(g, n, x), *b = in_value(g, n, x + 1);
    char ta[SHAPE_TEXT], tb[SHAPE_TEXT];

    TRY(infer_same_dtype(g, n, 0, n->n_in));
    if (!shape_eq(a->shape, b->shape))
        return FAIL(E_SHAPE, "%s: target of shape %s for values of shape %s", node_text(g, n), shape_text(b->shape, tb),
                    shape_text(a->shape, ta));
    if (element_kind(n))
        return ST_OK;
    return FAIL(E_INVALID, "%s: kind '%s', expected mse, l1, bce or bce-logits", node_text(g, n),
                node_string(n, "kind"));
}

static Status infer_element_loss(Graph *g, Node *n)
{
    Shape scalar = shape_scalar();

    TRY(infer_element(g, n, 0));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &scalar);
    return ST_OK;
}

static Status infer_element_loss_grad(Graph *g, Node *n)
{
    TRY(infer_element(g, n, 1));
    if (in_value(g, n, 0)->shape->rank)
        return FAIL(E_SHAPE, "%s: the gradient of a sum is a scalar", node_text(g, n));
    return infer_like(g, n, 1);
}

static Status grad_element_loss(Grad *gr)
{
    for (int by = 0; by < 2; by++)
        if (grad_wanted(gr, by)) {
            const Attr *attrs = ATTRS(STRING("kind", node_string(gr->node, "kind")), INT("by", by));

            grad_set(gr, by, EMIT(gr->g, ElementLossGrad, attrs, grad_dout(gr, 0), grad_in(gr, 0), grad_in(gr, 1)));
        }
    return gr->g->status;
}

/* Splits inputs i and i + 1 along the same axis; with `sum` outputs are then partial sums, else split, too. */
static void place_pair(Placement *p, int i, bool sum)
{
    int split = p->in[i].kind == PL_S ? i : p->in[i + 1].kind == PL_S ? i + 1 : -1;
    Place s = split < 0 ? PLACE_B : p->in[split];

    if (split < 0 && place_any(p, PL_L)) {
        place_set_all(p, PLACE_L);
        return;
    }
    if (split >= 0 && p->in[i + 1].kind == PL_S && p->in[i + 1].axis != s.axis)
        place_mixes(p, "its inputs are split along different axes");
    p->in[i] = p->in[i + 1] = s;
    place_set_all(p, split >= 0 && sum ? PLACE_P : s);
}

static Status place_element_loss(Placement *p)
{
    place_pair(p, 0, true);
    return ST_OK;
}

static Status place_element_loss_grad(Placement *p)
{
    if (p->in[0].kind == PL_P && p->in[1].kind == PL_B && p->in[2].kind == PL_B) {
        place_set_all(p, PLACE_P);
        return ST_OK;
    }
    if (p->in[0].kind == PL_P)
        p->in[0] = PLACE_B;
    place_pair(p, 1, false);
    return ST_OK;
}

/* ---- ElementLossSum and ElementLossGrad in ONNX's operators ---- */

/* A number in the type of x. */
static ValueId number_like(Graph *g, ValueId x, double v)
{
    return emit_scalar(g, g->status ? DT_NONE : value(g, x)->dtype, v);
}

/* The logarithm of v, at least -100. */
static ValueId log_clamped(Graph *g, ValueId v)
{
    const ValueId log = EMIT(g, Log, NULL, v);

    return EMIT(g, Max, NULL, log, number_like(g, v, -100));
}

static ValueId complement(Graph *g, ValueId v) { return EMIT(g, Sub, NULL, number_like(g, v, 1), v); }

static Status standard_element_loss(Graph *g, Node *n)
{
    const ValueId x = n->in[0], z = n->in[1];
    const char *kind = node_string(n, "kind");
    ValueId d = EMIT(g, Sub, NULL, x, z), y;

    if (!strcmp(kind, "mse"))
        y = EMIT(g, Mul, NULL, d, d);
    else if (!strcmp(kind, "l1"))
        y = EMIT(g, Abs, NULL, d);
    else if (!strcmp(kind, "bce")) { /* (z - 1) log(1 - x) - z log(x) */
        ValueId miss = log_clamped(g, complement(g, x)), hit = log_clamped(g, x);

        miss = EMIT(g, Mul, NULL, complement(g, z), miss);
        hit = EMIT(g, Mul, NULL, z, hit);
        y = EMIT(g, Neg, NULL, EMIT(g, Add, NULL, miss, hit));
    } else { /* max(x, 0) - x z + log(1 + e^-|x|) */
        ValueId size = EMIT(g, Neg, NULL, EMIT(g, Abs, NULL, x));
        ValueId rest = EMIT(g, Softplus, NULL, size), on = EMIT(g, Max, NULL, x, number_like(g, x, 0));
        ValueId both = EMIT(g, Mul, NULL, x, z);

        y = EMIT(g, Add, NULL, EMIT(g, Sub, NULL, on, both), rest);
    }
    graph_replace(g, n->out[0], loss_sum_of(g, y));
    return g->status;
}

static Status standard_element_loss_grad(Graph *g, Node *n)
{
    const ValueId x = n->in[1], z = n->in[2];
    const char *kind = node_string(n, "kind");
    const bool by = node_int(n, "by");
    ValueId d = by ? EMIT(g, Sub, NULL, z, x) : EMIT(g, Sub, NULL, x, z), y;

    if (!strcmp(kind, "mse"))
        y = scaled(g, d, 2);
    else if (!strcmp(kind, "l1")) { /* the sign of d, but 0 for NaN, where Sign gives NaN */
        const DType t = in_value(g, n, 1)->dtype;
        const ValueId zero = emit_scalar(g, t, 0);
        ValueId above = emit_cast(g, EMIT(g, Greater, NULL, d, zero), t);
        ValueId below = emit_cast(g, EMIT(g, Less, NULL, d, zero), t);

        y = EMIT(g, Sub, NULL, above, below);
    } else if (!strcmp(kind, "bce") && by) { /* log(1 - x) - log(x) */
        ValueId miss = log_clamped(g, complement(g, x)), hit = log_clamped(g, x);

        y = EMIT(g, Sub, NULL, miss, hit);
    } else if (!strcmp(kind, "bce")) { /* (x - z) / max(x (1 - x), 1e-12) */
        ValueId spread = EMIT(g, Mul, NULL, x, complement(g, x));

        y = EMIT(g, Div, NULL, d, EMIT(g, Max, NULL, spread, number_like(g, x, 1e-12)));
    } else
        y = by ? EMIT(g, Neg, NULL, x) : EMIT(g, Sub, NULL, EMIT(g, Sigmoid, NULL, x), z);
    graph_replace(g, n->out[0], EMIT(g, Mul, NULL, y, n->in[0]));
    return g->status;
}

DEFINE_OP(ElementLossSum, .flops = element_loss_flops, .blocks = BLOCKS_PASS, .precision = PREC_WIDE,
          .domain = "dpexec", .since = 1, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_F32_F64, .attrs = (const AttrDecl[]){ { "kind", A_STRING, .rule = ATTR_REQUIRED }, { 0 } },
          .infer = infer_element_loss, .grad = grad_element_loss, .standard = standard_element_loss,
          .place = place_element_loss,
          .doc = "the sum over all elements of the squared (mse), absolute (l1) difference, or binary cross-entropy "
                 "(bce, bce-logits); "
                 "inputs x, target");

DEFINE_OP(ElementLossGrad, .flops = element_loss_grad_flops, .blocks = BLOCKS_PASS, .domain = "dpexec", .since = 1,
          .in_min = 3, .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_F32_F64,
          .attrs = (const AttrDecl[]){ { "kind", A_STRING, .rule = ATTR_REQUIRED }, { "by", A_INT, .i = 0 }, { 0 } },
          .infer = infer_element_loss_grad, .standard = standard_element_loss_grad, .place = place_element_loss_grad,
          .doc = "gradient of ElementLossSum by x (by = 0) or by target (1); inputs dy, x, target");
