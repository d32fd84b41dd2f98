/* What several losses share. */
#include "graph/recipes/loss.h"

Status set_ignored_class(const Setting *s, void *to, const char *value)
{
    IgnoredClass *c = (IgnoredClass *)(void *)((char *)to + s->at);

    TRY(setting_read_int(&c->index, s, value));
    c->given = true;
    return ST_OK;
}

void emit_nll(LossBody *b, ValueId logp, const IgnoredClass *ignored, double label_smoothing)
{
    const Attr *attrs = ATTRS(INT("ignore_index", ignored_class(ignored)), FLOAT("label_smoothing", label_smoothing));
    ValueId sum[2];

    EMIT_MULTI(b->g, NllSum, attrs, 2, sum, logp, b->target, b->weights);
    b->sum = sum[0];
    b->weight = has_value(b->weights) || ignored->given ? sum[1] : NO_VALUE;
}

void emit_element_loss(LossBody *b, const char *kind)
{
    b->sum = EMIT(b->g, ElementLossSum, ATTRS(STRING("kind", kind)), b->y, b->target);
}
