/* Unigram model (see the header): a trie of pieces, and Viterbi's algorithm over the bytes of a text.
 *
 * Sums of scores are those of tokenizers: of doubles from the left, where the first of equal ones stays. */
#include "tools/text/unigram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/heap_array.h"

enum {
    NODES_MOST = 1 << 24,
    TEXT_MOST = 1 << 28,
    UNKNOWN_COSTS = 10,
    LEAST_SUM = 100000 /* below 0, of floats */,
    UTF8_MOST = 4
};

/* A place between bytes, and the best division of the text before it. */
typedef struct {
    double score;
    uint32_t from; /* where its last piece begins; TOKEN_NONE: there is no division */
    uint32_t id;   /* of that piece; TOKEN_NONE: unknown */
    uint32_t to;   /* where the piece behind this place ends, on the best way */
} Place;

struct Unigram {
    struct TrieNode {
        double score;
        uint32_t id; /* TOKEN_NONE: no piece ends here */
    } * node;        /* [0]: the root */
    size_t nodes, node_room;
    struct TrieEdge {
        uint32_t key, child; /* key: node << 8 | byte; child 0: the slot is free */
    } * edge;
    size_t cap; /* of edges, a power of two */
    double least;
    size_t longest;              /* bytes of a piece, or of a character */
    uint32_t unknown, byte[256]; /* byte: TOKEN_NONE where bytes are no pieces */
    bool bytes, spm;             /* spm: as SentencePiece computes */
    Place *place;
    size_t place_room;
};

static struct TrieEdge *edge_slot(const struct TrieEdge *edge, size_t cap, uint32_t key)
{
    for (size_t i = (key * 0x9E3779B97F4A7C15u) >> 32 & (cap - 1);; i = (i + 1) & (cap - 1))
        if (!edge[i].child || edge[i].key == key)
            return (struct TrieEdge *)&edge[i];
}

/* The child of a node; 0: there is none. */
static uint32_t child_of(const Unigram *u, uint32_t node, uint8_t byte)
{
    return edge_slot(u->edge, u->cap, node << 8 | byte)->child;
}

static Status add_node(Unigram *u)
{
    struct TrieNode *grown = heap_reserve(u->node, sizeof *grown, u->nodes + 1, &u->node_room);

    if (!grown)
        return FAIL_NOMEM();
    u->node = grown;
    u->node[u->nodes++] = (struct TrieNode){ 0, TOKEN_NONE };
    return ST_OK;
}

/* Doubles the edges' table. */
static Status grow_edges(Unigram *u)
{
    const size_t cap = u->cap ? 2 * u->cap : 1024;
    struct TrieEdge *edge = calloc(cap, sizeof *edge);

    if (!edge)
        return FAIL_NOMEM();
    for (size_t i = 0; i < u->cap; i++)
        if (u->edge[i].child)
            *edge_slot(edge, cap, u->edge[i].key) = u->edge[i];
    free(u->edge);
    u->edge = edge;
    u->cap = cap;
    return ST_OK;
}

Status unigram_create(Unigram **out)
{
    Unigram *u = calloc(1, sizeof *u);
    Status st = u ? add_node(u) : FAIL_NOMEM();

    st = st ? st : grow_edges(u);
    if (st) {
        unigram_free(u);
        return st;
    }
    u->least = (double)INFINITY;
    u->longest = UTF8_MOST;
    *out = u;
    return ST_OK;
}

void unigram_free(Unigram *u)
{
    if (!u)
        return;
    free(u->node);
    free(u->edge);
    free(u->place);
    free(u);
}

Status unigram_add(Unigram *u, const char *piece, size_t n, double score, uint32_t id)
{
    uint32_t at = 0;

    for (size_t i = 0; i < n; i++) {
        const uint32_t key = at << 8 | (uint8_t)piece[i];

        if (!child_of(u, at, (uint8_t)piece[i])) {
            if (u->nodes == NODES_MOST)
                return FAIL(E_UNSUPPORTED, "the pieces of the vocabulary have more than %d different beginnings",
                            NODES_MOST);
            if (2 * u->nodes > u->cap)
                TRY(grow_edges(u));
            TRY(add_node(u));
            *edge_slot(u->edge, u->cap, key) = (struct TrieEdge){ key, (uint32_t)u->nodes - 1 };
        }
        at = child_of(u, at, (uint8_t)piece[i]);
    }
    u->least = score < u->least ? score : u->least;
    u->longest = n > u->longest ? n : u->longest;
    if (n)
        u->node[at] = (struct TrieNode){ score, id };
    return ST_OK;
}

uint32_t unigram_find(const Unigram *u, const char *piece, size_t n)
{
    uint32_t at = 0;

    for (size_t i = 0; i < n; i++)
        if (!(at = child_of(u, at, (uint8_t)piece[i])))
            return TOKEN_NONE;
    return u->node[at].id;
}

void unigram_complete(Unigram *u, uint32_t unknown, bool bytes)
{
    u->unknown = unknown;
    u->bytes = bytes;
    for (int i = 0; i < 256; i++) {
        char piece[8];

        snprintf(piece, sizeof piece, "<0x%02X>", (unsigned)i);
        u->byte[i] = unigram_find(u, piece, 6);
    }
}

void unigram_complete_spm(Unigram *u, float least, uint32_t unknown, const uint32_t *byte)
{
    u->spm = true;
    u->least = (double)least;
    u->unknown = unknown;
    u->bytes = byte != NULL;
    for (int i = 0; i < 256; i++)
        u->byte[i] = byte ? byte[i] : TOKEN_NONE;
}

size_t unigram_longest(const Unigram *u, const char *text, size_t n)
{
    size_t longest = 0;
    uint32_t node = 0;

    for (size_t i = 0; i < n && (node = child_of(u, node, (uint8_t)text[i])); i++)
        if (u->node[node].id != TOKEN_NONE)
            longest = i + 1;
    return longest;
}

/* Takes a piece that ends at a place, if it is better than what ends there.  SentencePiece's sums are floats. */
static void offer(const Unigram *u, Place *p, uint32_t from, uint32_t id, double score)
{
    score = u->spm ? (double)(float)score : score;
    if (p->from == TOKEN_NONE || score > p->score) {
        p->from = from;
        p->id = id;
        p->score = score;
    }
}

/* Subtracts the score of the first of n + 1 places from all that have one, which pieces end at: beside the sum of a
 * long text floats would lose the scores of pieces.  SentencePiece 0.2.3 does so at the same sum. */
static void rebase(const Unigram *u, Place *place, size_t n)
{
    const double base = place->score;

    for (size_t i = 0; i <= n && i <= u->longest; i++)
        if (!i || place[i].from != TOKEN_NONE)
            place[i].score = (double)(float)(place[i].score - base);
}

/* Finds the best division of text[0, n) at each place. */
static Status find_best(const Unigram *u, Place *place, const char *text, size_t n)
{
    const double unknown = u->spm ? (double)((float)u->least - (float)UNKNOWN_COSTS) : u->least - UNKNOWN_COSTS;

    for (size_t i = 0; i <= n; i++)
        place[i] = (Place){ .from = TOKEN_NONE };
    for (size_t at = 0, len; at < n; at += len) {
        double before;
        bool valid, single = false;
        uint32_t node = 0;

        if (u->spm && place[at].score < -(double)LEAST_SUM)
            rebase(u, place + at, n - at);
        before = place[at].score;
        len = utf8_step((const uint8_t *)text + at, n - at, &valid);
        for (size_t end = at; end < n && (node = child_of(u, node, (uint8_t)text[end]));) {
            const struct TrieNode *t = &u->node[node];

            end++;
            if (t->id == TOKEN_NONE)
                continue;
            offer(u, &place[end], (uint32_t)at, t->id, t->score + before);
            single |= end == at + len;
        }
        if (single)
            continue;
        offer(u, &place[at + len], (uint32_t)at, TOKEN_NONE, unknown + before);
        if (u->unknown == TOKEN_NONE && place[at + len].id == TOKEN_NONE)
            return FAIL(E_INVALID, "the vocabulary has no piece for '%.*s', and the model no unk_id", (int)len,
                        text + at);
    }
    return ST_OK;
}

/* Adds the tokens of what is no piece. */
static Status add_unknown(const Unigram *u, const char *text, size_t n, TokenIds *out)
{
    const uint32_t id = u->spm ? TOKEN_NONE : unigram_find(u, text, n);
    bool bytes = u->bytes;

    if (id != TOKEN_NONE)
        return token_ids_add(out, id);
    for (size_t i = 0; i < n; i++)
        bytes &= u->byte[(uint8_t)text[i]] != TOKEN_NONE;
    if (!bytes)
        return token_ids_add(out, u->unknown);
    for (size_t i = 0; i < n; i++)
        TRY(token_ids_add(out, u->byte[(uint8_t)text[i]]));
    return ST_OK;
}

Status unigram_encode(Unigram *u, const char *text, size_t n, TokenIds *out)
{
    Place *place;
    size_t unknown = 0; /* bytes of unknown characters before the place */

    if (n > TEXT_MOST)
        return FAIL(E_UNSUPPORTED, "a text of %zu bytes that is not split into words, at most %d are supported", n,
                    TEXT_MOST);
    if (!(place = heap_reserve(u->place, sizeof *place, n + 1, &u->place_room)))
        return FAIL_NOMEM();
    u->place = place;
    TRY(find_best(u, place, text, n));
    for (size_t at = n; at; at = place[at].from)
        place[place[at].from].to = (uint32_t)at;
    for (size_t at = 0; at < n; at = place[at].to) {
        const Place *end = &place[place[at].to];
        const bool known = end->id != TOKEN_NONE && end->id != u->unknown;

        if (known && unknown)
            TRY(add_unknown(u, text + at - unknown, unknown, out));
        unknown = known ? 0 : unknown + (place[at].to - at);
        if (known)
            TRY(token_ids_add(out, end->id));
    }
    return unknown ? add_unknown(u, text + n - unknown, unknown, out) : ST_OK;
}
