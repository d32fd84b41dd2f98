/* Texts of a table: tokenised in memory, cut, and padded by the loader as other sequences. */
#include "tools/data/csv_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "graph/base/heap_array.h"

enum { BLOCK_MOST = 1 << 24 };

/* The digest of a tokenizer's file; of "bytes" 0. */
static Status digest_tokenizer(uint64_t *out, const char *tokenizer)
{
    Mapped json;

    *out = 0;
    if (!strcmp(tokenizer, "bytes"))
        return ST_OK;
    TRY(mapped_open(&json, tokenizer));
    *out = XXH3_64bits(json.data, json.size);
    mapped_close(&json);
    return ST_OK;
}

/* The id that pads, if nobody says: the file's own, or its token for that; else 0. */
static int64_t padding_of(const Tokenizer *t)
{
    static const char *const tokens[] = { "<pad>", "[PAD]", "<|pad|>", "<|padding|>" };

    for (size_t i = 0; t->padding == TOKEN_NONE && i < sizeof tokens / sizeof *tokens; i++)
        if (tokenizer_added(t, tokens[i]) != TOKEN_NONE)
            return tokenizer_added(t, tokens[i]);
    return t->padding == TOKEN_NONE ? 0 : t->padding;
}

/* Compares the tokenizer with that of training. */
static Status check_fitted(const TextColumn *x, const Source *s, const json_t *fitted)
{
    const char *digest = json_string_value(json_object_get(fitted, "digest"));
    char own[32];

    snprintf(own, sizeof own, "%016" PRIx64, x->digest);
    return !fitted || (digest && !strcmp(digest, own))
               ? ST_OK
               : FAIL(E_INVALID,
                      "%s: %s is not the tokenizer of the training run: tokenizer=FILE.json says where that is",
                      s->text, x->tokenizer);
}

Status csv_text_open(TextColumn *out, const Source *s, const json_t *fitted)
{
    const char *given = source_value(s, "tokenizer"), *kept = json_string_value(json_object_get(fitted, "tokenizer"));
    const char *path = given ? given : kept ? kept : "bytes";
    TextColumn x = { .column = source_value(s, "text") };
    Status st;

    if (!x.column && !fitted)
        return given || source_value(s, "block") || source_value(s, "padding")
                   ? FAIL(E_INVALID, "%s: tokenizer=, block= and padding= are for a column of texts: text=COL", s->text)
                   : ST_OK;
    if (fitted) {
        const char *column = json_string_value(json_object_get(fitted, "column"));

        if (!column || (x.column && strcmp(x.column, column)))
            return FAIL(E_INVALID, "%s: text=%s: training took the texts of column '%.60s'", s->text,
                        x.column ? x.column : "", column ? column : "");
        x.column = column;
    }
    st = (x.tokenizer = strdup(path)) ? digest_tokenizer(&x.digest, path) : FAIL_NOMEM();
    if (st == E_IO && !given && kept)
        st = status_prefix(st, "%s: the tokenizer of the training run is missing: tokenizer=FILE.json says where it is",
                           s->text);
    st = st ? st : check_fitted(&x, s, fitted);
    st = st ? st : tokenizer_open(&x.t, path);
    st =
        st ? st : source_int(&x.block, s, "block", json_integer_value(json_object_get(fitted, "block")), 1, BLOCK_MOST);
    if (!st)
        st = source_int(&x.padding, s, "padding",
                        fitted ? json_integer_value(json_object_get(fitted, "padding")) : padding_of(x.t), 0,
                        TOKEN_ID_MOST);
    if (st) {
        csv_text_close(&x);
        return st;
    }
    *out = x;
    return ST_OK;
}

void csv_text_close(TextColumn *x)
{
    tokenizer_free(x->t);
    free(x->tokenizer);
    free(x->ids.id);
    free(x->row);
    *x = (TextColumn){ 0 };
}

json_t *csv_text_fitted(const TextColumn *x)
{
    char digest[32];

    snprintf(digest, sizeof digest, "%016" PRIx64, x->digest);
    return json_pack("{s:s, s:s, s:s, s:I, s:I}", "column", x->column, "tokenizer", x->tokenizer, "digest", digest,
                     "block", (json_int_t)x->block, "padding", (json_int_t)x->padding);
}

Status csv_text_take(void *user, const char *text, int64_t line)
{
    TextColumn *x = user;
    const size_t from = x->ids.n;
    Rows *grown = heap_reserve(x->row, sizeof *grown, x->n + 1, &x->room);
    size_t replaced, first;

    if (!grown)
        return FAIL_NOMEM();
    x->row = grown;
    if (!x->t)
        return FAIL(E_IO, "the run's table: a column of texts without a tokenizer");
    TRY(status_prefix(
        tokenizer_encode(x->t, (const uint8_t *)text, strlen(text), token_ids_take, &x->ids, &replaced, &first),
        "line %" PRId64 ", column '%.60s'", line, x->column));
    x->row[x->n++] = (Rows){ (int64_t)from, (int64_t)(x->ids.n - from) };
    return ST_OK;
}

/* Checks that the model's embedding has a row for each id that is fed. */
static Status check_ids(const TextColumn *x, const Table *t, const dpx_info *in)
{
    if (in->rows && x->padding >= in->rows)
        return FAIL(E_INVALID,
                    "%s: the id that pads is %" PRId64 ", and input '%s' takes ids below %" PRId64
                    ": padding=ID gives another",
                    t->path, x->padding, in->name, in->rows);
    for (size_t i = 0; in->rows && i < x->n; i++)
        for (int64_t k = 0; k < x->row[i].n; k++)
            if (x->ids.id[x->row[i].from + k] >= (uint64_t)in->rows)
                return FAIL(E_INVALID,
                            "%s, line %" PRId64 ", column '%.60s': token %" PRId64 " has id %u, but the model's input "
                            "'%s' takes ids below %" PRId64 ", the rows of its embedding: use the tokenizer that the "
                            "model was made for",
                            t->path, table_line(t, (int64_t)i), x->column, k, x->ids.id[x->row[i].from + k], in->name,
                            in->rows);
    return ST_OK;
}

/* Cuts all texts to `block` ids (0: not at all).  Returns how many of the first `samples` were longer; *longest: the
 * ids of the longest of these before, *kept: those of the longest of all after. */
static int64_t cut(TextColumn *x, int64_t samples, int64_t block, int64_t *longest, int64_t *kept)
{
    int64_t n = 0;

    *longest = *kept = 0;
    for (size_t i = 0; i < x->n; i++) {
        const int64_t length = x->row[i].n, left = block && length > block ? block : length;

        x->row[i].n = left;
        *kept = left > *kept ? left : *kept;
        if ((int64_t)i >= samples)
            continue;
        *longest = length > *longest ? length : *longest;
        n += left < length;
    }
    return n;
}

Status csv_text_add(Dataset *d, TextColumn *x, const Table *t, const dpx_info *in)
{
    const int64_t samples = d->limit < t->rows ? d->limit : t->rows;
    const int64_t fixed = in && in->rank == 2 && in->dim[1] > 0 ? in->dim[1] : 0, block = x->block ? x->block : fixed;
    int64_t longest, kept, n = cut(x, samples, block, &longest, &kept);
    Array a = { .dtype = DPX_INT32, .rank = 2, .pad_to = x->block, .padding = (double)x->padding };

    if (!kept)
        return FAIL(E_IO, "%s: column '%.60s' has no text", t->path, x->column);
    if (in)
        TRY(check_ids(x, t, in));
    if (n)
        TRY(dataset_note(d, "%" PRId64 " of %" PRId64 " texts are cut to %" PRId64 " tokens, the longest has %" PRId64,
                         n, samples, block, longest));
    if (!(a.name = strdup(x->array)))
        return FAIL_NOMEM();
    a.data = a.memory = x->ids.id;
    a.rows = (int64_t)x->ids.n;
    a.row = x->row;
    a.dim[0] = t->rows;
    a.dim[1] = kept;
    x->ids = (TokenIds){ 0 };
    x->row = NULL;
    return dataset_add(d, &a, t->path);
}
