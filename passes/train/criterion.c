/* criterion: appends the loss, its numerator and denominator, and the metric.
 *
 * The loss of a batch is always numerator / denominator, a plain Div: when the batch is split both are partial sums,
 * and the loss over uneven parts is exact without further rules.  Where every sample counts 1 the denominator is a
 * constant of the whole batch's size, so no replica has to ask the others for it.  Adding numerators and denominators
 * of several batches gives the exact loss of an epoch or of a group of micro-batches.  A loss that is a sum has no
 * denominator.
 *
 * With --loss-scaling mean-of-means a training step's loss is the mean of the means of the replicas' parts (PartMean,
 * or passes/partition/part_losses.c for the model's own numbers).  It is then the numerator, and the denominator is 1:
 * a group of micro-batches takes the mean of their losses.
 *
 * In training the model's own outputs are removed, so no device holds the scores of the whole batch. */
#include "passes/train/criterion.h"

#include <string.h>

#include "graph/ir/data_shapes.h"
#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/part_mean.gen.h"
#include "passes/batch_axis.h"
#include "passes/options/batch.h"
#include "passes/options/recipes.h"
#include "passes/options/step.h"
#include "passes/options/target.h"
#include "passes/options/update.h"
#include "passes/report.h"
#include "passes/simplify/infer_shapes.h"
#include "passes/train/class_axis.h"
#include "passes/train/metric_sums.h"
#include "passes/train/target_fit.h"
#include "passes/update_groups.h"

typedef struct {
    Graph *g;
    const BuildOptions *opt;
    Report *report;       /* may be NULL */
    const Output *scores; /* the output whose value is y */
    ValueId y, target;
    ValueId num, den; /* den NO_VALUE: the loss is a sum */
    Output *log;      /* log variables, as the outputs that they become */
    int n_log;
    ValueId *own;                   /* [n_group]: the mean of the output that is the group's own loss; or NO_VALUE */
    Output metric[2 * MAX_METRICS]; /* sums and weights of the metrics, as the outputs that they become */
    int n_metric;
    RecipeSettings loss; /* its settings */
} Criterion;

/* ---- options ---- */

static Status check_options(const BuildOptions *opt)
{
    const RecipeOptions *recipes = recipe_options(opt);
    const LossDef *loss = recipes->loss;
    const TargetOptions *o = target_options(opt);
    const bool classes = loss_has_classes(opt);

    if (!loss)
        return FAIL(E_INVALID, "a loss is needed: give --loss");
    TRY(metrics_check(recipes));
    if (o->class_weights && !classes)
        return FAIL(E_INVALID, "--class-weights does not go with --loss %s", loss->recipe.name);
    if (o->class_axis && !classes)
        return FAIL(E_INVALID, "--class-axis does not go with --loss %s", loss->recipe.name);
    if ((o->loss_weight || o->loss_is_sum) && loss->target != TARGET_NONE)
        return FAIL(E_INVALID, "--loss-weight needs --loss output:NAME: the denominator of %s is known",
                    loss->recipe.name);
    return ST_OK;
}

static const Output *output_named(const Graph *g, const char *name)
{
    for (int i = 0; i < g->n_output; i++)
        if (!name || !strcmp(g->output[i].name, name))
            return &g->output[i];
    return NULL;
}

static Status check_output(const Graph *g, const Output *o)
{
    const Value *v = value(g, o->value);

    if (!shape_known(v->shape))
        return status_prefix(fail_dynamic(g, "training"), "output '%s'", v->name);
    if (!(DTYPES_F32_F64 & DTYPE_BIT(v->dtype)))
        return FAIL(E_SHAPE, "output '%s' is %s: a loss needs float32 or float64: give --dtype float32", v->name,
                    dtype_name(v->dtype));
    return ST_OK;
}

enum { OUTPUTS_TEXT = 512 };

/* "'scores', 'hidden'", or "no outputs". */
static const char *list_outputs(char text[OUTPUTS_TEXT], const Graph *g)
{
    size_t len = (size_t)snprintf(text, OUTPUTS_TEXT, "%s", g->n_output ? "" : "no outputs");

    for (int i = 0; i < g->n_output && len < OUTPUTS_TEXT; i++)
        len += (size_t)snprintf(text + len, OUTPUTS_TEXT - len, "%s'%s'", i ? ", " : "", g->output[i].name);
    return text;
}

static Status find_output(Criterion *c, const char *name)
{
    char list[OUTPUTS_TEXT];

    if (!name && !c->g->n_output)
        return FAIL(E_MODEL, "the model has no output to compute a loss from");
    if (!(c->scores = output_named(c->g, name)))
        return FAIL(E_INVALID, "--logits %s: the model has no such output; it has %s", name, list_outputs(list, c->g));
    c->y = c->scores->value;
    return check_output(c->g, c->scores);
}

/* Warns if a loss of logits reads the result of the operator that it applies itself: a Softmax of a Softmax is nearly
 * even, and trains badly. */
static Status note_applied_twice(const Criterion *c, const LossDef *loss)
{
    const Node *n = value(c->g, c->y)->producer;

    while (n && op_is_strided(n->op))
        n = value(c->g, n->in[0])->producer;
    if (!n || !loss->applies || strcmp(n->op->name, loss->applies) != 0)
        return ST_OK;
    return report_note(c->report, NOTE_GUESS, c->scores->name,
                       "is the result of %s, but --loss %s applies %s again: expected the scores before it",
                       node_text(c->g, n), loss->recipe.name, n->op->name);
}

/* E_SHAPE unless there are as many scores as targets: a model that joins or picks rows of the batch has others. */
static Status check_rows(const Criterion *c, const Shape *expected, int batch)
{
    const BatchOptions *given = batch_options(c->opt);
    const Shape *have = target_options(c->opt)->target_shape;
    char text[SHAPE_TEXT];

    if (!have || !shape_known(expected) || have->rank != expected->rank || batch < 0 || batch >= have->rank ||
        have->dim[batch] != given->batch || expected->dim[batch] == given->batch)
        return ST_OK;
    return FAIL(
        E_SHAPE,
        "output '%s' is %s for a batch of %lld: the loss needs scores of each sample; --logits NAME names another "
        "output, or --loss output:NAME a loss within the model",
        c->scores->name, shape_text(value(c->g, c->y)->shape, text), (long long)given->batch);
}

/* Adds the target as an input, of `shape` or of that of the data where it fits; c->target has `shape`. */
static Status add_target(Criterion *c, DType dtype, const Shape *shape, int batch)
{
    const Shape *given = target_options(c->opt)->target_shape;
    const char *name = target_name(c->opt);
    TargetFit fit = { .n = 0 };
    Shape own;
    ValueId input;

    if (given && !target_fit(&fit, given, shape, batch))
        fit.n = 0; /* an error that names the target's shape follows where the step is given it */
    own = target_fit_shape(&fit, shape);
    TRY(check_rows(c, &own, batch));
    if (has_value(graph_find(c->g, name)))
        return FAIL(E_INVALID, "the model already has a value named '%s': give the target another name with --target",
                    name);
    input = graph_add_input(c->g, name, dtype, &own);
    TRY(c->g->status);
    TRY(mark_batch_axis(c->g, c->opt, value(c->g, input), batch));
    c->target = emit_fitted(c->g, input, &fit);
    return c->g->status;
}

/* ---- losses ---- */

static Status class_weights(ValueId *out, Criterion *c, int64_t classes)
{
    const Tensor *w = target_options(c->opt)->class_weights;
    Shape s = SHAPE(classes);
    Tensor *t;

    *out = NO_VALUE;
    if (!w)
        return ST_OK;
    if (w->shape.rank != 1 || w->shape.dim[0] != classes || !dtype_is_float(w->dtype)) {
        char text[SHAPE_TEXT];

        return FAIL(E_INVALID, "--class-weights hold %s %s, output '%s' has %lld classes", dtype_name(w->dtype),
                    shape_text(&w->shape, text), value(c->g, c->y)->name, (long long)classes);
    }
    if (!(t = tensor_create(c->g->arena, value(c->g, c->y)->dtype, &s)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < classes; i++)
        tensor_set_float(t, i, tensor_float(w, i));
    *out = graph_add_const_nocopy(c->g, "class_weights", t);
    return c->g->status;
}

/* ---- the axis of the classes ---- */

static Status note_axis(const Criterion *c, const ClassAxis *a)
{
    char text[SHAPE_TEXT];

    if (!a->decided)
        return report_note(c->report, NOTE_OTHER, c->scores->name,
                           "the classes of the scores %s are taken along axis %d, unless the targets' "
                           "shape says otherwise; --class-axis chooses",
                           shape_text(&a->scores, text), a->axis);
    if (a->axis == 1 || target_options(c->opt)->class_axis)
        return ST_OK;
    return report_note(c->report, NOTE_OTHER, c->scores->name,
                       "the classes of the scores %s are along axis %d, as the targets' shape says",
                       shape_text(&a->scores, text), a->axis);
}

/* Probabilities have all the scores' axes, so class_axis_assume decides, by default on PyTorch's order. */
static Status assume_soft_axis(Criterion *c, ClassAxis *a)
{
    char text[SHAPE_TEXT];
    bool only;

    class_axis_assume(a, c->g);
    only = a->decided;
    a->decided = true;
    return only ? ST_OK
                : report_note(c->report, NOTE_GUESS, c->scores->name,
                              "the classes of the scores %s and of their targets, which are class probabilities of the "
                              "same shape, are taken along axis %d; --class-axis chooses",
                              shape_text(&a->scores, text), a->axis);
}

/* `soft`: targets have the scores' shape. */
static Status find_class_axis(Criterion *c, int *out, bool soft)
{
    const TargetOptions *target = target_options(c->opt);
    const Value *y = value(c->g, c->y);
    ClassAxis a = { .scores = *y->shape,
                    .batch = scores_batch_axis(c->g, c->opt, c->scores),
                    .classes = -1,
                    .output = c->scores->name };

    if (target->class_weights && target->class_weights->shape.rank == 1)
        a.classes = target->class_weights->shape.dim[0];
    for (int i = 0; c->scores->dim_param && i < y->shape->rank; i++)
        a.open |= c->scores->dim_param[i] ? 1u << i : 0;
    if (target->class_axis)
        TRY(class_axis_set(&a, target->class_axis));
    else if (soft)
        TRY(assume_soft_axis(c, &a));
    else if (target->target_shape)
        TRY(class_axis_decide(&a, target->target_shape));
    else
        class_axis_assume(&a, c->g);
    if (target->class_axis_found)
        *target->class_axis_found = a;
    *out = a.axis;
    return soft ? ST_OK : note_axis(c, &a);
}

/* Moves the classes' axis to axis 1, where the loss's operators have it. */
static ValueId classes_to_axis_1(Graph *g, ValueId y, int axis)
{
    const int rank = value(g, y)->shape->rank;
    int64_t perm[MAX_RANK] = { 0, axis };

    for (int i = 2; i < rank; i++)
        perm[i] = i <= axis ? i - 1 : i;
    return axis == 1 ? y : EMIT(g, Transpose, ATTRS(INTS("perm", rank, perm)), y);
}

/* ---- scores [N, C, d...], or in another order, against class numbers [N, d...] or their probabilities ---- */

static Status no_classes(const Criterion *c)
{
    char text[SHAPE_TEXT];

    return FAIL(E_SHAPE, "--loss %s needs scores [N, classes, ...]: output '%s' is %s",
                recipe_options(c->opt)->loss->recipe.name, c->scores->name, shape_text(value(c->g, c->y)->shape, text));
}

/* The probability of a single class is always 1. */
static Status one_class(const Criterion *c)
{
    char text[SHAPE_TEXT];

    return FAIL(
        E_SHAPE,
        "--loss %s needs scores of two classes or more: output '%s' %s has one, so that nothing is trained; for "
        "one logit of each sample and targets 0 and 1 give --loss bce-logits",
        recipe_options(c->opt)->loss->recipe.name, c->scores->name, shape_text(value(c->g, c->y)->shape, text));
}

/* `body`: scores and targets, with their classes along axis 1, and weights. */
static Status add_sums(Criterion *c, const LossBody *body)
{
    LossBody b = *body;

    recipe_options(c->opt)->loss->emit(&b, &c->loss);
    loss_finish_sum(&c->num, &c->den, &b);
    return metrics_emit(c->metric, &c->n_metric, body, c->opt);
}

/* PyTorch's rule: targets of the scores' rank are probabilities of the classes; but those of [N,1] are class numbers.
 * Without targets the setting decides. */
static Status has_soft_targets(bool *out, const Criterion *c)
{
    const LossDef *loss = recipe_options(c->opt)->loss;
    const Shape *y = value(c->g, c->y)->shape, *target = target_options(c->opt)->target_shape;
    const int batch = scores_batch_axis(c->g, c->opt, c->scores);
    const ClassAxis any = { .scores = *y, .batch = batch, .classes = -1 };
    const bool soft_setting = loss->soft_labels && loss->soft_labels(&c->loss),
               like = target && target_is_like(target, y, batch);
    char have[SHAPE_TEXT], want[SHAPE_TEXT];

    *out = loss->soft_labels &&
           (target ? target->rank == y->rank && (like || !class_axis_exists(&any, target)) : soft_setting);
    if (target && (*out ? !like : soft_setting))
        return FAIL(E_SHAPE,
                    "targets of shape %s do not fit the scores of output '%s' %s: expected class probabilities of that "
                    "shape, or class numbers of that shape without the axis of the classes%s",
                    shape_text(target, have), c->scores->name, shape_text(y, want),
                    soft_setting && !*out ? " and no --soft-labels" : "");
    return ST_OK;
}

static Status add_class_loss(Criterion *c)
{
    Graph *g = c->g;
    const Shape y = *value(g, c->y)->shape;
    const int batch = scores_batch_axis(g, c->opt, c->scores);
    LossBody b = { .g = g };
    Shape t = { .rank = y.rank - 1 };
    int axis;

    if (y.rank < 2)
        return no_classes(c);
    TRY(has_soft_targets(&b.soft, c));
    TRY(find_class_axis(c, &axis, b.soft));
    if (y.dim[axis] < 1)
        return no_classes(c);
    if (y.dim[axis] == 1)
        return one_class(c);
    for (int i = 0; i < t.rank; i++)
        t.dim[i] = y.dim[i < axis ? i : i + 1];
    TRY(b.soft ? add_target(c, value(g, c->y)->dtype, &y, batch)
               : add_target(c, DT_INT64, &t, target_batch_axis(c->opt, batch, axis)));
    TRY(class_weights(&b.weights, c, y.dim[axis]));
    b.y = classes_to_axis_1(g, c->y, axis);
    b.target = b.soft ? classes_to_axis_1(g, c->target, axis) : c->target;
    return add_sums(c, &b);
}

/* Checks the targets of an element-wise loss.  Targets that lack an axis of the output are mostly class numbers. */
static Status check_element_target(const Criterion *c)
{
    const Shape *y = value(c->g, c->y)->shape, *target = target_options(c->opt)->target_shape;
    const int batch = scores_batch_axis(c->g, c->opt, c->scores);
    char have[SHAPE_TEXT], want[SHAPE_TEXT];
    bool drops = false;
    TargetFit fit;

    if (!target || !shape_known(y) || target_fit(&fit, target, y, batch))
        return ST_OK;
    for (int k = 0; k < y->rank; k++) {
        Shape without = { .rank = y->rank - 1 };

        for (int i = 0; i < without.rank; i++)
            without.dim[i] = y->dim[i < k ? i : i + 1];
        drops |= k != batch && y->dim[k] > 1 && target_is_like(target, &without, k < batch ? batch - 1 : batch);
    }
    return FAIL(
        E_SHAPE, "--loss %s compares output '%s' %s element by element: expected '%s' of that shape, found %s%s",
        recipe_options(c->opt)->loss->recipe.name, c->scores->name, shape_text(y, want), target_name(c->opt),
        shape_text(target, have),
        drops ? "; for classes' numbers give --loss cross-entropy, or nll where the output is log-probabilities" : "");
}

/* The mean over all elements. */
static Status add_element_loss(Criterion *c)
{
    const Value *y = value(c->g, c->y);

    TRY(check_element_target(c));
    TRY(add_target(c, y->dtype, y->shape, scores_batch_axis(c->g, c->opt, c->scores)));
    return add_sums(c, &(LossBody){ .g = c->g,
                                    .y = c->y,
                                    .target = c->target,
                                    .batch = scores_batch_axis(c->g, c->opt, c->scores),
                                    .binary = recipe_options(c->opt)->loss->binary });
}

/* ---- an output that is the loss already ---- */

/* Is the value computed from something that is trained? */
static Status criterion_is_trained(bool *out, const Graph *g, ValueId v, Arena *scratch)
{
    bool *trained = ARENA_NEW(scratch, bool, g->n_value);

    if (!trained)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value; i++)
        trained[i] = g->value[i]->kind == V_STATE && g->value[i]->trainable;
    FOR_NODES(g, n) {
        bool any = false;

        for (int i = 0; i < n->n_in; i++)
            any |= has_value(n->in[i]) && trained[n->in[i].i];
        for (int i = 0; i < n->n_out; i++)
            if (has_value(n->out[i]))
                trained[n->out[i].i] |= any;
    }
    *out = trained[v.i];
    return ST_OK;
}

/* Sets the denominator to the sum of the --loss-weight output. */
static Status add_weight_output(Criterion *c, Arena *scratch)
{
    const TargetOptions *target = target_options(c->opt);
    Graph *g = c->g;
    const Output *w = output_named(g, target->loss_weight);
    const DType loss = value(g, c->y)->dtype;
    const Shape scalar = shape_scalar();
    char text[SHAPE_TEXT];
    bool trained;

    if (!w)
        return FAIL(E_INVALID, "--loss-weight: the model has no output '%s'; expected one of its outputs, or sum",
                    target->loss_weight);
    if (!shape_known(value(g, w->value)->shape))
        return FAIL(E_SHAPE, "--loss-weight: the shape of output '%s' is not known", w->name);
    if (shape_numel(value(g, c->y)->shape) != 1)
        return FAIL(
            E_SHAPE,
            "--loss-weight %s: the loss, output '%s', is %s; expected one number, the mean that the weight belongs to",
            w->name, c->scores->name, shape_text(value(g, c->y)->shape, text));
    TRY(criterion_is_trained(&trained, g, w->value, scratch));
    if (trained)
        return FAIL(E_INVALID,
                    "--loss-weight: output '%s' depends on parameters that are trained; a weight must follow from the "
                    "data alone",
                    w->name);
    c->den = emit_sum_to_shape(g, emit_cast(g, w->value, loss), &scalar);
    return g->status;
}

bool criterion_logs_outputs(const BuildOptions *opt) { return recipe_options(opt)->loss->logs; }

bool criterion_takes_own_means(const BuildOptions *opt)
{
    const TargetOptions *o = target_options(opt);

    return o->mean_of_means && loss_is_output(opt) && !o->loss_is_sum && build_mode(opt) != BUILD_EVAL;
}

static ValueId emit_part_mean(const Criterion *c, ValueId sum, double weight, bool shared, ValueId weights)
{
    const Attr *attrs =
        ATTRS(FLOAT("weight", weight), INT("filled", target_options(c->opt)->mean_over == MEAN_OVER_FILLED),
              INT("shared", shared));
    const ValueId in[2] = { sum, weights };

    return emit(c->g, &op_PartMean, attrs, has_value(weights) ? 2 : 1, in);
}

/* The mean of an output, in the loss's type.  With mean-of-means it is the mean of the parts' means: a single number
 * already is that mean, and other outputs have samples along an axis. */
static ValueId emit_mean(Criterion *c, const Output *o)
{
    const DType t = value(c->g, c->y)->dtype;
    const Shape scalar = shape_scalar();
    const int64_t n = shape_numel(value(c->g, o->value)->shape);
    const ValueId sum = emit_sum_to_shape(c->g, emit_cast(c->g, o->value, t), &scalar);

    if (criterion_takes_own_means(c->opt) && value(c->g, o->value)->shape->rank)
        return emit_part_mean(c, sum, (double)n, true, NO_VALUE);
    return n == 1 ? sum : EMIT(c->g, Div, NULL, sum, emit_scalar(c->g, t, (double)n));
}

/* Sets the denominator, the weight of the batch's means beside other batches': 1 for means of means, or the sum of the
 * --loss-weight output, or the number of samples. */
static Status add_weight(Criterion *c, Arena *scratch)
{
    const TargetOptions *target = target_options(c->opt);
    const DType t = value(c->g, c->y)->dtype;

    if (target->loss_weight)
        TRY(add_weight_output(c, scratch));
    if (criterion_takes_own_means(c->opt))
        c->den = emit_scalar(c->g, t, 1);
    else if (!target->loss_weight)
        c->den = emit_scalar(c->g, t, (double)batch_size(c->g, c->opt));
    return c->g->status;
}

/* The loss is a mean over the batch with the weight of add_weight, or a sum without a weight. */
static Status add_output_loss(Criterion *c, ValueId *loss, Arena *scratch)
{
    Graph *g = c->g;
    const Shape scalar = shape_scalar();

    if (target_options(c->opt)->loss_is_sum) {
        *loss = c->num = emit_sum_to_shape(g, c->y, &scalar);
        return g->status;
    }
    TRY(add_weight(c, scratch));
    *loss = emit_mean(c, c->scores);
    c->num = EMIT(g, Mul, NULL, *loss, c->den);
    return g->status;
}

/* ---- outputs that are losses, and others that are logged ---- */

/* Is an output named by `length` characters of `name` and the suffix? */
static bool has_output(const Graph *g, const char *name, size_t length, const char *suffix)
{
    for (int i = 0; i < g->n_output; i++)
        if (!strncmp(g->output[i].name, name, length) && !strcmp(g->output[i].name + length, suffix))
            return true;
    return false;
}

/* The length of NAME if the output is one of NAME.0, NAME.1, ... and none before it is missing; otherwise 0. */
static size_t list_length(const Graph *g, const char *output)
{
    const char *dot = strrchr(output, '.');
    const size_t length = dot ? (size_t)(dot - output) : 0;
    char suffix[16] = "";

    if (!length || has_output(g, output, length, suffix))
        return 0;
    for (int i = 0; strcmp(suffix, dot) != 0; i++) {
        snprintf(suffix, sizeof suffix, ".%d", i);
        if (!has_output(g, output, length, suffix))
            return 0;
    }
    return length;
}

const char *criterion_log_name(Arena *a, const Graph *g, int output)
{
    const char *name = g->output[output].name;
    const size_t list = list_length(g, name);

    if (list)
        name = arena_printf(a, "%.*s", (int)list, name);
    return name && !strcmp(name, OUT_LOSS) ? OUT_LOSS ".0" : name;
}

bool criterion_in_loss(const Graph *g, int output, const char *loss)
{
    const char *name = g->output[output].name;
    const size_t list = list_length(g, name);

    return !strcmp(name, loss) || (list && list == strlen(loss) && !memcmp(name, loss, list));
}

static Status check_logged(const Criterion *c, const Output *o, const char *log_name, bool is_loss)
{
    const TargetOptions *target = target_options(c->opt);
    char text[SHAPE_TEXT];

    if (is_loss)
        TRY(check_output(c->g, o));
    if (!shape_known(value(c->g, o->value)->shape))
        return FAIL(E_SHAPE, "--loss outputs: the shape of output '%s' is not known", o->name);
    if (is_loss && target->loss_weight && shape_numel(value(c->g, o->value)->shape) != 1)
        return FAIL(E_SHAPE, "--loss-weight %s: output '%s', a loss, is %s; expected one number", target->loss_weight,
                    o->name, shape_text(value(c->g, o->value)->shape, text));
    for (int i = 0; i < c->g->n_output; i++)
        if (&c->g->output[i] != o && !list_length(c->g, c->g->output[i].name) &&
            !strcmp(log_name, c->g->output[i].name))
            return FAIL(E_INVALID, "--loss outputs: outputs '%s' and '%s' are both logged as %s", o->name,
                        c->g->output[i].name, c->g->output[i].name);
    return ST_OK;
}

static void add_to_loss(Graph *g, ValueId *loss, ValueId mean)
{
    *loss = has_value(*loss) ? EMIT(g, Add, NULL, *loss, mean) : mean;
}

/* Adds the mean to the log variable of that name, which it creates if there is none. */
static Status log_mean(Criterion *c, const char *log_name, ValueId mean)
{
    const char *name = arena_printf(c->g->arena, OUT_LOG_PREFIX "%s", log_name);
    const ValueId sum = EMIT(c->g, Mul, NULL, mean, c->den);
    int k = 0;

    if (!name)
        return FAIL_NOMEM();
    while (k < c->n_log && strcmp(c->log[k].name, name) != 0)
        k++;
    c->log[k].value = k < c->n_log ? EMIT(c->g, Add, NULL, c->log[k].value, sum) : sum;
    c->log[k].name = name;
    c->n_log += k == c->n_log;
    return c->g->status;
}

/* The loss is the sum of the means of all losses.  Each output's mean is logged, for a list the sum of its means; all
 * have the same weight beside other batches. */
static Status add_logged_losses(Criterion *c, ValueId *loss, const bool *is_loss, Arena *scratch)
{
    const UpdateOptions *updates = update_options(c->opt);
    Graph *g = c->g;

    if (target_options(c->opt)->loss_is_sum)
        return FAIL(E_INVALID, "--loss-weight sum does not go with --loss outputs, which takes means");
    if (!(c->log = ARENA_NEW(g->arena, Output, (size_t)g->n_output + 1)) ||
        !(c->own = ARENA_NEW(scratch, ValueId, (size_t)updates->n_group + 1)))
        return FAIL_NOMEM();
    TRY(add_weight(c, scratch));
    for (int i = 0; i < g->n_output; i++) {
        const Output *o = &g->output[i];
        const char *log_name = criterion_log_name(scratch, g, i);
        ValueId mean;

        if (!log_name)
            return FAIL_NOMEM();
        if (!is_loss[i] && !dtype_is_float(value(g, o->value)->dtype))
            continue;
        TRY(check_logged(c, o, log_name, is_loss[i]));
        mean = emit_mean(c, o);
        if (is_loss[i])
            add_to_loss(g, loss, mean);
        for (int k = 0; k < updates->n_group; k++)
            if (updates->group[k].loss && criterion_in_loss(g, i, updates->group[k].loss))
                add_to_loss(g, &c->own[k], mean);
        TRY(log_mean(c, log_name, mean));
    }
    c->num = EMIT(g, Mul, NULL, *loss, c->den);
    return g->status;
}

/* Adds the losses of groups as outputs: their means, in accumulation times the denominator. */
static Status add_own_losses(Criterion *c)
{
    const UpdateOptions *updates = update_options(c->opt);
    Graph *g = c->g;

    for (int k = 0; k < updates->n_group && !g->status; k++) {
        const UpdateGroup *u = &updates->group[k];
        const char *name = u->loss ? arena_printf(g->arena, OUT_OWN_LOSS_PREFIX "%s", u->loss) : NULL;

        if (!u->loss || update_group_loss(c->opt, k + 1) != k + 1)
            continue;
        if (!name)
            return FAIL_NOMEM();
        if (!has_value(c->own[k]))
            return FAIL(E_INVALID, "--group '%s': the model has no output '%s' of floats to be a loss", u->pattern,
                        u->loss);
        graph_remove_output(g, name);
        graph_add_output(g, name,
                         build_mode(c->opt) == BUILD_TRAIN ? c->own[k] : EMIT(g, Mul, NULL, c->own[k], c->den));
    }
    return g->status;
}

/* ---- the mean of the parts' means ---- */

/* Makes the loss the mean of the parts' means, with weight 1.  A sum is only divided by the number of parts. */
static Status take_mean_of_means(Criterion *c)
{
    Graph *g = c->g;
    const Tensor *weight = has_value(c->den) ? value_const(g, c->den) : NULL;

    c->num =
        emit_part_mean(c, c->num, weight ? tensor_float(weight, 0) : 1, weight != NULL, weight ? NO_VALUE : c->den);
    if (has_value(c->den))
        c->den = emit_scalar(g, value(g, c->y)->dtype, 1);
    return g->status;
}

/* ---- the pass ---- */

static const char *const ours[] = { OUT_LOSS, OUT_LOSS_SUM, OUT_LOSS_WEIGHT };
enum { N_OURS = sizeof ours / sizeof *ours };

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

/* Is it the name of an output that a step may have, in training or evaluation? */
static bool is_ours(const char *output)
{
    static const char *const others[] = { OUT_LOSS_SCALE, OUT_APPLIED, OUT_METRIC_SUM, OUT_METRIC_WEIGHT };

    for (int i = 0; i < N_OURS; i++)
        if (!strcmp(ours[i], output))
            return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_group_name(output, others[i]))
            return true;
    return begins(output, OUT_LOG_PREFIX) || begins(output, OUT_GRAD_NORM) || begins(output, OUT_GRAD_PREFIX);
}

const char *criterion_prediction(const char *output)
{
    return begins(output, OUT_MODEL_PREFIX) ? output + strlen(OUT_MODEL_PREFIX) : is_ours(output) ? NULL : output;
}

Status criterion_find_losses(bool *is_loss, const Graph *g, const BuildOptions *opt)
{
    const RecipeOptions *o = recipe_options(opt);
    const bool own = loss_is_output(opt);
    char list[OUTPUTS_TEXT];
    RecipeSettings s;
    bool any = false;

    if (own)
        TRY(recipe_take(&s, &o->loss->recipe, "loss", o->loss_args, o->settings, g->arena));
    for (int i = 0; i < g->n_output; i++)
        any |= is_loss[i] = own && o->loss->is_loss(&s, g->output[i].name);
    if (!own || any)
        return ST_OK;
    list_outputs(list, g);
    return o->loss->logs
               ? FAIL(E_INVALID, "--loss outputs: the name of no output contains 'loss'; the model has %s", list)
               : FAIL(E_INVALID, "--loss output:%s: the model has no such output; it has %s", o->loss_args, list);
}

/* Keeps only wanted predictions; one that is named like an output of ours gets OUT_MODEL_PREFIX. */
static Status drop_outputs(Criterion *c, const bool *is_loss)
{
    const bool wanted = mode_in(c->opt, 1u << BUILD_EVAL | (step_options(c->opt)->keep_outputs ? MODES_LEARN : 0));
    int kept = 0;

    for (int i = 0; wanted && i < c->g->n_output; i++) {
        Output o = c->g->output[i];

        if (is_loss[i])
            continue;
        if (is_ours(o.name) || begins(o.name, OUT_MODEL_PREFIX))
            o.name = arena_printf(c->g->arena, OUT_MODEL_PREFIX "%s", o.name);
        if (!o.name)
            return FAIL_NOMEM();
        c->g->output[kept++] = o;
    }
    c->g->n_output = kept;
    return ST_OK;
}

static Status replace_outputs(Criterion *c, ValueId loss, const bool *is_loss)
{
    ValueId v[N_OURS] = { loss, c->num, c->den };

    TRY(drop_outputs(c, is_loss));
    for (int i = 0; i < N_OURS; i++)
        if (has_value(v[i]))
            graph_add_output(c->g, ours[i], v[i]);
    for (int i = 0; i < c->n_metric; i++)
        graph_add_output(c->g, c->metric[i].name, c->metric[i].value);
    for (int i = 0; i < c->n_log; i++)
        graph_add_output(c->g, c->log[i].name, c->log[i].value);
    return c->g->status;
}

static Status criterion_run(Graph *g, PassCtx *ctx)
{
    const TargetOptions *target = target_options(ctx->opt);
    const RecipeOptions *recipes = recipe_options(ctx->opt);
    Criterion c = { .g = g, .opt = ctx->opt, .report = ctx->report };
    const LossDef *def = recipes->loss;
    uint32_t before = g->n_node;
    ValueId loss = NO_VALUE;
    bool *is_loss;
    int first = 0; /* loss of the model's own */

    graph_begin_purpose(g, PHASE_CRITERION, "criterion");
    TRY(check_options(ctx->opt));
    TRY(recipe_take(&c.loss, &def->recipe, "loss", recipes->loss_args, recipes->settings, g->arena));
    if (!(is_loss = ARENA_NEW(ctx->scratch, bool, (size_t)g->n_output + 1)))
        return FAIL_NOMEM();
    TRY(criterion_find_losses(is_loss, g, ctx->opt));
    while (def->target == TARGET_NONE && !is_loss[first])
        first++;
    TRY(find_output(&c, def->target == TARGET_NONE ? g->output[first].name : target->logits));
    TRY(note_applied_twice(&c, def));
    if (def->logs)
        TRY(add_logged_losses(&c, &loss, is_loss, ctx->scratch));
    else if (def->target == TARGET_NONE)
        TRY(add_output_loss(&c, &loss, ctx->scratch));
    else if (def->target == TARGET_CLASSES)
        TRY(add_class_loss(&c));
    else
        TRY(add_element_loss(&c));
    TRY(g->status);
    if (target->mean_of_means && build_mode(ctx->opt) != BUILD_EVAL && !criterion_takes_own_means(ctx->opt)) {
        TRY(take_mean_of_means(&c));
        loss = c.num;
    } else if (def->target != TARGET_NONE)
        loss = EMIT(g, Div, NULL, c.num, c.den);
    TRY(replace_outputs(&c, loss, is_loss));
    if (c.own && build_mode(ctx->opt) != BUILD_EVAL)
        TRY(add_own_losses(&c));
    ctx->n_changed += (int)(g->n_node - before);
    return g->status;
}

const Pass pass_criterion = { .name = "criterion",
                              .summary = "append the loss and the metric",
                              .modes = 1u << BUILD_EVAL | MODES_TRAIN,
                              .run = criterion_run };
