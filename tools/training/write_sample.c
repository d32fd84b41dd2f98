/* --sample-every: what the model writes while it learns. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/text/decode.h"
#include "tools/training/training.h"

enum { SAMPLE_TOKENS = 120, SAMPLE_WINDOW = 1024 };

/* A TextGeneratorSink: the ids are in the list. */
static Status ignore_token(void *user, uint32_t token)
{
    (void)user;
    (void)token;
    return ST_OK;
}

static Status open_sampler(Run *r)
{
    const char *source = source_value(&r->train.data->source, "tokenizer");

    TRY(tokenizer_open(&r->tokenizer, source ? source : "bytes"));
    return status_prefix(
        text_generator_open(&r->generator, r->model, r->trainer, r->args->options, SAMPLE_WINDOW, &r->progress),
        "--sample-every");
}

/* Prints the text of the tokens. */
static Status print_text(Run *r, const TokenIds *ids)
{
    TextBuffer text = { 0 };
    const Status st = decode_tokens(&text, r->tokenizer, ids->id, ids->n);

    if (!st)
        progress_line(&r->progress, "step %" PRId64 ", the model writes:\n%.*s", r->step, (int)text.n, text.text);
    free(text.text);
    return st;
}

Status write_sample(Run *r)
{
    const Sampling how = { .temperature = 0.8, .top_p = 1, .seed = (uint64_t)r->step };
    const char *prompt = args_value(r->args, "sample-prompt") ? args_value(r->args, "sample-prompt") : "\n";
    TokenIds ids = { 0 };
    size_t replaced, first;
    Status st;

    if (r->progress.quiet)
        return ST_OK;
    if (!r->generator)
        TRY(open_sampler(r));
    progress_pause(&r->progress);
    st = tokenizer_encode(r->tokenizer, (const uint8_t *)prompt, strlen(prompt), token_ids_take, &ids, &replaced,
                          &first);
    if (!st && !ids.n)
        st = FAIL(E_INVALID, "--sample-prompt has no token");
    st = st ? st : text_generator_write(r->generator, &ids, SAMPLE_TOKENS, &how, ignore_token, NULL);
    st = st ? st : print_text(r, &ids);
    progress_resume(&r->progress);
    free(ids.id);
    return st;
}
