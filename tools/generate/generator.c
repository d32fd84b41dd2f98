/* Computes the scores of all tokens in sight for each token that is written.  Where the model leaves the length open,
 * it is rounded up to a power of two, so that few programs are planned; tokens behind the last one change no score
 * before them. */
#include "tools/generate/generator.h"

#include <stdlib.h>
#include <string.h>

#include "tools/tensor_number.h"

enum { MOST_INPUTS = 16, SHORTEST = 16 };

typedef enum { GETS_TOKENS, GETS_MASK, GETS_POSITIONS } Content;

struct TextGenerator {
    dpx_trainer *trainer;
    int n, n_outputs;
    dpx_tensor input[MOST_INPUTS], *output;
    Content content[MOST_INPUTS];
    int64_t window, fixed; /* fixed: the length that the input fixes; 0: it is open */
    double *score;
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
                           int64_t window)
{
    TextGenerator *g = calloc(1, sizeof *g);
    int tokens = 0;
    Status st = ST_OK;

    if (!g)
        return FAIL_NOMEM();
    g->trainer = trainer;
    g->axis = !strcmp(dpx_options_get(o, "class-axis"), "1")   ? 1
              : !strcmp(dpx_options_get(o, "class-axis"), "2") ? 2
                                                               : 0;
    g->n_outputs = dpx_model_count(model, DPX_OUTPUT);
    for (int i = 0; !st && i < dpx_model_count(model, DPX_INPUT); i++) {
        dpx_info in;

        if (!(st = (Status)dpx_model_info(model, DPX_INPUT, i, &in)))
            st = add_input(g, &in, &window);
    }
    for (int i = 0; i < g->n; i++)
        tokens += g->content[i] == GETS_TOKENS;
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

/* Fills the inputs with the last tokens of a text; *seen: how many. */
static void fill(TextGenerator *g, const TokenIds *text, int64_t *seen)
{
    const int64_t all = (int64_t)text->n, n = all < g->window ? all : g->window;
    int64_t length = SHORTEST;

    while (length < n)
        length *= 2;
    length = g->fixed ? g->fixed : length < g->window ? length : g->window;
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

/* Copies the scores behind token `at` out of the first output. */
static Status read_scores(TextGenerator *g, int64_t at)
{
    const dpx_tensor *y = &g->output[0];
    const int64_t length = g->input[0].dim[1];
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
    if (n > g->vocabulary) {
        free(g->score);
        free(g->room);
        g->score = malloc((size_t)n * sizeof *g->score);
        g->room = malloc((size_t)n * sizeof *g->room);
        if (!g->score || !g->room)
            return FAIL_NOMEM();
    }
    g->vocabulary = n;
    for (int64_t i = 0; i < n; i++)
        g->score[i] = tensor_number(y, from + i * step);
    return ST_OK;
}

Status text_generator_write(TextGenerator *g, TokenIds *text, int64_t n, const Sampling *how, TextGeneratorSink *take,
                            void *user)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t seen, token;

        fill(g, text, &seen);
        TRY((Status)dpx_run(g->trainer, g->input, g->n, g->output, g->n_outputs));
        TRY(read_scores(g, seen - 1));
        token = sample_token(how, g->score, g->vocabulary, i, g->room);
        TRY(token_ids_add(text, (uint32_t)token));
        TRY(take(user, (uint32_t)token));
    }
    return ST_OK;
}
