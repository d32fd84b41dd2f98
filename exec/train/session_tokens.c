/* Steps of BUILD_CONTINUE: the window of a session, and how many tokens a step has. */
#include "exec/train/internal.h"
#include "passes/generate/token_input.h"

Status session_set_window(Session *s, int64_t window)
{
    if (s->window && s->window != window)
        return FAIL(E_INVALID, "the window has %lld tokens, expected %lld as before", (long long)window,
                    (long long)s->window);
    s->window = window;
    return ST_OK;
}

TokenOptions session_tokens(const Session *s, const NamedTensor *in, int n_in)
{
    const Tensor *at = named_find(in, n_in, IN_POSITION);

    return (TokenOptions){ s->window, at ? shape_numel(&at->shape) : 0 };
}
