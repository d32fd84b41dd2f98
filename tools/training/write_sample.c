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

/* The length of the longest texts of training, which the model can read; SAMPLE_WINDOW if that is less. */
static int64_t trained_length(const Run *r)
{
    int64_t most = 0;

    for (int i = 0; i < dpx_model_count(r->model, DPX_INPUT); i++) {
        dpx_info in;

        if (dpx_model_info(r->model, DPX_INPUT, i, &in))
            continue;
        for (int k = 0; k < r->train.n; k++) {
            const Field *f = &r->train.field[k];
            int64_t dim[DPX_MAX_RANK];

            if (strcmp(f->name, in.name) || field_rank(f) != 2)
                continue;
            field_dims(dim, f, 1, field_longest(f));
            most = dim[1] > most ? dim[1] : most;
        }
    }
    return most && most < SAMPLE_WINDOW ? most : SAMPLE_WINDOW;
}

Status open_sampler(Run *r)
{
    const char *source = source_value(&r->train.data->source, "tokenizer");

    if (!r->sample_every)
        return ST_OK;
    TRY(tokenizer_open(&r->tokenizer, source ? source : "bytes"));
    return status_prefix(
        text_generator_open(&r->generator, r->model, r->trainer, r->args->options, trained_length(r), &r->progress),
        "--sample-every");
}

/* Logs the text of the tokens, and prints it unless the run is --quiet.  Bytes of 0, which a byte model may write,
 * become bytes that are not UTF-8. */
static Status print_text(Run *r, const TokenIds *ids)
{
    TextBuffer text = { 0 };
    Status st = decode_tokens(&text, r->tokenizer, ids->id, ids->n);

    for (size_t i = 0; i < text.n && !st; i++)
        text.text[i] = (char)(text.text[i] ? text.text[i] : '\xff');
    st = st ? st : text_add(&text, "", 1);
    st = st ? st : run_dir_log_text(&r->dir, r->step, text.text);
    if (!st && !r->progress.quiet)
        progress_line(&r->progress, "step %" PRId64 ", the model writes:\n%s", r->step, text.text);
    free(text.text);
    return st;
}

static Status write_text(Run *r)
{
    const Sampling how = { .temperature = 0.8, .top_p = 1, .seed = (uint64_t)r->step };
    const char *given = args_value(r->args, "sample-prompt"), *prompt = given ? given : "\n";
    TokenIds ids = { 0 };
    size_t replaced, first;
    Status st = tokenizer_encode(r->tokenizer, (const uint8_t *)prompt, strlen(prompt), token_ids_take, &ids, &replaced,
                                 &first);

    if (!st && !ids.n && !given) /* a tokenizer that drops white space */
        st = tokenizer_encode(r->tokenizer, (const uint8_t *)".", 1, token_ids_take, &ids, &replaced, &first);
    if (!st && !ids.n)
        st = FAIL(E_INVALID, "--sample-prompt has no token");
    st = st ? st : text_generator_write(r->generator, &ids, SAMPLE_TOKENS, &how, ignore_token, NULL);
    st = st ? st : print_text(r, &ids);
    free(ids.id);
    return st;
}

void write_sample(Run *r)
{
    if (r->progress.quiet && !r->dir.metrics)
        return;
    progress_pause(&r->progress);
    if (write_text(r)) {
        progress_line(&r->progress, "dpexec: warning: --sample-every: no more texts are written: %s", status_message());
        r->sample_every = 0;
    }
    progress_resume(&r->progress);
}
