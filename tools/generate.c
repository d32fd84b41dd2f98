/* dpexec generate: writes on a text by a language model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/data/source.h"
#include "tools/feed/model_metadata.h"
#include "tools/generate/generator.h"
#include "tools/progress.h"

enum { LEAST_WINDOW = 16 };

static const Flag flags[] = {
    { "prompt", "TEXT", "text to continue [a line's end]" },
    { "tokens", "N", "tokens to write [200]" },
    { "temperature", "X", "divisor of the scores; larger: more random; 0: always the likeliest token [0.8]" },
    { "top-k", "N", "draw among the N likeliest tokens [all]" },
    { "top-p", "X", "draw among the likeliest tokens whose probabilities add up to X [1]" },
    { "sample-seed", "N", "seed of the drawn tokens: each gives another text [0]" },
    { "tokenizer", "FILE.json|bytes", "how texts become tokens [the training run's, else bytes]" },
    { "window", "N",
      "tokens that the model sees at once, where its input leaves their number open [the file's, or up to 1024]" },
    { "at", "best|last|STEP", "which model of a run, where MODEL.onnx is its folder [best, if there is one]" },
    { "quiet", NULL, "print nothing but the text" },
    { NULL, NULL, NULL },
};

const Command command_generate = { "generate",
                                   "MODEL.onnx --prompt TEXT [options]",
                                   "Writes on a text by a language model.",
                                   flags,
                                   OPTIONS_TO_RUN,
                                   1,
                                   1,
                                   NULL };

/* Reads which tokenizer the run trained with, from args.json beside its model; "bytes" where it says none. */
static void find_tokenizer(char out[4096], const char *model)
{
    const char *slash = strrchr(model, '/');
    char path[4200];
    json_t *args;
    const char *data;
    Source s;

    snprintf(out, 4096, "bytes");
    snprintf(path, sizeof path, "%.*sargs.json", slash ? (int)(slash - model + 1) : 0, model);
    args = json_load_file(path, 0, NULL);
    data = json_string_value(json_object_get(json_object_get(args, "flags"), "data"));
    if (data && !source_parse(&s, data)) {
        if (source_value(&s, "tokenizer"))
            snprintf(out, 4096, "%s", source_value(&s, "tokenizer"));
        source_free(&s);
    }
    json_decref(args);
}

/* Prints the bytes of a token at once. */
static Status print_token(void *user, uint32_t token)
{
    const Tokenizer *t = user;
    size_t n = 0;
    const char *bytes = tokenizer_bytes(&n, t, token);

    fwrite(bytes ? bytes : "\357\277\275", 1, bytes ? n : 3, stdout); /* U+FFFD: the tokenizer has no such token */
    return fflush(stdout) ? FAIL(E_IO, "cannot write the text") : ST_OK;
}

static Status read_numbers(Sampling *how, int64_t *tokens, int64_t *window, const Args *a)
{
    int64_t seed;

    TRY(args_int(tokens, a, "tokens", 200, 1, INT32_MAX));
    TRY(args_int(window, a, "window", 0, 1, 1 << 24));
    TRY(args_int(&how->top_k, a, "top-k", 0, 1, INT32_MAX));
    TRY(args_int(&seed, a, "sample-seed", 0, 0, INT64_MAX));
    TRY(args_real(&how->temperature, a, "temperature", 0.8));
    TRY(args_real(&how->top_p, a, "top-p", 1));
    how->seed = (uint64_t)seed;
    if (how->temperature < 0)
        return FAIL(E_INVALID, "--temperature: expected a number from 0 on, found %s", args_value(a, "temperature"));
    return how->top_p > 0 && how->top_p <= 1
               ? ST_OK
               : FAIL(E_INVALID, "--top-p: expected a number above 0, up to 1, found %s", args_value(a, "top-p"));
}

/* Plans for texts of so many tokens where the model leaves their length open; *open: it does. */
static Status set_lengths(bool *open, dpx_options *o, const dpx_model *model, int64_t window)
{
    for (int i = 0; i < dpx_model_count(model, DPX_INPUT); i++) {
        char text[512];
        dpx_info in;

        TRY((Status)dpx_model_info(model, DPX_INPUT, i, &in));
        if (in.rank != 2 || in.dim[1] > 0)
            continue;
        snprintf(text, sizeof text, "%.256s=1,%lld", in.name, (long long)window);
        TRY((Status)dpx_options_set(o, "input-shape", text));
        *open = true;
    }
    return ST_OK;
}

/* Makes the trainer for texts of so many tokens; *open: as in set_lengths. */
static Status try_trainer(dpx_trainer **out, bool *open, const Args *a, const dpx_model *model, int64_t window,
                          Progress *progress)
{
    dpx_options *o;
    Status st;

    TRY((Status)dpx_options_copy(&o, a->options));
    st = *dpx_options_get(o, "input-shape") ? ST_OK : set_lengths(open, o, model, window);
    st = st ? st : (Status)dpx_trainer_create(out, model, o, report_log, progress);
    dpx_options_free(o);
    return st;
}

/* Makes the trainer.  Where nobody has `decided` how many tokens the model sees, tries fewer while shapes do not fit.
 */
static Status open_trainer(dpx_trainer **out, int64_t *window, const Args *a, const dpx_model *model, bool decided,
                           Progress *progress)
{
    const int64_t first = *window;
    bool open = false;
    char why[400];
    Status st = try_trainer(out, &open, a, model, *window, progress);

    if (st != E_SHAPE || decided || !open)
        return st;
    snprintf(why, sizeof why, "%s", status_message());
    while (st == E_SHAPE && *window > LEAST_WINDOW)
        st = try_trainer(out, &open, a, model, *window /= 2, progress);
    if (st)
        return FAIL(E_SHAPE, "%s", why);
    progress_line(progress,
                  "dpexec: warning: the model cannot read %lld tokens (%s): it sees the last %lld; give --window N",
                  (long long)first, why, (long long)*window);
    return ST_OK;
}

/* Opens model and trainer, encodes the prompt and writes. */
static Status generate(const Args *a, dpx_model **model, dpx_trainer **trainer, Tokenizer **tokenizer,
                       TextGenerator **g, TokenIds *text, Progress *progress)
{
    const char *prompt = args_value(a, "prompt") ? args_value(a, "prompt") : "\n";
    int64_t tokens, window, most; /* most: that the file allows */
    size_t replaced, first;
    Sampling how;
    char found[4096];
    bool decided; /* how many tokens the model sees */
    double begun;

    TRY(read_numbers(&how, &tokens, &window, a));
    find_tokenizer(found, a->positional[0]);
    TRY(tokenizer_open(tokenizer, args_value(a, "tokenizer") ? args_value(a, "tokenizer") : found));
    TRY(tokenizer_encode(*tokenizer, (const uint8_t *)prompt, strlen(prompt), token_ids_take, text, &replaced, &first));
    if (!text->n)
        return FAIL(E_INVALID, "--prompt has no token");
    TRY((Status)dpx_model_load(model, a->positional[0]));
    most = metadata_block(*model);
    if (most && window > most)
        return FAIL(E_INVALID, "--window %lld: %s reads at most %lld tokens", (long long)window, a->positional[0],
                    (long long)most);
    decided = window || most;
    window = window ? window : most ? most : 1024;
    TRY((Status)dpx_options_set(a->options, "batch-size", "1"));
    TRY(open_trainer(trainer, &window, a, *model, decided, progress));
    TRY(text_generator_open(g, *model, *trainer, a->options, window, progress));
    fputs(prompt, stdout);
    begun = seconds_now();
    TRY(text_generator_write(*g, text, tokens, &how, print_token, *tokenizer));
    putchar('\n');
    if (!progress->quiet)
        progress_line(progress, "%lld tokens, %.1f a second", (long long)tokens,
                      (double)tokens / (seconds_now() - begun));
    return ST_OK;
}

int run_generate(const Args *a)
{
    dpx_model *model = NULL;
    dpx_trainer *trainer = NULL;
    Tokenizer *tokenizer = NULL;
    TextGenerator *g = NULL;
    TokenIds text = { 0 };
    Progress progress;
    Status st;

    progress_start(&progress, args_has(a, "quiet"));
    st = generate(a, &model, &trainer, &tokenizer, &g, &text, &progress);
    progress_end(&progress);
    text_generator_free(g);
    tokenizer_free(tokenizer);
    free(text.id);
    dpx_trainer_free(trainer);
    dpx_model_free(model);
    return st ? args_failed(a, "dpexec", st) : EXIT_DONE;
}
