/* Operations on pixels, as Pillow does them (see the header). */
#include "tools/image/image_operations.h"

#include <math.h>
#include <string.h>

void image_flip(Image *image)
{
    const int c = image->channels;

    for (int y = 0; y < image->height; y++) {
        uint8_t *l = image->pixel + (size_t)y * (size_t)image->width * (size_t)c;

        for (uint8_t *r = l + (size_t)(image->width - 1) * (size_t)c; l < r; l += c, r -= c)
            for (int k = 0; k < c; k++) {
                uint8_t t = l[k];

                l[k] = r[k];
                r[k] = t;
            }
    }
}

/* v rounded to 15 decimals, as Pillow rounds the sine and cosine. */
static double round15(double v) { return nearbyint(v * 1e15) / 1e15; }

Affine affine_turn(int w, int h, double angle)
{
    const double turn = fmod(angle, 360), a = -(turn < 0 ? turn + 360 : turn) * (3.14159265358979323846 / 180);
    const double co = round15(cos(a)), si = round15(sin(a));

    return (Affine){ { co, si, co * (-w / 2.0) + si * (-h / 2.0) + w / 2.0, -si, co,
                       -si * (-w / 2.0) + co * (-h / 2.0) + h / 2.0 } };
}

/* 16 bits behind the point, as Pillow has them. */
static int64_t fixed_point(double v) { return (int64_t)floor(v * 65536 + 0.5); }

Status image_move(Image *image, Image *spare, Affine a, const uint8_t *fill)
{
    const int w = image->width, h = image->height, c = image->channels;
    const int64_t xx = fixed_point(a.m[0]), xy = fixed_point(a.m[1]), yx = fixed_point(a.m[3]),
                  yy = fixed_point(a.m[4]), x0 = fixed_point(a.m[2] + a.m[0] * 0.5 + a.m[1] * 0.5),
                  y0 = fixed_point(a.m[5] + a.m[3] * 0.5 + a.m[4] * 0.5);
    const Image old = *image;
    uint8_t *to;

    TRY(image_reserve(spare, w, h, c));
    to = spare->pixel;
    for (int oy = 0; oy < h; oy++)
        for (int ox = 0; ox < w; ox++, to += c) {
            const int64_t x = (x0 + oy * xy + ox * xx) >> 16, y = (y0 + oy * yy + ox * yx) >> 16;
            const bool inside = x >= 0 && x < w && y >= 0 && y < h;

            memcpy(to, inside ? old.pixel + (y * w + x) * c : fill, (size_t)c);
        }
    *image = *spare;
    *spare = old;
    return ST_OK;
}

Status image_rotate(Image *image, Image *spare, double angle)
{
    const int w = image->width, h = image->height, c = image->channels;
    const Affine m = affine_turn(w, h, angle);
    const double co = m.m[0], si = m.m[1], x0 = m.m[2], y0 = m.m[5];
    const Image old = *image;
    uint8_t *to;

    TRY(image_reserve(spare, w, h, c));
    to = spare->pixel;
    for (int oy = 0; oy < h; oy++)
        for (int ox = 0; ox < w; ox++, to += c) {
            double x = co * (ox + 0.5) + si * (oy + 0.5) + x0, y = -si * (ox + 0.5) + co * (oy + 0.5) + y0, dx, dy;
            int ix, iy, left, right;
            const uint8_t *up, *down;

            if (x < 0 || x >= w || y < 0 || y >= h) {
                memset(to, 0, (size_t)c);
                continue;
            }
            ix = (int)floor(x -= 0.5);
            iy = (int)floor(y -= 0.5);
            dx = x - ix;
            dy = y - iy;
            left = (ix < 0 ? 0 : ix) * c;
            right = (ix + 1 < w ? ix + 1 : w - 1) * c;
            up = old.pixel + (size_t)(iy < 0 ? 0 : iy) * (size_t)w * (size_t)c;
            down = iy + 1 < h ? old.pixel + (size_t)(iy + 1) * (size_t)w * (size_t)c : up;
            for (int k = 0; k < c; k++) {
                double u = up[left + k] + (up[right + k] - up[left + k]) * dx;
                double d = down[left + k] + (down[right + k] - down[left + k]) * dx;

                to[k] = (uint8_t)(u + (d - u) * dy);
            }
        }
    *image = *spare;
    *spare = old;
    return ST_OK;
}

/* Pillow's Image.blend in single precision: base + factor * (value - base), cut off at 0 and 255. */
static inline uint8_t blend(int base, int value, float factor)
{
    float v = (float)base + factor * (float)(value - base);

    return (uint8_t)(v <= 0 ? 0 : v >= 255 ? 255 : v);
}

static inline int gray_of(const uint8_t *p) { return (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16; }

void image_enhance(Image *image, Enhancement which, float factor)
{
    const size_t n = (size_t)image->width * (size_t)image->height, c = (size_t)image->channels;
    uint8_t *p = image->pixel;
    uint64_t sum = 0;
    int base = 0;

    if (which == ENHANCE_COLOR) {
        for (size_t i = 0; i < n && c == 3; i++, p += 3) {
            base = gray_of(p);
            for (int k = 0; k < 3; k++)
                p[k] = blend(base, p[k], factor);
        }
        return;
    }
    if (which == ENHANCE_CONTRAST) {
        for (size_t i = 0; i < n; i++)
            sum += c == 3 ? (unsigned)gray_of(p + 3 * i) : p[i];
        base = (int)((double)sum / (double)n + 0.5);
    }
    for (size_t i = 0; i < n * c; i++)
        p[i] = blend(base, p[i], factor);
}

/* ---- operations of RandAugment ---- */

/* ImageFilter.SMOOTH of pixel x of a row, in single precision and in Pillow's order. */
static uint8_t smooth(const uint8_t *up, const uint8_t *at, const uint8_t *down, int c)
{
    const float edge = 1.0f / 13, centre = 5.0f / 13;
    float sum = 0.5f;

    sum += down[-c] * edge + down[0] * edge + down[c] * edge;
    sum += at[-c] * edge + at[0] * centre + at[c] * edge;
    sum += up[-c] * edge + up[0] * edge + up[c] * edge;
    return (uint8_t)sum;
}

Status image_sharpen(Image *image, Image *spare, float factor)
{
    const int w = image->width, h = image->height, c = image->channels;
    const size_t row = (size_t)w * (size_t)c;

    TRY(image_reserve(spare, w, h, c));
    memcpy(spare->pixel, image->pixel, row * (size_t)h);
    for (int y = 0; y < h; y++)
        for (size_t i = 0; i < row; i++) {
            const uint8_t *at = spare->pixel + (size_t)y * row + i;
            const bool edge = !y || y + 1 == h || i < (size_t)c || i + (size_t)c >= row; /* stays */

            image->pixel[(size_t)y * row + i] = blend(edge ? *at : smooth(at - row, at, at + row, c), *at, factor);
        }
    return ST_OK;
}

/* Replaces values by those of a table for each channel. */
static void look_up(Image *image, uint8_t table[3][256])
{
    const size_t n = (size_t)image->width * (size_t)image->height, c = (size_t)image->channels;

    for (size_t i = 0; i < n * c; i++)
        image->pixel[i] = table[i % c][image->pixel[i]];
}

static void count_values(int64_t count[3][256], const Image *image)
{
    const size_t n = (size_t)image->width * (size_t)image->height, c = (size_t)image->channels;

    memset(count, 0, 3 * sizeof *count);
    for (size_t i = 0; i < n * c; i++)
        count[i % c][image->pixel[i]]++;
}

void image_posterize(Image *image, int bits)
{
    const size_t n = (size_t)image->width * (size_t)image->height * (size_t)image->channels;

    for (size_t i = 0; i < n; i++)
        image->pixel[i] &= (uint8_t)(0xff << (8 - bits));
}

void image_solarize(Image *image, double threshold)
{
    const size_t n = (size_t)image->width * (size_t)image->height * (size_t)image->channels;

    for (size_t i = 0; i < n; i++)
        if (image->pixel[i] >= threshold)
            image->pixel[i] = (uint8_t)(255 - image->pixel[i]);
}

void image_autocontrast(Image *image)
{
    int64_t count[3][256];
    uint8_t table[3][256];

    count_values(count, image);
    for (int c = 0; c < image->channels; c++) {
        int low = 0, high = 255;
        double scale, offset;

        while (low < 255 && !count[c][low])
            low++;
        while (high > 0 && !count[c][high])
            high--;
        scale = high > low ? 255.0 / (high - low) : 1;
        offset = high > low ? -low * scale : 0;
        for (int v = 0; v < 256; v++) {
            const int to = (int)(v * scale + offset);

            table[c][v] = (uint8_t)(to < 0 ? 0 : to > 255 ? 255 : to);
        }
    }
    look_up(image, table);
}

void image_equalize(Image *image)
{
    int64_t count[3][256];
    uint8_t table[3][256];

    count_values(count, image);
    for (int c = 0; c < image->channels; c++) {
        int64_t all = 0, sum, step;
        int highest = 0;

        for (int v = 0; v < 256; v++) {
            all += count[c][v];
            highest = count[c][v] ? v : highest;
        }
        step = (all - count[c][highest]) / 255; /* 0 where there is one value alone, too */
        sum = step / 2;
        for (int v = 0; v < 256; sum += count[c][v++])
            table[c][v] = (uint8_t)(!step ? v : sum / step > 255 ? 255 : sum / step);
    }
    look_up(image, table);
}
