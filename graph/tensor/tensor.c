/* Tensors, and access to elements of any type as int64 or double.  A double is rounded once to float16, to nearest
 * even. To bfloat16 it is rounded by way of float32, as PyTorch does. */
#include "graph/tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "graph/base/saturate.h"
#include "graph/tensor/layout.h"
#include "graph/tensor/narrow_types.h"
#include "graph/tensor/strings.h"

int64_t tensor_numel(const Tensor *t) { return shape_numel(&t->shape); }

size_t tensor_bytes(const Tensor *t) { return layout_bytes(t->dtype, LAYOUT_ROWS, &t->shape); }

Tensor *tensor_create(Arena *a, DType dtype, const Shape *shape)
{
    Tensor *t = ARENA_NEW(a, Tensor, 1);

    if (!t)
        return NULL;
    t->dtype = dtype;
    t->shape = *shape;
    t->data = arena_alloc(a, tensor_bytes(t));
    return t->data ? t : NULL;
}

Tensor *tensor_zeros(Arena *a, DType dtype, const Shape *shape)
{
    Tensor *t = ARENA_NEW(a, Tensor, 1);

    if (t)
        *t = (Tensor){ dtype, *shape, NULL };
    return t;
}

Tensor *tensor_copy(Arena *a, const Tensor *t)
{
    Tensor *copy = tensor_zeros(a, t->dtype, &t->shape);

    if (copy && t->data && !(copy->data = arena_memdup(a, t->data, tensor_bytes(t))))
        return NULL;
    return copy && t->dtype == DT_STRING && !text_copy_all(copy, a, t) ? NULL : copy;
}

float half_to_float(uint16_t h)
{
    int exponent = (h >> 10) & 31, mantissa = h & 1023;
    float v = exponent == 31 ? (mantissa ? NAN : INFINITY)
              : exponent     ? ldexpf((float)(mantissa + 1024), exponent - 25)
                             : ldexpf((float)mantissa, -24);

    return h & 0x8000 ? -v : v;
}

/* Rounds a double once, to nearest even: 11 significant bits, subnormals in steps of 2^-24. */
uint16_t half_from_double(double d)
{
    uint16_t sign = signbit(d) ? 0x8000 : 0;
    double a = fabs(d), steps;
    int e;

    if (isnan(d))
        return 0x7e00;
    if (a >= 65520.0)
        return sign | 0x7c00;
    frexp(a, &e);
    if (e < -13)
        e = -13;
    steps = nearbyint(ldexp(a, 11 - e)); /* in units of 2^(e-11): below 2^11 + 1 */
    if (steps >= 2048.0) {
        steps /= 2;
        e++;
    }
    return steps < 1024.0 ? (uint16_t)(sign | (unsigned)steps)
                          : (uint16_t)(sign | ((unsigned)(e + 14) << 10) | ((unsigned)steps - 1024));
}

float bfloat_to_float(uint16_t b)
{
    uint32_t u = (uint32_t)b << 16;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

uint16_t bfloat_from_float(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    if (isnan(f))
        return 0x7fc0;
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

#define EACH_INT(X)        \
    X(DT_INT8, int8_t)     \
    X(DT_INT16, int16_t)   \
    X(DT_INT32, int32_t)   \
    X(DT_INT64, int64_t)   \
    X(DT_UINT8, uint8_t)   \
    X(DT_UINT16, uint16_t) \
    X(DT_UINT32, uint32_t) \
    X(DT_UINT64, uint64_t) \
    X(DT_BOOL, uint8_t)
#define EACH_NATIVE(X)    \
    X(DT_FLOAT32, float)  \
    X(DT_FLOAT64, double) \
    EACH_INT(X)

int64_t tensor_int(const Tensor *t, int64_t i)
{
    if (dtype_is_float(t->dtype))
        return saturate(tensor_float(t, i), 63);
    switch (t->dtype) {
#define X(D, T) \
    case D: return (int64_t)((const T *)t->data)[i];
        EACH_INT(X)
#undef X
    default: return saturate(tensor_float(t, i), 63);
    }
}

double tensor_float(const Tensor *t, int64_t i)
{
    switch (t->dtype) {
#define X(D, T) \
    case D: return (double)((const T *)t->data)[i];
        EACH_NATIVE(X)
#undef X
    case DT_FLOAT16: return half_to_float(((const uint16_t *)t->data)[i]);
    case DT_BFLOAT16: return bfloat_to_float(((const uint16_t *)t->data)[i]);
    case DT_STRING: return text_at(t, i).n > 0;
    default: return dtype_is_small(t->dtype) ? small_value(t->dtype, ((const uint8_t *)t->data)[i]) : 0;
    }
}

void tensor_set_int(Tensor *t, int64_t i, int64_t v)
{
    switch (t->dtype) {
#define X(D, T) \
    case D: ((T *)t->data)[i] = (T)v; break;
        EACH_NATIVE(X)
#undef X
    default:
        if (dtype_is_small_int(t->dtype))
            ((uint8_t *)t->data)[i] = small_from_int(t->dtype, v);
        else
            tensor_set_float(t, i, (double)v);
    }
}

void tensor_set_float(Tensor *t, int64_t i, double v)
{
    switch (t->dtype) {
#define X(D, T) \
    case D: ((T *)t->data)[i] = (T)v; break;
        EACH_NATIVE(X)
#undef X
    case DT_FLOAT16: ((uint16_t *)t->data)[i] = half_from_double(v); break;
    case DT_BFLOAT16: ((uint16_t *)t->data)[i] = bfloat_from_float((float)v); break;
    default:
        if (dtype_is_small(t->dtype))
            ((uint8_t *)t->data)[i] = small_from(t->dtype, v, SMALL_ROUNDING);
    }
}

bool tensor_same(const Tensor *a, const Tensor *b)
{
    if (a->dtype != b->dtype || !shape_eq(&a->shape, &b->shape))
        return false;
    for (int64_t i = 0; a->dtype == DT_STRING && i < tensor_numel(a); i++)
        if (!text_same(text_at(a, i), text_at(b, i)))
            return false;
    return a->dtype == DT_STRING || !tensor_bytes(a) || !memcmp(a->data, b->data, tensor_bytes(a));
}

bool tensor_is_filled(const Tensor *t)
{
    int64_t n = tensor_numel(t);
    double v = n ? tensor_float(t, 0) : 0;

    if (t->dtype == DT_STRING)
        return false;
    for (int64_t i = 1; i < n; i++)
        if (tensor_float(t, i) != v)
            return false;
    return true;
}
