/* Windows of token ids, cut from a mapped file when a batch needs them. */
#include "tools/data/token_windows.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/hash.h"
#include "tools/text/decode.h"

enum { BLOCK_MOST = 1 << 24 };

/* What the two arrays share.  `maker` of an array points to its own of the two. */
typedef struct {
    Tokenizer *tokenizer; /* of the first, once a window was described; NULL: not yet */
    const unsigned char *id;
    int64_t n, block; /* ids, ids of a window */
    int64_t starts;   /* places where a window of training may begin */
    int bytes, out;   /* of an id in the file, of one in a sample */
    int shift;        /* 0: inputs, 1: the next ids */
} TokenWindows;

/* Little-endian, as the file has them; ids of the wider types fit 31 bits (check_ids). */
static int64_t id_at(const unsigned char *p, int bytes)
{
    uint64_t v = 0;

    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return (int64_t)v;
}

static Status fetch_window(const Array *a, int64_t row, const SampleKey *key, void *out)
{
    const TokenWindows *w = a->maker;
    const int64_t start =
        key->training ? (int64_t)(hash_draw(key->seed, key->epoch, row) % (uint64_t)w->starts) : row * w->block;
    const unsigned char *from = w->id + (start + w->shift) * w->bytes;

    if (w->bytes == 1) {
        memcpy(out, from, (size_t)w->block);
        return ST_OK;
    }
    for (int64_t i = 0; i < w->block; i++) {
        const int64_t id = id_at(from + i * w->bytes, w->bytes);

        if (w->out == 2)
            ((uint16_t *)out)[i] = (uint16_t)id;
        else
            ((int32_t *)out)[i] = (int32_t)id;
    }
    return ST_OK;
}

Status token_windows_describe(Dataset *d, int64_t row, size_t bytes, SampleFact *take, void *user)
{
    TokenWindows *w = d->maker;
    const size_t n = (size_t)w->block < bytes ? (size_t)w->block : bytes;
    const char *tokenizer = source_value(&d->source, "tokenizer");
    uint32_t *id;
    TextBuffer text = { 0 };
    Status st = ST_OK;

    if (!w->tokenizer)
        TRY(tokenizer_open(&w->tokenizer, tokenizer ? tokenizer : "bytes"));
    if (!(id = malloc(n * sizeof *id)))
        return FAIL_NOMEM();
    for (size_t i = 0; i < n; i++)
        id[i] = (uint32_t)id_at(w->id + (row * w->block + (int64_t)i) * w->bytes, w->bytes);
    st = decode_tokens(&text, w->tokenizer, id, n);
    st = st ? st : text_add(&text, "", 1);
    st = st ? st : take(user, "text", text.text);
    free(text.text);
    free(id);
    return st;
}

static void free_windows(void *maker)
{
    TokenWindows *w = maker;

    tokenizer_free(w->tokenizer);
    free(w);
}

Status token_windows_npy(Array *out, const char *path)
{
    static const dpx_dtype known[] = { DPX_UINT8, DPX_UINT16, DPX_INT32, DPX_UINT32, DPX_INT64, DPX_UINT64 };

    TRY(mapped_open(&out->map, path));
    TRY(npy_parse(out, path));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (out->dtype == known[i] && out->rank == 1 && !out->swapped)
            return ST_OK;
    mapped_close(&out->map);
    return FAIL(E_IO, "%s: expected one axis of token ids: uint8, uint16, uint32, int32 or int64, little-endian", path);
}

/* The model's input of ids, which has two axes; NULL: there is none, or no model. */
static const dpx_info *id_input(const SourceContext *c)
{
    for (int i = 0; i < c->inputs; i++)
        if (c->input[i].rank == 2)
            return &c->input[i];
    return NULL;
}

/* The largest of n ids, as unsigned numbers: negative ones are larger than all others.  One loop for each width lets
 * the compiler read many at once. */
static uint64_t largest_id(const unsigned char *id, int64_t n, int bytes)
{
    uint64_t most = 0;
    uint16_t most16 = 0;
    uint32_t most32 = 0;

    switch (bytes) {
    case 2:
        for (int64_t i = 0; i < n; i++) {
            uint16_t v;

            memcpy(&v, id + 2 * i, sizeof v);
            v = le16toh(v);
            most16 = v > most16 ? v : most16;
        }
        return most16;
    case 4:
        for (int64_t i = 0; i < n; i++) {
            uint32_t v;

            memcpy(&v, id + 4 * i, sizeof v);
            v = le32toh(v);
            most32 = v > most32 ? v : most32;
        }
        return most32;
    default:
        for (int64_t i = 0; i < n; i++) {
            const uint64_t v = (uint64_t)id_at(id + i * bytes, bytes);

            most = v > most ? v : most;
        }
        return most;
    }
}

/* Checks that samples and the model's table have each id. */
static Status check_ids(const TokenWindows *w, const char *path, const dpx_info *in)
{
    const int64_t rows = in ? in->rows : 0;
    const int64_t most = rows && rows < INT32_MAX ? rows - 1 : INT32_MAX;
    const bool all_fit =
        (w->bytes < 4 && 1 << 8 * w->bytes <= most + 1) || largest_id(w->id, w->n, w->bytes) <= (uint64_t)most;

    for (int64_t i = 0; !all_fit && i < w->n; i++) {
        const int64_t id = id_at(w->id + i * w->bytes, w->bytes);

        if (id >= 0 && id <= most)
            continue;
        if (id < 0 || id > INT32_MAX)
            return FAIL(E_IO, "%s: token %lld is %lld, expected ids from 0 to %d", path, (long long)i, (long long)id,
                        INT32_MAX);
        return FAIL(E_INVALID,
                    "%s: token %lld has id %lld, but the model's input '%s' takes ids below %lld, the rows of its "
                    "embedding: use the tokenizer that the model was made for, or a model with more rows",
                    path, (long long)i, (long long)id, in->name, (long long)rows);
    }
    return ST_OK;
}

/* Finds T and the number of windows. */
static Status measure(TokenWindows *w, const Source *s, const SourceContext *c)
{
    const dpx_info *in = id_input(c);

    TRY(source_int(&w->block, s, "block", in && in->dim[1] > 0 ? in->dim[1] : c->block, 1, BLOCK_MOST));
    if (!w->block)
        return FAIL(E_INVALID, "%s: block=T is missing: the model's input fixes no number of tokens", s->text);
    if (c->block && w->block > c->block)
        return FAIL(E_INVALID, "%s: block=%lld: the model reads at most %lld tokens", s->text, (long long)w->block,
                    (long long)c->block);
    if (w->n <= w->block)
        return FAIL(E_IO, "%s: %lld tokens, expected more than block=%lld", s->path, (long long)w->n,
                    (long long)w->block);
    w->starts = w->n - w->block;
    return check_ids(w, s->path, in);
}

Status token_windows_add(Dataset *d, Array *file, uint64_t identity, const Source *s, const SourceContext *c)
{
    static const char *const names[] = { "", "target" };
    const int bytes = (int)dpx_dtype_size(file->dtype), out = bytes < 4 ? bytes : 4;
    TokenWindows *w = calloc(2, sizeof *w);
    Status st;

    if (!w) {
        mapped_close(&file->map);
        return FAIL_NOMEM();
    }
    d->maker = w;
    d->free_maker = free_windows;
    w[0] = (TokenWindows){ .id = file->data, .n = file->dim[0], .bytes = bytes, .out = out };
    st = measure(&w[0], s, c);
    w[1] = w[0];
    w[1].shift = 1;
    d->follows = true;
    if (st)
        mapped_close(&file->map);
    for (int i = 0; i < 2 && !st; i++) {
        Array a = { .dtype = out == 1   ? DPX_UINT8
                             : out == 2 ? DPX_UINT16
                                        : DPX_INT32,
                    .rank = 2,
                    .dim = { (w->n - 1) / w->block, w->block },
                    .fetch = fetch_window,
                    .maker = &w[i] };

        a.identity = hash_int(hash_int(hash_int(identity, w->n), w->block), i);
        if (!i)
            a.map = file->map;
        if (!(a.name = strdup(names[i]))) {
            mapped_close(&a.map);
            return FAIL_NOMEM();
        }
        st = dataset_add(d, &a, s->path);
    }
    return st;
}

Status token_windows_fit(Dataset *d, const SourceContext *c, const int64_t *row, int64_t n)
{
    TokenWindows *w = d->maker;
    int64_t rows = 0;

    (void)c;
    for (int64_t i = 0; i < n && row; i++)
        rows = row[i] >= rows ? row[i] + 1 : rows;
    rows = row ? rows : n;
    for (int i = 0; i < 2; i++)
        if (rows < (w[i].n - 1) / w[i].block) /* the last target is the last id of these rows */
            w[i].starts = (rows - 1) * w[i].block + 1;
    return ST_OK;
}
