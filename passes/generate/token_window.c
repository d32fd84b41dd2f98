/* token-window: the inputs beside the tokens of a language model become constants of a whole window: masks are ones,
 * positions the numbers from 0.  They are what the model gets for a text that fills the window, and what it gets for
 * each shorter text up to its last token. */
#include <string.h>

#include "passes/generate/token_input.h"
#include "passes/options/tokens.h"
#include "passes/pass.h"

typedef enum { TOKENS, MASK, POSITIONS } Content;

static Content content_of(const Value *v)
{
    return strstr(v->name, "mask") ? MASK : strstr(v->name, "position") ? POSITIONS : TOKENS;
}

static bool takes_ids(const Value *v)
{
    return (v->dtype == DT_INT64 || v->dtype == DT_INT32) && (v->shape->rank == 2 || v->shape->rank < 0);
}

ValueId token_input(const Graph *g)
{
    ValueId found = NO_VALUE;

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);

        if (content_of(v) != TOKENS || !strcmp(v->name, IN_POSITION))
            continue;
        if (has_value(found) || !takes_ids(v))
            return NO_VALUE;
        found = g->input[i];
    }
    return found;
}

static Status make_constant(Graph *g, Value *v, int64_t window)
{
    const Shape shape = SHAPE(1, window);
    Tensor *t = tensor_create(g->arena, v->dtype, &shape);

    if (!t)
        return FAIL_NOMEM();
    for (int64_t i = 0; i < window; i++)
        tensor_set_float(t, i, content_of(v) == MASK ? 1 : (double)i);
    v->kind = V_CONST;
    v->dim_param = NULL;
    v->init = t;
    value_set_shape(g, v, &shape);
    return g->status;
}

/* Binds the shape of the tokens. */
static Status bind_tokens(Graph *g, Value *v, int64_t window)
{
    const Shape shape = SHAPE(1, window);
    char text[SHAPE_TEXT];

    for (int i = 0; i < v->shape->rank; i++)
        if (v->shape->rank != 2 || (v->shape->dim[i] >= 0 && v->shape->dim[i] != shape.dim[i]))
            return FAIL(E_UNSUPPORTED, "input '%s' is %s, expected [1, %lld]", v->name, shape_text(v->shape, text),
                        (long long)window);
    value_set_shape(g, v, &shape);
    return g->status;
}

static Status token_window_run(Graph *g, PassCtx *ctx)
{
    const ValueId tokens = token_input(g);
    const int64_t window = token_options(ctx->opt)->window;

    if (!has_value(tokens))
        return FAIL(E_UNSUPPORTED, "the model has no single input of tokens [1, T] as int64 or int32");
    if (window < 2)
        return FAIL(E_UNSUPPORTED, "a window of %lld tokens has no past", (long long)window);
    TRY(bind_tokens(g, value(g, tokens), window));
    for (int i = 0; i < g->n_input; i++)
        if (!value_eq(g->input[i], tokens))
            TRY(make_constant(g, value(g, g->input[i]), window));
    ctx->n_changed += g->n_input - 1;
    g->input[0] = tokens;
    g->n_input = 1;
    return ST_OK;
}

const Pass pass_token_window = { .name = "token-window",
                                 .summary = "make masks and positions of a window of tokens constants",
                                 .modes = 1u << BUILD_CONTINUE,
                                 .run = token_window_run };
