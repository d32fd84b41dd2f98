/* Operators of strings, and equality of strings.  Their bytes go to the interpreter's arena (KernelCtx.texts). */
#include "graph/base/foreign.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/string_filter.h"
#include "graph/ops/text.gen.h"
#include "kernels/broadcast.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/regex.h"

/* ---- two of them, which broadcast ---- */

static Status ref_text_run_concat(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    int64_t at = 0;

    (void)state;
    for (WALK(w, &out->shape, 2, in))
        for (int64_t i = 0; i < w.row; i++) {
            const Text a = text_at(&in[0], w.offset[0] + i * w.row_stride[0]),
                       b = text_at(&in[1], w.offset[1] + i * w.row_stride[1]);
            char *y = text_make(&out[0], at++, ctx->texts, a.n + b.n);

            if (!y)
                return FAIL_NOMEM();
            memcpy(y, a.bytes, a.n);
            memcpy(y + a.n, b.bytes, b.n);
        }
    return ST_OK;
}

DEFINE_KERNEL(ref_string_concat, .op = &op_StringConcat, .run = ref_text_run_concat);

static Status run_equal(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    bool *y = out->data;

    (void)ctx;
    (void)state;
    for (WALK(w, &out->shape, 2, in))
        for (int64_t i = 0; i < w.row; i++)
            *y++ = text_same(text_at(&in[0], w.offset[0] + i * w.row_stride[0]),
                             text_at(&in[1], w.offset[1] + i * w.row_stride[1]));
    return ST_OK;
}

DEFINE_KERNEL(ref_equal_strings, .op = &op_Equal, .dtypes = DTYPES_TEXT, .run = run_equal);

/* ---- RegexFullMatch ---- */

static Status prepare_match(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    char why[REGEX_WHY];

    (void)ctx;
    (void)g;
    if ((*state = regex_create(node_string(n, "pattern"), why)))
        return ST_OK;
    foreign_clean(why);
    return *why ? FAIL(E_MODEL, "pattern '%.100s': %s", node_string(n, "pattern"), why) : FAIL_NOMEM();
}

static Status run_match(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    for (int64_t i = 0; i < tensor_numel(&out[0]); i++) {
        const Text x = text_at(&in[0], i);
        const int is = regex_matches(state, x.bytes, x.n);

        if (is < 0)
            return FAIL_NOMEM();
        ((uint8_t *)out[0].data)[i] = (uint8_t)is;
    }
    return ST_OK;
}

static void release_match(void *state) { regex_free(state); }

DEFINE_KERNEL(ref_regex_full_match, .op = &op_RegexFullMatch, .prepare = prepare_match, .run = run_match,
              .release = release_match);

/* ---- StringSplit ---- */

typedef struct {
    Text by;
    int64_t most;
    bool counts; /* its second output is there */
} Split;

static Status prepare_split(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Split s = { text_of(node_string(n, "delimiter")), node_int(n, "maxsplit"), has_out(n, 1) };

    (void)ctx;
    (void)g;
    return kernel_state(state, &s, sizeof s);
}

static Status ref_text_run_split(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Split *how = state;
    const int64_t wide = out[0].shape.dim[in[0].shape.rank];
    Text part;

    for (int64_t i = 0; i < tensor_numel(&in[0]); i++) {
        TextSplit s = text_split(text_at(&in[0], i), how->by, how->most);
        int64_t n = 0;

        for (; text_split_next(&part, &s); n++)
            if (!text_set(&out[0], i * wide + n, ctx->texts, part))
                return FAIL_NOMEM();
        if (how->counts)
            ((int64_t *)out[1].data)[i] = n;
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_string_split, .op = &op_StringSplit, .prepare = prepare_split, .run = ref_text_run_split,
              .release = free);

/* ---- StringNormalizer ---- */

static Status prepare_normalizer(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    TextFilter *f;

    (void)ctx;
    TRY(text_filter_create(&f, g, n));
    *state = f;
    return ST_OK;
}

static Status run_normalizer(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < tensor_numel(&in[0]); i++) {
        bool drops;

        TRY(text_filter_drops(&drops, state, text_at(&in[0], i)));
        if (!drops && !text_filter_set(&out[0], kept++, ctx->texts, state, text_at(&in[0], i)))
            return FAIL_NOMEM();
    }
    return ST_OK;
}

static void release_normalizer(void *state) { text_filter_free(state); }

DEFINE_KERNEL(ref_string_normalizer, .op = &op_StringNormalizer, .prepare = prepare_normalizer, .run = run_normalizer,
              .release = release_normalizer);
