/* Finding the axis of the classes: [N, C, d...] is ONNX's order, [N, T, C] that of language models.  Shapes alone
 * cannot always distinguish them (T = C).  Then the user must choose; with a target nothing is guessed. */
#include "passes/train/class_axis.h"

#include "passes/train/target_fit.h"

static bool may_count(const ClassAxis *c, int axis)
{
    return axis != c->batch && (c->classes < 0 || c->scores.dim[axis] == c->classes);
}

/* Have the scores without `axis` the targets' shape?  `loosely`: but for axes of one element. */
static bool class_axis_fits(const ClassAxis *c, const Shape *target, int axis, bool loosely)
{
    const int batch = c->batch - (axis < c->batch);
    Shape numbers = { .rank = c->scores.rank - 1 };
    TargetFit fit;

    for (int i = 0; i < numbers.rank; i++)
        numbers.dim[i] = c->scores.dim[i < axis ? i : i + 1];
    return may_count(c, axis) && target_fit(&fit, target, &numbers, batch) &&
           (loosely ? c->scores.dim[axis] != 1 : !fit.n);
}

/* A bit for each axis that may count the classes of these targets. */
static unsigned axes_that_fit(const ClassAxis *c, const Shape *target)
{
    unsigned exactly = 0, loosely = 0;

    for (int k = 1; k < c->scores.rank; k++) {
        exactly |= class_axis_fits(c, target, k, false) ? 1u << k : 0;
        loosely |= class_axis_fits(c, target, k, true) ? 1u << k : 0;
    }
    return exactly ? exactly : loosely;
}

bool class_axis_exists(const ClassAxis *c, const Shape *target) { return axes_that_fit(c, target) != 0; }

/* The axis of the only bit; 0: there is none, or several. */
static int only(unsigned axes)
{
    int axis = 0;

    while (axes && !(axes >> axis & 1))
        axis++;
    return axes == 1u << axis ? axis : 0;
}

static Status fail_none(const ClassAxis *c, const Shape *target)
{
    char scores[SHAPE_TEXT], have[SHAPE_TEXT], want[SHAPE_TEXT];
    PROBLEMS(fit);

    for (int k = 1; k < c->scores.rank; k++) {
        Shape s = { .rank = c->scores.rank - 1 };

        for (int i = 0; i < s.rank; i++)
            s.dim[i] = c->scores.dim[i < k ? i : i + 1];
        if (may_count(c, k))
            problems_add(&fit, "%s with the classes along axis %d", shape_text(&s, want), k);
    }
    if (!fit.n && c->classes < 0)
        return FAIL(E_SHAPE,
                    "output '%s' %s: axis %d is the batch's, and axis 0 cannot count classes; expected [N,C,...]",
                    c->output, shape_text(&c->scores, scores), c->batch);
    if (!fit.n)
        return FAIL(E_SHAPE, "output '%s' %s has no axis of %lld classes, as many as there are --class-weights",
                    c->output, shape_text(&c->scores, scores), (long long)c->classes);
    if (shape_eq(target, &c->scores))
        problems_add(&fit, "where the target is one-hot, give its argmax along that axis");
    return problems_fail(&fit, E_SHAPE, "targets of shape %s do not fit the scores of output '%s' %s; expected",
                         shape_text(target, have), c->output, shape_text(&c->scores, scores));
}

Status class_axis_decide(ClassAxis *c, const Shape *target)
{
    char scores[SHAPE_TEXT], text[SHAPE_TEXT];
    const unsigned all = axes_that_fit(c, target);

    if (!all)
        return fail_none(c, target);
    if (!only(all) && !only(all & ~c->open))
        return FAIL(
            E_INVALID,
            "targets of shape %s fit the scores of output '%s' %s with the classes along more than one axis: give "
            "--class-axis",
            shape_text(target, text), c->output, shape_text(&c->scores, scores));
    c->axis = only(all) ? only(all) : only(all & ~c->open);
    c->decided = true;
    return ST_OK;
}

/* The bits of axes without which the scores have the shape of one of the graph's inputs: targets with a class for each
 * of its elements (tokens) have that shape. */
static unsigned axes_beside_inputs(const ClassAxis *c, const Graph *g)
{
    unsigned axes = 0;

    for (int i = 0; i < g->n_input; i++)
        for (int k = 1; k < c->scores.rank; k++)
            axes |= class_axis_fits(c, value(g, g->input[i])->shape, k, false) ? 1u << k : 0;
    return axes;
}

void class_axis_assume(ClassAxis *c, const Graph *g)
{
    unsigned all = 0, fewer;

    for (int k = 1; k < c->scores.rank; k++)
        all |= may_count(c, k) ? 1u << k : 0;
    c->decided = only(all) != 0;
    fewer = only(all & ~c->open) ? all & ~c->open : all & axes_beside_inputs(c, g);
    c->axis = c->decided ? only(all) : only(fewer) ? only(fewer) : 1;
}

Status class_axis_set(ClassAxis *c, int axis)
{
    const int k = axis < 0 ? axis + c->scores.rank : axis;
    char text[SHAPE_TEXT];

    if (k < 1 || k >= c->scores.rank)
        return FAIL(E_INVALID, "--class-axis %d: output '%s' is %s: expected one of its axes from 1 on", axis,
                    c->output, shape_text(&c->scores, text));
    if (k == c->batch)
        return FAIL(E_INVALID, "--class-axis %d: that axis of output '%s' %s carries the batch", axis, c->output,
                    shape_text(&c->scores, text));
    c->axis = k;
    c->decided = true;
    return ST_OK;
}
