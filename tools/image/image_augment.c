/* Random changes of training images: torchvision's transforms of PIL images, with drawn parameters (see the header). */
#include "tools/image/image_augment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/image/image_operations.h"
#include "tools/image/image_random.h"

/* ---- the list ---- */

static const char known[] = "crop, flip, rotate:DEGREES, color:AMOUNT, randaugment[:MAGNITUDE], erase, mixup:ALPHA, "
                            "cutmix:ALPHA and a graph, FILE.onnx";

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

/* "randaugment" or "randaugment:9": the magnitude, from 1 to 30. */
static int parse_magnitude(const char *word, size_t n, Problems *p)
{
    const char *colon = memchr(word, ':', n);
    double v = RANDAUGMENT_MAGNITUDE;

    if (!colon)
        return RANDAUGMENT_MAGNITUDE;
    if (text_to_float64(&v, colon + 1, n - (size_t)(colon + 1 - word)) && v >= 1 && v <= 30 && v == nearbyint(v))
        return (int)v;
    problems_add(p, "'%.*s': write randaugment:MAGNITUDE, a whole number from 1 to 30", (int)n, word);
    return 0;
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

bool augment_mixes(const char *text)
{
    for (const char *word = text; word; word = *(word += strcspn(word, ",")) ? word + 1 : NULL)
        if (begins(word, strcspn(word, ","), "mixup") || begins(word, strcspn(word, ","), "cutmix"))
            return true;
    return false;
}

Status augment_parse(Augment *out, const char *text, const char *flag)
{
    static const char *const name[] = { "crop", "flip", "rotate", "color", "randaugment", "erase", "mixup", "cutmix" };
    enum { CROP, FLIP, ROTATE, COLOR, RANDAUGMENT, ERASE, MIXUP, CUTMIX, NAMES };
    bool given[NAMES] = { false }, graph = false;
    Augment a = { 0 };
    PROBLEMS(p);

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
        else if (k == MIXUP || k == CUTMIX)
            parse_amount(k == MIXUP ? &a.mix.mixup : &a.mix.cutmix, word, n, 100, &p);
        else if (k == RANDAUGMENT)
            a.randaugment = parse_magnitude(word, n, &p);
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

/* Number `magnitude` of torch.linspace(0, most, 31), in single precision. */
static double amount_of(double most, int magnitude)
{
    const float end = (float)most, step = end / 30;

    return magnitude < 15 ? step * (float)magnitude : end - step * (float)(30 - magnitude);
}

/* Draws a change by torchvision's table for 31 magnitudes, from numbers i and i + 1. */
static void draw_change(ImageChange *out, int magnitude, int width, int height, uint64_t key, uint64_t i)
{
    const double sign = uniform(key, i + 1, 0, 1) < 0.5 ? -1 : 1;
    ImageChange c = { .kind = 1 + uniform_int(key, i, CHANGE_KINDS - 1) };

    switch (c.kind) {
    case CHANGE_SHEAR_X:
    case CHANGE_SHEAR_Y: c.amount = sign * amount_of(0.3, magnitude); break;
    case CHANGE_TRANSLATE_X: c.amount = sign * trunc(amount_of(150.0 / 331 * width, magnitude)); break;
    case CHANGE_TRANSLATE_Y: c.amount = sign * trunc(amount_of(150.0 / 331 * height, magnitude)); break;
    case CHANGE_ROTATE: c.amount = sign * magnitude; break;
    case CHANGE_BRIGHTNESS:
    case CHANGE_COLOR:
    case CHANGE_CONTRAST:
    case CHANGE_SHARPNESS: c.amount = 1 + sign * amount_of(0.9, magnitude); break;
    case CHANGE_POSTERIZE: c.amount = 8 - nearbyint(magnitude / 7.5); break;
    case CHANGE_SOLARIZE: c.amount = 255 - 8.5 * magnitude; break;
    default: break;
    }
    *out = c;
}

void augment_draw(AugmentDraw *out, const Augment *a, int iw, int ih, int width, int height, uint64_t seed,
                  int64_t epoch, int64_t sample)
{
    static const double area[2] = { 0.02, 0.33 }, ratio[2] = { 1 / 3.3, 1 / 0.3 };
    enum {
        CROP = 0,
        FLIP = 64,
        ROTATE = 65,
        FACTOR = 66,
        ORDER = 72,
        ERASE = 80,
        CHANGE = 128
    }; /* numbers of the key */
    const uint64_t key = sample_key(seed, epoch, sample);
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
    for (int k = 0; k < RANDAUGMENT_CHANGES && a->randaugment; k++)
        draw_change(&d.change[k], a->randaugment, width, height, key, CHANGE + 2 * (uint64_t)k);
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

/* The map of a change that moves pixels; false: it moves none. */
static bool change_moves(Affine *out, const ImageChange *c, int width, int height)
{
    Affine a = { { 1, 0, 0, 0, 1, 0 } };

    switch (c->kind) {
    case CHANGE_SHEAR_X: a.m[1] = c->amount; break;
    case CHANGE_SHEAR_Y: a.m[3] = c->amount; break;
    case CHANGE_TRANSLATE_X: a.m[2] = -c->amount; break;
    case CHANGE_TRANSLATE_Y: a.m[5] = -c->amount; break;
    case CHANGE_ROTATE: a = affine_turn(width, height, c->amount); break;
    default: return false;
    }
    *out = a;
    return true;
}

static Status apply_change(Image *image, Image *spare, const ImageChange *c)
{
    static const uint8_t black[3] = { 0 };
    Affine map;

    if (change_moves(&map, c, image->width, image->height))
        return image_move(image, spare, map, black);
    switch (c->kind) {
    case CHANGE_BRIGHTNESS: image_enhance(image, ENHANCE_BRIGHTNESS, (float)c->amount); break;
    case CHANGE_COLOR: image_enhance(image, ENHANCE_COLOR, (float)c->amount); break;
    case CHANGE_CONTRAST: image_enhance(image, ENHANCE_CONTRAST, (float)c->amount); break;
    case CHANGE_SHARPNESS: return image_sharpen(image, spare, (float)c->amount);
    case CHANGE_POSTERIZE: image_posterize(image, (int)c->amount); break;
    case CHANGE_SOLARIZE: image_solarize(image, c->amount); break;
    case CHANGE_AUTOCONTRAST: image_autocontrast(image); break;
    case CHANGE_EQUALIZE: image_equalize(image); break;
    default: break;
    }
    return ST_OK;
}

Status augment_apply(Image *image, Image *spare, const AugmentDraw *draw)
{
    if (draw->flip)
        image_flip(image);
    if (draw->angle != 0)
        TRY(image_rotate(image, spare, draw->angle));
    for (int k = 0; k < 3; k++)
        if (draw->factor[draw->order[k]] != 1)
            image_enhance(image, (Enhancement)draw->order[k], (float)draw->factor[draw->order[k]]);
    for (int k = 0; k < RANDAUGMENT_CHANGES; k++)
        TRY(apply_change(image, spare, &draw->change[k]));
    return ST_OK;
}

Status augment_apply_mask(Image *mask, Image *spare, const AugmentDraw *draw, int fill)
{
    const uint8_t value = (uint8_t)fill;
    Affine map;

    if (draw->flip)
        image_flip(mask);
    if (draw->angle != 0)
        TRY(image_move(mask, spare, affine_turn(mask->width, mask->height, draw->angle), &value));
    for (int k = 0; k < RANDAUGMENT_CHANGES; k++)
        if (change_moves(&map, &draw->change[k], mask->width, mask->height))
            TRY(image_move(mask, spare, map, &value));
    return ST_OK;
}
