/* text:FILE: a text, tokenised once; windows of its token ids. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "graph/base/folders.h"
#include "tools/data/token_windows.h"
#include "tools/text/token_file.h"
#include "tools/text/tokenizer.h"

static const DataOption options[] = {
    TOKEN_WINDOW_OPTIONS,
    { "tokens", "bytes", "each byte of the text is a token [bytes]" },
    { "tokenizer", "FILE", "BPE or Unigram: a tokenizer.json, or a model of SentencePiece" },
    { "cache", "DIR", "where the token ids are kept [the text's folder, else the cache's]" },
    { NULL, NULL, NULL }
};

/* A TokenSink. */
static Status write_ids(void *user, const uint32_t *id, size_t n, size_t done)
{
    (void)done;
    return token_writer_add(user, id, n);
}

/* Tokenises the text into the file, and notes bytes that are no UTF-8. */
static Status tokenize(Dataset *d, const char *to, const Mapped *text, const char *tokenizer, int threads)
{
    Tokenizer *t;
    TokenWriter w = { 0 };
    size_t replaced = 0, first = 0;
    Status st;

    TRY(tokenizer_open(&t, tokenizer));
    st = tokenizer_use_threads(t, tokenizer, threads);
    st = st ? st : token_writer_open(&w, to, TOKENS_NPY, t->vocabulary);
    if (!st)
        st = token_writer_close(
            &w, status_prefix(tokenizer_encode(t, text->data, text->size, write_ids, &w, &replaced, &first), "%s",
                              d->source.path));
    tokenizer_free(t);
    return st || !replaced
               ? st
               : dataset_note(d, "not UTF-8 in %zu places, the first at byte %zu; read as U+FFFD", replaced, first);
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

/* "FOLDER/NAME.DIGEST.npy" */
static Status name_ids(char path[PATH_MAX], const char *folder, const char *name, uint64_t identity)
{
    const int n = snprintf(path, PATH_MAX, "%s/%s.%016" PRIx64 ".npy", folder, name, identity);

    return n < PATH_MAX ? ST_OK : FAIL(E_INVALID, "%s: the path of the token ids is too long", name);
}

/* Finds the file of the text's ids: in the folder that cache= names; else beside the text, or, where that cannot be
 * written, in the cache folder, which is made.  It need not be there. */
static Status find_ids(char path[PATH_MAX], const Source *s, uint64_t identity)
{
    const char *given = source_value(s, "cache"), *slash = strrchr(s->path, '/'), *name = slash ? slash + 1 : s->path;
    char folder[PATH_MAX];
    const int n =
        snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - s->path) + 1 : 1, slash ? s->path : ".");

    if (given)
        return name_ids(path, given, name, identity);
    if (n >= PATH_MAX)
        return FAIL(E_INVALID, "%s: the path is too long", s->path);
    TRY(name_ids(path, folder, name, identity));
    if (!access(path, R_OK) || !access(folder, W_OK))
        return ST_OK;
    if (!cache_folder(folder))
        return FAIL(E_IO,
                    "%s: its folder cannot be written, and there is no cache folder: cache=DIR says where the "
                    "token ids are kept",
                    s->path);
    TRY(make_folders(folder));
    return name_ids(path, folder, name, identity);
}

/* Opens the ids of the text: those that an earlier run left for the same text and tokenizer, or new ones. */
static Status open_ids(Array *a, uint64_t *identity, Dataset *d, const Mapped *text, const char *tokenizer, int threads)
{
    char path[PATH_MAX];

    TRY(digest(identity, text, tokenizer));
    TRY(find_ids(path, &d->source, *identity));
    if (access(path, R_OK))
        TRY(tokenize(d, path, text, tokenizer, threads));
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
    st = open_ids(&a, &identity, d, &text, tokenizer, c->threads);
    mapped_close(&text);
    return st ? st : token_windows_add(d, &a, identity, s, c);
}

DEFINE_DATA_FORMAT(text, .form = "text:FILE", .help = "a text: windows of its tokens and the next tokens as target",
                   .prefix = "text:", .options = options, .read = read_text, .fit = token_windows_fit,
                   .describe = token_windows_describe);
