/* criterion: appends the loss, its numerator and denominator, and the metric.
 *
 * The loss of a batch is always numerator / denominator, a plain Div: when the batch is split both are partial sums, and
 * the loss over uneven parts is exact without further rules.  Where every sample counts 1 the denominator is a constant of
 * the whole batch's size, so no replica has to ask the others for it.  Adding numerators and denominators of several batches
 * gives the exact loss of an epoch or of a group of micro-batches.
 *
 * In training the model's own outputs go: no scores travel between devices, nobody holds those of the whole batch. */
#include <string.h>

#include "graph/emit.h"
#include "passes/infer_shapes.h"

typedef struct {
    Graph *g;
    const BuildOptions *opt;
    ValueId y, target;
    ValueId num, den;
    ValueId correct, counted;       /* NO_VALUE without a metric */
} Criterion;

static bool is_class_loss(LossKind k)
{
    return k == LOSS_CROSS_ENTROPY || k == LOSS_NLL;
}

static const char *loss_name(LossKind k)
{
    static const char *const names[] = { "none", "cross-entropy", "nll", "mse", "l1", "bce", "bce-logits", "output" };

    return names[k];
}

/* ---- options ---- */

static Status check_options(const BuildOptions *opt)
{
    const char *name = loss_name(opt->loss);

    if (opt->loss == LOSS_NONE)
        return FAIL(E_INVALID, "a loss is needed: give --loss");
    if (opt->metric_accuracy && !is_class_loss(opt->loss))
        return FAIL(E_INVALID, "--metric accuracy needs class scores: it does not go with --loss %s", name);
    if (opt->class_weights && !is_class_loss(opt->loss))
        return FAIL(E_INVALID, "--class-weights do not go with --loss %s", name);
    if (opt->has_ignore_index && !is_class_loss(opt->loss))
        return FAIL(E_INVALID, "--ignore-index does not go with --loss %s", name);
    if (opt->label_smoothing != 0 && opt->loss != LOSS_CROSS_ENTROPY)
        return FAIL(E_INVALID, "--label-smoothing does not go with --loss %s", name);
    if (!(opt->label_smoothing >= 0 && opt->label_smoothing <= 1))
        return FAIL(E_INVALID, "--label-smoothing %g is not in 0..1", opt->label_smoothing);
    return ST_OK;
}

static Status find_output(Criterion *c, const char *name)
{
    if (!name && !c->g->n_output)
        return FAIL(E_MODEL, "the model has no output to compute a loss from");
    c->y = name ? graph_output(c->g, name) : c->g->output[0].value;
    if (!has_value(c->y))
        return FAIL(E_INVALID, "the model has no output '%s'", name);
    if (!shape_known(&value(c->g, c->y)->shape))
        return FAIL(E_SHAPE, "the shape of output '%s' is not known", value(c->g, c->y)->name);
    if (!(DTYPES_F32_F64 & DTYPE_BIT(value(c->g, c->y)->dtype)))
        return FAIL(E_SHAPE, "output '%s' is %s: a loss needs float32 or float64; --dtype float32 computes it so",
                    value(c->g, c->y)->name, dtype_name(value(c->g, c->y)->dtype));
    return ST_OK;
}

static Status add_target(Criterion *c, DType dtype, const Shape *shape)
{
    const char *name = c->opt->target ? c->opt->target : "target";

    if (has_value(graph_find(c->g, name)))
        return FAIL(E_INVALID, "the model already has a value named '%s': give the target another name with --target", name);
    c->target = graph_add_input(c->g, name, dtype, shape);
    return c->g->status;
}

/* ---- losses ---- */

static Status class_weights(ValueId *out, Criterion *c, int64_t classes)
{
    const Tensor *w = c->opt->class_weights;
    Shape s = SHAPE(classes);
    Tensor *t;

    *out = NO_VALUE;
    if (!w)
        return ST_OK;
    if (w->shape.rank != 1 || w->shape.dim[0] != classes || !dtype_is_float(w->dtype)) {
        char text[SHAPE_TEXT];

        return FAIL(E_INVALID, "--class-weights hold %s %s, output '%s' has %lld classes", dtype_name(w->dtype), shape_text(&w->shape, text),
                    value(c->g, c->y)->name, (long long)classes);
    }
    if (!(t = tensor_create(c->g->arena, value(c->g, c->y)->dtype, &s)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < classes; i++)
        tensor_set_float(t, i, tensor_float(w, i));
    *out = graph_add_const_nocopy(c->g, "class_weights", t);
    return c->g->status;
}

/* Scores [N, C, d...] against class numbers [N, d...]. */
static Status add_class_loss(Criterion *c)
{
    Graph *g = c->g;
    const BuildOptions *opt = c->opt;
    const Value *y = value(g, c->y);
    int64_t ignore = opt->has_ignore_index ? opt->ignore_index : INT64_MIN;
    const Attr *attrs = ATTRS(INT("ignore_index", ignore), FLOAT("label_smoothing", opt->label_smoothing));
    Shape t = { .rank = y->shape.rank - 1 };
    ValueId w, logp, sum[2];
    char text[SHAPE_TEXT];

    if (y->shape.rank < 2 || y->shape.dim[1] < 1)
        return FAIL(E_SHAPE, "--loss %s needs scores [N, classes, ...]: output '%s' is %s", loss_name(opt->loss), y->name,
                    shape_text(&y->shape, text));
    for (int i = 0; i < t.rank; i++)
        t.dim[i] = y->shape.dim[i ? i + 1 : 0];
    TRY(add_target(c, DT_INT64, &t));
    TRY(class_weights(&w, c, y->shape.dim[1]));
    logp = opt->loss == LOSS_NLL ? c->y : EMIT(g, LogSoftmax, ATTRS(INT("axis", 1)), c->y);
    EMIT_MULTI(g, NllSum, attrs, 2, sum, logp, c->target, w);
    c->num = sum[0];
    c->den = has_value(w) || opt->has_ignore_index ? sum[1] : emit_scalar(g, y->dtype, (double)shape_numel(&t));
    if (opt->metric_accuracy) {
        ValueId counts[2];

        EMIT_MULTI(g, AccuracyCount, ATTRS(INT("ignore_index", ignore)), 2, counts, c->y, c->target);
        c->correct = counts[0];
        c->counted = counts[1];
    }
    return g->status;
}

/* The mean over all elements. */
static Status add_element_loss(Criterion *c)
{
    Graph *g = c->g;
    const Value *y = value(g, c->y);

    TRY(add_target(c, y->dtype, &y->shape));
    c->num = EMIT(g, ElementLossSum, ATTRS(STRING("kind", loss_name(c->opt->loss))), c->y, c->target);
    c->den = emit_scalar(g, y->dtype, (double)shape_numel(&y->shape));
    return g->status;
}

/* An output that is the loss already: a mean over the batch, weighing as many samples as the batch has. */
static Status add_output_loss(Criterion *c, ValueId *loss)
{
    Graph *g = c->g;
    DType t = value(g, c->y)->dtype;
    int64_t n = shape_numel(&value(g, c->y)->shape);
    Shape scalar = shape_scalar();

    *loss = emit_sum_to_shape(g, c->y, &scalar);
    if (n != 1)
        *loss = EMIT(g, Div, NULL, *loss, emit_scalar(g, t, (double)n));
    c->den = emit_scalar(g, t, (double)batch_size(g, c->opt));
    c->num = EMIT(g, Mul, NULL, *loss, c->den);
    return g->status;
}

/* ---- the pass ---- */

static void replace_outputs(Criterion *c, ValueId loss)
{
    static const char *const ours[] = { OUT_LOSS, OUT_LOSS_SUM, OUT_LOSS_WEIGHT, OUT_CORRECT, OUT_COUNTED };
    ValueId v[] = { loss, c->num, c->den, c->correct, c->counted };

    if (c->opt->mode != BUILD_EVAL)
        c->g->n_output = 0;
    for (int i = 0; i < 5; i++)
        if (has_value(v[i])) {
            graph_remove_output(c->g, ours[i]);
            graph_add_output(c->g, ours[i], v[i]);
        }
}

static Status run(Graph *g, PassCtx *ctx)
{
    Criterion c = { .g = g, .opt = ctx->opt };
    LossKind kind = ctx->opt->loss;
    uint32_t before = g->n_node;
    ValueId loss = NO_VALUE;

    TRY(check_options(ctx->opt));
    TRY(find_output(&c, kind == LOSS_OUTPUT ? ctx->opt->loss_output : ctx->opt->logits));
    if (kind == LOSS_OUTPUT)
        TRY(add_output_loss(&c, &loss));
    else if (is_class_loss(kind))
        TRY(add_class_loss(&c));
    else
        TRY(add_element_loss(&c));
    if (kind != LOSS_OUTPUT)
        loss = EMIT(g, Div, NULL, c.num, c.den);
    replace_outputs(&c, loss);
    ctx->n_changed += (int)(g->n_node - before);
    return g->status;
}

const Pass pass_criterion = { .name = "criterion", .summary = "append the loss and the metric",
                              .modes = 1u << BUILD_EVAL | 1u << BUILD_TRAIN | 1u << BUILD_ACCUMULATE | 1u << BUILD_APPLY, .run = run };
