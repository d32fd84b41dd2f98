/* Inference of a language model token by token. */
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "passes/generate/token_input.h"

/* Checks the tokens against the model's input and the window, and names them as the model does. */
static Status read_tokens(NamedTensor *out, const dpx_trainer *t, const dpx_tensor *tokens, int64_t position,
                          int64_t window)
{
    const Graph *g = t->model->graph;
    const ValueId input = token_input(g);
    Tensor given;
    char text[SHAPE_TEXT];

    TRY(api_tensor(&given, tokens));
    if (!has_value(input))
        return FAIL(E_UNSUPPORTED, "the model has no single input of tokens [1, T] as int64 or int32");
    if (tokens->name && strcmp(tokens->name, value(g, input)->name) != 0)
        return FAIL(E_INVALID, "tokens for '%s', expected '%s'", tokens->name, value(g, input)->name);
    if (given.dtype != value(g, input)->dtype)
        return FAIL(E_SHAPE, "input '%s' is %s, expected %s", value(g, input)->name, dtype_name(given.dtype),
                    dtype_name(value(g, input)->dtype));
    if (given.shape.rank != 2 || given.shape.dim[0] != 1 || given.shape.dim[1] < 1 || position < 0 ||
        given.shape.dim[1] > window - position)
        return FAIL(E_SHAPE, "tokens %s at position %lld do not fit a window of %lld", shape_text(&given.shape, text),
                    (long long)position, (long long)window);
    *out = (NamedTensor){ value(g, input)->name, given };
    return ST_OK;
}

static Status run_tokens(dpx_trainer *t, const dpx_tensor *tokens, int64_t *place, int64_t window, dpx_tensor *outputs)
{
    const int64_t position = place[0];
    GivenBatch f = { .n = 2, .number = { -1, -1 } };
    const NamedTensor *out;
    SessionStep step;
    int n_out;

    TRY(read_tokens(&f.tensor[0], t, tokens, position, window));
    for (int64_t i = 0; i < tokens->dim[1]; i++)
        place[i] = position + i;
    f.tensor[1] = (NamedTensor){ IN_POSITION, { DT_INT64, SHAPE(tokens->dim[1]), place } };
    TRY(session_set_window(t->session, window));
    TRY(trainer_average(t));
    TRY(trainer_begin(t, BUILD_CONTINUE, &f, &step));
    TRY(session_end(&out, &n_out, &step));
    return trainer_view_outputs(outputs, t, out, n_out);
}

dpx_status dpx_run_tokens(dpx_trainer *t, const dpx_tensor *tokens, int64_t position, int64_t window,
                          dpx_tensor *outputs, int n_outputs)
{
    int64_t *place;
    Status st;

    NEED(t, "trainer");
    NEED(tokens, "tokens");
    if (n_outputs)
        NEED(outputs, "outputs");
    if (n_outputs != t->model->graph->n_output)
        return (dpx_status)FAIL(E_INVALID, "room for %d outputs, the model has %d", n_outputs,
                                t->model->graph->n_output);
    if (trainer_has_peers(t))
        return (dpx_status)FAIL(E_UNSUPPORTED, "several processes compute the model");
    if (tokens->rank != 2 || tokens->dim[1] < 1 || tokens->dim[1] > window)
        return (dpx_status)FAIL(E_SHAPE, "tokens have rank %d, expected [1, n] of at most %lld", tokens->rank,
                                (long long)window);
    if (!(place = malloc((size_t)tokens->dim[1] * sizeof *place)))
        return (dpx_status)FAIL_NOMEM();
    place[0] = position;
    st = run_tokens(t, tokens, place, window, outputs);
    free(place);
    return (dpx_status)st;
}
