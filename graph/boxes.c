/* Of a class of an image: boxes by falling scores, of equal ones the first; each stays that no box that stays overlaps
 * too much.  All arithmetic is float32's, so that a share on the threshold is on the same side of it as elsewhere. */
#include "graph/boxes.h"

#include <math.h>

BoxChoice boxes_choice(const Tensor *const *in, bool centers)
{
    return (BoxChoice){ .box = in[0],
                        .score = in[1],
                        .most = in[2] ? tensor_int(in[2], 0) : 0,
                        .overlap = in[3] ? (float)tensor_float(in[3], 0) : 0,
                        .least = in[4] ? (float)tensor_float(in[4], 0) : 0,
                        .scored = in[4] != NULL,
                        .centers = centers };
}

typedef struct {
    float low[2], high[2];
} Rectangle;

static Rectangle rectangle(const BoxChoice *c, const float *b)
{
    if (c->centers)
        return (Rectangle){ { b[0] - b[2] / 2, b[1] - b[3] / 2 }, { b[0] + b[2] / 2, b[1] + b[3] / 2 } };
    return (Rectangle){ { fminf(b[0], b[2]), fminf(b[1], b[3]) }, { fmaxf(b[0], b[2]), fmaxf(b[1], b[3]) } };
}

static bool overlaps(const BoxChoice *c, const float *a, const float *b)
{
    const Rectangle r = rectangle(c, a), s = rectangle(c, b);
    float shared = 1, area_r = 1, area_s = 1, whole;

    for (int i = 0; i < 2; i++) {
        const float side = fminf(r.high[i], s.high[i]) - fmaxf(r.low[i], s.low[i]);

        if (!(side > 0))
            return false;
        shared *= side;
        area_r *= r.high[i] - r.low[i];
        area_s *= s.high[i] - s.low[i];
    }
    whole = area_r + area_s - shared;
    return area_r > 0 && area_s > 0 && whole > 0 && shared / whole > c->overlap;
}

/* NaN is behind all. */
static bool before(const float *score, int64_t a, int64_t b)
{
    if (isnan(score[a]) || isnan(score[b]))
        return isnan(score[a]) == isnan(score[b]) ? a < b : isnan(score[b]);
    return score[a] > score[b] || (score[a] == score[b] && a < b);
}

static void sort(int64_t *order, int64_t *room, int64_t n, const float *score)
{
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t at = 0; at < n; at += 2 * width) {
            int64_t i = at, middle = at + width < n ? at + width : n, j = middle;
            const int64_t end = at + 2 * width < n ? at + 2 * width : n;

            for (int64_t k = at; k < end; k++)
                room[k] = j == end || (i < middle && !before(score, order[j], order[i])) ? order[i++] : order[j++];
        }
        for (int64_t k = 0; k < n; k++)
            order[k] = room[k];
    }
}

/* Those that stay come to the front of `order`; how many. */
static int64_t choose(const BoxChoice *c, const float *box, const float *score, int64_t n, int64_t *order)
{
    int64_t candidates = 0, kept = 0;

    for (int64_t i = 0; i < n; i++)
        if (!c->scored || score[i] > c->least)
            order[candidates++] = i;
    sort(order, order + n, candidates, score);
    for (int64_t k = 0; k < candidates && kept < c->most; k++) {
        bool stays = true;

        for (int64_t i = 0; i < kept && stays; i++)
            stays = !overlaps(c, box + order[k] * 4, box + order[i] * 4);
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
        const int64_t kept = choose(c, (const float *)c->box->data + k / classes * n * 4,
                                    (const float *)c->score->data + k * n, n, order);

        for (int64_t i = 0; i < kept && out; i++) {
            out[(count + i) * 3] = k / classes;
            out[(count + i) * 3 + 1] = k % classes;
            out[(count + i) * 3 + 2] = order[i];
        }
        count += kept;
    }
    return count;
}
