/* dpexec tokenize: texts to a file of token ids. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/machine.h"
#include "graph/base/mapped.h"
#include "tools/commands.h"
#include "tools/progress.h"
#include "tools/text/token_file.h"
#include "tools/text/tokenizer.h"

static const Flag flags[] = {
    { "o", "FILE",
      "file for the token ids, as .npy or in the form of --format; uint16 for vocabularies of up to 65536 tokens, else "
      "uint32" },
    { "format", "raw|llmc", "raw: ids alone, as nanoGPT reads them; llmc: behind llm.c's header [raw]" },
    { "separator", "TOKEN", "added token of the tokenizer to append to each text, e.g. '<|endoftext|>' [none]" },
    { "workers", "N", "threads that encode a large text [the cores]" },
    { "quiet", NULL, "print nothing but warnings and errors" },
    { NULL, NULL, NULL },
};

const Command command_tokenize = { "tokenize",
                                   "TOKENIZER|bytes TEXT... -o FILE [options]",
                                   "Turns texts into a file of token ids.",
                                   flags,
                                   NO_OPTIONS,
                                   2,
                                   1 << 20,
                                   NULL };

typedef struct {
    TokenWriter to;
    Progress progress;
    double shown;         /* when progress was shown last */
    size_t before, total; /* bytes: of texts before this one, of all */
} Tokenizing;

static const double SHOWN_SECONDS = 5, MB = 1e6;

/* A TokenSink: writes the ids and shows progress of long work. */
static Status take(void *user, const uint32_t *id, size_t n, size_t done)
{
    Tokenizing *k = user;
    const double now = seconds_now();

    if (now - k->shown > SHOWN_SECONDS && !k->progress.quiet) {
        const double bytes = (double)(k->before + done);

        progress_line(&k->progress, "tokenize: %.0f of %.0f MB, %lld tokens, %.1f MB/s", bytes / MB,
                      (double)k->total / MB, (long long)k->to.n, bytes / MB / (now - k->progress.start));
        k->shown = now;
    }
    return token_writer_add(&k->to, id, n);
}

static Status tokenize_file(Tokenizing *k, Tokenizer *t, const char *path, uint32_t separator)
{
    Mapped text;
    size_t replaced, first;
    Status st;

    TRY(mapped_open(&text, path));
    st = status_prefix(tokenizer_encode(t, text.data, text.size, take, k, &replaced, &first), "%s", path);
    k->before += text.size;
    mapped_close(&text);
    if (!st && replaced)
        progress_line(&k->progress,
                      "dpexec: warning: %s: not UTF-8 in %zu places, the first at byte %zu; read as U+FFFD", path,
                      replaced, first);
    return st || separator == TOKEN_NONE ? st : token_writer_add(&k->to, &separator, 1);
}

static Status tokenize(Tokenizing *k, Tokenizer *t, const Args *a)
{
    const char *out = args_value(a, "o"), *format = args_value(a, "format"), *separator = args_value(a, "separator");
    const size_t n = out ? strlen(out) : 0;
    uint32_t token = TOKEN_NONE;
    Mapped text;
    Status st = ST_OK;

    if (!out)
        return FAIL(E_INVALID, "-o FILE is missing");
    if (format && strcmp(format, "raw") && strcmp(format, "llmc"))
        return FAIL(E_INVALID, "--format: expected raw or llmc, found '%s'", format);
    if (format && n > 4 && !strcmp(out + n - 4, ".npy"))
        return FAIL(E_INVALID, "-o %s: a .npy file does not go with --format %s", out, format);
    if (separator && (token = tokenizer_added(t, separator)) == TOKEN_NONE)
        return FAIL(E_INVALID, "--separator: %s has no added token '%s'", a->positional[0], separator);
    for (int i = 1; i < a->n_positional; i++) { /* all of them before the first is read */
        TRY(mapped_open(&text, a->positional[i]));
        k->total += text.size;
        mapped_close(&text);
    }
    TRY(token_writer_open(&k->to, out,
                          n > 4 && !strcmp(out + n - 4, ".npy") ? TOKENS_NPY
                          : format && !strcmp(format, "llmc")   ? TOKENS_LLMC
                                                                : TOKENS_RAW,
                          t->vocabulary));
    for (int i = 1; i < a->n_positional && !st; i++)
        st = tokenize_file(k, t, a->positional[i], token);
    st = token_writer_close(&k->to, st);
    if (!st && !k->progress.quiet)
        printf("%s: %lld tokens of uint%d, vocabulary %u, %.2f bytes a token\n", out, (long long)k->to.n,
               8 * k->to.bytes, t->vocabulary, k->to.n ? (double)k->total / (double)k->to.n : 0);
    return st;
}

int run_tokenize(const Args *a)
{
    Tokenizing k = { 0 };
    Tokenizer *t = NULL;
    int64_t threads;
    Status st;

    progress_start(&k.progress, args_has(a, "quiet"));
    k.shown = k.progress.start;
    st = args_int(&threads, a, "workers", machine_cores(), 1, 256);
    st = st ? st : tokenizer_open(&t, a->positional[0]);
    st = st ? st : tokenizer_use_threads(t, a->positional[0], (int)threads);
    st = st ? st : tokenize(&k, t, a);
    tokenizer_free(t);
    return st ? args_failed(a, "dpexec", st) : EXIT_DONE;
}
