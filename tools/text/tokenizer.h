/* Tokenizers: bytes as they are; byte-level BPE or Unigram as a tokenizer.json describes it; models of SentencePiece.
 */
#ifndef DPX_TOOLS_TOKENIZER_H
#define DPX_TOOLS_TOKENIZER_H

#include "tools/text/normalizer.h"
#include "tools/text/sentencepiece.h"
#include "tools/text/unigram.h"

enum { SPLITS_MOST = 16 };

/* A token that is found in the text itself, before it is split. */
typedef struct {
    char *text;
    size_t n;
    uint32_t id;
    bool lstrip, rstrip; /* takes the white space before, behind it */
    bool normalized;     /* is found in the normalised text */
} AddedToken;

/* A step of splitting into words.  Each piece of the step before is split where the pattern matches. */
typedef struct {
    SplitPattern *pattern; /* NULL: nothing is split */
    bool drops_matches, drops_rest;
    bool prefix_space; /* a piece that does not begin with a space gets one first */
    char space[8];     /* UTF-8 character that takes the place of spaces; "": none does */
    bool prefix_first; /* only the piece that begins the text gets one */
    bool splits;       /* a piece begins at each of these characters */
} SplitStep;

typedef struct Tokenizer Tokenizer;

struct Tokenizer {
    Bpe *bpe;
    Unigram *unigram;
    SentencePiece *spm;  /* all three NULL: each byte is its own id */
    char byte[256];      /* then: the bytes of these ids */
    uint32_t vocabulary; /* the largest id, and 1 */
    uint32_t padding;    /* the id that pads, by the file; TOKEN_NONE: it says none */
    AddedToken *added;   /* by their bytes */
    size_t n_added;
    uint8_t begins[256]; /* bytes that begin an added token: 1 in the text as it is, 2 in the normalised one */
    SplitStep step[SPLITS_MOST];
    int n_step;
    Normalizer normalizer;
    struct TokenSpelling {
        size_t at, n; /* n 0: there is no such token */
    } * spelling;     /* [n_spelling] where the bytes of a token are in `spelled` */
    size_t n_spelling;
    TextBuffer spelled;
    TextBuffer repaired, prefixed[SPLITS_MOST]; /* of the text that is encoded */
    int threads;                                /* that encode large texts; 0: one */
    char *source;                               /* of the tokenizers of further threads */
    Tokenizer **further;                        /* [threads - 1]; NULL: not read yet */
};

/* Receives ids in order.  `done`: bytes of the text before them, roughly. */
typedef Status TokenSink(void *user, const uint32_t *id, size_t n, size_t done);

/* The sink that adds them to a list: `user` is a TokenIds. */
TokenSink token_ids_take;

/* Reads "bytes" or a file.  E_UNSUPPORTED lists all that the file asks for and dpexec lacks. */
Status tokenizer_open(Tokenizer **out, const char *source) CHECKED;
void tokenizer_free(Tokenizer *t); /* NULL is legal */
/* Lets large texts be encoded by several threads, each with a tokenizer of its own, read from the same source.  Their
 * number changes no id. */
Status tokenizer_use_threads(Tokenizer *t, const char *source, int threads) CHECKED;
/* The id of an added token, by its text; TOKEN_NONE: there is none. */
uint32_t tokenizer_added(const Tokenizer *t, const char *text);
/* The *n bytes that a token stands for; NULL: there is no such token. */
const char *tokenizer_bytes(size_t *n, const Tokenizer *t, uint32_t id);
/* Gives the ids of a text to the sink, as encode(text, add_special_tokens=False) of tokenizers or encode(text) of
 * SentencePiece.  Bytes that are no
 * UTF-8 become U+FFFD where there is a file; *replaced counts them, *first is the place of the first.  For
 * one thread at a time. */
Status tokenizer_encode(Tokenizer *t, const uint8_t *text, size_t n, TokenSink *take, void *user, size_t *replaced,
                        size_t *first) CHECKED;

/* ---- for tools/text/tokenizer.c ---- */
/* Fills a tokenizer from a tokenizer.json or a model of SentencePiece; `label` names it in errors. */
Status tokenizer_parse(Tokenizer *t, const char *text, size_t n, const char *label) CHECKED;

#endif
