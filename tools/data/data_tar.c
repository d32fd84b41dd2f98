/* tar:SHARDS: samples in tar archives, as WebDataset packs them: images, arrays and labels.
 *
 * Archives are mapped, and their headers are read once (tools/data/tar_index.h).  Images are those of
 * tools/data/image_samples.h, whose files lie in the archives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/arena.h"
#include "graph/base/foreign.h"
#include "graph/base/hash.h"
#include "graph/base/numtext.h"
#include "tools/data/image_samples.h"
#include "tools/data/npz_member.h"
#include "tools/data/tar_index.h"

enum { SHOWN = 10, LABEL_MOST = 1000 /* bytes of a class's name */, NO_KEY = -1 };

static const DataOption options[] = {
    IMAGE_OPTIONS,
    { "image", "KEY+KEY+...", "keys of the images, the ends of their names [jpg, jpeg, png, webp, ...]" },
    { "target", "KEY|json.FIELD", "key or field of the class or the numbers to predict [cls]" },
    { "masks", "KEY", "key of PNG members whose values are the classes of pixels: the target, as seg.png" },
    { "values", "V+V+...", "values of masks that stand for classes 0, 1, ... [the class numbers]" },
    { NULL, NULL, NULL }
};

/* An array of .npy members, or of arrays in .npz members. */
typedef struct {
    int key;
    char *inner; /* name of the array in the .npz; NULL: the member is a .npy */
    Array like;  /* type and shape of every member */
    const struct Tar *tar;
} TarArray;

typedef struct Tar {
    TarIndex index;
    Images *images;
    bool is_image[TAR_KEYS_MOST], has_images, reads_masks;
    int masks;         /* key of the masks; NO_KEY: there are none */
    int target;        /* key of the labels; NO_KEY: there are none, or an array or masks hold them */
    const char *field; /* of a JSON object, "a.b"; NULL: the member is the label */
    char *wanted;      /* the option target=, or what training stored */
    int64_t *row;      /* [rows] the sample of each row */
    int64_t rows;
    char **label; /* [rows][columns], of `arena` */
    int columns;
    Arena *arena;
    TarArray array[TAR_KEYS_MOST];
    int arrays;
} Tar;

static void free_tar(void *maker)
{
    Tar *t = maker;

    images_free(t->images);
    tar_index_close(&t->index);
    for (int i = 0; i < t->arrays; i++)
        free(t->array[i].inner);
    arena_free(t->arena);
    free(t->wanted);
    free(t->row);
    free(t->label);
    free(t);
}

/* ---- keys ---- */

/* The keys that there are: "cls, jpg". */
static const char *key_list(char text[512], const TarIndex *x)
{
    size_t n = 0;

    *text = '\0';
    for (int i = 0; i < x->keys && n < 512; i++)
        n += (size_t)snprintf(text + n, 512 - n, "%s%s", i ? ", " : "", x->key[i]);
    return text;
}

/* The last part of a key: "png" of "seg.png". */
static const char *last_part(const char *key) { return strrchr(key, '.') ? strrchr(key, '.') + 1 : key; }

static bool is_npy(const char *key) { return !strcmp(last_part(key), "npy"); }
static bool is_npz(const char *key) { return !strcmp(last_part(key), "npz"); }

/* Refuses members that are packed once more: their bytes would not be where the archive has them. */
static Status refuse_packed(const char *key, const Source *s, const char *option)
{
    static const char *const packed[] = { "gz", "bz2", "xz", "zst", "zip", "tar" };

    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (!strcmp(last_part(key), packed[i]))
            return FAIL(E_INVALID, "%s: %s: members of key '%s' are packed; pack them as they are, an array as .npy",
                        s->text, option, key);
    if (is_npz(key))
        return FAIL(E_INVALID,
                    "%s: %s: members of key '%s' hold several arrays; --target and --map choose by their names",
                    s->text, option, key);
    return ST_OK;
}

/* Finds the key that an option names.  E_INVALID: no sample has it, or its members are packed once more. */
static Status need_key(int *out, const TarIndex *x, const Source *s, const char *option, const char *name)
{
    char keys[512];

    if ((*out = tar_key(x, name)) < 0)
        return FAIL(E_INVALID, "%s: %s: no sample has key '%s' (there are: %s)", s->text, option, name,
                    key_list(keys, x));
    return refuse_packed(x->key[*out], s, option);
}

/* Decides which key has the masks.  `run` and images without labels need none, but must not take them for images. */
static Status choose_masks(Tar *t, const Source *s, const SourceContext *c)
{
    const char *given = source_value(s, "masks"), *kept = json_string_value(json_object_get(c->fitted, "tar masks"));

    t->masks = NO_KEY;
    if (given && source_value(s, "target"))
        return FAIL(E_INVALID, "%s: target= and masks= both give targets: leave one out", s->text);
    if (source_value(s, "target") || (!given && !kept))
        return ST_OK;
    if (!given && c->predicts) {
        t->masks = tar_key(&t->index, kept);
        return ST_OK;
    }
    TRY(need_key(&t->masks, &t->index, s, "masks", given ? given : kept));
    return c->fitted && c->training && !kept &&
                   json_object_set_new(c->fitted, "tar masks", json_string(t->index.key[t->masks]))
               ? FAIL_NOMEM()
               : ST_OK;
}

/* The keys of an option, or those that end as image files do. */
static Status choose_images(Tar *t, const Source *s)
{
    const char *given = source_value(s, "image");
    char name[80];

    for (int i = 0; i < t->index.keys && !given; i++) {
        snprintf(name, sizeof name, "x.%s", t->index.key[i]);
        t->has_images |= t->is_image[i] = i != t->masks && !strchr(t->index.key[i], '.') && image_list_takes(name);
    }
    for (const char *at = given; at; at = *(at += strcspn(at, "+")) ? at + 1 : NULL) {
        int key;

        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "+"), at);
        TRY(need_key(&key, &t->index, s, "image", name));
        if (key == t->masks)
            return FAIL(E_INVALID, "%s: '%s' is the key of images and of masks", s->text, name);
        t->has_images = t->is_image[key] = true;
    }
    return ST_OK;
}

static bool is_json(const char *key) { return tar_same_key(last_part(key), "json"); }

/* Finds the key of "cls", "meta.json" or "json.FIELD", in letters of any case; *field: behind a key of JSON. */
static int find_key(const char **field, const TarIndex *x, const char *text)
{
    int key = tar_key(x, text);

    *field = NULL;
    for (const char *dot = text; key < 0 && (dot = strchr(dot, '.')); dot++) {
        char name[64];
        const size_t n = (size_t)(dot - text);

        snprintf(name, sizeof name, "%.*s", (int)n, text);
        if (is_json(name) && n < sizeof name && (key = tar_key(x, name)) >= 0)
            *field = dot + 1;
    }
    return key;
}

/* Is there an array of targets? */
static bool has_target(const Tar *t)
{
    bool found = tar_key(&t->index, "target.npy") >= 0;

    for (int i = 0; i < t->arrays; i++)
        found |= t->array[i].inner && !strcmp(t->array[i].inner, "target");
    return found;
}

/* Decides where the labels are. */
static Status choose_target(Tar *t, const Source *s, const SourceContext *c)
{
    const char *given = source_value(s, "target"), *kept = json_string_value(json_object_get(c->fitted, "tar target"));
    const char *wanted = given ? given : kept;
    char keys[512];

    t->target = NO_KEY;
    if (t->masks >= 0)
        return ST_OK;
    if (!given && (c->predicts || (!kept && has_target(t))))
        return ST_OK;
    if (!(t->wanted = strdup(wanted ? wanted : "cls")))
        return FAIL_NOMEM();
    t->target = find_key(&t->field, &t->index, t->wanted);
    if (t->target < 0 && (wanted || (c->target != DPX_TARGET_NONE && !t->arrays)))
        return FAIL(E_INVALID, "%s: %s'%s' (there are: %s); give target=KEY, or target=json.FIELD for a field of JSON",
                    s->text, wanted ? "target: no sample has key " : "no sample has a label, key ", t->wanted,
                    key_list(keys, &t->index));
    if (t->target >= 0)
        TRY(refuse_packed(t->index.key[t->target], s, "target"));
    if (t->target >= 0 && !t->field && is_json(t->wanted))
        return FAIL(E_INVALID, "%s: target: give the field of the JSON object, as in target=%s.label", s->text,
                    t->wanted);
    if (t->target >= 0 && t->is_image[t->target])
        return FAIL(E_INVALID, "%s: target: '%s' is the key of images; masks=%s reads them as classes of pixels",
                    s->text, t->wanted, t->index.key[t->target]);
    return c->fitted && c->training && wanted && !kept &&
                   json_object_set_new(c->fitted, "tar target", json_string(wanted))
               ? FAIL_NOMEM()
               : ST_OK;
}

/* ---- labels ---- */

static Status refuse_label(const Tar *t, int64_t sample, const char *expected, const char *text, size_t n)
{
    return FAIL(E_IO, "%s.%s: expected %s, found '%.*s'", t->index.sample[sample].name, t->index.key[t->target],
                expected, (int)(n < 40 ? n : 40), text);
}

/* Adds a label, of the sample's column i. */
static Status put_label(Tar *t, int64_t row, int i, const char *text)
{
    if (!t->label && !(t->label = calloc((size_t)t->index.samples * (size_t)t->columns + 1, sizeof *t->label)))
        return FAIL_NOMEM();
    t->label[row * t->columns + i] = arena_strdup(t->arena, text);
    return t->label[row * t->columns + i] ? ST_OK : FAIL_NOMEM();
}

/* Adds a JSON value: a text, a number, or true and false as 1 and 0. */
static Status put_value(Tar *t, int64_t sample, int64_t row, int i, const json_t *v)
{
    char text[NUMBER_TEXT];

    if (json_is_string(v) && t->columns == 1 && json_string_length(v) <= LABEL_MOST)
        return put_label(t, row, i, json_string_value(v));
    if (json_is_real(v))
        text_float64(text, json_real_value(v));
    else if (json_is_integer(v))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_boolean(v))
        strcpy(text, json_is_true(v) ? "1" : "0");
    else
        return FAIL(E_IO, "%s.%s: field %s: expected a number, a text%s", t->index.sample[sample].name,
                    t->index.key[t->target], t->field,
                    t->columns > 1 ? ", or in a list numbers" : " or a list of numbers");
    return put_label(t, row, i, text);
}

/* The labels of a sample of JSON. */
static Status read_json(Tar *t, int64_t sample, int64_t row, const TarMember *m)
{
    const char *name = t->index.sample[sample].name, *key = t->index.key[t->target];
    json_error_t error;
    json_t *root = json_loadb((const char *)m->data, m->size, 0, &error);
    const json_t *v = root;
    Status st = ST_OK;
    int n;

    if (!root)
        return FAIL(E_IO, "%s.%s: no JSON: line %d: %s", name, key, error.line, error.text);
    for (const char *at = t->field; v && at; at = *(at += strcspn(at, ".")) ? at + 1 : NULL)
        v = json_object_getn(v, at, strcspn(at, "."));
    n = json_is_array(v) ? (int)json_array_size(v) : 1;
    if (!v)
        st = FAIL(E_IO, "%s.%s: there is no field %s", name, key, t->field);
    else if (t->columns && n != t->columns)
        st = FAIL(E_IO, "%s.%s: field %s has %d numbers, before it had %d", name, key, t->field, n, t->columns);
    else if (!n)
        st = FAIL(E_IO, "%s.%s: field %s is an empty list", name, key, t->field);
    t->columns = st || t->columns ? t->columns : n;
    for (int i = 0; i < n && !st; i++)
        st = put_value(t, sample, row, i, json_is_array(v) ? json_array_get(v, (size_t)i) : v);
    if (st && !row) { /* the first whole sample decides how many numbers there are */
        free(t->label);
        t->label = NULL;
        t->columns = 0;
    }
    json_decref(root);
    return st;
}

/* The label of a sample, in row `row`: a text without white space around it; of key cls a whole number. */
static Status read_label(Tar *t, int64_t sample, int64_t row)
{
    const TarMember *m = tar_member(&t->index, sample, t->target);
    const char *from = (const char *)m->data;
    char text[LABEL_MOST + 1];
    size_t n = m->size;

    if (t->field)
        return read_json(t, sample, row, m);
    while (n && strchr(" \t\r\n", from[n - 1]) && from[n - 1])
        n--;
    for (; n && strchr(" \t\r\n", *from) && *from; from++)
        n--;
    if (!n || n > LABEL_MOST || memchr(from, 0, n))
        return refuse_label(t, sample, "a label of 1 to 1000 bytes", from, n);
    memcpy(text, from, n);
    text[n] = '\0';
    if (!strcmp(t->index.key[t->target], "cls") && strspn(text + (*text == '-'), "0123456789") != n - (*text == '-'))
        return refuse_label(t, sample, "a whole number, as WebDataset has it; names of classes are called txt", text,
                            n);
    if (!utf8_valid(text))
        return refuse_label(t, sample, "UTF-8", "other bytes", 11);
    t->columns = 1;
    return put_label(t, row, 0, text);
}

/* ---- arrays ---- */

/* "SHARD/SAMPLE.KEY" */
static const char *label_of(char text[512], const Tar *t, int64_t sample, int key)
{
    snprintf(text, 512, "%s.%s", t->index.sample[sample].name, t->index.key[key]);
    return text;
}

/* Finds the .npy file of a sample's array. */
static Status find_npy(Mapped *out, const Tar *t, int64_t sample, const TarArray *a)
{
    const TarMember *m = tar_member(&t->index, sample, a->key);
    const Mapped whole = { m->data, m->size };
    char label[512];

    if (a->inner)
        return npz_member_find(out, &whole, a->inner, label_of(label, t, sample, a->key));
    *out = whole;
    return ST_OK;
}

/* Reads the header of a sample's array. */
static Status view_npy(Array *out, const Tar *t, int64_t sample, const TarArray *a)
{
    Mapped m;
    char label[512];
    bool fortran = false;

    label_of(label, t, sample, a->key);
    *out = (Array){ 0 };
    TRY(find_npy(&m, t, sample, a));
    TRY(npy_view(out, &fortran, m.data, m.size, label));
    if (fortran)
        return FAIL(E_IO, "%s: in Fortran order; save numpy.ascontiguousarray(x)", label);
    if (out->rank >= DPX_MAX_RANK)
        return FAIL(E_IO, "%s: an array of %d axes, a sample has at most %d", label, out->rank, DPX_MAX_RANK - 1);
    return ST_OK;
}

static Status refuse_array(const Tar *t, int64_t sample, const TarArray *a, const Array *found)
{
    char text[2][128];
    const Array *const arrays[] = { found, &a->like };

    for (int k = 0; k < 2; k++) {
        size_t n = (size_t)snprintf(text[k], sizeof text[k], "%s%s[", arrays[k]->swapped ? "big-endian " : "",
                                    dpx_dtype_name(arrays[k]->dtype));

        for (int i = 0; i < arrays[k]->rank && n < sizeof text[k]; i++)
            n +=
                (size_t)snprintf(text[k] + n, sizeof text[k] - n, "%s%lld", i ? "," : "", (long long)arrays[k]->dim[i]);
    }
    return FAIL(E_IO, "%s.%s: %s], and the first sample has %s]", t->index.sample[sample].name, t->index.key[a->key],
                text[0], text[1]);
}

/* Compares the type and shape of a sample's array with the first one's. */
static Status check_array(TarArray *a, const Tar *t, int64_t sample, bool first)
{
    Array found;

    TRY(view_npy(&found, t, sample, a));
    if (first)
        a->like = found;
    if (found.dtype != a->like.dtype || found.rank != a->like.rank || found.swapped != a->like.swapped ||
        memcmp(found.dim, a->like.dim, (size_t)found.rank * sizeof *found.dim) != 0)
        return refuse_array(t, sample, a, &found);
    return ST_OK;
}

static size_t sample_bytes(const Array *like)
{
    size_t n = dpx_dtype_size(like->dtype);

    for (int i = 0; i < like->rank; i++)
        n *= (size_t)like->dim[i];
    return n;
}

/* A SampleFetch: copies the elements of a row's member, whose header was checked. */
static Status fetch_npy(const Array *a, int64_t row, const SampleKey *key, void *out)
{
    const TarArray *own = a->maker;
    const size_t n = sample_bytes(&own->like);
    Mapped m;

    (void)key;
    TRY(find_npy(&m, own->tar, own->tar->row[row], own));
    if (n)
        memcpy(out, m.data + (m.size - n), n);
    return ST_OK;
}

/* Where list_arrays stands. */
typedef struct {
    Tar *tar;
    int key;
} ArrayKey;

/* A NpzName: adds an array of the key's members. */
static Status take_inner(void *user, const char *name)
{
    const ArrayKey *own = user;
    Tar *t = own->tar;
    char *inner = strdup(name);

    if (!inner)
        return FAIL_NOMEM();
    if (t->arrays == TAR_KEYS_MOST) {
        free(inner);
        return FAIL(E_INVALID, "%s: more than %d arrays", t->index.key[own->key], TAR_KEYS_MOST);
    }
    t->array[t->arrays++] = (TarArray){ .key = own->key, .inner = inner };
    return ST_OK;
}

/* Lists the arrays that there are, those of .npz members by the first one. */
static Status list_arrays(Tar *t)
{
    for (int i = 0; i < t->index.keys; i++) {
        ArrayKey own = { t, i };
        const TarMember *m = NULL;
        char label[512];

        if (is_npy(t->index.key[i]) && t->arrays < TAR_KEYS_MOST)
            t->array[t->arrays++].key = i;
        for (int64_t k = 0; k < t->index.samples && is_npz(t->index.key[i]) && !m; k++)
            if ((m = tar_member(&t->index, k, i)))
                TRY(npz_member_names(&(Mapped){ m->data, m->size }, label_of(label, t, k, i), take_inner, &own));
    }
    return ST_OK;
}

/* Adds an array of members; numbers and labels, one element for each sample, are read at once. */
static Status add_array(Dataset *d, const Tar *t, TarArray *own, const char *path)
{
    const char *key = t->index.key[own->key];
    const size_t n = sample_bytes(&own->like);
    Array a = { .dtype = own->like.dtype, .swapped = own->like.swapped, .fetch = fetch_npy, .maker = own };

    own->tar = t;
    a.rank = own->like.rank + 1;
    a.dim[0] = t->rows;
    memcpy(a.dim + 1, own->like.dim, (size_t)own->like.rank * sizeof *a.dim);
    a.identity = HASH_BEGIN;
    for (int64_t i = 0; i < t->rows; i++)
        a.identity = hash_int(hash_text(a.identity, t->index.sample[t->row[i]].name + t->index.root), (int64_t)n);
    if (n == dpx_dtype_size(a.dtype)) {
        if (!(a.memory = malloc((size_t)t->rows * n + 1)))
            return FAIL_NOMEM();
        for (int64_t i = 0; i < t->rows; i++) {
            const Status st = fetch_npy(&a, i, NULL, (char *)a.memory + (size_t)i * n);

            if (st) {
                free(a.memory);
                return st;
            }
        }
        a.data = a.memory;
        a.fetch = NULL;
        a.maker = NULL;
    }
    a.name = own->inner ? strdup(own->inner)
             : t->wanted && tar_same_key(t->wanted, key)
                 ? strdup("target")
                 : strndup(key, ends_with(key, ".npy") ? strlen(key) - 4 : strlen(key));
    if (!a.name) {
        free(a.memory);
        return FAIL_NOMEM();
    }
    return dataset_add(d, &a, path);
}

/* ---- samples ---- */

/* The only image of a sample. */
static const TarMember *image_of(const Tar *t, int64_t sample, int *images)
{
    const TarSample *s = &t->index.sample[sample];
    const TarMember *found = NULL;

    *images = 0;
    for (int i = 0; i < s->n; i++)
        if (t->is_image[t->index.member[s->first + i].key]) {
            found = &t->index.member[s->first + i];
            ++*images;
        }
    return found;
}

/* Checks that a sample has all members that are wanted, and reads its label. */
static Status check_sample(Tar *t, int64_t sample)
{
    const char *name = t->index.sample[sample].name;
    int images;

    image_of(t, sample, &images);
    if (t->has_images && images != 1)
        return FAIL(E_IO, "%s: %s", name, images ? "has several images; image=KEY says which" : "has no image");
    if (t->target >= 0 && !tar_member(&t->index, sample, t->target))
        return FAIL(E_IO, "%s: has no '%s'", name, t->index.key[t->target]);
    if (t->reads_masks && !tar_member(&t->index, sample, t->masks))
        return FAIL(E_IO, "%s: has no '%s'", name, t->index.key[t->masks]);
    for (int i = 0; i < t->arrays; i++) {
        if (!tar_member(&t->index, sample, t->array[i].key))
            return FAIL(E_IO, "%s: has no '%s'", name, t->index.key[t->array[i].key]);
        TRY(check_array(&t->array[i], t, sample, !t->rows));
    }
    return t->target >= 0 && !is_npy(t->index.key[t->target]) ? read_label(t, sample, t->rows) : ST_OK;
}

/* Checks all samples.  Broken ones end the run, or with --skip-broken are left out. */
static Status check_samples(Dataset *d, Tar *t, bool skip)
{
    const int64_t all = t->index.samples;
    PROBLEMS(broken);
    int64_t bad = 0;

    if (!(t->row = malloc((size_t)all * sizeof *t->row)) || !(t->arena = arena_create()))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < all; i++) {
        const Status st = check_sample(t, i);

        if (st && st != E_IO)
            return st;
        if (!st)
            t->row[t->rows++] = i;
        else if (bad++ < SHOWN && !skip)
            problems_add(&broken, "%s", status_message());
    }
    if (bad && skip && bad < all)
        return dataset_note(d, "%lld of %lld samples are broken and left out", (long long)bad, (long long)all);
    if (bad && skip)
        return FAIL(E_IO, "%s: all %lld samples are broken", d->source.text, (long long)all);
    return problems_fail(&broken, E_IO, "%s: %lld of %lld samples are broken; --skip-broken leaves them out",
                         d->source.text, (long long)bad, (long long)all);
}

/* Adds the mask of each image of a list. */
static Status list_masks(ImageList *l, const Tar *t)
{
    l->mask = calloc((size_t)l->n + 1, sizeof *l->mask);
    l->mask_member = calloc((size_t)l->n + 1, sizeof *l->mask_member);
    if (!l->mask || !l->mask_member)
        return FAIL_NOMEM();
    for (int64_t i = 0; i < l->n; i++) {
        const TarMember *m = tar_member(&t->index, t->row[i], t->masks);

        l->mask_member[i] = (ImageMember){ m->data, m->size, t->row[i] };
        if (asprintf(&l->mask[i], "%s.%s", t->index.sample[t->row[i]].name, t->index.key[t->masks]) < 0) {
            l->mask[i] = NULL;
            return FAIL_NOMEM();
        }
    }
    return ST_OK;
}

/* An ImageLister. */
static Status list_members(ImageList *out, const Source *s, const SourceContext *c, const char *const *known, int64_t n,
                           void *user)
{
    const Tar *t = user;
    ImageList l;
    Status st;

    (void)c;
    TRY(image_list_begin(&l, t->rows, source_value(s, "classes"), known, n));
    l.root = t->index.root;
    st = ST_OK;
    for (int64_t i = 0; i < t->rows && !st; i++) {
        const TarSample *sample = &t->index.sample[t->row[i]];
        int images;
        const TarMember *m = image_of(t, t->row[i], &images);

        l.member[i].sample = t->row[i];
        if (m) {
            l.member[i].data = m->data;
            l.member[i].size = m->size;
        }
        if (asprintf(&l.path[i], "%s%s%s", sample->name, m ? "." : "", m ? t->index.key[m->key] : "") < 0) {
            l.path[i] = NULL;
            st = FAIL_NOMEM();
        }
    }
    if (!st && t->reads_masks)
        st = list_masks(&l, t);
    if (!st && t->label)
        st = image_list_label(&l, t->label, t->columns, s->text);
    if (st)
        image_list_free(&l);
    else
        *out = l;
    return st;
}

/* Reads the images and labels, and keeps the rows that are left. */
static Status add_images(Dataset *d, Tar *t, const Source *s, const SourceContext *c)
{
    const ImageList *l = images_list(t->images);

    if (!t->has_images)
        return images_read_labels(t->images, d, s, c, list_members, t);
    TRY(images_read(t->images, d, s, c, list_members, t));
    t->rows = l->n;
    for (int64_t i = 0; i < l->n; i++)
        t->row[i] = l->member[i].sample;
    return ST_OK;
}

static Status read_tar(Dataset *d, const Source *s, const SourceContext *c)
{
    Tar *t = calloc(1, sizeof *t);

    if (!t)
        return FAIL_NOMEM();
    d->maker = t;
    d->free_maker = free_tar;
    TRY(images_create(&t->images));
    TRY(tar_index_open(&t->index, s->path));
    TRY(choose_masks(t, s, c));
    TRY(choose_images(t, s));
    TRY(list_arrays(t));
    if (t->arrays && !images_fit_input(c))
        t->has_images = false;
    t->reads_masks = t->masks >= 0 && (!c->predicts || source_value(s, "masks"));
    if (t->reads_masks && !t->has_images)
        return FAIL(E_INVALID, "%s: masks= is for images, and no sample has one that the model takes", s->text);
    TRY(choose_target(t, s, c));
    TRY(check_samples(d, t, c->skip_broken));
    if (t->index.open_end)
        TRY(dataset_note(d, "%s", t->index.open_end));
    TRY(add_images(d, t, s, c));
    for (int i = 0; i < t->arrays; i++)
        TRY(add_array(d, t, &t->array[i], s->path));
    return ST_OK;
}

static Status fit_tar(Dataset *d, const SourceContext *c, const int64_t *row, int64_t n)
{
    const Tar *t = d->maker;

    (void)c;
    return images_fit(t->images, row, n);
}

static const char *file_of(const Dataset *d, int64_t row)
{
    const Tar *t = d->maker;

    return images_file(t->images, row);
}

DEFINE_DATA_FORMAT(tar, .form = "tar:SHARDS",
                   .help = "tar archives of WebDataset: train-{000..146}.tar, a glob or a folder",
                   .prefix = "tar:", .suffix = ".tar", .sharded = true, .scaled = true, .augmented = true,
                   .laborious = true, .options = options, .read = read_tar, .fit = fit_tar, .file = file_of);
