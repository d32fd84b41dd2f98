/* Non-maximum suppression for a class of an image: visits boxes by falling scores, equal ones in order, and keeps each
 * box that overlaps no kept box too much.  float32 boxes are computed in float32, so that an overlap at the threshold
 * falls on the same side as in other runtimes, float64 boxes in float64. */
#include "graph/ops/nms_boxes.h"

#include <math.h>

BoxChoice boxes_choice(const Tensor *const *in, bool centers)
{
    return (BoxChoice){ .box = in[0],
                        .score = in[1],
                        .most = in[2] ? tensor_int(in[2], 0) : 0,
                        .overlap = in[3] ? tensor_float(in[3], 0) : 0,
                        .least = in[4] ? tensor_float(in[4], 0) : 0,
                        .scored = in[4] != NULL,
                        .centers = centers };
}

static double nms_boxes_element(const Tensor *t, int64_t i)
{
    return t->dtype == DT_FLOAT64 ? ((const double *)t->data)[i] : ((const float *)t->data)[i];
}

/* Rounds v, a sum, difference, product or quotient, to the boxes' type: for float32 operands a float64 result rounded
 * to float32 equals the float32 operation. */
static double rounded(const BoxChoice *c, double v) { return c->box->dtype == DT_FLOAT64 ? v : (float)v; }

/* The corners of box i, that of the lower coordinates and that of the higher ones. */
static void read_corners(double low[2], double high[2], const BoxChoice *c, int64_t i)
{
    double b[4];

    for (int k = 0; k < 4; k++)
        b[k] = nms_boxes_element(c->box, 4 * i + k);
    for (int k = 0; k < 2; k++) {
        low[k] = c->centers ? rounded(c, b[k] - b[2 + k] / 2) : fmin(b[k], b[2 + k]);
        high[k] = c->centers ? rounded(c, b[k] + b[2 + k] / 2) : fmax(b[k], b[2 + k]);
    }
}

static bool overlaps(const BoxChoice *c, int64_t a, int64_t b)
{
    double low_a[2], high_a[2], low_b[2], high_b[2], shared = 1, area_a = 1, area_b = 1, whole;

    read_corners(low_a, high_a, c, a);
    read_corners(low_b, high_b, c, b);
    for (int i = 0; i < 2; i++) {
        const double side = rounded(c, fmin(high_a[i], high_b[i]) - fmax(low_a[i], low_b[i]));

        if (!(side > 0))
            return false;
        shared = rounded(c, shared * side);
        area_a = rounded(c, area_a * rounded(c, high_a[i] - low_a[i]));
        area_b = rounded(c, area_b * rounded(c, high_b[i] - low_b[i]));
    }
    whole = rounded(c, rounded(c, area_a + area_b) - shared);
    return area_a > 0 && area_b > 0 && whole > 0 && rounded(c, shared / whole) > c->overlap;
}

/* Does box a come before box b by the scores of a class, which begin at `from`?  NaN comes last. */
static bool before(const Tensor *score, int64_t from, int64_t a, int64_t b)
{
    const double of_a = nms_boxes_element(score, from + a), of_b = nms_boxes_element(score, from + b);

    if (isnan(of_a) || isnan(of_b))
        return isnan(of_a) == isnan(of_b) ? a < b : isnan(of_b);
    return of_a > of_b || (of_a == of_b && a < b);
}

/* Merge sort of n boxes. */
static void sort(int64_t *order, int64_t *room, int64_t n, const Tensor *score, int64_t from)
{
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t at = 0; at < n; at += 2 * width) {
            int64_t i = at, middle = at + width < n ? at + width : n, j = middle;
            const int64_t end = at + 2 * width < n ? at + 2 * width : n;

            for (int64_t k = at; k < end; k++)
                room[k] =
                    j == end || (i < middle && !before(score, from, order[j], order[i])) ? order[i++] : order[j++];
        }
        for (int64_t k = 0; k < n; k++)
            order[k] = room[k];
    }
}

/* Moves the kept boxes of class `nth`, counted over all images, to the front of `order`; returns their number. */
static int64_t nms_boxes_choose(const BoxChoice *c, int64_t nth, int64_t n, int64_t *order)
{
    const int64_t box = nth / c->score->shape.dim[1] * n, score = nth * n;
    int64_t candidates = 0, kept = 0;

    for (int64_t i = 0; i < n; i++)
        if (!c->scored || nms_boxes_element(c->score, score + i) > c->least)
            order[candidates++] = i;
    sort(order, order + n, candidates, c->score, score);
    for (int64_t k = 0; k < candidates && kept < c->most; k++) {
        bool stays = true;

        for (int64_t i = 0; i < kept && stays; i++)
            stays = !overlaps(c, box + order[k], box + order[i]);
        if (stays)
            order[kept++] = order[k];
    }
    return kept;
}

int64_t boxes_choose(const BoxChoice *c, int64_t *order, int64_t *out)
{
    const int64_t images = c->score->shape.dim[0], classes = c->score->shape.dim[1], n = c->score->shape.dim[2];
    int64_t count = 0;

    for (int64_t k = 0; k < images * classes && c->most > 0 && n; k++) {
        const int64_t kept = nms_boxes_choose(c, k, n, order);

        for (int64_t i = 0; i < kept && out; i++) {
            out[(count + i) * 3] = k / classes;
            out[(count + i) * 3 + 1] = k % classes;
            out[(count + i) * 3 + 2] = order[i];
        }
        count += kept;
    }
    return count;
}
