/* Byte pair encoding: hash tables of merges and words, a heap of the pairs of one word.
 *
 * A word of n bytes takes O(n log n): a text without spaces is one word.  Words that were met before are looked up. */
#include "tools/text/bpe.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/hash.h"
#include "graph/base/heap_array.h"

enum {
    KEPT_LENGTH = 256,     /* bytes of the longest word that is kept */
    KEPT_BYTES = 16 << 20, /* of all kept words, before they are forgotten */
    WORD_MOST = 1 << 30    /* bytes of the longest word */
};

/* Words and their tokens.  A slot's place in the pool has n_id ids, then the word's bytes. */
typedef struct {
    struct WordSlot {
        uint64_t hash;
        uint32_t at, len, n_id; /* n_id 0: the slot is free */
    } * slot;
    size_t cap, n; /* slots, a power of two; words */
    uint8_t *pool;
    size_t used, room;
} WordTable;

struct Bpe {
    uint32_t byte[256];
    struct MergeSlot {
        uint64_t pair; /* left << 32 | right; UINT64_MAX: the slot is free */
        uint32_t rank, merged;
    } * merge;
    size_t merge_cap; /* a power of two */
    uint32_t n_merge;
    WordTable whole, kept; /* given words; words that were met */
    /* one word */
    struct Piece {
        uint32_t id;           /* TOKEN_NONE: joined to a piece before it */
        int32_t before, after; /* -1: none */
    } * piece;
    size_t piece_room;
    struct Join {
        uint32_t rank, merged;
        int32_t at; /* the left piece */
    } * heap;
    size_t n_heap, heap_room;
};

Status token_ids_add(TokenIds *t, uint32_t id)
{
    uint32_t *grown = heap_reserve(t->id, sizeof *grown, t->n + 1, &t->room);

    if (!grown)
        return FAIL_NOMEM();
    t->id = grown;
    t->id[t->n++] = id;
    return ST_OK;
}

/* ---- words ---- */

/* The slot of a word, or the free one where it belongs.  The table has slots, and free ones among them. */
static struct WordSlot *word_slot(const WordTable *t, uint64_t hash, const uint8_t *word, size_t n)
{
    for (size_t i = (hash ^ hash >> 32) & (t->cap - 1);; i = (i + 1) & (t->cap - 1)) {
        struct WordSlot *s = &t->slot[i];

        if (!s->n_id ||
            (s->hash == hash && s->len == n && !memcmp(t->pool + s->at + s->n_id * sizeof(uint32_t), word, n)))
            return s;
    }
}

static Status grow_words(WordTable *t)
{
    WordTable grown = *t;

    grown.cap = t->cap ? 2 * t->cap : 1024;
    if (!(grown.slot = calloc(grown.cap, sizeof *grown.slot)))
        return FAIL_NOMEM();
    for (size_t i = 0; i < t->cap; i++)
        if (t->slot[i].n_id)
            *word_slot(&grown, t->slot[i].hash, t->pool + t->slot[i].at + t->slot[i].n_id * sizeof(uint32_t),
                       t->slot[i].len) = t->slot[i];
    free(t->slot);
    *t = grown;
    return ST_OK;
}

static Status add_word(WordTable *t, uint64_t hash, const uint8_t *word, size_t n, const uint32_t *id, size_t n_id)
{
    const size_t bytes = n_id * sizeof *id;
    struct WordSlot *s;
    uint8_t *pool;

    if (2 * (t->n + 1) > t->cap)
        TRY(grow_words(t));
    if (t->used + bytes + n > UINT32_MAX || !(pool = heap_reserve(t->pool, 1, t->used + bytes + n, &t->room)))
        return FAIL_NOMEM();
    t->pool = pool;
    s = word_slot(t, hash, word, n);
    if (s->n_id)
        return ST_OK;
    *s = (struct WordSlot){ hash, (uint32_t)t->used, (uint32_t)n, (uint32_t)n_id };
    memcpy(pool + t->used, id, bytes);
    memcpy(pool + t->used + bytes, word, n);
    t->used += bytes + n;
    t->n++;
    return ST_OK;
}

/* ---- merges ---- */

static struct MergeSlot *merge_slot(const Bpe *b, uint64_t pair)
{
    for (size_t i = (pair * 0x9E3779B97F4A7C15u) >> 32 & (b->merge_cap - 1);; i = (i + 1) & (b->merge_cap - 1))
        if (b->merge[i].pair == pair || b->merge[i].pair == UINT64_MAX)
            return &b->merge[i];
}

Status bpe_create(Bpe **out, size_t merges)
{
    Bpe *b = calloc(1, sizeof *b);

    if (!b)
        return FAIL_NOMEM();
    for (b->merge_cap = 16; b->merge_cap < 2 * merges + 2;)
        b->merge_cap *= 2;
    if (!(b->merge = malloc(b->merge_cap * sizeof *b->merge))) {
        bpe_free(b);
        return FAIL_NOMEM();
    }
    memset(b->byte, 0xff, sizeof b->byte);
    memset(b->merge, 0xff, b->merge_cap * sizeof *b->merge);
    *out = b;
    return ST_OK;
}

void bpe_free(Bpe *b)
{
    if (!b)
        return;
    free(b->merge);
    free(b->whole.slot);
    free(b->whole.pool);
    free(b->kept.slot);
    free(b->kept.pool);
    free(b->piece);
    free(b->heap);
    free(b);
}

void bpe_set_byte(Bpe *b, uint8_t byte, uint32_t id) { b->byte[byte] = id; }

void bpe_add_merge(Bpe *b, uint32_t left, uint32_t right, uint32_t merged)
{
    const uint64_t pair = (uint64_t)left << 32 | right;

    *merge_slot(b, pair) = (struct MergeSlot){ pair, b->n_merge++, merged };
}

Status bpe_add_word(Bpe *b, const char *word, size_t n, uint32_t id)
{
    return add_word(&b->whole, hash_bytes(HASH_BEGIN, word, n), (const uint8_t *)word, n, &id, 1);
}

/* ---- one word ---- */

/* Lower ranks first, then places further left. */
static bool comes_before(const struct Join *a, const struct Join *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

/* Adds the pair that begins with piece `at` to the heap, if a merge joins it. */
static Status push_pair(Bpe *b, int32_t at)
{
    const int32_t after = at < 0 ? -1 : b->piece[at].after;
    const struct MergeSlot *m;
    struct Join *heap, join;
    size_t i;

    if (after < 0)
        return ST_OK;
    m = merge_slot(b, (uint64_t)b->piece[at].id << 32 | b->piece[after].id);
    if (m->pair == UINT64_MAX)
        return ST_OK;
    if (!(heap = heap_reserve(b->heap, sizeof *heap, b->n_heap + 1, &b->heap_room)))
        return FAIL_NOMEM();
    b->heap = heap;
    join = (struct Join){ m->rank, m->merged, at };
    for (i = b->n_heap++; i && comes_before(&join, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = join;
    return ST_OK;
}

static struct Join pop_pair(Bpe *b)
{
    const struct Join top = b->heap[0], last = b->heap[--b->n_heap];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < b->n_heap; i = child) {
        if (child + 1 < b->n_heap && comes_before(&b->heap[child + 1], &b->heap[child]))
            child++;
        if (!comes_before(&b->heap[child], &last))
            break;
        b->heap[i] = b->heap[child];
    }
    b->heap[i] = last;
    return top;
}

/* Makes every byte a piece and joins pieces until no merge applies. */
static Status join_pieces(Bpe *b, const uint8_t *word, size_t n)
{
    struct Piece *piece = heap_reserve(b->piece, sizeof *piece, n, &b->piece_room);

    if (!piece)
        return FAIL_NOMEM();
    b->piece = piece;
    b->n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        piece[i] = (struct Piece){ b->byte[word[i]], (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1 };
        if (piece[i].id == TOKEN_NONE)
            return FAIL(E_INVALID, "the vocabulary has no token for byte 0x%02x", word[i]);
    }
    for (size_t i = 0; i + 1 < n; i++)
        TRY(push_pair(b, (int32_t)i));
    while (b->n_heap) {
        const struct Join j = pop_pair(b);
        const int32_t after = piece[j.at].after;
        const struct MergeSlot *m;

        if (piece[j.at].id == TOKEN_NONE || after < 0)
            continue;
        m = merge_slot(b, (uint64_t)piece[j.at].id << 32 | piece[after].id);
        if (m->pair == UINT64_MAX || m->merged != j.merged) /* one of the two has been joined since */
            continue;
        piece[j.at].id = j.merged;
        piece[j.at].after = piece[after].after;
        piece[after].id = TOKEN_NONE;
        if (piece[after].after >= 0)
            piece[piece[after].after].before = j.at;
        TRY(push_pair(b, piece[j.at].before));
        TRY(push_pair(b, j.at));
    }
    return ST_OK;
}

/* Copies the tokens of a known word. */
static Status take_word(const WordTable *t, const struct WordSlot *s, TokenIds *out)
{
    uint32_t *grown = heap_reserve(out->id, sizeof *grown, out->n + s->n_id, &out->room);

    if (!grown)
        return FAIL_NOMEM();
    out->id = grown;
    memcpy(grown + out->n, t->pool + s->at, s->n_id * sizeof *grown);
    out->n += s->n_id;
    return ST_OK;
}

Status bpe_encode(Bpe *b, const uint8_t *word, size_t n, TokenIds *out)
{
    const WordTable *const tables[] = { &b->whole, &b->kept };
    const uint64_t hash = hash_bytes(HASH_BEGIN, word, n);
    const size_t before = out->n;

    if (n > WORD_MOST)
        return FAIL(E_UNSUPPORTED, "a word of %zu bytes, at most %d are supported", n, WORD_MOST);
    for (size_t i = 0; i < 2; i++) {
        const struct WordSlot *s = tables[i]->n ? word_slot(tables[i], hash, word, n) : NULL;

        if (s && s->n_id)
            return take_word(tables[i], s, out);
    }
    TRY(join_pieces(b, word, n));
    for (int32_t i = n ? 0 : -1; i >= 0; i = b->piece[i].after)
        TRY(token_ids_add(out, b->piece[i].id));
    if (n > KEPT_LENGTH || !n)
        return ST_OK;
    if (b->kept.used > KEPT_BYTES) {
        memset(b->kept.slot, 0, b->kept.cap * sizeof *b->kept.slot);
        b->kept.used = b->kept.n = 0;
    }
    return add_word(&b->kept, hash, word, n, out->id + before, out->n - before);
}
