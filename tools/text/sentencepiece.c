/* Reader of SentencePiece's models (see the header), and the normalisation that they ask for.
 *
 * Text is normalised from the left: at each place the longest beginning that the map of characters has is replaced.
 * Spaces become U+2581, which also stands before the text; several side by side become one, and those at its ends
 * none, unless the model says otherwise.  Symbols that the user defined stay as they are. */
#include "tools/text/sentencepiece.h"

#include <math.h>
#include <sentencepiece.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "tools/text/charsmap.h"
#include "tools/text/piece_bpe.h"
#include "tools/text/unigram.h"

#define SPACE "\342\226\201" /* U+2581 */

struct SentencePiece {
    Spm__Model *model;
    Charsmap *map;    /* NULL: none */
    Unigram *defined; /* pieces that the user defined; NULL: none */
    Unigram *unigram; /* the pieces; of BPE those that merges lead to */
    PieceBpe *bpe;    /* NULL: the model is Unigram */
    uint32_t unknown, byte[256];
    bool bytes, prefix, trims, escapes, suffix;
    TextBuffer text; /* normalised */
};

bool sentencepiece_is(const char *file, size_t n) { return n > 2 && file[0] == 10 && file[2] == 10; }

void sentencepiece_free(SentencePiece *s)
{
    if (!s)
        return;
    if (s->model)
        spm__model__free_unpacked(s->model, NULL);
    charsmap_free(s->map);
    unigram_free(s->defined);
    unigram_free(s->unigram);
    piece_bpe_free(s->bpe);
    free(s->text.text);
    free(s);
}

uint32_t sentencepiece_count(const SentencePiece *s) { return (uint32_t)s->model->n_pieces; }

uint32_t sentencepiece_padding(const SentencePiece *s)
{
    const int64_t id = s->model->trainer ? s->model->trainer->pad_id : -1;

    return id >= 0 && id < (int64_t)s->model->n_pieces ? (uint32_t)id : TOKEN_NONE;
}

PieceKind sentencepiece_piece(const char **text, size_t *n, uint8_t *byte, const SentencePiece *s, uint32_t id)
{
    const Spm__Piece *p = s->model->pieces[id];

    *text = (const char *)p->piece.data;
    *n = p->piece.len;
    if (p->type == SPM__PIECE__TYPE__UNKNOWN)
        return PIECE_UNKNOWN;
    if (p->type == SPM__PIECE__TYPE__CONTROL)
        return PIECE_CONTROL;
    for (int i = 0; i < 256 && p->type == SPM__PIECE__TYPE__BYTE; i++)
        if (s->byte[i] == id) {
            *byte = (uint8_t)i;
            return PIECE_BYTE;
        }
    return PIECE_TEXT;
}

/* ---- reading ---- */

/* Checks a piece, and notes the unknown one and those of bytes. */
static Status check_piece(SentencePiece *s, uint32_t id, const char *label)
{
    const Spm__Piece *p = s->model->pieces[id];
    unsigned byte;
    char text[8];
    int end = 0;

    if (!p->piece.len || memchr(p->piece.data, 0, p->piece.len) || !isfinite(p->score))
        return FAIL(E_IO, "%s: piece %u is empty, holds a zero, or its score is no number", label, (unsigned)id);
    if (p->type == SPM__PIECE__TYPE__UNKNOWN && s->unknown != TOKEN_NONE)
        return FAIL(E_IO, "%s: pieces %u and %u are both the unknown one", label, (unsigned)s->unknown, (unsigned)id);
    if (p->type == SPM__PIECE__TYPE__UNKNOWN)
        s->unknown = id;
    if (p->type != SPM__PIECE__TYPE__BYTE)
        return ST_OK;
    snprintf(text, sizeof text, "%.*s", (int)p->piece.len, (const char *)p->piece.data);
    if (p->piece.len != 6 || sscanf(text, "<0x%2X>%n", &byte, &end) != 1 || end != 6)
        return FAIL(E_IO, "%s: piece %u is of a byte, and not called as <0x0A>", label, (unsigned)id);
    s->byte[byte] = id;
    return ST_OK;
}

/* The score by which Unigram chooses: a symbol that the user defined is better than all others of its length. */
static double score_of(const Spm__Piece *p, float most)
{
    return p->type == SPM__PIECE__TYPE__USER_DEFINED ? (double)((float)p->piece.len * most) - 0.1 : (double)p->score;
}

static Status add_pieces(SentencePiece *s, bool is_bpe, float most)
{
    for (uint32_t id = 0; id < s->model->n_pieces; id++) {
        const Spm__Piece *p = s->model->pieces[id];
        const char *text = (const char *)p->piece.data;
        const bool unused = p->type == SPM__PIECE__TYPE__UNUSED, defined = p->type == SPM__PIECE__TYPE__USER_DEFINED;

        if (p->type != SPM__PIECE__TYPE__NORMAL && !defined && !(unused && is_bpe))
            continue;
        TRY(unigram_add(s->unigram, text, p->piece.len, is_bpe ? (double)p->score : score_of(p, most), id));
        if (is_bpe)
            piece_bpe_set(s->bpe, id, p->score, unused);
        if (defined && !s->defined)
            TRY(unigram_create(&s->defined));
        if (defined)
            TRY(unigram_add(s->defined, text, p->piece.len, 0, id));
    }
    return ST_OK;
}

static Status read_model(SentencePiece *s, const char *label)
{
    const Spm__Trainer trainer = SPM__TRAINER__INIT, *t = s->model->trainer ? s->model->trainer : &trainer;
    const bool is_bpe = t->model_type == SPM__TRAINER__MODEL_TYPE__BPE;
    float least = INFINITY, most = -INFINITY;

    if (!is_bpe && t->model_type != SPM__TRAINER__MODEL_TYPE__UNIGRAM)
        return FAIL(E_UNSUPPORTED, "%s: a model of %s; dpexec reads Unigram and BPE", label,
                    t->model_type == SPM__TRAINER__MODEL_TYPE__WORD ? "words" : "characters");
    if (!s->model->n_pieces || s->model->n_pieces > TOKEN_ID_MOST)
        return FAIL(E_IO, "%s: %zu pieces, expected 1 to %d", label, s->model->n_pieces, TOKEN_ID_MOST);
    for (uint32_t id = 0; id < s->model->n_pieces; id++) {
        const Spm__Piece *p = s->model->pieces[id];

        TRY(check_piece(s, id, label));
        if (p->type == SPM__PIECE__TYPE__NORMAL) {
            least = p->score < least ? p->score : least;
            most = p->score > most ? p->score : most;
        }
    }
    if (s->unknown == TOKEN_NONE || least > most)
        return FAIL(E_IO, "%s: the model has no %s", label, least > most ? "piece of text" : "unknown piece");
    s->bytes = t->byte_fallback;
    for (int i = 0; i < 256; i++)
        s->bytes &= s->byte[i] != TOKEN_NONE;
    s->suffix = t->treat_whitespace_as_suffix;
    TRY(unigram_create(&s->unigram));
    if (is_bpe)
        TRY(piece_bpe_create(&s->bpe, s->unigram, s->model->n_pieces));
    TRY(add_pieces(s, is_bpe, most));
    unigram_complete_spm(s->unigram, least, s->unknown, s->bytes ? s->byte : NULL);
    return ST_OK;
}

Status sentencepiece_open(SentencePiece **out, const char *file, size_t n, const char *label)
{
    const Spm__Normalizer normalizer = SPM__NORMALIZER__INIT, *z;
    SentencePiece *s = calloc(1, sizeof *s);
    Status st = s ? ST_OK : FAIL_NOMEM();

    if (!st) {
        memset(s->byte, 0xff, sizeof s->byte);
        s->unknown = TOKEN_NONE;
        s->model = spm__model__unpack(NULL, n, (const uint8_t *)file);
    }
    if (!st && !s->model)
        st = FAIL(E_IO, "%s: a broken model of SentencePiece", label);
    st = st ? st : read_model(s, label);
    if (!st) {
        z = s->model->normalizer ? s->model->normalizer : &normalizer;
        s->prefix = z->add_dummy_prefix;
        s->trims = z->remove_extra_whitespaces;
        s->escapes = z->escape_whitespaces;
        if (z->precompiled_charsmap.len)
            st = charsmap_of_bytes(&s->map, z->precompiled_charsmap.data, z->precompiled_charsmap.len);
        st = st && st != E_NOMEM ? status_prefix(E_IO, "%s", label) : st;
    }
    if (st)
        sentencepiece_free(s);
    else
        *out = s;
    return st;
}

/* ---- normalisation ---- */

/* What stands for the beginning of a text, which has *n bytes; it takes *step of them. */
static const char *normal_beginning(const SentencePiece *s, const char *text, size_t *n, size_t *step)
{
    const size_t defined = s->defined ? unigram_longest(s->defined, text, *n) : 0;
    const char *to = defined || !s->map ? NULL : charsmap_longest(s->map, text, *n, step);
    bool valid;

    if (to) {
        *n = strlen(to);
        return to;
    }
    *step = *n = defined ? defined : utf8_step((const uint8_t *)text, *n, &valid);
    return text;
}

/* Adds text in which U+2581 stands for spaces. */
static Status add_escaped(SentencePiece *s, const char *text, size_t n)
{
    const char *space;

    for (; s->escapes && (space = memchr(text, ' ', n)); text = space + 1) {
        TRY(text_add(&s->text, text, (size_t)(space - text)));
        TRY(text_add(&s->text, SPACE, strlen(SPACE)));
        n -= (size_t)(space - text) + 1;
    }
    return text_add(&s->text, text, n);
}

static Status add_space(SentencePiece *s) { return add_escaped(s, " ", 1); }

/* Normalises a text into s->text. */
static Status normalise(SentencePiece *s, const char *text, size_t n)
{
    const char *space = s->escapes ? SPACE : " ";
    const size_t wide = strlen(space);
    bool behind_space = s->trims, begun = !s->trims;
    size_t step;

    s->text.n = 0;
    for (size_t at = 0; at < n; at += step) {
        size_t len = n - at;
        const char *to = normal_beginning(s, text + at, &len, &step);

        if (!begun && len == 1 && *to == ' ')
            continue;
        if (!s->text.n && s->prefix && !s->suffix && (!begun || !at))
            TRY(add_space(s));
        begun = true;
        for (; behind_space && len && *to == ' '; to++)
            len--;
        if (len) {
            TRY(add_escaped(s, to, len));
            behind_space = s->trims && to[len - 1] == ' ';
        }
    }
    while (s->trims && s->text.n >= wide && !memcmp(s->text.text + s->text.n - wide, space, wide))
        s->text.n -= wide;
    return begun && n && s->suffix && s->prefix ? add_space(s) : ST_OK;
}

Status sentencepiece_encode(SentencePiece *s, const char *text, size_t n, TokenIds *out)
{
    TRY(normalise(s, text, n));
    if (!s->text.n)
        return ST_OK;
    return s->bpe ? piece_bpe_encode(s->bpe, s->defined, s->unknown, s->bytes ? s->byte : NULL, s->text.text, s->text.n,
                                     out)
                  : unigram_encode(s->unigram, s->text.text, s->text.n, out);
}
