/* Cast between all real types and strings, BitCast, and CastAll for many tensors.
 *
 * A float becomes an integer by truncation toward zero.  Beyond the integer type's range it becomes the nearest end,
 * and NaN becomes 0 (C leaves both undefined).  Integers wrap.  A bool is true unless the number is 0.  Results in
 * 16-bit floats round once, to nearest even; smaller floats by the node's attributes.  A string must be a number. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "graph/base/saturate.h"
#include "graph/ops/cast.gen.h"
#include "graph/tensor/narrow_types.h"
#include "graph/tensor/strings.h"
#include "kernels/formulas.h"
#include "kernels/ref/ref.h"

/* A case of `switch (type)`: sets n elements of `out`, from element `at` on, to VALUE, which may use i and the result's
 * type R.  The lists of kernels/formulas.h pass a SUFFIX, which is not needed here. */
#define PUT(D, TYPE, SUFFIX, VALUE)     \
    case D: {                           \
        typedef TYPE R;                 \
        R *ys = (R *)out->data + at;    \
        for (int64_t i = 0; i < n; i++) \
            ys[i] = (VALUE);            \
        break;                          \
    }

/* cast_f32, cast_i64, ...: from each type to all */
#define BODY "kernels/ref/ref_cast.inc"
#define TYPES OF_NUMBERS
#include "kernels/each_type.inc"

/* The state is the rounding of 8-bit and smaller floats; NULL for other results. */
static Status prepare_cast(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const SmallRounding how = { node_int(n, "saturate") != 0, *node_string(n, "round_mode") };

    (void)ctx;
    return dtype_is_small_float(value(g, n->out[0])->dtype) ? kernel_state(state, &how, sizeof how) : ST_OK;
}

/* ---- strings ---- */

/* The shortest text that reads back as the same float64, or for smaller floats as the same float32.  "NaN", "INF" and
 * "-INF" are spelt as in ONNX. */
static const char *number_text(char buf[NUMBER_TEXT], const Tensor *x, int64_t i)
{
    const double v = tensor_float(x, i);

    if (!dtype_is_float(x->dtype) && !dtype_is_small_float(x->dtype)) {
        snprintf(buf, NUMBER_TEXT, x->dtype == DT_UINT64 ? "%" PRIu64 : "%" PRId64, tensor_int(x, i));
        return buf;
    }
    if (isnan(v) || isinf(v))
        return isnan(v) ? "NaN" : v > 0 ? "INF" : "-INF";
    return x->dtype == DT_FLOAT64 ? text_float64(buf, v) : text_float32(buf, (float)v);
}

static Status to_strings(KernelCtx *ctx, const Tensor *in, Tensor *out)
{
    char buf[NUMBER_TEXT];

    for (int64_t i = 0; i < tensor_numel(out); i++)
        if (!text_set(out, i, ctx->texts, text_of(number_text(buf, in, i))))
            return FAIL_NOMEM();
    return ST_OK;
}

/* Reads an integer exactly: an optional sign and at least one digit.  False: any other text, or a number beyond int64,
 * for uint64 beyond uint64. */
static bool read_integer(Tensor *y, int64_t i, Text s)
{
    const bool negative = s.n && *s.bytes == '-';
    const size_t sign = negative || (s.n && *s.bytes == '+');
    uint64_t v = 0;

    for (size_t k = sign; k < s.n; k++)
        if (s.bytes[k] < '0' || s.bytes[k] > '9' || __builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.bytes[k] - '0'), &v))
            return false;
    if (s.n == sign || v > (uint64_t)INT64_MAX + (y->dtype == DT_UINT64 && !negative ? UINT64_MAX / 2 + 1 : 0))
        return false;
    tensor_set_int(y, i, (int64_t)(negative ? 0 - v : v));
    return true;
}

static Status fail_not_a_number(Text s, int64_t i)
{
    char shown[64];

    snprintf(shown, sizeof shown, "%.*s", (int)(s.n < 40 ? s.n : 40), s.bytes);
    foreign_clean(shown);
    return FAIL(E_INVALID, "string %lld is '%s', expected a number", (long long)i, shown);
}

static Status from_strings(const Tensor *in, Tensor *out, const SmallRounding *how)
{
    for (int64_t i = 0; i < tensor_numel(out); i++) {
        const Text s = text_at(in, i);
        float single;
        double v;

        if (dtype_is_int(out->dtype) && read_integer(out, i, s))
            continue;
        if (!text_to_float64(&v, s.bytes, s.n))
            return fail_not_a_number(s, i);
        if (how)
            ((uint8_t *)out->data)[i] = small_from(out->dtype, v, *how);
        else if (out->dtype == DT_FLOAT32 && text_to_float32(&single, s.bytes, s.n))
            ((float *)out->data)[i] = single;
        else
            cast_f64(&v, out, i, 1);
    }
    return ST_OK;
}

static Status run_cast(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const cast[DT_COUNT])(const void *, Tensor *, int64_t,
                                        int64_t) = { OF_EACH_NUMBER(cast), [DT_BOOL] = cast_u8 };
    const int64_t n = tensor_numel(out);

    const SmallRounding *how = state;

    if (in->dtype == DT_STRING && out->dtype == DT_STRING)
        memcpy(out->data, in->data, (size_t)n * sizeof(Text *));
    else if (out->dtype == DT_STRING)
        return to_strings(ctx, in, out);
    else if (in->dtype == DT_STRING)
        return from_strings(in, out, how);
    else if (how)
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)out->data)[i] = small_from(out->dtype, tensor_float(in, i), *how);
    else if (cast[in->dtype])
        cast[in->dtype](in->data, out, 0, n);
    else if (dtype_is_small_int(in->dtype) && !dtype_is_float(out->dtype))
        for (int64_t i = 0; i < n; i++)
            cast_i64(&(int64_t){ tensor_int(in, i) }, out, i, 1);
    else
        for (int64_t i = 0; i < n; i++)
            cast_f64(&(double){ tensor_float(in, i) }, out, i, 1);
    return ST_OK;
}

DEFINE_KERNEL(ref_cast, .op = &op_Cast, .dtypes = DTYPES_STORED | DTYPES_TEXT, .prepare = prepare_cast, .run = run_cast,
              .release = free);
DEFINE_KERNEL(ref_cast_like, .op = &op_CastLike, .dtypes = DTYPES_STORED | DTYPES_TEXT, .prepare = prepare_cast,
              .run = run_cast, .release = free); /* for shape inference; lower makes it a Cast */

/* ---- bits ---- */

static Status run_bit_cast(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const int64_t n = tensor_numel(out);
    const uint8_t *x = in->data;
    uint8_t *y = out->data;

    (void)ctx;
    (void)state;
    if (tensor_bytes(out))
        memcpy(y, x, tensor_bytes(out));
    for (int64_t i = 0; i < n && out->dtype == DT_BOOL; i++)
        y[i] = x[i] != 0;
    /* Types below 8 bits take a byte each, of which they keep the low bits; a signed integer's sign fills the rest. */
    for (int64_t i = 0; i < n && dtype_bits(out->dtype) < 8; i++)
        y[i] = dtype_is_small_int(out->dtype) ? small_from_int(out->dtype, x[i])
                                              : x[i] & ((1 << dtype_bits(out->dtype)) - 1);
    return ST_OK;
}

DEFINE_KERNEL(ref_bit_cast, .op = &op_BitCast, .dtypes = DTYPES_STORED, .run = run_bit_cast);

/* ---- many tensors ---- */

static Status run_cast_all(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    for (int i = 0; i < *(const int *)state; i++)
        TRY(run_cast(ctx, NULL, &in[i], &out[i])); /* NULL: no type below has a SmallRounding */
    return ST_OK;
}

DEFINE_KERNEL(ref_cast_all, .op = &op_CastAll,
              .dtypes = DTYPE_BIT(DT_FLOAT32) | DTYPE_BIT(DT_FLOAT16) | DTYPE_BIT(DT_BFLOAT16),
              .prepare = ref_prepare_count, .run = run_cast_all, .release = free);
