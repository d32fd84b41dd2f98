/* Antialiased resizing of images: Pillow's Image.resize, to the bit.
 *
 * An output pixel is a weighted sum of the input pixels below the filter, which is stretched by the scale where the
 * image shrinks.  Rows and columns are resized in two passes; the result of the first is rounded to 8 bits.  Weights
 * are integers of PRECISION bits, so that all machines agree.  The rows come first, but the columns do where the height
 * shrinks by more than twice the pixels of the width (as in Pillow 13; older ones begin with the rows always). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/image/image.h"

enum { PRECISION = 32 - 8 - 2 };

/* The weights of one axis: output i is the sum of weight[i * most + k] * input[first[i] + k] over k < count[i]. */
typedef struct {
    int n, most;
    int *first, *count;
    int32_t *weight;
} Taps;

static double bilinear(double x) { return fabs(x) < 1 ? 1 - fabs(x) : 0; }

/* The cubic convolution of Keys with a = -1/2. */
static double bicubic(double x)
{
    const double a = -0.5;

    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static void taps_free(Taps *t)
{
    free(t->first);
    free(t->count);
    free(t->weight);
    *t = (Taps){ 0 };
}

/* The weights of outputs [from, from + n) of all `to` that `size` inputs are resized to. */
static Status taps_make(Taps *out, int size, int64_t to, int64_t from, int n, ResizeFilter filter)
{
    const double scale = (double)size / (double)to, stretch = scale < 1 ? 1 : scale;
    const double support = (filter == RESIZE_BICUBIC ? 2 : 1) * stretch, narrow = 1 / stretch;
    double (*const f)(double) = filter == RESIZE_BICUBIC ? bicubic : bilinear;
    Taps t = { .n = n, .most = (int)ceil(support) * 2 + 1 };
    double *w = malloc((size_t)t.most * sizeof *w);

    t.first = malloc((size_t)n * sizeof *t.first);
    t.count = malloc((size_t)n * sizeof *t.count);
    t.weight = malloc((size_t)n * (size_t)t.most * sizeof *t.weight);
    if (!w || !t.first || !t.count || !t.weight) {
        free(w);
        taps_free(&t);
        return FAIL_NOMEM();
    }
    for (int i = 0; i < n; i++) {
        const double center = ((double)(from + i) + 0.5) * scale;
        const int lowest = (int)(center - support + 0.5), highest = (int)(center + support + 0.5);
        const int first = lowest < 0 ? 0 : lowest, end = highest > size ? size : highest;
        double sum = 0;

        for (int k = 0; k < end - first; k++)
            sum += w[k] = f((k + first - center + 0.5) * narrow);
        for (int k = 0; k < end - first; k++) {
            const double v = (sum != 0 ? w[k] / sum : w[k]) * (1 << PRECISION);

            t.weight[(size_t)i * (size_t)t.most + (size_t)k] = (int32_t)(v < 0 ? v - 0.5 : v + 0.5);
        }
        t.first[i] = first;
        t.count[i] = end - first;
    }
    free(w);
    *out = t;
    return ST_OK;
}

static uint8_t clip(int32_t sum)
{
    const int32_t v = sum >> PRECISION;

    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Resizes each of `rows` rows, which begin `stride` bytes apart. */
static void pass_across(uint8_t *to, const uint8_t *from, size_t stride, int rows, int channels, const Taps *t)
{
    for (int y = 0; y < rows; y++, from += stride)
        for (int i = 0; i < t->n; i++, to += channels) {
            const int32_t *w = t->weight + (size_t)i * (size_t)t->most;
            const uint8_t *p = from + (size_t)t->first[i] * (size_t)channels;
            int32_t r = 1 << (PRECISION - 1), g = r, b = r;

            if (channels == 1) {
                for (int k = 0; k < t->count[i]; k++)
                    r += w[k] * p[k];
                *to = clip(r);
                continue;
            }
            for (int k = 0; k < t->count[i]; k++, p += 3) {
                r += w[k] * p[0];
                g += w[k] * p[1];
                b += w[k] * p[2];
            }
            to[0] = clip(r);
            to[1] = clip(g);
            to[2] = clip(b);
        }
}

/* Resizes columns: rows of n bytes are sums of rows that begin `stride` bytes apart.  `sum` has room for n. */
static void pass_down(uint8_t *restrict to, const uint8_t *restrict from, size_t stride, int n, const Taps *t,
                      int32_t *restrict sum)
{
    for (int y = 0; y < t->n; y++, to += n) {
        const int32_t *w = t->weight + (size_t)y * (size_t)t->most;

        for (int i = 0; i < n; i++)
            sum[i] = 1 << (PRECISION - 1);
        for (int k = 0; k < t->count[y]; k++) {
            const uint8_t *row = from + (size_t)(t->first[y] + k) * stride;

            for (int i = 0; i < n; i++)
                sum[i] += w[k] * row[i];
        }
        for (int i = 0; i < n; i++)
            to[i] = clip(sum[i]);
    }
}

/* Makes the taps begin at input 0.  Returns where they began; *n is the number of inputs that they need. */
static int taps_from_zero(Taps *t, int *n)
{
    const int least = t->first[0];

    *n = t->first[t->n - 1] + t->count[t->n - 1] - least;
    for (int i = 0; i < t->n; i++)
        t->first[i] -= least;
    return least;
}

/* The inputs of outputs [from, from + n) of all `to` that `size` inputs are resized to: those below the outputs'
 * centres.  Pillow adds the scale up, and so rounds. */
static void nearest_inputs(int *input, int size, int64_t to, int from, int n)
{
    const double scale = (double)size / (double)to;
    double at = scale * 0.5;

    for (int i = 0; i < from + n; i++, at += scale)
        if (i >= from)
            input[i - from] = at < size ? (int)at : size - 1;
}

static Status pick_nearest(Image *out, const uint8_t *from, size_t stride, int channels, int w, int h, int64_t rw,
                           int64_t rh, ImageBox part)
{
    const size_t c = (size_t)channels;
    int *column = malloc((size_t)(part.width + part.height) * sizeof *column), *row = column + part.width;
    uint8_t *to = out->pixel;

    if (!column)
        return FAIL_NOMEM();
    nearest_inputs(column, w, rw, part.x, part.width);
    nearest_inputs(row, h, rh, part.y, part.height);
    for (int y = 0; y < part.height; y++)
        for (int x = 0; x < part.width; x++, to += c)
            memcpy(to, from + (size_t)row[y] * stride + (size_t)column[x] * c, c);
    free(column);
    return ST_OK;
}

/* Resizes the pixels at `from`, w x h in rows `stride` bytes apart, to rw x rh, of which `part` is stored. */
static Status resample(Image *out, const uint8_t *from, size_t stride, int channels, int w, int h, int64_t rw,
                       int64_t rh, ImageBox part, ResizeFilter filter)
{
    const bool down_first = rh < h && 2 * (w - rw) < h - rh;
    const size_t c = (size_t)channels, row = (size_t)part.width * c;
    Taps across = { 0 }, down = { 0 };
    uint8_t *between = NULL;
    int32_t *sum = NULL;
    int columns, rows;
    Status st;

    TRY(image_reserve(out, part.width, part.height, channels));
    if (rw == w && rh == h) {
        for (int y = 0; y < part.height; y++)
            memcpy(out->pixel + (size_t)y * row, from + (size_t)(part.y + y) * stride + (size_t)part.x * c, row);
        return ST_OK;
    }
    if (filter == RESIZE_NEAREST)
        return pick_nearest(out, from, stride, channels, w, h, rw, rh, part);
    TRY_TO(done, st, taps_make(&across, w, rw, part.x, part.width, filter));
    TRY_TO(done, st, taps_make(&down, h, rh, part.y, part.height, filter));
    from += (size_t)taps_from_zero(&across, &columns) * c;
    from += (size_t)taps_from_zero(&down, &rows) * stride;
    between = malloc(down_first ? (size_t)columns * c * (size_t)part.height : row * (size_t)rows);
    sum = malloc((down_first ? (size_t)columns * c : row) * sizeof *sum);
    if (!between || !sum) {
        st = FAIL_NOMEM();
    } else if (down_first) {
        pass_down(between, from, stride, columns * channels, &down, sum);
        pass_across(out->pixel, between, (size_t)columns * c, part.height, channels, &across);
    } else {
        pass_across(between, from, stride, rows, channels, &across);
        pass_down(out->pixel, between, row, part.width * channels, &down, sum);
    }
done:
    taps_free(&across);
    taps_free(&down);
    free(between);
    free(sum);
    return st;
}

Status image_resize(Image *out, const Image *image, ImageBox box, int width, int height, ResizeFilter filter)
{
    const size_t channels = (size_t)image->channels, stride = (size_t)image->width * channels;

    return resample(out, image->pixel + (size_t)box.y * stride + (size_t)box.x * channels, stride, image->channels,
                    box.width, box.height, width, height, (ImageBox){ 0, 0, width, height }, filter);
}

/* The size that image_fit resizes an image of iw x ih to before it cuts. */
static void find_fit_size(int *rw, int *rh, int iw, int ih, int width, int height)
{
    const bool by_width = (int64_t)iw * height <= (int64_t)ih * width;

    *rw = by_width ? width : (int)((int64_t)height * iw / ih);
    *rh = by_width ? (int)((int64_t)width * ih / iw) : height;
}

/* Python's round(d / 2): halves go to the even number. */
static int half(int d) { return d / 2 + (d % 4 == 3); }

Status image_fit(Image *out, const Image *image, int width, int height, ResizeFilter filter)
{
    int rw, rh;

    find_fit_size(&rw, &rh, image->width, image->height, width, height);
    return resample(out, image->pixel, (size_t)image->width * (size_t)image->channels, image->channels, image->width,
                    image->height, rw, rh, (ImageBox){ half(rw - width), half(rh - height), width, height }, filter);
}
