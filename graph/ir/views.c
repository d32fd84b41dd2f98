/* Strided views: reshape, permutation and slice of digits and steps. */
#include "graph/ir/views.h"

#include "graph/ir/op.h"
#include "graph/ir/rewrite.h"

enum { MAX_CHAIN = 64 }; /* longest chain of views that strided_of follows */

static bool add_digit(Strided *s, Digit d)
{
    if (d.size == 1)
        return true;
    if (s->n_digit == STRIDED_DIGITS)
        return false;
    s->digit[s->n_digit++] = d;
    return true;
}

/* All elements of a value of that shape in row-major order. */
static void strided_rows(Strided *s, const Shape *shape)
{
    *s = (Strided){ .rank = shape->rank };
    for (int a = 0; a < shape->rank; a++)
        if (shape->dim[a] != 1)
            s->digit[s->n_digit++] =
                (Digit){ shape->dim[a], shape_count(shape, a + 1, shape->rank), a }; /* MAX_RANK digits at most */
}

/* Joins neighbouring digits that are contiguous, also across axes. */
static void join_digits(Strided *s)
{
    int n = 0;

    for (int i = 0; i < s->n_digit; i++) {
        Digit d = s->digit[i], *last = &s->digit[n ? n - 1 : 0];

        if (n && last->step == d.step * d.size)
            *last = (Digit){ last->size * d.size, d.step, last->axis };
        else
            s->digit[n++] = d;
    }
    s->n_digit = n;
}

/* Distributes the digits to the new axes in order, and splits a digit that spans two axes. */
bool strided_reshape(Strided *s, const Shape *to)
{
    Strided from = *s;
    int at = 0;

    join_digits(&from);

    *s = (Strided){ .offset = from.offset, .rank = to->rank };
    if (shape_numel(to) == 0)
        return false;
    for (int a = 0; a < to->rank; a++)
        for (int64_t left = to->dim[a]; left > 1;) {
            Digit *d = &from.digit[at];
            int64_t rest;

            if (at == from.n_digit)
                return false;
            if (left % d->size == 0) {
                left /= d->size;
                if (!add_digit(s, (Digit){ d->size, d->step, a }))
                    return false;
                at++;
                continue;
            }
            if (d->size % left)
                return false;
            rest = d->size / left;
            if (!add_digit(s, (Digit){ left, d->step * rest, a }))
                return false;
            d->size = rest;
            left = 1;
        }
    return at == from.n_digit;
}

bool strided_permute(Strided *s, const int64_t *perm)
{
    Strided from = *s;

    s->n_digit = 0;
    for (int a = 0; a < s->rank; a++)
        for (int i = 0; i < from.n_digit; i++)
            if (from.digit[i].axis == perm[a])
                s->digit[s->n_digit++] = (Digit){ from.digit[i].size, from.digit[i].step, a };
    return true;
}

/* A slice of an axis of one digit is one digit.  A slice of an axis of several digits must cover whole elements of the
 * slowest. */
bool strided_slice(Strided *s, int axis, int64_t start, int64_t step, int64_t count)
{
    Strided from = *s;
    Digit d[STRIDED_DIGITS];
    int n = strided_axis(s, axis, STRIDED_DIGITS, d);
    int64_t inner = 1;
    bool done = n == 0;

    if (count < 1 || n < 0)
        return false;
    for (int i = 1; i < n; i++)
        inner *= d[i].size;
    if (n > 1 && (step != 1 || start % inner || count % inner))
        return false;
    if (n) {
        s->offset += start / inner * d[0].step;
        d[0].size = count / inner;
        d[0].step *= step;
    }
    s->n_digit = 0;
    for (int i = 0; i < from.n_digit; i++) {
        if (from.digit[i].axis != axis) {
            s->digit[s->n_digit++] = from.digit[i];
            continue;
        }
        for (int k = 0; k < n && !done; k++)
            if (!add_digit(s, d[k]))
                return false;
        done = true;
    }
    return true;
}

bool strided_is_rows(const Strided *s)
{
    int64_t step = 1;

    for (int i = s->n_digit - 1; i >= 0; step *= s->digit[i--].size)
        if (s->digit[i].step != step)
            return false;
    return s->offset == 0;
}

int strided_axis(const Strided *s, int axis, int most, Digit *out)
{
    int n = 0;

    for (int i = 0; i < s->n_digit; i++) {
        const Digit *d = &s->digit[i];

        if (d->axis != axis)
            continue;
        if (n && out[n - 1].step == d->step * d->size) {
            out[n - 1].size *= d->size;
            out[n - 1].step = d->step;
            continue;
        }
        if (n == most)
            return -1;
        out[n++] = *d;
    }
    return n;
}

void strided_of(Strided *s, ValueId *base, const Graph *g, ValueId v)
{
    ValueId chain[MAX_CHAIN];
    int n = 0;

    for (chain[0] = rewrite_in(g, v); n + 1 < MAX_CHAIN; n++) {
        const Node *p = value(g, chain[n])->producer;

        if (!p || !op_is_strided(p->op))
            break;
        chain[n + 1] = rewrite_in(g, p->in[0]);
    }
    *base = chain[n];
    strided_rows(s, value(g, *base)->shape);
    while (n-- > 0) {
        const Value *y = value(g, chain[n]);

        if (!node_strided(g, y->producer, y->out_index, s)) {
            *base = chain[n];
            strided_rows(s, y->shape);
        }
    }
}
