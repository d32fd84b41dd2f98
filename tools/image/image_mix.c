/* Mixup and CutMix (see the header). */
#include "tools/image/image_mix.h"

#include <math.h>
#include <string.h>

#include "tools/image/image_random.h"

/* A number of Beta(alpha, alpha) from numbers i on of a key, by Joehnk's method for alpha <= 1, else by Cheng's BB. */
static double draw_beta(uint64_t key, uint64_t i, double alpha)
{
    for (;; i += 2) {
        const double u = 1 - uniform(key, i, 0, 1), v = 1 - uniform(key, i + 1, 0, 1); /* in (0, 1] */

        if (alpha <= 1) {
            const double x = log(u) / alpha, y = log(v) / alpha, larger = x > y ? x : y;

            if (exp(x) + exp(y) <= 1)
                return exp(x - larger) / (exp(x - larger) + exp(y - larger));
        } else if (u < 1) {
            const double beta = 1 / sqrt(alpha), gamma = alpha + 1 / beta;
            const double t = beta * log(u / (1 - u)), w = alpha * exp(t), z = u * u * v, r = gamma * t - log(4);

            if (r + 2 * alpha * log(2 * alpha / (alpha + w)) >= log(z))
                return w / (alpha + w);
        }
    }
}

void mix_cut(MixDraw *draw, double own, int x, int y, int width, int height)
{
    const double half = 0.5 * sqrt(1 - own);
    const int half_w = (int)(half * width), half_h = (int)(half * height);
    const int left = x > half_w ? x - half_w : 0, right = x + half_w < width ? x + half_w : width;
    const int top = y > half_h ? y - half_h : 0, bottom = y + half_h < height ? y + half_h : height;

    draw->cut = true;
    draw->box = (ImageBox){ left, top, right - left, bottom - top };
    draw->own = 1 - (double)draw->box.width * draw->box.height / ((double)width * height);
}

void mix_draw(MixDraw *out, const Mix *mix, int64_t partners, int width, int height, uint64_t seed, int64_t epoch,
              int64_t sample)
{
    enum { PARTNER, WHICH, X, Y, BETA };
    const uint64_t key = hash_mix(sample_key(seed, epoch, sample));
    MixDraw d = { .partner = (int64_t)uniform(key, PARTNER, 0, (double)partners) };

    d.cut = mix->cutmix > 0 && (!(mix->mixup > 0) || uniform(key, WHICH, 0, 1) < 0.5);
    d.own = draw_beta(key, BETA, d.cut ? mix->cutmix : mix->mixup);
    if (d.cut)
        mix_cut(&d, d.own, uniform_int(key, X, width), uniform_int(key, Y, height), width, height);
    *out = d;
}

void mix_pixels(float *x, const float *partner, const MixDraw *draw, int channels, int width, int height, bool nhwc)
{
    const size_t n = (size_t)channels * (size_t)width * (size_t)height;
    const int planes = nhwc ? 1 : channels, each = nhwc ? channels : 1; /* numbers of a pixel that lie together */
    const float own = (float)draw->own, other = (float)(1 - draw->own);

    for (size_t i = 0; i < n && !draw->cut; i++)
        x[i] = partner[i] * other + x[i] * own;
    for (int c = 0; c < planes && draw->cut; c++)
        for (int y = draw->box.y; y < draw->box.y + draw->box.height; y++) {
            const size_t at =
                (((size_t)c * (size_t)height + (size_t)y) * (size_t)width + (size_t)draw->box.x) * (size_t)each;

            memcpy(x + at, partner + at, (size_t)(draw->box.width * each) * sizeof *x);
        }
}

void mix_label(float *out, int64_t classes, int64_t label, int64_t partner, double own)
{
    memset(out, 0, (size_t)classes * sizeof *out);
    out[partner] = (float)(1 - own);
    out[label] += (float)own;
}
