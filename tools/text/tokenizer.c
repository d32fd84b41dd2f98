/* From a text to token ids, in the order of Hugging Face's tokenizers:
 *
 *     added tokens in the text | normalisation | added tokens in the normalised text | splits into words | BPE of words
 *
 * The library's post-processors add special tokens only where they are asked for, so they have no part here. */
#include "tools/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/mapped.h"

enum { IDS_AT_ONCE = 1 << 15, BYTES_AT_ONCE = 1 << 15 };
static const size_t FILE_MOST = 256u << 20;

/* A text that is being encoded. */
typedef struct {
    Tokenizer *t;
    TokenIds ids;
    TokenSink *take;
    void *user;
    size_t done; /* bytes of the text that were split */
} Encoding;

Status token_ids_take(void *user, const uint32_t *id, size_t n, size_t done)
{
    (void)done;
    for (size_t i = 0; i < n; i++)
        TRY(token_ids_add(user, id[i]));
    return ST_OK;
}

Status tokenizer_open(Tokenizer **out, const char *source)
{
    Tokenizer *t = calloc(1, sizeof *t);
    Mapped map = { 0 };
    Status st = ST_OK;

    if (!t)
        return FAIL_NOMEM();
    t->vocabulary = 256;
    t->padding = TOKEN_NONE;
    if (strcmp(source, "bytes")) {
        st = mapped_open(&map, source);
        if (!st && map.size > FILE_MOST)
            st = FAIL(E_UNSUPPORTED, "%s: %zu bytes, a tokenizer.json of at most %zu is read", source, map.size,
                      FILE_MOST);
        st = st ? st : tokenizer_parse(t, (const char *)map.data, map.size, source);
        mapped_close(&map);
    }
    if (st)
        tokenizer_free(t);
    else
        *out = t;
    return st;
}

void tokenizer_free(Tokenizer *t)
{
    if (!t)
        return;
    bpe_free(t->bpe);
    for (size_t i = 0; i < t->n_added; i++)
        free(t->added[i].text);
    free(t->added);
    free(t->spelling);
    free(t->spelled.text);
    for (int i = 0; i < t->n_step; i++)
        split_pattern_free(t->step[i].pattern);
    for (int i = 0; i < SPLITS_MOST; i++)
        free(t->prefixed[i].text);
    free(t->repaired.text);
    free(t->composed.text);
    free(t);
}

const char *tokenizer_bytes(size_t *n, const Tokenizer *t, uint32_t id)
{
    static char byte[256];

    if (!t->bpe && id < 256) {
        byte[id] = (char)id; /* by any thread the same */
        *n = 1;
        return &byte[id];
    }
    for (size_t i = 0; i < t->n_added; i++)
        if (t->added[i].id == id) {
            *n = t->added[i].n;
            return t->added[i].text;
        }
    *n = id < t->n_spelling ? t->spelling[id].n : 0;
    return *n ? t->spelled.text + t->spelling[id].at : NULL;
}

uint32_t tokenizer_added(const Tokenizer *t, const char *text)
{
    for (size_t i = 0; i < t->n_added; i++)
        if (t->added[i].n == strlen(text) && !memcmp(t->added[i].text, text, t->added[i].n))
            return t->added[i].id;
    return TOKEN_NONE;
}

static Status give(Encoding *e)
{
    const size_t n = e->ids.n;

    e->ids.n = 0;
    return n ? e->take(e->user, e->ids.id, n, e->done) : ST_OK;
}

/* ---- words ---- */

/* Splits a piece by the steps from `k` on, and encodes the words. */
static Status encode_piece(Encoding *e, int k, const char *text, size_t n)
{
    const SplitStep *s = &e->t->step[k];
    TextBuffer *prefixed = &e->t->prefixed[k];

    if (!n)
        return ST_OK;
    if (k == e->t->n_step) {
        TRY(bpe_encode(e->t->bpe, (const uint8_t *)text, n, &e->ids));
        e->done += n;
        return e->ids.n >= IDS_AT_ONCE ? give(e) : ST_OK;
    }
    if (s->prefix_space && *text != ' ') {
        prefixed->n = 0;
        TRY(text_add(prefixed, " ", 1));
        TRY(text_add(prefixed, text, n));
        text = prefixed->text;
        n = prefixed->n;
    }
    if (!s->pattern)
        return encode_piece(e, k + 1, text, n);
    for (size_t at = 0, start, end; at < n; at = end) {
        TRY(split_pattern_next(s->pattern, text, n, at, &start, &end));
        if (!s->drops_rest)
            TRY(encode_piece(e, k + 1, text + at, start - at));
        if (!s->drops_matches)
            TRY(encode_piece(e, k + 1, text + start, end - start));
    }
    return ST_OK;
}

/* ---- added tokens ---- */

/* The longest added token at the beginning of a text; NULL: none. */
static const AddedToken *token_at(const Tokenizer *t, const char *text, size_t n, bool normalized)
{
    const AddedToken *found = NULL;
    size_t from = 0, to = t->n_added; /* those that begin with text[0, len) */

    for (size_t len = 0; from < to; len++) {
        size_t a = from, b = to;

        for (; from < to && t->added[from].n == len; from++) /* the shortest come first */
            if (len && t->added[from].normalized == normalized)
                found = &t->added[from];
        if (len == n)
            break;
        for (a = from, b = to; a < b;) { /* the first whose byte is not less */
            const size_t mid = a + (b - a) / 2;

            if ((unsigned char)t->added[mid].text[len] < (unsigned char)text[len])
                a = mid + 1;
            else
                b = mid;
        }
        for (from = a, b = to; a < b;) { /* the first whose byte is greater */
            const size_t mid = a + (b - a) / 2;

            if ((unsigned char)t->added[mid].text[len] <= (unsigned char)text[len])
                a = mid + 1;
            else
                b = mid;
        }
        to = a;
    }
    return found;
}

/* The place where the white space that ends text[0, n) begins. */
static size_t space_before(const char *text, size_t n)
{
    for (size_t at = n; at; n = at) {
        uint32_t c;

        for (at--; at && ((unsigned char)text[at] & 0xC0) == 0x80;)
            at--;
        c = (unsigned char)text[at] < 0x80 ? (unsigned char)text[at] : n - at > 3 ? 0 : utf8_code(text + at);
        if (!is_white_space(c))
            return n;
    }
    return n;
}

/* The bytes of white space at the beginning of a text. */
static size_t space_behind(const char *text, size_t n)
{
    size_t at = 0;

    for (bool valid; at < n;) {
        const size_t len = utf8_step((const uint8_t *)text + at, n - at, &valid);

        if (!is_white_space(len == 1 ? (unsigned char)text[at] : len > 3 ? 0 : utf8_code(text + at)))
            break;
        at += len;
    }
    return at;
}

static Status encode_text(Encoding *e, const char *text, size_t n, bool normalized);

/* What is between added tokens. */
static Status encode_between(Encoding *e, const char *text, size_t n, bool normalized)
{
    if (!n)
        return ST_OK;
    if (normalized)
        return encode_piece(e, 0, text, n);
    if (e->t->composes)
        TRY(text_compose(&text, &e->t->composed, text, &n));
    return encode_text(e, text, n, true);
}

/* Finds the added tokens of a valid text: the first one, the longest of those that begin there, and so on behind it. */
static Status encode_text(Encoding *e, const char *text, size_t n, bool normalized)
{
    const Tokenizer *t = e->t;
    const uint8_t kind = normalized ? 2 : 1;
    size_t done = 0;

    for (size_t at = 0; at < n;) {
        const bool begins = t->begins[(unsigned char)text[at]] & kind;
        const AddedToken *token = begins ? token_at(t, text + at, n - at, normalized) : NULL;
        size_t start = at;

        at += token ? token->n : 1;
        if (!token)
            continue;
        if (token->lstrip && (start = space_before(text, start)) < done)
            start = done;
        if (done < start)
            TRY(encode_between(e, text + done, start - done, normalized));
        TRY(token_ids_add(&e->ids, token->id));
        e->done += token->n;
        done = at + (token->rstrip ? space_behind(text + at, n - at) : 0);
    }
    return done < n ? encode_between(e, text + done, n - done, normalized) : ST_OK;
}

/* Each byte is an id. */
static Status encode_bytes(Encoding *e, const uint8_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        TRY(token_ids_add(&e->ids, text[i]));
        e->done++;
        if (e->ids.n == BYTES_AT_ONCE)
            TRY(give(e));
    }
    return ST_OK;
}

Status tokenizer_encode(Tokenizer *t, const uint8_t *text, size_t n, TokenSink *take, void *user, size_t *replaced,
                        size_t *first)
{
    Encoding e = { .t = t, .take = take, .user = user };
    const char *valid = NULL;
    Status st;

    *replaced = *first = 0;
    if (!t->bpe) {
        st = encode_bytes(&e, text, n);
    } else if (!(st = utf8_repair(&valid, &t->repaired, text, &n, replaced, first))) {
        st = encode_text(&e, valid, n, false);
    }
    st = st ? st : give(&e);
    free(e.ids.id);
    return st;
}
