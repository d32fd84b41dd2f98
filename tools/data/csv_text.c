/* Texts of a table: tokenised into a temporary file, cut, and padded by the loader as other sequences.
 *
 * Texts are collected up to some megabytes.  Then each thread encodes its share of them, neighbouring ones, with a
 * tokenizer of its own, and the ids are written in the order of the texts. */
#include "tools/data/csv_text.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "graph/base/heap_array.h"

enum {
    BLOCK_MOST = 1 << 24,
    WAITING_BYTES = 4 << 20,
    WAITING_TEXTS = 1 << 16,
    SMALL_IDS = 16 << 20 /* that may stay in memory */,
    REASON_TEXT = 512
};

/* What a thread encodes: texts [from, to) of those that wait. */
struct TextPart {
    TextColumn *x;
    Tokenizer *t;
    size_t from, to;
    TokenIds ids;
    Status st;
    char why[REASON_TEXT];
};

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

Status csv_text_open(TextColumn *out, const Source *s, const json_t *fitted, int threads)
{
    const char *given = source_value(s, "tokenizer"), *kept = json_string_value(json_object_get(fitted, "tokenizer"));
    const char *path = given ? given : kept ? kept : "bytes";
    TextColumn x = { .column = source_value(s, "text"), .threads = threads < TEXT_THREADS ? threads : TEXT_THREADS };
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
    st = st ? st : temporary_open(&x.file, 0, s->path);
    st = st || (x.part = calloc((size_t)threads, sizeof *x.part)) ? st : FAIL_NOMEM();
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
    for (int i = 0; i < x->threads && x->part; i++) {
        tokenizer_free(i ? x->part[i].t : NULL);
        free(x->part[i].ids.id);
    }
    free(x->part);
    tokenizer_free(x->t);
    free(x->tokenizer);
    free(x->texts.text);
    free(x->waiting);
    if (x->file)
        fclose(x->file);
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

/* Encodes the texts of a part; a thread. */
static void *encode_part(void *arg)
{
    TextPart *p = arg;
    TextColumn *x = p->x;
    size_t replaced, first;

    p->ids.n = 0;
    p->st = ST_OK;
    for (size_t i = p->from; i < p->to && !p->st; i++) {
        const WaitingText *w = &x->waiting[i];
        const size_t from = p->ids.n;

        p->st = status_prefix(tokenizer_encode(p->t, (const uint8_t *)x->texts.text + w->at, w->n, token_ids_take,
                                               &p->ids, &replaced, &first),
                              "line %" PRId64 ", column '%.60s'", w->line, x->column);
        x->row[x->n + i] = (Rows){ (int64_t)from, (int64_t)(p->ids.n - from) }; /* `from` in the part, for now */
    }
    if (p->st)
        snprintf(p->why, sizeof p->why, "%s", status_message());
    return NULL;
}

/* Writes the ids of a part behind those before it. */
static Status write_part(TextColumn *x, const TextPart *p)
{
    if (p->st)
        return FAIL(p->st, "%s", p->why);
    for (size_t i = p->from; i < p->to; i++)
        x->row[x->n + i].from += x->ids;
    for (size_t i = 0; i < p->ids.n; i++)
        x->most = p->ids.id[i] > x->most ? p->ids.id[i] : x->most;
    x->ids += (int64_t)p->ids.n;
    return fwrite(p->ids.id, sizeof *p->ids.id, p->ids.n, x->file) == p->ids.n
               ? ST_OK
               : FAIL(E_IO, "column '%.60s': cannot write its token ids to a temporary file: %s", x->column,
                      strerror(errno));
}

/* Encodes all texts that wait. */
static Status encode_waiting(TextColumn *x)
{
    const size_t n = x->n_waiting, few = 1 + n / 16; /* a thread for fewer texts is not worth it */
    const int threads = few < (size_t)x->threads ? (int)few : x->threads;
    Rows *grown = heap_reserve(x->row, sizeof *grown, x->n + n + 1, &x->room);
    pthread_t thread[TEXT_THREADS];
    bool runs[TEXT_THREADS] = { false };
    Status st = grown ? ST_OK : FAIL_NOMEM();

    x->row = grown ? grown : x->row;
    for (int i = 0; i < threads && !st; i++) {
        TextPart *p = &x->part[i];

        p->x = x;
        share_range((Share){ i, threads }, (int64_t)n, (int64_t *)&p->from, (int64_t *)&p->to);
        if (!i)
            p->t = x->t;
        else if (!p->t)
            st = tokenizer_open(&p->t, x->tokenizer);
    }
    for (int i = threads - 1; i >= 0 && !st; i--)
        if (!i || !(runs[i] = !pthread_create(&thread[i], NULL, encode_part, &x->part[i])))
            encode_part(&x->part[i]);
    for (int i = 0; i < threads; i++)
        if (runs[i])
            pthread_join(thread[i], NULL);
    for (int i = 0; i < threads && !st; i++)
        st = write_part(x, &x->part[i]);
    x->n += st ? 0 : n;
    x->n_waiting = x->texts.n = 0;
    return st;
}

Status csv_text_take(void *user, const char *text, int64_t line)
{
    TextColumn *x = user;
    const size_t n = strlen(text);
    WaitingText *grown = heap_reserve(x->waiting, sizeof *grown, x->n_waiting + 1, &x->waiting_room);

    if (!grown)
        return FAIL_NOMEM();
    x->waiting = grown;
    if (!x->t)
        return FAIL(E_IO, "the run's table: a column of texts without a tokenizer");
    x->waiting[x->n_waiting++] = (WaitingText){ x->texts.n, n, line };
    TRY(text_add(&x->texts, text, n + 1));
    return x->texts.n >= WAITING_BYTES || x->n_waiting == WAITING_TEXTS ? encode_waiting(x) : ST_OK;
}

/* Checks that the model's embedding has a row for each id that is fed. */
static Status check_ids(const TextColumn *x, const uint32_t *ids, const Table *t, const dpx_info *in)
{
    if (in->rows && x->padding >= in->rows)
        return FAIL(E_INVALID,
                    "%s: the id that pads is %" PRId64 ", and input '%s' takes ids below %" PRId64
                    ": padding=ID gives another",
                    t->path, x->padding, in->name, in->rows);
    for (size_t i = 0; in->rows && x->most >= in->rows && i < x->n; i++)
        for (int64_t k = 0; k < x->row[i].n; k++)
            if (ids[x->row[i].from + k] >= (uint64_t)in->rows)
                return FAIL(E_INVALID,
                            "%s, line %" PRId64 ", column '%.60s': token %" PRId64 " has id %u, but the model's input "
                            "'%s' takes ids below %" PRId64 ", the rows of its embedding: use the tokenizer that the "
                            "model was made for",
                            t->path, table_line(t, (int64_t)i), x->column, k, ids[x->row[i].from + k], in->name,
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
    Array a = { .dtype = DPX_INT32, .rank = 2, .pad_to = x->block, .padding = (double)x->padding };
    int64_t longest, kept, n;
    Status st;

    TRY(status_prefix(encode_waiting(x), "%s", t->path));
    n = cut(x, samples, block, &longest, &kept);
    if (!kept)
        return FAIL(E_IO, "%s: column '%.60s' has no text", t->path, x->column);
    if (x->ids > SMALL_IDS && (a.file = dup(fileno(x->file))) < 0)
        return FAIL(E_IO, "%s: cannot keep its token ids: %s", t->path, strerror(errno));
    st = map_stream(&a.map, x->file, t->path);
    x->file = NULL;
    if (in && !st)
        st = check_ids(x, (const uint32_t *)(const void *)a.map.data, t, in);
    if (!st && n)
        st = dataset_note(d, "%" PRId64 " of %" PRId64 " texts are cut to %" PRId64 " tokens, the longest has %" PRId64,
                          n, samples, block, longest);
    if (!st && !(a.name = strdup(x->array)))
        st = FAIL_NOMEM();
    if (st) {
        mapped_close(&a.map);
        if (a.file)
            close(a.file);
        return st;
    }
    a.data = a.map.data;
    a.rows = x->ids;
    a.row = x->row;
    a.dim[0] = t->rows;
    a.dim[1] = kept;
    x->row = NULL;
    return dataset_add(d, &a, t->path);
}
