/* Random changes of training images: torchvision's transforms of PIL images, with drawn parameters (see the header). */
#include "tools/image/image_augment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/hash.h"
#include "graph/base/numtext.h"

/* ---- the list ---- */

static const char known[] = "crop, flip, rotate:DEGREES, color:AMOUNT, erase and a graph, FILE.onnx";

/* Parses the number behind the colon of "name:number". */
static void parse_amount(double *out, const char *word, size_t n, double most, Problems *p)
{
    const char *colon = memchr(word, ':', n);
    size_t at = colon ? (size_t)(colon - word) + 1 : n;

    if (colon && text_to_float64(out, word + at, n - at) && *out > 0 && *out <= most)
        return;
    problems_add(p, "'%.*s': write %.*s:NUMBER, above 0 and at most %g", (int)n, word, colon ? (int)at - 1 : (int)n,
                 word, most);
}

static bool begins(const char *word, size_t n, const char *name)
{
    size_t m = strlen(name);

    return n >= m && !memcmp(word, name, m) && (n == m || word[m] == ':');
}

static bool is_graph(const char *word, size_t n)
{
    static const char end[] = ".onnx";

    return n >= sizeof end && !memcmp(word + n - (sizeof end - 1), end, sizeof end - 1);
}

const char *augment_graph(size_t *length, const char *text)
{
    for (const char *word = text; word; word = word[*length] ? word + *length + 1 : NULL)
        if (is_graph(word, *length = strcspn(word, ",")))
            return word;
    return NULL;
}

bool augment_of_images(const char *text)
{
    for (const char *word = text; word; word = *(word += strcspn(word, ",")) ? word + 1 : NULL)
        if (!is_graph(word, strcspn(word, ",")))
            return true;
    return false;
}

Status augment_parse(Augment *out, const char *text, const char *flag)
{
    static const char *const name[] = { "crop", "flip", "rotate", "color", "erase" };
    enum { CROP, FLIP, ROTATE, COLOR, ERASE, NAMES };
    bool given[NAMES] = { false }, graph = false;
    Augment a = { 0 };
    Problems p = { 0 };

    for (const char *word = text, *end; word; word = *end ? end + 1 : NULL) {
        size_t n = (size_t)((end = word + strcspn(word, ",")) - word);
        int k = 0;

        while (k < NAMES && !begins(word, n, name[k]))
            k++;
        if (is_graph(word, n) && graph)
            problems_add(&p, "'%.*s' is a second graph", (int)n, word);
        else if (is_graph(word, n))
            graph = true;
        else if (k == NAMES)
            problems_add(&p, "'%.*s': known are %s", (int)n, word, known);
        else if (given[k])
            problems_add(&p, "%s is given twice", name[k]);
        else if (k == ROTATE)
            parse_amount(&a.rotate, word, n, 180, &p);
        else if (k == COLOR)
            parse_amount(&a.color, word, n, 1, &p);
        else if (n != strlen(name[k]))
            problems_add(&p, "'%.*s': %s takes no number", (int)n, word, name[k]);
        if (k < NAMES)
            given[k] = true;
    }
    a.crop = given[CROP];
    a.flip = given[FLIP];
    a.erase = given[ERASE];
    TRY(problems_fail(&p, E_INVALID, "%s %s", flag, text));
    *out = a;
    return ST_OK;
}

/* ---- the draw ---- */

/* Number `i` of a key, uniform in [from, to). */
static double uniform(uint64_t key, uint64_t i, double from, double to)
{
    return from + (double)(hash_mix(key + (i + 1) * HASH_GOLDEN) >> 11) * 0x1p-53 * (to - from);
}

static int uniform_int(uint64_t key, uint64_t i, int n) { return (int)uniform(key, i, 0, n); }

/* A rectangle of a share of the area and of a ratio of width to height, as torchvision's get_params draws it: the first
 * of ten that lies within `w` x `h` with at least `margin` pixels beside it.  Draws numbers i to i + 39. */
static bool draw_box(ImageBox *out, uint64_t key, uint64_t i, int w, int h, int margin, const double area[2],
                     const double ratio[2])
{
    for (uint64_t end = i + 40; i < end; i += 4) {
        double a = (double)w * h * uniform(key, i, area[0], area[1]);
        double r = exp(uniform(key, i + 1, log(ratio[0]), log(ratio[1])));
        double bw = nearbyint(sqrt(a * r)), bh = nearbyint(sqrt(a / r));

        if (bw >= 1 && bh >= 1 && bw + margin <= w && bh + margin <= h) {
            *out = (ImageBox){ uniform_int(key, i + 2, w - (int)bw + 1), uniform_int(key, i + 3, h - (int)bh + 1),
                               (int)bw, (int)bh };
            return true;
        }
    }
    return false;
}

static ImageBox draw_crop(uint64_t key, uint64_t i, int iw, int ih, int width, int height)
{
    static const double area[2] = { 0.08, 1 }, ratio[2] = { 3.0 / 4, 4.0 / 3 };
    const int pad_x = width / 8, pad_y = height / 8;
    ImageBox b = { 0, 0, iw, ih };

    if (iw == width && ih == height)
        return (ImageBox){ uniform_int(key, i, 2 * pad_x + 1) - pad_x, uniform_int(key, i + 1, 2 * pad_y + 1) - pad_y,
                           width, height };
    if (draw_box(&b, key, i, iw, ih, 0, area, ratio))
        return b;
    /* An image that is too long for all ten: the largest allowed part of its centre. */
    if (iw < ratio[0] * ih)
        b.height = (int)nearbyint(iw / ratio[0]);
    else if (iw > ratio[1] * ih)
        b.width = (int)nearbyint(ih * ratio[1]);
    b.x = (iw - b.width) / 2;
    b.y = (ih - b.height) / 2;
    return b;
}

void augment_draw(AugmentDraw *out, const Augment *a, int iw, int ih, int width, int height, uint64_t seed,
                  int64_t epoch, int64_t sample)
{
    static const double area[2] = { 0.02, 0.33 }, ratio[2] = { 1 / 3.3, 1 / 0.3 };
    enum { CROP = 0, FLIP = 64, ROTATE = 65, FACTOR = 66, ORDER = 72, ERASE = 80 }; /* numbers of the key */
    const uint64_t key = hash_mix(hash_mix(hash_mix(seed + 1) + (uint64_t)epoch) + (uint64_t)sample);
    AugmentDraw d = { .factor = { 1, 1, 1 }, .order = { 0, 1, 2 } };

    if ((d.cropped = a->crop))
        d.crop = draw_crop(key, CROP, iw, ih, width, height);
    d.flip = a->flip && uniform(key, FLIP, 0, 1) < 0.5;
    if (a->rotate > 0)
        d.angle = uniform(key, ROTATE, -a->rotate, a->rotate);
    for (int k = 0; k < 3 && a->color > 0; k++) {
        int other = k + uniform_int(key, ORDER + (uint64_t)k, 3 - k), t = d.order[k];

        d.factor[k] = uniform(key, FACTOR + (uint64_t)k, a->color < 1 ? 1 - a->color : 0, 1 + a->color);
        d.order[k] = d.order[other];
        d.order[other] = t;
    }
    if (a->erase && uniform(key, ERASE, 0, 1) < 0.5)
        (void)draw_box(&d.erase, key, ERASE + 1, width, height, 1, area, ratio);
    *out = d;
}

/* ---- its use ---- */

Status augment_crop(Image *out, const Image *image, const AugmentDraw *draw, int width, int height, ResizeFilter filter,
                    int fill)
{
    const ImageBox b = draw->crop;
    const size_t c = (size_t)image->channels;
    int left = b.x < 0 ? -b.x : 0, right = b.x + b.width > image->width ? image->width - b.x : b.width;

    if (b.width != width || b.height != height || image->width != width || image->height != height)
        return image_resize(out, image, b, width, height, filter);
    TRY(image_reserve(out, width, height, image->channels));
    memset(out->pixel, fill, (size_t)width * (size_t)height * c);
    for (int y = 0; y < height; y++)
        if (y + b.y >= 0 && y + b.y < image->height && left < right)
            memcpy(out->pixel + ((size_t)y * (size_t)width + (size_t)left) * c,
                   image->pixel + ((size_t)(y + b.y) * (size_t)width + (size_t)(left + b.x)) * c,
                   (size_t)(right - left) * c);
    return ST_OK;
}

static void flip(Image *image)
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

/* Where pixel (x, y) of a changed image comes from: m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]. */
typedef struct {
    double m[6];
} Affine;

/* The map of Pillow's Image.rotate. */
static Affine turned(int w, int h, double angle)
{
    const double turn = fmod(angle, 360), a = -(turn < 0 ? turn + 360 : turn) * (3.14159265358979323846 / 180);
    const double co = round15(cos(a)), si = round15(sin(a));

    return (Affine){ { co, si, co * (-w / 2.0) + si * (-h / 2.0) + w / 2.0, -si, co,
                       -si * (-w / 2.0) + co * (-h / 2.0) + h / 2.0 } };
}

/* 16 bits behind the point, as Pillow has them. */
static int64_t fixed_point(double v) { return (int64_t)floor(v * 65536 + 0.5); }

/* Pillow's Image.transform(AFFINE, NEAREST): each pixel is the one at its place, outside of the image `fill`. */
static Status move_nearest(Image *image, Image *spare, Affine a, const uint8_t *fill)
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

/* Pillow's Image.rotate(angle, BILINEAR): each pixel is interpolated between the four around its place, over black. */
static Status rotate(Image *image, Image *spare, double angle)
{
    const int w = image->width, h = image->height, c = image->channels;
    const Affine m = turned(w, h, angle);
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

/* ImageEnhance.Brightness, Contrast and Color: away from black, the mean gray, and each pixel's gray. */
static void enhance(Image *image, int which, float factor)
{
    const size_t n = (size_t)image->width * (size_t)image->height, c = (size_t)image->channels;
    uint8_t *p = image->pixel;
    uint64_t sum = 0;
    int base = 0;

    if (which == 2) {
        for (size_t i = 0; i < n && c == 3; i++, p += 3) {
            base = gray_of(p);
            for (int k = 0; k < 3; k++)
                p[k] = blend(base, p[k], factor);
        }
        return;
    }
    if (which == 1) {
        for (size_t i = 0; i < n; i++)
            sum += c == 3 ? (unsigned)gray_of(p + 3 * i) : p[i];
        base = (int)((double)sum / (double)n + 0.5);
    }
    for (size_t i = 0; i < n * c; i++)
        p[i] = blend(base, p[i], factor);
}

Status augment_apply(Image *image, Image *spare, const AugmentDraw *draw)
{
    if (draw->flip)
        flip(image);
    if (draw->angle != 0)
        TRY(rotate(image, spare, draw->angle));
    for (int k = 0; k < 3; k++)
        if (draw->factor[draw->order[k]] != 1)
            enhance(image, draw->order[k], (float)draw->factor[draw->order[k]]);
    return ST_OK;
}

Status augment_apply_mask(Image *mask, Image *spare, const AugmentDraw *draw, int fill)
{
    const uint8_t value = (uint8_t)fill;

    if (draw->flip)
        flip(mask);
    return draw->angle != 0 ? move_nearest(mask, spare, turned(mask->width, mask->height, draw->angle), &value) : ST_OK;
}
