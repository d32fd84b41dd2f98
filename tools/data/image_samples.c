/* Samples of images: decoded when a batch needs them, resized to the model's input, and augmented.
 *
 * A sample is read, decoded, (cached,) resized and cut to size, changed at random in training, scaled to [0,1], and
 * normalised.  What --val, `dpexec eval` and a resumed run must do alike is stored among the facts: classes, size, and
 * how images are brought to it. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/hash.h"
#include "graph/base/machine.h"
#include "tools/data/image_cache.h"
#include "tools/data/image_samples.h"
#include "tools/image/image_augment.h"

enum { MOST_SIDE = 16384, MOST_CHECKERS = 8, SHOWN_BROKEN = 10, NO_CLASS = -1, IGNORED = 255 };

#define SHARES "shares of classes"

/* What makes the samples. */
struct Images {
    ImageList list;
    int width, height, channels;
    bool nhwc, stretch, fast, floats; /* floats: scaled and normalised; else bytes */
    ResizeFilter filter;
    Augment augment;
    bool augments;
    float table[3][256]; /* a byte of a channel as a float */
    ImageCache *cache;   /* NULL: none */
    int64_t *bytes;      /* [n] of each decoded image at most, until the cache is open */
    bool *good;          /* [n] whether the header can be read */
    char **why;          /* [n] what is wrong with it; NULL: nothing */
    char *values;        /* the option; NULL: a mask's values are the class numbers */
    int64_t *partner;    /* [partners] the rows that samples are mixed with: those that are trained on */
    int64_t partners, scores;
    int64_t *class;      /* [n] of mixed samples; lent */
    int mask_class[256]; /* the class that a mask's value stands for; NO_CLASS: none */
    int mask_classes;    /* classes of pixels; 0: unknown */
    int mask_fill;       /* class of the pixels outside of a changed mask: the one that the loss ignores, else 0 */
};

Status images_create(Images **out) { return (*out = calloc(1, sizeof **out)) ? ST_OK : FAIL_NOMEM(); }

const ImageList *images_list(const Images *m) { return &m->list; }

void images_free(Images *m)
{
    if (!m)
        return;
    for (int64_t i = 0; i < m->list.n && m->why; i++)
        free(m->why[i]);
    free(m->why);
    free(m->good);
    free(m->bytes);
    image_cache_free(m->cache);
    image_list_free(&m->list);
    free(m->values);
    free(m->partner);
    free(m);
}

/* ---- samples ---- */

/* Reads and decodes image `row`. */
static Status decode_row(Image *out, const Images *m, int64_t row)
{
    const char *path = m->list.path[row];
    const int least = !m->fast ? 0 : m->augment.crop ? 2 : 1; /* times the size: a crop is of a part of the image */
    Mapped file;
    Status st;

    TRY(image_list_open(&file, &m->list, row, true));
    st = image_decode(out, file.data, file.size, m->channels, least * m->width, least * m->height, path);
    image_list_close(&file, &m->list);
    return st;
}

/* Makes the image of the model's size, without random changes. */
static Status fit(Image *out, const Image *image, const Images *m, ResizeFilter filter)
{
    return m->stretch
               ? image_resize(out, image, (ImageBox){ 0, 0, image->width, image->height }, m->width, m->height, filter)
               : image_fit(out, image, m->width, m->height, filter);
}

/* Makes the image of the model's size, and in training changes it by the parameters that `draw` becomes.  The cache
 * holds images before they change: whole ones where a random part is cut out, else those that are fitted. */
static Status make_image(Image *out, const Images *m, int64_t row, const SampleKey *key, AugmentDraw *draw)
{
    const bool whole = m->augment.crop, changes = m->augments && key->training;
    Image image = { 0 }, spare = { 0 }, from = { 0 };
    Status st = ST_OK;

    if (!m->cache || !image_cache_find(m->cache, row, m->channels, &from)) {
        st = decode_row(&image, m, row);
        if (!st && !whole)
            st = fit(out, &image, m, m->filter);
        from = whole ? image : *out;
        if (!st && m->cache)
            image_cache_store(m->cache, row, &from);
    } else if (!whole && !(st = image_reserve(out, from.width, from.height, from.channels))) {
        memcpy(out->pixel, from.pixel, (size_t)from.width * (size_t)from.height * (size_t)from.channels);
    }
    if (!st && changes)
        augment_draw(draw, &m->augment, from.width, from.height, m->width, m->height, key->seed, key->epoch, row);
    if (!st && whole)
        st =
            changes ? augment_crop(out, &from, draw, m->width, m->height, m->filter, 0) : fit(out, &from, m, m->filter);
    if (!st && changes)
        st = augment_apply(out, &spare, draw);
    image_free(&image);
    image_free(&spare);
    return st;
}

/* Makes an image of the model's type, without its partner. */
static Status make_sample(const Images *m, int64_t row, const SampleKey *key, void *to)
{
    const int channels = m->channels;
    const size_t n = (size_t)m->width * (size_t)m->height;
    AugmentDraw draw = { .cropped = false };
    const uint8_t *p;
    Image out = { 0 };
    Status st = make_image(&out, m, row, key, &draw);

    if (st) {
        image_free(&out);
        return st;
    }
    p = out.pixel;
    for (size_t i = 0; i < n; i++, p += channels)
        for (int c = 0; c < channels; c++) {
            const size_t at = m->nhwc ? i * (size_t)channels + (size_t)c : (size_t)c * n + i;

            if (m->floats)
                ((float *)to)[at] = m->table[c][p[c]];
            else
                ((uint8_t *)to)[at] = p[c];
        }
    for (int y = draw.erase.y; y < draw.erase.y + draw.erase.height; y++)
        for (int x = draw.erase.x; x < draw.erase.x + draw.erase.width; x++)
            for (int c = 0; c < channels; c++) {
                const size_t i = (size_t)y * (size_t)m->width + (size_t)x;
                const size_t at = m->nhwc ? i * (size_t)channels + (size_t)c : (size_t)c * n + i;

                if (m->floats)
                    ((float *)to)[at] = 0;
                else
                    ((uint8_t *)to)[at] = 0;
            }
    image_free(&out);
    return ST_OK;
}

/* ---- mixed samples ---- */

static bool mixes(const Images *m) { return m->augment.mix.mixup > 0 || m->augment.mix.cutmix > 0; }

/* Draws with which row a sample is mixed, and how; false: it stays alone. */
static bool draw_mix(MixDraw *out, const Images *m, int64_t row, const SampleKey *key)
{
    if (!key->training || !m->partners || !mixes(m))
        return false;
    mix_draw(out, &m->augment.mix, m->partners, m->width, m->height, key->seed, key->epoch, row);
    out->partner = m->partner[out->partner];
    return true;
}

static Status fetch_image(const Array *a, int64_t row, const SampleKey *key, void *to)
{
    const Images *m = a->maker;
    float *partner;
    MixDraw draw;
    Status st;

    TRY(make_sample(m, row, key, to));
    if (!draw_mix(&draw, m, row, key))
        return ST_OK;
    if (!(partner = malloc((size_t)m->channels * (size_t)m->width * (size_t)m->height * sizeof *partner)))
        return FAIL_NOMEM();
    if (!(st = make_sample(m, draw.partner, key, partner)))
        mix_pixels(to, partner, &draw, m->channels, m->width, m->height, m->nhwc);
    free(partner);
    return st;
}

/* The shares of the classes in a sample; of one that is not mixed all is its own. */
static Status fetch_shares(const Array *a, int64_t row, const SampleKey *key, void *to)
{
    const Images *m = a->maker;
    MixDraw draw = { .partner = row, .own = 1 };

    (void)draw_mix(&draw, m, row, key);
    mix_label(to, a->dim[1], m->class[row], m -> class[draw.partner], draw.own);
    return ST_OK;
}

Status images_fit(Images *m, const int64_t *row, int64_t n)
{
    if (!mixes(m))
        return ST_OK;
    free(m->partner);
    if (!(m->partner = malloc((size_t)n * sizeof *row + 1)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < n; i++)
        m->partner[i] = row ? row[i] : i;
    m->partners = n;
    return ST_OK;
}

/* ---- masks ---- */

/* Replaces the values of a mask by the classes that they stand for.  E_INVALID names a value that stands for none. */
static Status number_mask(Image *mask, const Images *m, const char *path)
{
    const size_t n = (size_t)mask->width * (size_t)mask->height;
    char last[16];
    const char *known = m->values ? m->values : last;

    snprintf(last, sizeof last, "%d", m->mask_classes - 1);
    for (size_t i = 0; i < n; i++) {
        const int v = mask->pixel[i];

        if (m->mask_class[v] == NO_CLASS)
            return FAIL(E_INVALID, "%s: the pixel in row %zu, column %zu is %d, which is no class: expected %s%s%s",
                        path, i / (size_t)mask->width, i % (size_t)mask->width, v, m->values ? "values of " : "0 to ",
                        known, v == IGNORED ? "; --ignore-index 255 leaves such pixels out" : "");
        mask->pixel[i] = (uint8_t)m->mask_class[v];
    }
    return ST_OK;
}

/* Makes the mask of the model's size, whose pixels move as those of its image. */
static Status make_mask(Image *out, const Images *m, int64_t row, const SampleKey *key)
{
    const bool changes = m->augments && key->training, whole = m->augment.crop && changes;
    Image mask = { 0 }, spare = { 0 };
    AugmentDraw draw;
    Mapped file;
    Status st;

    TRY(image_list_open_mask(&file, &m->list, row, true));
    st = mask_decode(&mask, file.data, file.size, m->list.mask[row]);
    image_list_close_mask(&file, &m->list);
    if (!st)
        st = number_mask(&mask, m, m->list.mask[row]);
    if (!st && changes)
        augment_draw(&draw, &m->augment, whole ? mask.width : m->width, whole ? mask.height : m->height, m->width,
                     m->height, key->seed, key->epoch, row);
    if (!st)
        st = whole ? augment_crop(out, &mask, &draw, m->width, m->height, RESIZE_NEAREST, m->mask_fill)
                   : fit(out, &mask, m, RESIZE_NEAREST);
    if (!st && changes)
        st = augment_apply_mask(out, &spare, &draw, m->mask_fill);
    image_free(&mask);
    image_free(&spare);
    return st;
}

static Status fetch_mask(const Array *a, int64_t row, const SampleKey *key, void *to)
{
    const Images *m = a->maker;
    Image out = { 0 };
    Status st = make_mask(&out, m, row, key);

    if (!st)
        memcpy(to, out.pixel, (size_t)m->width * (size_t)m->height);
    image_free(&out);
    return st;
}

/* Reads a mask's header: its image must have the same size. */
static Status check_mask(const ImageList *l, int64_t i, const ImageHeader *of)
{
    const char *path = l->mask[i];
    ImageHeader h;
    Mapped file;
    Status st;

    TRY(image_list_open_mask(&file, l, i, false));
    st = mask_read_header(&h, file.data, file.size, path);
    image_list_close_mask(&file, l);
    if (!st && (h.width != of->width || h.height != of->height))
        st = FAIL(E_IO, "%s has %d x %d pixels, but its image %s has %d x %d", path, h.width, h.height, l->path[i],
                  of->width, of->height);
    return st;
}

/* ---- headers ---- */

typedef struct {
    Images *images;
    int64_t from, step;
    Status failed;
} Checker;

/* Reads the headers of images from, from + step, ... */
static void *check_headers(void *user)
{
    Checker *k = user;
    Images *m = k->images;

    for (int64_t i = k->from; i < m->list.n && !k->failed; i += k->step) {
        ImageHeader h;
        Mapped file = { 0 };
        Status st = image_list_open(&file, &m->list, i, false);

        if (!st)
            st = image_read_header(&h, file.data, file.size, m->list.path[i]);
        image_list_close(&file, &m->list);
        if (!st && m->list.mask)
            st = check_mask(&m->list, i, &h);
        if ((m->good[i] = !st))
            m->bytes[i] = (int64_t)h.width * h.height * m->channels;
        else if (st == E_NOMEM || !(m->why[i] = strdup(status_message())))
            k->failed = E_NOMEM;
    }
    return NULL;
}

/* Checks all headers by several threads.  Broken files end the run, or with `skip` are left out, which is noted. */
static Status check_images(Dataset *d, Images *m, bool skip)
{
    const int cores = machine_cores(), n = cores > MOST_CHECKERS ? MOST_CHECKERS : cores;
    Checker checker[MOST_CHECKERS];
    pthread_t thread[MOST_CHECKERS];
    bool started[MOST_CHECKERS];
    PROBLEMS(broken);
    int64_t bad = 0, all = m->list.n;
    Status st = ST_OK;

    m->good = calloc((size_t)all + 1, sizeof *m->good);
    m->bytes = calloc((size_t)all + 1, sizeof *m->bytes);
    m->why = calloc((size_t)all + 1, sizeof *m->why);
    if (!m->good || !m->bytes || !m->why)
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++) {
        checker[i] = (Checker){ m, i, n, ST_OK };
        started[i] = i + 1 < n && !pthread_create(&thread[i], NULL, check_headers, &checker[i]);
        if (!started[i])
            check_headers(&checker[i]);
    }
    for (int i = 0; i < n; i++) {
        if (started[i])
            pthread_join(thread[i], NULL);
        st = checker[i].failed ? FAIL_NOMEM() : st;
    }
    TRY(st);
    for (int64_t i = 0; i < all; i++) {
        if (m->good[i])
            m->bytes[i - bad] = m->bytes[i];
        else if (bad++ < SHOWN_BROKEN && !skip)
            problems_add(&broken, "%s", m->why[i]);
        free(m->why[i]);
        m->why[i] = NULL;
    }
    image_list_select(&m->list, m->good);
    if (skip && bad == all)
        return FAIL(E_IO, "%s: all %lld images are broken", d->source.text, (long long)all);
    if (skip && bad)
        return dataset_note(d, "%lld of %lld images are broken and left out", (long long)bad, (long long)all);
    return problems_fail(&broken, E_IO, "%s: %lld of %lld images are broken; --skip-broken leaves them out",
                         d->source.text, (long long)bad, (long long)all);
}

/* ---- options and facts ---- */

/* The option's value, else what training fitted, else `fallback`. */
static const char *value_of(const Source *s, const json_t *facts, const char *name, const char *fallback)
{
    const char *given = source_value(s, name), *kept = json_string_value(json_object_get(facts, name));

    return given ? given : kept ? kept : fallback;
}

/* Reads an option that is one of two words; *second: it is the second. */
static void read_choice(bool *second, const Source *s, const json_t *facts, const char *name, const char *a,
                        const char *b, Problems *wrong)
{
    const char *v = value_of(s, facts, name, a);

    *second = !strcmp(v, b);
    if (!*second && strcmp(v, a) != 0)
        problems_add(wrong, "%s: expected %s or %s, found '%s'", name, a, b, v);
}

/* Reads "64" or "48x64" (height and width). */
static bool read_size(int *width, int *height, const char *text)
{
    char *end;
    long h = strtol(text, &end, 10), w = *end == 'x' ? strtol(end + 1, &end, 10) : h;

    *width = (int)w;
    *height = (int)h;
    return !*end && w >= 1 && h >= 1 && w <= MOST_SIDE && h <= MOST_SIDE;
}

/* Finds the input that takes images, one of four axes with 1 or 3 channels; NULL: there is none. */
static const dpx_info *image_input(const SourceContext *c, bool *nhwc)
{
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < c->inputs; i++) {
            const dpx_info *in = &c->input[i];
            const int64_t channels = in->rank == 4 ? in->dim[last ? 3 : 1] : 0;

            if (channels == 1 || channels == 3) {
                *nhwc = last;
                return in;
            }
        }
    return NULL;
}

/* Decides channels and size by the model's input, the option, and what training fitted. */
static Status choose_size(Images *m, const dpx_info **in, const Source *s, const SourceContext *c, const json_t *facts)
{
    const char *text = value_of(s, facts, "size", NULL);
    int64_t h, w;

    m->channels = 3;
    *in = image_input(c, &m->nhwc);
    if (c->inputs && !*in)
        return FAIL(E_INVALID,
                    "%s: the model has no input for images: expected one of shape [N,C,H,W] or [N,H,W,C] with "
                    "1 or 3 channels",
                    s->text);
    if (*in)
        m->channels = (int)(*in)->dim[m->nhwc ? 3 : 1];
    h = *in ? (*in)->dim[m->nhwc ? 1 : 2] : -1;
    w = *in ? (*in)->dim[m->nhwc ? 2 : 3] : -1;
    if (text && !read_size(&m->width, &m->height, text))
        return FAIL(E_INVALID, "%s: size: expected pixels from 1 to %d, as 64 or HEIGHTxWIDTH, found '%s'", s->text,
                    MOST_SIDE, text);
    if (text && ((h > 0 && h != m->height) || (w > 0 && w != m->width)))
        return FAIL(E_INVALID, "%s: size=%s, but the model's input '%s' takes images of %lldx%lld (height x width)",
                    s->text, text, (*in)->name, (long long)h, (long long)w);
    if (!text && (h < 1 || w < 1 || h > MOST_SIDE || w > MOST_SIDE))
        return FAIL(E_INVALID, "%s: the model does not fix the size of images: give size=N, as in %s,size=224", s->text,
                    s->text);
    if (!text) {
        m->height = (int)h;
        m->width = (int)w;
    }
    return ST_OK;
}

/* Stores the names of the classes in their order. */
static Status keep_classes(const Images *m, const SourceContext *c)
{
    json_t *names;

    if (!c->fitted || !c->training || !m->list.class_name || json_object_get(c->fitted, "classes"))
        return ST_OK;
    names = json_array();
    for (int64_t i = 0; i < m->list.classes; i++)
        if (json_array_append_new(names, json_string(m->list.class_name[i]))) {
            json_decref(names);
            return FAIL(E_INVALID, "the name of class %lld is no UTF-8", (long long)i);
        }
    return json_object_set_new(c->fitted, "classes", names) ? FAIL_NOMEM() : ST_OK;
}

/* Stores what evaluations must do alike. */
static Status keep_facts(const Images *m, const SourceContext *c)
{
    char size[32];
    json_t *facts;

    if (!c->fitted || !c->training || json_object_get(c->fitted, "images"))
        return ST_OK;
    snprintf(size, sizeof size, "%dx%d", m->height, m->width);
    facts = json_pack("{s:s, s:s, s:s, s:s}", "size", size, "fit", m->stretch ? "stretch" : "crop", "filter",
                      m->filter == RESIZE_BICUBIC ? "bicubic" : "bilinear", "decode", m->fast ? "fast" : "full");
    if (!facts || json_object_set_new(c->fitted, "images", facts) ||
        (m->values && json_object_set_new(facts, "values", json_string(m->values))))
        return FAIL_NOMEM();
    return keep_classes(m, c);
}

/* Lists the files, with the classes of training. */
static Status list_images(Images *m, const Source *s, const SourceContext *c, ImageLister *list, void *user)
{
    const json_t *kept = json_object_get(c->fitted, "classes");
    const size_t n = json_array_size(kept);
    const char **known = n ? malloc(n * sizeof *known) : NULL;
    Status st = n && !known ? FAIL_NOMEM() : ST_OK;

    for (size_t i = 0; i < n && !st; i++)
        if (!(known[i] = json_string_value(json_array_get(kept, i))))
            st = FAIL(E_IO, "%s: the run's classes are no names", s->text);
    if (!st)
        st = list(&m->list, s, c, known, (int64_t)n, user);
    free(known);
    return st;
}

/* The classes of pixels: those that have names, or scores of an output [N,C,H,W] or [N,H,W,C]; *out 0: unknown. */
static Status count_mask_classes(int64_t *out, const Images *m, const Source *s, const SourceContext *c)
{
    const dpx_info *y = c->output;
    const bool last = y && y->rank == 4 && y->dim[1] == m->height && y->dim[2] == m->width;
    const int64_t scores = y && y->rank == 4 ? y->dim[last ? 3 : 1] : 0;

    *out = c->target == DPX_TARGET_VALUES ? 0 : m->list.classes ? m->list.classes : scores > 1 ? scores : 0;
    if (*out && scores > 1 && *out > scores)
        return FAIL(E_INVALID, "%s has %lld classes of pixels, but output '%s' of the model has scores for %lld",
                    s->text, (long long)*out, y->name, (long long)scores);
    return ST_OK;
}

/* Reads which value of a mask stands for which class. */
static Status read_values(Images *m, const Source *s, const SourceContext *c, const json_t *facts)
{
    const int64_t ignored = c->target == DPX_TARGET_NONE ? IGNORED : c->ignored;
    const char *text = value_of(s, facts, "values", NULL);
    int64_t classes;
    int n = 0;

    TRY(count_mask_classes(&classes, m, s, c));
    for (int v = 0; v < 256; v++)
        m->mask_class[v] = text || (classes && v >= classes) ? NO_CLASS : v;
    for (const char *at = text; at; at = *(at += strcspn(at, "+")) ? at + 1 : NULL) {
        char *end;
        const long v = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;

        if (v < 0 || v > 255 || (*end && *end != '+') || m->mask_class[v] != NO_CLASS)
            return FAIL(E_INVALID, "%s: values: expected different numbers from 0 to 255, as 0+255, found '%s'",
                        s->text, text);
        m->mask_class[v] = n++;
    }
    if (text && classes && n != classes)
        return FAIL(E_INVALID, "%s: values has %d numbers, but there are %lld classes", s->text, n, (long long)classes);
    if (ignored >= 0 && ignored < 256 && m->mask_class[ignored] == NO_CLASS)
        m->mask_class[ignored] = (int)ignored;
    m->mask_classes = text ? n : (int)classes;
    m->mask_fill = c->ignored >= 0 && c->ignored < 256 ? (int)c->ignored : 0;
    return text && !(m->values = strdup(text)) ? FAIL_NOMEM() : ST_OK;
}

/* Stands for the samples in digests: names and sizes of the files, and all options. */
static uint64_t identity_of(const Images *m)
{
    const int64_t how[] = { m->width,        m->height,       m->channels,      m->nhwc,
                            m->stretch,      m->fast,         m->filter,        m->floats,
                            m->augment.crop, m->augment.flip, m->augment.erase, m->augment.randaugment };
    uint64_t h = hash_bytes(HASH_BEGIN, how, sizeof how);

    h = hash_bytes(h, &m->augment.rotate, sizeof m->augment.rotate);
    h = hash_bytes(h, &m->augment.color, sizeof m->augment.color);
    h = hash_bytes(h, &m->augment.mix, sizeof m->augment.mix);
    h = hash_bytes(h, m->table, sizeof m->table);
    for (int64_t i = 0; i < m->list.n; i++) {
        h = hash_text(h, m->list.path[i] + m->list.root);
        h = hash_int(h, image_list_size(&m->list, i));
        if (m->list.mask)
            h = hash_int(hash_text(h, m->list.mask[i] + (m->list.mask_member ? m->list.root : 0)),
                         image_list_mask_size(&m->list, i));
    }
    if (m->list.mask)
        h = hash_int(hash_bytes(h, m->mask_class, sizeof m->mask_class), m->mask_fill);
    return h;
}

/* ---- arrays ---- */

static Status read_options(Images *m, const Source *s, const SourceContext *c, const json_t *facts)
{
    const Normalisation *norm = &c->norm;
    const char *cache = source_value(s, "cache");
    PROBLEMS(wrong);
    bool bicubic, disk = false;

    read_choice(&m->stretch, s, facts, "fit", "crop", "stretch", &wrong);
    read_choice(&bicubic, s, facts, "filter", "bilinear", "bicubic", &wrong);
    read_choice(&m->fast, s, facts, "decode", "full", "fast", &wrong);
    if (cache)
        read_choice(&disk, s, NULL, "cache", "ram", "disk", &wrong);
    m->filter = bicubic ? RESIZE_BICUBIC : RESIZE_BILINEAR;
    if (norm->channels > 1 && norm->channels != m->channels)
        problems_add(&wrong, "--mean and --std have %d numbers, but the model takes images of %d channel%s",
                     norm->channels, m->channels, m->channels > 1 ? "s" : "");
    if (!m->floats && (norm->channels > 1 || norm->mean[0] != 0 || norm->std[0] != 1))
        problems_add(&wrong, "--mean and --std need a model with an input of floats, found bytes");
    m->augments = c->training && c->augment && augment_of_images(c->augment);
    if (m->augments && augment_parse(&m->augment, c->augment, "--augment"))
        problems_add(&wrong, "%s", status_message());
    if (mixes(m) && !m->floats)
        problems_add(&wrong, "mixup and cutmix need a model with an input of floats, found bytes");
    if (mixes(m) && source_value(s, "masks"))
        problems_add(&wrong, "mixup and cutmix mix classes of images; they go without masks=");
    if (mixes(m) && c->target == DPX_TARGET_VALUES)
        problems_add(&wrong, "mixup and cutmix mix classes: expected --loss cross-entropy");
    if (source_value(s, "masks") && source_value(s, "list"))
        problems_add(&wrong, "list= and masks= both give targets: leave one out");
    if (source_value(s, "masks") && m->fast && m->augment.crop)
        problems_add(&wrong, "decode=fast with --augment crop goes without masks=, whose pixels must fit the image's");
    if (source_value(s, "values") && !source_value(s, "masks"))
        problems_add(&wrong, "values= is for masks=");
    TRY(problems_fail(&wrong, E_INVALID, "%s", s->text));
    for (int k = 0; k < 3; k++)
        for (int v = 0; v < 256; v++)
            m->table[k][v] =
                (float)((v / 255.0 - norm->mean[norm->channels > 1 ? k : 0]) / norm->std[norm->channels > 1 ? k : 0]);
    return ST_OK;
}

static void name_classes(Dataset *d, Images *m)
{
    d->class_name = m->list.class_name;
    d->classes = d->class_name ? m->list.classes : 0;
    m->list.class_name = NULL;
}

/* Adds the shares of the classes, which a loss gets in place of their numbers, where --augment mixes samples: of
 * samples that are evaluated, too, because a model has one form of target. */
static Status add_shares(Dataset *d, Images *m, uint64_t identity, const char *path)
{
    Array y = { .dtype = DPX_FLOAT32, .rank = 2, .dim = { m->list.n, m->scores }, .fetch = fetch_shares, .maker = m };

    for (int64_t i = 0; i < m->list.n; i++) {
        y.dim[1] = m->class[i] >= y.dim[1] ? m->class[i] + 1 : y.dim[1];
        identity = hash_int(identity, m->class[i]);
    }
    if (m->scores && y.dim[1] > m->scores)
        return FAIL(E_INVALID, "%s: class %lld, but the model has scores for %lld classes", path,
                    (long long)y.dim[1] - 1, (long long)m->scores);
    y.dim[1] = y.dim[1] < d->classes ? d->classes : y.dim[1];
    y.identity = identity;
    return (y.name = strdup(SHARES)) ? dataset_add(d, &y, path) : FAIL_NOMEM();
}

/* Adds the masks as targets [n,H,W]. */
static Status add_masks(Dataset *d, Images *m, uint64_t identity, const char *path)
{
    Array y = { .dtype = DPX_UINT8,
                .rank = 3,
                .dim = { m->list.n, m->height, m->width },
                .fetch = fetch_mask,
                .maker = m,
                .identity = identity };

    name_classes(d, m);
    return (y.name = strdup("target")) ? dataset_add(d, &y, path) : FAIL_NOMEM();
}

/* Adds the targets: class numbers, or the numbers of the list. */
static Status add_targets(Dataset *d, Images *m, bool shares, uint64_t identity, const char *path)
{
    const int64_t n = m->list.n;
    Array y = { .dtype = DPX_INT64, .rank = 1, .dim = { n } };

    if (m->list.number) {
        float *v = malloc((size_t)n * (size_t)m->list.columns * sizeof *v);

        for (int64_t i = 0; i < n * m->list.columns && v; i++)
            v[i] = (float)m->list.number[i];
        y = (Array){ .dtype = DPX_FLOAT32, .rank = 2, .dim = { n, m->list.columns }, .memory = v };
    } else {
        y.memory = m->class = m->list.label;
        m->list.label = NULL;
        y.shares = shares ? SHARES : NULL;
    }
    y.data = y.memory;
    if (!y.memory || !(y.name = strdup("target"))) {
        free(y.memory);
        return FAIL_NOMEM();
    }
    name_classes(d, m);
    TRY(dataset_add(d, &y, path));
    return shares ? add_shares(d, m, identity, path) : ST_OK;
}

static Status open_cache(Images *m, const Source *s)
{
    const char *cache = source_value(s, "cache");

    for (int64_t i = 0; i < m->list.n && !m->augment.crop; i++)
        m->bytes[i] = (int64_t)m->width * m->height * m->channels;
    return cache ? image_cache_open(&m->cache, m->bytes, m->list.n, !strcmp(cache, "disk"), s->text) : ST_OK;
}

Status images_read(Images *m, Dataset *d, const Source *s, const SourceContext *c, ImageLister *list, void *user)
{
    const json_t *facts = json_object_get(c->fitted, "images");
    Array x = { .rank = 4, .fetch = fetch_image, .maker = m };
    const dpx_info *in = NULL;

    TRY(choose_size(m, &in, s, c, facts));
    m->scores = c->scores;
    m->floats = !in || (in->dtype != DPX_UINT8 && in->dtype != DPX_INT32 && in->dtype != DPX_INT64);
    TRY(read_options(m, s, c, facts));
    TRY(list_images(m, s, c, list, user));
    if (m->list.mask)
        TRY(read_values(m, s, c, facts));
    TRY(check_images(d, m, c->skip_broken));
    TRY(open_cache(m, s));
    TRY(keep_facts(m, c));
    x.dtype = m->floats ? DPX_FLOAT32 : DPX_UINT8;
    x.dim[0] = m->list.n;
    x.dim[1] = m->nhwc ? m->height : m->channels;
    x.dim[2] = m->nhwc ? m->width : m->height;
    x.dim[3] = m->nhwc ? m->channels : m->width;
    x.identity = identity_of(m);
    if (!(x.name = strdup(in && c->inputs > 1 ? in->name : "")))
        return FAIL_NOMEM();
    TRY(dataset_add(d, &x, s->path));
    if (m->list.mask)
        return add_masks(d, m, x.identity, s->path);
    if (m->list.number && augment_mixes(c->augment) && c->target != DPX_TARGET_NONE)
        return FAIL(E_INVALID, "%s: mixup and cutmix mix classes, but the targets are %d numbers per sample", s->text,
                    m->list.columns);
    if (m->list.label || m->list.number)
        return add_targets(d, m, augment_mixes(c->augment) && c->target != DPX_TARGET_NONE, x.identity, s->path);
    name_classes(d, m);
    return ST_OK;
}

Status images_read_labels(Images *m, Dataset *d, const Source *s, const SourceContext *c, ImageLister *list, void *user)
{
    TRY(list_images(m, s, c, list, user));
    TRY(keep_classes(m, c));
    return m->list.label || m->list.number ? add_targets(d, m, false, 0, s->path) : ST_OK;
}

const char *images_file(const Images *m, int64_t row) { return m->list.path[row] + m->list.root; }

bool images_fit_input(const SourceContext *c)
{
    bool nhwc;

    return !c->inputs || image_input(c, &nhwc);
}
