/* From a text to token ids, in the order of Hugging Face's tokenizers:
 *
 *     added tokens in the text | normalisation | added tokens in the normalised text | splits into words | BPE or
 * Unigram of words
 *
 * The library's post-processors add special tokens only where they are asked for, so they have no part here. */
#include "tools/text/tokenizer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/mapped.h"

enum { IDS_AT_ONCE = 1 << 15, BYTES_AT_ONCE = 1 << 15 };
enum { SHORTEST = 1 << 16, LONGEST = 1 << 20 /* bytes of a stretch */, MOST_PLACES = 256, MOST_THREADS = 64 };
static const size_t FILE_MOST = 256u << 20;

/* A text that is being encoded. */
typedef struct {
    Tokenizer *t;
    TokenIds ids;
    TokenSink *take;
    void *user;
    size_t done;       /* bytes of the text that were split */
    const char *begin; /* of the whole text */
    const char *first; /* piece that begins the text; NULL: another one does */
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
    t->vocabulary = sizeof t->byte;
    for (size_t i = 0; i < sizeof t->byte; i++)
        t->byte[i] = (char)i;
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

static bool is_bytes(const Tokenizer *t) { return !t->bpe && !t->unigram && !t->spm; }

void tokenizer_free(Tokenizer *t)
{
    if (!t)
        return;
    bpe_free(t->bpe);
    unigram_free(t->unigram);
    sentencepiece_free(t->spm);
    normalizer_free(&t->normalizer);
    for (size_t i = 0; i < t->n_added; i++)
        free(t->added[i].text);
    free(t->added);
    free(t->spelling);
    free(t->spelled.text);
    for (int i = 0; i < t->n_step; i++)
        split_pattern_free(t->step[i].pattern);
    for (int i = 0; i < SPLITS_MOST; i++)
        free(t->prefixed[i].text);
    for (int i = 0; i < t->threads - 1; i++)
        tokenizer_free(t->further[i]);
    free(t->further);
    free(t->source);
    free(t->repaired.text);
    free(t);
}

Status tokenizer_use_threads(Tokenizer *t, const char *source, int threads)
{
    threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    if (threads < 2 || is_bytes(t) || t->spm)
        return ST_OK;
    t->source = strdup(source);
    t->further = calloc((size_t)threads, sizeof(Tokenizer *));
    if (!t->source || !t->further)
        return FAIL_NOMEM();
    t->threads = threads;
    return ST_OK;
}

const char *tokenizer_bytes(size_t *n, const Tokenizer *t, uint32_t id)
{
    if (is_bytes(t) && id < sizeof t->byte) {
        *n = 1;
        return &t->byte[id];
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

static Status encode_large(Encoding *e, int k, const char *text, size_t n);
static Status encode_next(Encoding *e, int k, const char *text, size_t n, size_t at, size_t *end);

/* Puts a step's character in the place of spaces, and before the piece where it is asked for. */
static Status replace_spaces(const char **out, size_t *n, TextBuffer *b, const SplitStep *s, const char *text,
                             bool first)
{
    const size_t len = strlen(s->space);
    const bool begins = *text == ' ' || (*n >= len && !memcmp(text, s->space, len));

    b->n = 0;
    if (s->prefix_space && !begins && (first || !s->prefix_first))
        TRY(text_add(b, s->space, len));
    for (size_t i = 0; i < *n;) {
        const char *space = memchr(text + i, ' ', *n - i);
        const size_t end = space ? (size_t)(space - text) : *n;

        TRY(text_add(b, text + i, end - i));
        if (space)
            TRY(text_add(b, s->space, len));
        i = end + 1;
    }
    *out = b->text;
    *n = b->n;
    return ST_OK;
}

/* Splits a piece by the steps from `k` on, and encodes the words. */
static Status encode_piece(Encoding *e, int k, const char *text, size_t n)
{
    const SplitStep *s = &e->t->step[k];
    TextBuffer *prefixed = &e->t->prefixed[k];

    if (!n)
        return ST_OK;
    if (k == e->t->n_step) {
        TRY(e->t->bpe ? bpe_encode(e->t->bpe, (const uint8_t *)text, n, &e->ids)
                      : unigram_encode(e->t->unigram, text, n, &e->ids));
        e->done += n;
        return e->ids.n >= IDS_AT_ONCE ? give(e) : ST_OK;
    }
    if (*s->space) {
        TRY(replace_spaces(&text, &n, prefixed, s, text, text == e->first));
    } else if (s->prefix_space && *text != ' ') {
        prefixed->n = 0;
        TRY(text_add(prefixed, " ", 1));
        TRY(text_add(prefixed, text, n));
        text = prefixed->text;
        n = prefixed->n;
    }
    if (!s->pattern && !s->splits)
        return encode_piece(e, k + 1, text, n);
    if (e->t->threads > 1 && n > 2 * SHORTEST)
        return encode_large(e, k, text, n);
    for (size_t at = 0; at < n;)
        TRY(encode_next(e, k, text, n, at, &at));
    return ST_OK;
}

/* Encodes a piece from `at` to the end of the next match of step k, which *end becomes. */
static Status encode_next(Encoding *e, int k, const char *text, size_t n, size_t at, size_t *end)
{
    const SplitStep *s = &e->t->step[k];
    size_t start, behind;

    if (s->splits) {
        const char *next = memmem(text + at + 1, n - at - 1, s->space, strlen(s->space));

        *end = next ? (size_t)(next - text) : n;
        return encode_piece(e, k + 1, text + at, *end - at);
    }
    TRY(split_pattern_next(s->pattern, text, n, at, &start, &behind));
    if (!s->drops_rest)
        TRY(encode_piece(e, k + 1, text + at, start - at));
    if (!s->drops_matches)
        TRY(encode_piece(e, k + 1, text + start, behind - start));
    *end = behind;
    return ST_OK;
}

/* ---- large pieces, by threads ----
 *
 * What follows a place in a piece depends on the place alone.  So threads encode stretches of the piece from places
 * that need not be ends of matches; soon they come to such ends, and go on as one thread would have.  A thread notes
 * the first places that it comes to.  When the stretch before has ended at one of them, its ids from there on are
 * right; otherwise the piece is encoded by one thread until it comes to one. */

/* A place between matches, and how many ids are before it. */
typedef struct {
    size_t at, ids;
} Place;

typedef struct {
    Encoding e;
    TokenIds ids;
    int k;
    const char *text; /* the whole piece */
    size_t n, from, to;
    size_t end; /* of the last match that begins before `to` */
    Place place[MOST_PLACES];
    int places;
    Status st;
    pthread_t thread;
    bool runs;
} Stretch;

/* Encodes a stretch; a thread. */
static void *encode_stretch(void *arg)
{
    Stretch *s = arg;
    size_t at = s->from;

    while (at < s->to && !s->st) {
        if (s->places < MOST_PLACES)
            s->place[s->places++] = (Place){ at, s->ids.n + s->e.ids.n };
        s->st = encode_next(&s->e, s->k, s->text, s->n, at, &at);
    }
    s->st = s->st ? s->st : give(&s->e);
    s->end = at;
    free(s->e.ids.id);
    return NULL;
}

/* Adds the ids of a stretch from the i-th on. */
static Status add_ids(Encoding *e, const Stretch *s, size_t i)
{
    for (; i < s->ids.n; i++) {
        TRY(token_ids_add(&e->ids, s->ids.id[i]));
        if (e->ids.n >= IDS_AT_ONCE)
            TRY(give(e));
    }
    return ST_OK;
}

/* Joins a stretch to what is encoded up to *at, which becomes its end. */
static Status join_stretch(Encoding *e, const Stretch *s, size_t *at)
{
    for (int i = 0; *at < s->to && !s->st;) {
        while (i < s->places && s->place[i].at < *at)
            i++;
        if (i < s->places && s->place[i].at == *at) {
            e->done += s->end - *at;
            *at = s->end;
            return add_ids(e, s, s->place[i].ids);
        }
        TRY(encode_next(e, s->k, s->text, s->n, *at, at));
    }
    while (*at < s->to) /* the thread failed: if the text is to blame, so does this one */
        TRY(encode_next(e, s->k, s->text, s->n, *at, at));
    return ST_OK;
}

/* Encodes a piece from *at on by one stretch for each thread. */
static Status encode_stretches(Encoding *e, Stretch *s, int threads, int k, const char *text, size_t n, size_t *at)
{
    size_t length = n / (size_t)threads + 1, from = *at;
    Status st = ST_OK;

    length = length < SHORTEST ? SHORTEST : length > LONGEST ? LONGEST : length;
    for (int i = 0; i < threads && !st; i++) {
        if (i && !e->t->further[i - 1])
            st = tokenizer_open(&e->t->further[i - 1], e->t->source);
        s[i] = (Stretch){ .k = k, .text = text, .n = n, .from = from };
        for (from = n - from > length ? from + length : n; from < n && ((unsigned char)text[from] & 0xC0) == 0x80;)
            from++;
        s[i].to = from;
        s[i].e = (Encoding){
            .t = i ? e->t->further[i - 1] : e->t, .take = token_ids_take, .user = &s[i].ids, .first = e->first
        };
    }
    for (int i = threads - 1; i >= 0 && !st; i--)
        if (!i || !(s[i].runs = !pthread_create(&s[i].thread, NULL, encode_stretch, &s[i])))
            encode_stretch(&s[i]);
    for (int i = 1; i < threads && !st; i++)
        if (s[i].runs)
            pthread_join(s[i].thread, NULL);
    for (int i = 0; i < threads && !st; i++)
        st = join_stretch(e, &s[i], at);
    for (int i = 0; i < threads; i++) {
        free(s[i].ids.id);
        s[i].ids = (TokenIds){ 0 };
    }
    return st;
}

static Status encode_large(Encoding *e, int k, const char *text, size_t n)
{
    const int threads = e->t->threads;
    Stretch *s = calloc((size_t)threads, sizeof *s);
    Status st = s ? ST_OK : FAIL_NOMEM();

    e->t->threads = 0; /* none of the pieces within is divided again */
    for (size_t at = 0; at < n && !st;)
        st = encode_stretches(e, s, threads, k, text, n, &at);
    e->t->threads = threads;
    free(s);
    return st;
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

static Status encode_text(Encoding *e, const char *text, size_t n, bool normalized);

/* What is between added tokens. */
static Status encode_between(Encoding *e, const char *text, size_t n, bool normalized)
{
    const bool first = text == e->begin;

    if (!n)
        return ST_OK;
    if (normalized)
        return encode_piece(e, 0, text, n);
    TRY(normalizer_apply(&text, &e->t->normalizer, text, &n));
    e->first = first ? text : NULL;
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
        if (token->lstrip && (start = white_space_ends(text, start)) < done)
            start = done;
        if (done < start)
            TRY(encode_between(e, text + done, start - done, normalized));
        TRY(token_ids_add(&e->ids, token->id));
        e->done += token->n;
        done = at + (token->rstrip ? white_space_begins(text + at, n - at) : 0);
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
    if (is_bytes(t)) {
        st = encode_bytes(&e, text, n);
    } else if (!(st = utf8_repair(&valid, &t->repaired, text, &n, replaced, first))) {
        e.begin = valid;
        st = t->spm ? sentencepiece_encode(t->spm, valid, n, &e.ids) : encode_text(&e, valid, n, false);
    }
    st = st ? st : give(&e);
    free(e.ids.id);
    return st;
}
