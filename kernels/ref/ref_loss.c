/* Losses and the count of right answers by their definitions; sums in double. */
#include <math.h>
#include <stdio.h>

#include "graph/ops/loss.gen.h"
#include "graph/ops/metric.gen.h"
#include "graph/ops/part_mean.gen.h"
#include "kernels/ref/element_loss.h"
#include "kernels/ref/nll.h"
#include "kernels/ref/ref_formulas.h"

/* ---- class numbers: scores [N, C, inner], target [N, inner] ---- */

Status nll_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Attr *smoothing = node_attr(n, "label_smoothing");
    Nll p = { n->n_in, n->op == &op_NllGrad ? 3 : 2, node_int(n, "ignore_index"), smoothing ? smoothing->f : 0, "" };

    (void)ctx;
    snprintf(p.target, sizeof p.target, "%s", in_value(g, n, 1)->name);
    return kernel_state(state, &p, sizeof p);
}

Status nll_label(int64_t *out, const Nll *p, const Tensor *target, int64_t i, int64_t classes)
{
    int64_t t = ref_index(target, i);

    *out = -1;
    if (t == p->ignore)
        return ST_OK;
    if (t < 0 || t >= classes)
        return FAIL(E_INVALID, "'%s': label %lld of sample %lld is not one of %lld classes", p->target, (long long)t,
                    (long long)i, (long long)classes);
    *out = t;
    return ST_OK;
}

Status nll_check_labels(const Nll *p, const Tensor *target, int64_t classes)
{
    int64_t n = tensor_numel(target), t;

    for (int64_t i = 0; i < n; i++)
        TRY(nll_label(&t, p, target, i, classes));
    return ST_OK;
}

static double weight(const Nll *p, const Tensor *in, int64_t c)
{
    return p->weights < p->n_in ? tensor_float(&in[p->weights], c) : 1;
}

/* -((1-e) w[t] logp[t] + e/C sum_c(w[c] logp[c])) */
static double nll(const Nll *p, const Tensor *in, int64_t at, int64_t stride, int64_t classes, int64_t t)
{
    double smooth = 0, loss = (1 - p->smoothing) * weight(p, in, t) * tensor_float(&in[0], at + t * stride);

    if (p->smoothing == 0)
        return -loss;
    for (int64_t c = 0; c < classes; c++)
        smooth += weight(p, in, c) * tensor_float(&in[0], at + c * stride);
    return -(loss + p->smoothing / (double)classes * smooth);
}

static Status ref_loss_run_nll_sum(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Nll *p = state;
    const Shape *x = &in[0].shape;
    int64_t C = x->dim[1], inner = shape_count(x, 2, x->rank), n = tensor_numel(&in[1]), t;
    double num = 0, den = 0;

    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        TRY(nll_label(&t, p, &in[1], i, C));
        if (t < 0)
            continue;
        num += nll(p, in, i / inner * C * inner + i % inner, inner, C, t);
        den += weight(p, in, t);
    }
    tensor_set_float(&out[0], 0, num);
    tensor_set_float(&out[1], 0, den);
    return ST_OK;
}

static Status run_nll_per_sample(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Nll *p = state;
    const Shape *x = &in[0].shape;
    int64_t C = x->dim[1], inner = shape_count(x, 2, x->rank), n = tensor_numel(&in[1]), t;

    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        TRY(nll_label(&t, p, &in[1], i, C));
        tensor_set_float(&out[0], i, t < 0 ? 0 : nll(p, in, i / inner * C * inner + i % inner, inner, C, t));
    }
    return ST_OK;
}

static Status ref_loss_run_nll_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Nll *p = state;
    const Shape *x = &out[0].shape;
    int64_t C = x->dim[1], inner = shape_count(x, 2, x->rank), n = tensor_numel(&in[1]), t;
    bool scalar = in[0].shape.rank == 0;

    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        double dy = tensor_float(&in[0], scalar ? 0 : i);
        int64_t at = i / inner * C * inner + i % inner;

        TRY(nll_label(&t, p, &in[1], i, C));
        for (int64_t c = 0; c < C; c++) {
            double d = p->smoothing / (double)C * weight(p, in, c);

            if (c == t)
                d += (1 - p->smoothing) * weight(p, in, t);
            tensor_set_float(&out[0], at + c * inner, t < 0 ? 0 : -dy * d);
        }
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_nll_sum, .op = &op_NllSum, .dtypes = DTYPES_F32_F64, .prepare = nll_prepare,
              .run = ref_loss_run_nll_sum, .release = free);
DEFINE_KERNEL(ref_nll_per_sample, .op = &op_NllPerSample, .dtypes = DTYPES_F32_F64, .prepare = nll_prepare,
              .run = run_nll_per_sample, .release = free);
DEFINE_KERNEL(ref_nll_grad, .op = &op_NllGrad, .dtypes = DTYPES_F32_F64, .prepare = nll_prepare,
              .run = ref_loss_run_nll_grad, .release = free);

/* ---- accuracy: of equal scores the first counts ---- */

static Status ref_loss_run_accuracy(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Nll *p = state;
    const Shape *x = &in[0].shape;
    int64_t C = x->dim[1], inner = shape_count(x, 2, x->rank), n = tensor_numel(&in[1]), correct = 0, counted = 0;

    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i / inner * C * inner + i % inner, best = 0, t = ref_index(&in[1], i);

        for (int64_t c = 1; c < C; c++)
            if (tensor_float(&in[0], at + c * inner) > tensor_float(&in[0], at + best * inner))
                best = c;
        counted += t != p->ignore;
        correct += t != p->ignore && t == best;
    }
    *(int64_t *)out[0].data = correct;
    *(int64_t *)out[1].data = counted;
    return ST_OK;
}

DEFINE_KERNEL(ref_accuracy_count, .op = &op_AccuracyCount, .dtypes = DTYPES_F32_F64, .prepare = nll_prepare,
              .run = ref_loss_run_accuracy, .release = free);

/* ---- one element against one element ---- */

Status element_loss_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    static const char *const names[] = { "mse", "l1", "bce", "bce-logits" };
    const Attr *by = node_attr(n, "by");
    ElementLoss p = { .by = by ? (int)by->i : 0 };

    (void)ctx;
    (void)g;
    for (int i = 0; i < 4; i++)
        if (!strcmp(node_string(n, "kind"), names[i]))
            p.kind = (ElementKind)i;
    return kernel_state(state, &p, sizeof p);
}

static double element_loss(ElementKind kind, double x, double z)
{
    switch (kind) {
    case ELEMENT_MSE: return formula_mse_f64(x, z);
    case ELEMENT_L1: return formula_l1_f64(x, z);
    case ELEMENT_BCE: return formula_bce_f64(x, z);
    default: return formula_bce_logits_f64(x, z);
    }
}

static double by_prediction(ElementKind kind, double x, double z)
{
    switch (kind) {
    case ELEMENT_MSE: return formula_mse_by_prediction_f64(x, z);
    case ELEMENT_L1: return formula_l1_by_prediction_f64(x, z);
    case ELEMENT_BCE: return formula_bce_by_prediction_f64(x, z);
    default: return formula_bce_logits_by_prediction_f64(x, z);
    }
}

static double by_target(ElementKind kind, double x, double z)
{
    switch (kind) {
    case ELEMENT_MSE: return formula_mse_by_target_f64(x, z);
    case ELEMENT_L1: return formula_l1_by_target_f64(x, z);
    case ELEMENT_BCE: return formula_bce_by_target_f64(x, z);
    default: return formula_bce_logits_by_target_f64(x, z);
    }
}

static Status run_element_loss(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const ElementLoss *p = state;
    int64_t n = tensor_numel(&in[0]);
    double sum = 0;

    (void)ctx;
    for (int64_t i = 0; i < n; i++)
        sum += element_loss(p->kind, tensor_float(&in[0], i), tensor_float(&in[1], i));
    tensor_set_float(&out[0], 0, sum);
    return ST_OK;
}

static Status run_element_loss_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const ElementLoss *p = state;
    int64_t n = tensor_numel(&in[1]);
    double dy = tensor_float(&in[0], 0);

    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        double x = tensor_float(&in[1], i), z = tensor_float(&in[2], i);

        tensor_set_float(&out[0], i, dy * (p->by ? by_target : by_prediction)(p->kind, x, z));
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_element_loss_sum, .op = &op_ElementLossSum, .dtypes = DTYPES_F32_F64, .prepare = element_loss_prepare,
              .run = run_element_loss, .release = free);
DEFINE_KERNEL(ref_element_loss_grad, .op = &op_ElementLossGrad, .dtypes = DTYPES_F32_F64,
              .prepare = element_loss_prepare, .run = run_element_loss_grad, .release = free);

/* ---- a replica's share of the mean of means ---- */

typedef struct {
    double weight, parts;
    bool given; /* the weight is an input */
} PartMean;

static Status prepare_part_mean(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const PartMean p = { node_float(n, "weight"), (double)node_int(n, "parts"), has_in(n, 1) };

    (void)ctx;
    (void)g;
    return kernel_state(state, &p, sizeof p);
}

static Status run_part_mean(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const PartMean *p = state;
    const double weight = p->given ? tensor_float(&in[1], 0) : p->weight;

    (void)ctx;
    tensor_set_float(&out[0], 0, weight == 0 ? 0 : tensor_float(&in[0], 0) / (weight * p->parts));
    return ST_OK;
}

DEFINE_KERNEL(ref_part_mean, .op = &op_PartMean, .dtypes = DTYPES_F32_F64, .prepare = prepare_part_mean,
              .run = run_part_mean, .release = free);
