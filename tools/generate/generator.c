/* Computes the scores of the last token, from the new tokens alone where the model allows to keep what it computed for
 * the earlier ones (dpx_run_tokens), else from all tokens in sight.  Several tokens at once are padded to a power of
 * two, so that few programs are planned; tokens behind the last one change no score before them.
 *
 * The first tokens of a generator are computed in both ways.  Once a text is longer than the window, its tokens have
 * other positions with each token that is written, and all are computed anew. */
#include "tools/generate/generator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/feed/model_metadata.h"
#include "tools/tensor_number.h"

enum { MOST_INPUTS = 16, SHORTEST = 16, CHECKED_TOKENS = 2 };
/* How far scores of both ways may be apart, of the range of all scores: in float32, and where values have 16 bits. */
static const double APART = 1e-3, APART_16 = 0.1;

typedef enum { GETS_TOKENS, GETS_MASK, GETS_POSITIONS } Content;

struct TextGenerator {
    dpx_trainer *trainer;
    int n, n_outputs;
    dpx_tensor input[MOST_INPUTS], *output;
    Content content[MOST_INPUTS];
    int tokens;            /* the input that gets them */
    int64_t window, fixed; /* fixed: the length that the input fixes; 0: it is open */
    bool keeps;            /* what was computed for earlier tokens */
    double apart;          /* APART, or APART_16 */
    int64_t kept, checked; /* the first tokens of the text that are kept; tokens computed in both ways */
    Progress *progress;
    double *score, *other; /* `other`: room for scores that are compared with them */
    Candidate *room;
    int64_t vocabulary; /* of score and room */
    int axis;           /* of the vocabulary in the scores: 1 or 2; 0: not known yet */
};

static Status add_input(TextGenerator *g, const dpx_info *in, int64_t *open_window)
{
    dpx_tensor *t = &g->input[g->n];

    if (g->n == MOST_INPUTS)
        return FAIL(E_UNSUPPORTED, "more than %d inputs", MOST_INPUTS);
    if (in->rank != 2 || (in->dtype != DPX_INT64 && in->dtype != DPX_INT32 && !strstr(in->name, "mask")))
        return FAIL(E_INVALID, "input '%s' does not take tokens [batch, T] as int64 or int32", in->name);
    *t = (dpx_tensor){ .name = in->name, .dtype = in->dtype, .rank = 2, .dim = { 1 } };
    g->content[g->n++] = strstr(in->name, "mask")       ? GETS_MASK
                         : strstr(in->name, "position") ? GETS_POSITIONS
                                                        : GETS_TOKENS;
    if (in->dim[1] > 0)
        g->fixed = in->dim[1];
    g->window = g->fixed ? g->fixed : *open_window;
    return ST_OK;
}

Status text_generator_open(TextGenerator **out, const dpx_model *model, dpx_trainer *trainer, const dpx_options *o,
                           int64_t window, Progress *progress)
{
    TextGenerator *g = calloc(1, sizeof *g);
    int tokens = 0;
    Status st = ST_OK;

    if (!g)
        return FAIL_NOMEM();
    g->trainer = trainer;
    g->progress = progress;
    g->keeps = true;
    g->apart = strcmp(dpx_options_get(o, "precision"), "float32") ? APART_16 : APART;
    g->axis = !strcmp(dpx_options_get(o, "class-axis"), "1")   ? 1
              : !strcmp(dpx_options_get(o, "class-axis"), "2") ? 2
                                                               : 0;
    g->n_outputs = dpx_model_count(model, DPX_OUTPUT);
    if (metadata_block(model) && window > metadata_block(model)) /* it has no positions behind these */
        window = metadata_block(model);
    for (int i = 0; !st && i < dpx_model_count(model, DPX_INPUT); i++) {
        dpx_info in;

        if (!(st = (Status)dpx_model_info(model, DPX_INPUT, i, &in)))
            st = add_input(g, &in, &window);
    }
    for (int i = 0; i < g->n; i++)
        if (g->content[i] == GETS_TOKENS) {
            g->tokens = i;
            tokens++;
        }
    if (!st && tokens != 1)
        st = FAIL(E_INVALID, "the model has %d inputs for tokens, expected one of [batch, T]", tokens);
    if (!st && !(g->output = calloc((size_t)g->n_outputs + 1, sizeof *g->output)))
        st = FAIL_NOMEM();
    for (int i = 0; !st && i < g->n; i++)
        if (!(g->input[i].data = calloc((size_t)g->window, sizeof(int64_t))))
            st = FAIL_NOMEM();
    if (st)
        text_generator_free(g);
    else
        *out = g;
    return st;
}

void text_generator_free(TextGenerator *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n; i++)
        free(g->input[i].data);
    free(g->output);
    free(g->score);
    free(g->other);
    free(g->room);
    free(g);
}

static void put(dpx_tensor *t, int64_t at, int64_t x)
{
    switch (t->dtype) {
    case DPX_INT64: ((int64_t *)t->data)[at] = x; break;
    case DPX_INT32: ((int32_t *)t->data)[at] = (int32_t)x; break;
    case DPX_FLOAT32: ((float *)t->data)[at] = (float)x; break;
    case DPX_FLOAT64: ((double *)t->data)[at] = (double)x; break;
    default: ((uint8_t *)t->data)[at] = (uint8_t)x; /* bool */
    }
}

/* A length for n tokens of at most `most`: a power of two. */
static int64_t padded(int64_t n, int64_t most)
{
    int64_t length = SHORTEST;

    while (length < n)
        length *= 2;
    return length < most ? length : most;
}

/* Fills the inputs with the last tokens of a text; *seen: how many. */
static void fill(TextGenerator *g, const TokenIds *text, int64_t *seen)
{
    const int64_t all = (int64_t)text->n, n = all < g->window ? all : g->window,
                  length = g->fixed ? g->fixed : padded(n, g->window);

    for (int i = 0; i < g->n; i++) {
        g->input[i].dim[1] = length;
        for (int64_t k = 0; k < length; k++)
            put(&g->input[i], k,
                g->content[i] == GETS_MASK        ? k < n
                : g->content[i] == GETS_POSITIONS ? k
                : k < n                           ? (int64_t)text->id[all - n + k]
                                                  : 0);
    }
    *seen = n;
}

static Status make_room(TextGenerator *g, int64_t n)
{
    if (n > g->vocabulary) {
        free(g->score);
        free(g->other);
        free(g->room);
        g->score = malloc((size_t)n * sizeof *g->score);
        g->other = malloc((size_t)n * sizeof *g->other);
        g->room = malloc((size_t)n * sizeof *g->room);
        if (!g->score || !g->other || !g->room)
            return FAIL_NOMEM();
    }
    g->vocabulary = n;
    return ST_OK;
}

/* Copies the scores behind token `at` of `length` out of the first output. */
static Status read_scores(TextGenerator *g, int64_t length, int64_t at)
{
    const dpx_tensor *y = &g->output[0];
    const bool has_scores = y->rank == 3 && (y->dim[1] == length || y->dim[2] == length) &&
                            (y->dtype == DPX_FLOAT32 || y->dtype == DPX_FLOAT64);
    int64_t n, step, from;

    if (has_scores && !g->axis && y->dim[1] == y->dim[2])
        return FAIL(
            E_INVALID,
            "output '%s' has %lld tokens and as many classes: give --class-axis 2 for [batch, T, vocabulary], 1 "
            "for [batch, vocabulary, T]",
            y->name, (long long)length);
    if (!g->axis)
        g->axis = has_scores && y->dim[1] == length ? 2 : 1;
    if (!has_scores || y->dim[3 - g->axis] != length)
        return FAIL(E_INVALID,
                    "output '%s' has no scores [batch, %lld, vocabulary] of the tokens, in float32 or float64", y->name,
                    (long long)length);
    n = y->dim[g->axis];
    step = g->axis == 2 ? 1 : length;
    from = g->axis == 2 ? at * n : at;
    TRY(make_room(g, n));
    for (int64_t i = 0; i < n; i++)
        g->score[i] = tensor_number(y, from + i * step);
    return ST_OK;
}

/* Whether a failure may be that of a text which is too long: of a shape, or of an index such as a position. */
static bool may_be_length(const TextGenerator *g, Status st) { return !g->fixed && (st == E_SHAPE || st == E_INVALID); }

/* Runs the model on all tokens in sight; *seen: how many. */
static Status run_all(TextGenerator *g, const TokenIds *text, int64_t *seen)
{
    fill(g, text, seen);
    return (Status)dpx_run(g->trainer, g->input, g->n, g->output, g->n_outputs);
}

/* After the failure `st` of run_all: tries half as many tokens, as often as that fails, and warns.  Returns the first
 * failure if there is no such number. */
static Status run_shorter(TextGenerator *g, const TokenIds *text, int64_t *seen, Status st)
{
    const Status first = st;
    const int64_t failed = g->input[0].dim[1];
    char why[400];

    snprintf(why, sizeof why, "%s", status_message());
    while (st && may_be_length(g, st) && g->input[0].dim[1] > SHORTEST) {
        g->window = padded((g->input[0].dim[1] + 1) / 2, g->window);
        st = run_all(g, text, seen);
    }
    if (st)
        return FAIL(first, "%s", why);
    g->keeps = false;
    progress_line(g->progress, "dpexec: warning: the model cannot read %lld tokens (%s): it sees the last %lld",
                  (long long)failed, why, (long long)g->window);
    return ST_OK;
}

/* Computes the scores from all tokens in sight. */
static Status compute_all(TextGenerator *g, const TokenIds *text)
{
    int64_t seen;
    Status st = run_all(g, text, &seen);

    if (st)
        TRY(may_be_length(g, st) ? run_shorter(g, text, &seen, st) : st);
    return read_scores(g, g->input[0].dim[1], seen - 1);
}

/* Runs the model on the tokens that are not kept; *length: with padding. */
static Status run_new(TextGenerator *g, const TokenIds *text, int64_t *length)
{
    dpx_tensor tokens = g->input[g->tokens];
    const int64_t from = g->kept, n = (int64_t)text->n - from;

    *length = tokens.dim[1] = n == 1 ? 1 : padded(n, g->window - from);
    for (int64_t i = 0; i < tokens.dim[1]; i++)
        put(&tokens, i, i < n ? (int64_t)text->id[from + i] : 0);
    return (Status)dpx_run_tokens(g->trainer, &tokens, from, g->window, g->output, g->n_outputs);
}

/* Computes the scores in the other way, too, and ends the keeping of earlier tokens if they differ. */
static Status check_kept(TextGenerator *g, const TokenIds *text)
{
    double low = g->score[0], high = low, most = 0;
    const int64_t n = g->vocabulary;
    double *kept = g->score;

    g->score = g->other;
    g->other = kept;
    TRY(compute_all(g, text));
    if (n != g->vocabulary)
        return FAIL(E_INTERNAL, "%lld scores, expected %lld", (long long)g->vocabulary, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        low = fmin(low, g->score[i]);
        high = fmax(high, g->score[i]);
        most = isfinite(g->score[i]) ? fmax(most, fabs(g->score[i] - kept[i])) : most;
    }
    g->checked++;
    if (!(most > g->apart * (high - low)))
        return ST_OK;
    g->keeps = false;
    progress_line(g->progress,
                  "dpexec: warning: the key-value cache changes the scores of token %lld by %.3g: generation goes on "
                  "without it, and computes all tokens anew for each new one",
                  (long long)text->n, most);
    return ST_OK;
}

/* Computes the scores of the token that follows. */
static Status compute_scores(TextGenerator *g, const TokenIds *text)
{
    int64_t length;
    Status st;

    if (!g->keeps || (int64_t)text->n > g->window)
        return compute_all(g, text);
    if (!(st = run_new(g, text, &length))) {
        TRY(read_scores(g, length, (int64_t)text->n - g->kept - 1));
        g->kept = (int64_t)text->n;
        return g->checked < CHECKED_TOKENS ? check_kept(g, text) : ST_OK;
    }
    if (st != E_UNSUPPORTED && !may_be_length(g, st))
        return st;
    g->keeps = false;
    if (!g->progress->quiet)
        progress_line(g->progress, "no key-value cache, all tokens are computed anew for each new one: %s",
                      status_message());
    return compute_all(g, text);
}

Status text_generator_write(TextGenerator *g, TokenIds *text, int64_t n, const Sampling *how, TextGeneratorSink *take,
                            void *user)
{
    g->kept = 0; /* parameters may have changed */
    for (int64_t i = 0; i < n; i++) {
        int64_t token;

        TRY(compute_scores(g, text));
        token = sample_token(how, g->score, g->vocabulary, i, g->room);
        TRY(token_ids_add(text, (uint32_t)token));
        TRY(take(user, (uint32_t)token));
    }
    return ST_OK;
}
