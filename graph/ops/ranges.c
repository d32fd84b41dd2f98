/* Slices and pads for every axis, with checks: their results can be used without overflow. */
#include "graph/ops/ranges.h"

#include <string.h>

/* E_SHAPE unless t is an integer vector of `n` elements; n < 0: of up to 2 * MAX_RANK. */
static Status check_vector(const Tensor *t, int64_t n, const char *name, const char *what)
{
    int64_t count = tensor_numel(t);

    if (!dtype_is_int(t->dtype) || t->shape.rank > 1 || count > 2 * MAX_RANK || (n >= 0 && count != n))
        return FAIL(E_SHAPE, "%s: '%s' must be a vector of %lld integers, found %lld of %s", what, name,
                    (long long)(n < 0 ? MAX_RANK : n), (long long)count, dtype_name(t->dtype));
    return ST_OK;
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }

static void slice_axis(SliceRange *r, int axis, int64_t d, int64_t start, int64_t end, int64_t step)
{
    int64_t lo = step < 0 ? -1 : 0, hi = step < 0 ? d - 1 : d, span;

    step = step < -INT64_MAX ? -INT64_MAX : step;
    start = clamp(start < 0 ? start + d : start, step < 0 && d == 0 ? -1 : 0, hi);
    end = clamp(end < 0 ? end + d : end, lo, hi);
    span = step < 0 ? start - end : end - start;
    r->start[axis] = start;
    r->count[axis] = span > 0 ? 1 + (span - 1) / (step < 0 ? -step : step) : 0;
    r->step[axis] = r->count[axis] > 1 ? step : 1; /* an unused step may have any size */
}

Status slice_range(SliceRange *out, const Shape *x, const Tensor *starts, const Tensor *ends, const Tensor *axes,
                   const Tensor *steps, const char *what)
{
    int64_t n;
    unsigned seen = 0;

    TRY(check_vector(starts, -1, "starts", what));
    n = tensor_numel(starts);
    TRY(check_vector(ends, n, "ends", what));
    if (axes)
        TRY(check_vector(axes, n, "axes", what));
    if (steps)
        TRY(check_vector(steps, n, "steps", what));
    for (int i = 0; i < x->rank; i++)
        slice_axis(out, i, x->dim[i], 0, x->dim[i], 1);
    for (int64_t i = 0; i < n; i++) {
        int axis;
        int64_t step = steps ? tensor_int(steps, i) : 1;

        TRY(shape_axis(&axis, axes ? tensor_int(axes, i) : i, x->rank, what));
        if (seen >> axis & 1 || step == 0)
            return FAIL(E_SHAPE, "%s: axis %d %s", what, axis, step ? "is named twice" : "has step 0");
        seen |= 1u << axis;
        slice_axis(out, axis, x->dim[axis], tensor_int(starts, i), tensor_int(ends, i), step);
    }
    return ST_OK;
}

/* Is the pad so large that the sum of a dimension and two pads might overflow? */
static bool too_far(int64_t pad) { return pad < -(INT64_C(1) << 60) || pad > INT64_C(1) << 60; }

Status pad_range(PadRange *out, int rank, const Tensor *pads, const Tensor *axes, const char *what)
{
    int64_t n = rank;
    unsigned seen = 0;

    if (axes) {
        TRY(check_vector(axes, -1, "axes", what));
        n = tensor_numel(axes);
    }
    TRY(check_vector(pads, 2 * n, "pads", what));
    memset(out, 0, sizeof *out);
    for (int64_t i = 0; i < n; i++) {
        int axis;

        TRY(shape_axis(&axis, axes ? tensor_int(axes, i) : i, rank, what));
        if (seen >> axis & 1)
            return FAIL(E_SHAPE, "%s: axis %d is named twice", what, axis);
        seen |= 1u << axis;
        out->before[axis] = tensor_int(pads, i);
        out->after[axis] = tensor_int(pads, n + i);
        if (too_far(out->before[axis]) || too_far(out->after[axis]))
            return FAIL(E_SHAPE, "%s: pads %lld, %lld of axis %d", what, (long long)out->before[axis],
                        (long long)out->after[axis], axis);
    }
    return ST_OK;
}

bool pad_fits(PadMode mode, const PadRange *r, int axis, int64_t d, int64_t y)
{
    int64_t cut = (r->before[axis] < 0 ? -r->before[axis] : 0) + (r->after[axis] < 0 ? -r->after[axis] : 0);

    return y >= 0 && (mode == PAD_CONSTANT || y == 0 || d - cut >= 1);
}

Status pad_mode(PadMode *out, const Graph *g, const Node *n)
{
    static const char *const names[] = { "constant", "reflect", "edge", "wrap" };
    const char *mode = node_string(n, "mode");

    for (int i = 0; i < 4; i++)
        if (!strcmp(mode, names[i])) {
            *out = (PadMode)i;
            return ST_OK;
        }
    return FAIL(E_UNSUPPORTED, "%s: mode '%s', expected constant, reflect, edge or wrap", node_text(g, n), mode);
}

int64_t pad_source(PadMode mode, int64_t i, int64_t d)
{
    int64_t period;

    if (i >= 0 && i < d)
        return i;
    switch (mode) {
    case PAD_EDGE: return i < 0 ? 0 : d - 1;
    case PAD_WRAP: return (i % d + d) % d;
    case PAD_REFLECT:
        if (d == 1)
            return 0;
        period = 2 * (d - 1);
        i = (i % period + period) % period;
        return i < d ? i : period - i;
    default: return -1;
    }
}

int64_t slice_strides(const SliceRange *r, const Shape *x, int64_t *stride)
{
    int64_t xs[MAX_RANK], begin = 0;

    shape_strides(x, xs);
    for (int i = 0; i < x->rank; i++) {
        stride[i] = xs[i] * r->step[i];
        begin += xs[i] * r->start[i];
    }
    return begin;
}

bool constant_from(const Graph *g, const Node *n, int first)
{
    for (int i = first; i < n->n_in; i++)
        if (has_in(n, i) && !value_const(g, n->in[i]))
            return false;
    return true;
}
