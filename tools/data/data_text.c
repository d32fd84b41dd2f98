/* text:FILE: a text, tokenised once; windows of its token ids. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "tools/data/token_windows.h"
#include "tools/text/token_file.h"
#include "tools/text/tokenizer.h"

static const DataOption options[] = { TOKEN_WINDOW_OPTIONS,
                                      { "tokens", "bytes", "each byte of the text is a token [bytes]" },
                                      { "tokenizer", "FILE.json", "byte-level BPE of a tokenizer.json" },
                                      { "cache", "DIR", "where the token ids are kept [the text's folder]" },
                                      { NULL, NULL, NULL } };

/* A TokenSink. */
static Status write_ids(void *user, const uint32_t *id, size_t n, size_t done)
{
    (void)done;
    return token_writer_add(user, id, n);
}

/* Tokenises the text into the file. */
static Status tokenize(const char *to, const Mapped *text, const char *tokenizer, const char *label)
{
    Tokenizer *t;
    TokenWriter w = { 0 };
    size_t replaced, first;
    Status st;

    TRY(tokenizer_open(&t, tokenizer));
    st = token_writer_open(&w, to, TOKENS_NPY, t->vocabulary);
    if (!st)
        st = token_writer_close(
            &w,
            status_prefix(tokenizer_encode(t, text->data, text->size, write_ids, &w, &replaced, &first), "%s", label));
    tokenizer_free(t);
    return st;
}

/* A digest of the text and the tokenizer. */
static Status digest(uint64_t *out, const Mapped *text, const char *tokenizer)
{
    Mapped json;

    TRY(mapped_open(&json, tokenizer));
    *out = XXH3_64bits_withSeed(text->data, text->size, XXH3_64bits(json.data, json.size));
    mapped_close(&json);
    return ST_OK;
}

/* Opens the ids of the text: those that an earlier run left for the same text and tokenizer, or new ones. */
static Status open_ids(Array *a, uint64_t *identity, const Mapped *text, const Source *s, const char *tokenizer)
{
    const char *folder = source_value(s, "cache"), *name = strrchr(s->path, '/');
    char path[PATH_MAX];
    int n;

    TRY(digest(identity, text, tokenizer));
    n = folder ? snprintf(path, sizeof path, "%s/%s.%016" PRIx64 ".npy", folder, name ? name + 1 : s->path, *identity)
               : snprintf(path, sizeof path, "%s.%016" PRIx64 ".npy", s->path, *identity);
    if (n >= PATH_MAX)
        return FAIL(E_INVALID, "%s: the path of the token ids is too long", s->text);
    if (access(path, R_OK))
        TRY(tokenize(path, text, tokenizer, s->path));
    return token_windows_npy(a, path);
}

static Status read_text(Dataset *d, const Source *s, const SourceContext *c)
{
    const char *tokens = source_value(s, "tokens"), *tokenizer = source_value(s, "tokenizer");
    Array a = { .rank = 1 };
    uint64_t identity;
    Mapped text;
    Status st;

    if (tokens && (tokenizer || strcmp(tokens, "bytes")))
        return FAIL(E_INVALID, "%s: expected tokens=bytes or tokenizer=FILE.json", s->text);
    TRY(mapped_open(&text, s->path));
    if (!tokenizer) {
        a.dtype = DPX_UINT8;
        a.map = text;
        a.data = text.data;
        a.dim[0] = (int64_t)text.size;
        return token_windows_add(d, &a, XXH3_64bits(text.data, text.size), s, c);
    }
    st = open_ids(&a, &identity, &text, s, tokenizer);
    mapped_close(&text);
    return st ? st : token_windows_add(d, &a, identity, s, c);
}

DEFINE_DATA_FORMAT(text, .form = "text:FILE", .help = "a text: windows of its tokens and the next tokens as target",
                   .prefix = "text:", .options = options, .read = read_text, .fit = token_windows_fit);
