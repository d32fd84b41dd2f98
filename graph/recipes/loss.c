/* Functions that several losses share: an ignored class, negative log-likelihood, elementwise losses. */
#include "graph/recipes/loss.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/loss.gen.h"
#include "graph/ops/unary.gen.h"

Status set_ignored_class(const Setting *s, void *to, const char *value)
{
    IgnoredClass *c = (IgnoredClass *)(void *)((char *)to + s->at);

    TRY(setting_read_int(&c->index, s, value));
    c->given = true;
    return ST_OK;
}

/* The loss for targets that are class probabilities. */
static void emit_soft_nll(LossBody *b, ValueId logp, const IgnoredClass *ignored, double label_smoothing)
{
    Graph *g = b->g;
    const Shape *y = value(g, b->y)->shape;
    const DType t = value(g, b->y)->dtype;
    Shape row = { .rank = y->rank };
    ValueId p = b->target;

    if (ignored->given && ignored->index >= 0 && !g->status)
        g->status = FAIL(E_INVALID, "--ignore-index %lld does not go with targets that are class probabilities",
                         (long long)ignored->index);
    if (g->status)
        return;
    if (label_smoothing > 0) {
        p = EMIT(g, Mul, NULL, p, emit_scalar(g, t, 1 - label_smoothing));
        p = EMIT(g, Add, NULL, p, emit_scalar(g, t, label_smoothing / (double)y->dim[1]));
    }
    p = EMIT(g, Mul, NULL, logp, p);
    for (int i = 0; i < row.rank; i++)
        row.dim[i] = i == 1 ? y->dim[1] : 1;
    if (has_value(b->weights))
        p = EMIT(g, Mul, NULL, p, emit_reshape(g, b->weights, &row));
    b->sum = EMIT(g, Neg, NULL, p);
    b->weight = emit_scalar(g, t, (double)(shape_numel(y) / y->dim[1]));
}

void emit_nll(LossBody *b, ValueId logp, const IgnoredClass *ignored, double label_smoothing)
{
    const Attr *attrs = ATTRS(INT("ignore_index", ignored_class(ignored)), FLOAT("label_smoothing", label_smoothing));
    ValueId sum[2];

    if (b->soft) {
        emit_soft_nll(b, logp, ignored, label_smoothing);
        return;
    }
    EMIT_MULTI(b->g, NllSum, attrs, 2, sum, logp, b->target, b->weights);
    b->sum = sum[0];
    b->weight = has_value(b->weights) || ignored->given ? sum[1] : NO_VALUE;
}

void emit_element_loss(LossBody *b, const char *kind)
{
    b->sum = EMIT(b->g, ElementLossSum, ATTRS(STRING("kind", kind)), b->y, b->target);
}

void loss_finish_sum(ValueId *sum, ValueId *weight, const LossBody *b)
{
    Graph *g = b->g;
    const Shape scalar = shape_scalar();

    if (g->status)
        return;
    *sum = emit_sum_to_shape(g, b->sum, &scalar);
    *weight = has_value(b->weight)
                  ? b->weight
                  : emit_scalar(g, value(g, *sum)->dtype, (double)shape_numel(value(g, b->target)->shape));
}
