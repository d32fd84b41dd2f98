/* Byte pair encoding by scores (see the header).
 *
 * The text is a list of symbols, at first its characters.  A heap holds the pairs of neighbours that together are a
 * piece; the pair with the best score, the leftmost of equal ones, is joined next.  A pair whose symbols have changed
 * since is passed over. */
#include "tools/text/piece_bpe.h"

#include <stdlib.h>

#include "graph/base/foreign.h"
#include "graph/base/heap_array.h"

enum { TEXT_MOST = 1 << 28, NONE = -1 };

/* A stretch of the text. */
typedef struct {
    uint32_t at, n; /* n 0: it was joined to the one before */
    int32_t before, next;
    bool fixed; /* a piece that the user defined */
} Symbol;

typedef struct {
    float score;
    int32_t left, right;
    uint32_t n; /* bytes of both */
} Pair;

struct PieceBpe {
    const Unigram *pieces;
    float *score;   /* [n] */
    bool *unused;   /* [n] */
    uint32_t *left; /* [n] of unused pieces the length of the left part that they were last joined from */
    Symbol *symbol;
    Pair *heap;
    size_t symbols, symbol_room, pairs, pair_room;
};

Status piece_bpe_create(PieceBpe **out, const Unigram *pieces, size_t n)
{
    PieceBpe *b = calloc(1, sizeof *b);

    if (!b || !(b->score = calloc(n + 1, sizeof *b->score)) || !(b->unused = calloc(n + 1, sizeof *b->unused)) ||
        !(b->left = calloc(n + 1, sizeof *b->left))) {
        piece_bpe_free(b);
        return FAIL_NOMEM();
    }
    b->pieces = pieces;
    *out = b;
    return ST_OK;
}

void piece_bpe_free(PieceBpe *b)
{
    if (!b)
        return;
    free(b->score);
    free(b->unused);
    free(b->left);
    free(b->symbol);
    free(b->heap);
    free(b);
}

void piece_bpe_set(PieceBpe *b, uint32_t id, float score, bool unused)
{
    b->score[id] = score;
    b->unused[id] = unused;
}

/* ---- the heap ---- */

static bool is_better(const Pair *x, const Pair *y)
{
    return x->score > y->score || (x->score == y->score && x->left < y->left);
}

static void swap(Pair *x, Pair *y)
{
    const Pair z = *x;

    *x = *y;
    *y = z;
}

static Status push(PieceBpe *b, Pair p)
{
    Pair *grown = heap_reserve(b->heap, sizeof *grown, b->pairs + 1, &b->pair_room);

    if (!grown)
        return FAIL_NOMEM();
    b->heap = grown;
    grown[b->pairs] = p;
    for (size_t i = b->pairs++; i && is_better(&grown[i], &grown[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&grown[i], &grown[(i - 1) / 2]);
    return ST_OK;
}

static Pair pop(PieceBpe *b)
{
    const Pair top = b->heap[0];
    size_t i = 0, best;

    b->heap[0] = b->heap[--b->pairs];
    for (;; i = best) {
        best = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < b->pairs; k++)
            if (is_better(&b->heap[k], &b->heap[best]))
                best = k;
        if (best == i)
            return top;
        swap(&b->heap[i], &b->heap[best]);
    }
}

/* ---- joining ---- */

/* Puts a pair of neighbours on the heap if they are a piece. */
static Status offer(PieceBpe *b, const char *text, int32_t left, int32_t right)
{
    const Symbol *l, *r;
    uint32_t id;

    if (left == NONE || right == NONE)
        return ST_OK;
    l = &b->symbol[left];
    r = &b->symbol[right];
    if (l->fixed || r->fixed || (id = unigram_find(b->pieces, text + l->at, l->n + r->n)) == TOKEN_NONE)
        return ST_OK;
    b->left[id] = l->n; /* a single character was joined from nothing, and has 0 */
    return push(b, (Pair){ b->score[id], left, right, l->n + r->n });
}

/* Divides the text into characters, and pieces that the user defined. */
static Status make_symbols(PieceBpe *b, const Unigram *defined, const char *text, size_t n)
{
    b->symbols = b->pairs = 0;
    for (size_t at = 0, len; at < n; at += len) {
        Symbol *grown = heap_reserve(b->symbol, sizeof *grown, b->symbols + 1, &b->symbol_room);
        const size_t fixed = defined ? unigram_longest(defined, text + at, n - at) : 0;
        bool valid;

        if (!grown)
            return FAIL_NOMEM();
        b->symbol = grown;
        len = fixed ? fixed : utf8_step((const uint8_t *)text + at, n - at, &valid);
        grown[b->symbols] = (Symbol){ (uint32_t)at, (uint32_t)len, (int32_t)b->symbols - 1,
                                      at + len < n ? (int32_t)b->symbols + 1 : NONE, fixed > 0 };
        b->symbols++;
    }
    return ST_OK;
}

static Status join_all(PieceBpe *b, const char *text)
{
    for (size_t i = 1; i < b->symbols; i++)
        TRY(offer(b, text, (int32_t)i - 1, (int32_t)i));
    while (b->pairs) {
        const Pair top = pop(b);
        Symbol *left = &b->symbol[top.left], *right = &b->symbol[top.right];

        if (!left->n || !right->n || left->n + right->n != top.n)
            continue;
        left->n = top.n;
        left->next = right->next;
        if (right->next != NONE)
            b->symbol[right->next].before = top.left;
        right->n = 0;
        TRY(offer(b, text, left->before, top.left));
        TRY(offer(b, text, top.left, left->next));
    }
    return ST_OK;
}

/* ---- ids ---- */

typedef struct {
    uint32_t unknown;
    const uint32_t *byte;
    bool behind_unknown;
} Ids;

/* Adds the ids of a piece: of an unused one those of the parts that it was joined from. */
static Status add_ids(const PieceBpe *b, Ids *k, const char *piece, uint32_t n, TokenIds *out)
{
    const uint32_t id = unigram_find(b->pieces, piece, n);
    const uint32_t left = id != TOKEN_NONE && b->unused[id] ? b->left[id] : 0;

    if (left && left < n) { /* parts are shorter, so this ends */
        TRY(add_ids(b, k, piece, left, out));
        return add_ids(b, k, piece + left, n - left, out);
    }
    if (id == TOKEN_NONE && k->byte) {
        for (uint32_t i = 0; i < n; i++)
            TRY(token_ids_add(out, k->byte[(uint8_t)piece[i]]));
    } else if (id != TOKEN_NONE || !k->behind_unknown) {
        TRY(token_ids_add(out, id == TOKEN_NONE ? k->unknown : id));
    }
    k->behind_unknown = id == TOKEN_NONE;
    return ST_OK;
}

Status piece_bpe_encode(PieceBpe *b, const Unigram *defined, uint32_t unknown, const uint32_t *byte, const char *text,
                        size_t n, TokenIds *out)
{
    Ids k = { unknown, byte, false };

    if (n > TEXT_MOST)
        return FAIL(E_UNSUPPORTED, "a text of %zu bytes, at most %d are supported", n, TEXT_MOST);
    TRY(make_symbols(b, defined, text, n));
    TRY(join_all(b, text));
    for (int32_t i = b->symbols ? 0 : NONE; i != NONE; i = b->symbol[i].next)
        TRY(add_ids(b, &k, text + b->symbol[i].at, b->symbol[i].n, out));
    return ST_OK;
}
