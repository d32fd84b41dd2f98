/* Typed loops for functions of one, two or three elements.
 *
 * A CASES list is the body of a switch over the type; in its expressions x (or a, b, c) are the elements and T their
 * type. <tgmath.h> picks expf or exp. */
#ifndef DPX_KERNELS_REF_ELEMENTWISE_H
#define DPX_KERNELS_REF_ELEMENTWISE_H

#include <math.h>
#include <tgmath.h>

#include "graph/base/saturate.h"
#include "kernels/broadcast.h"
#include "kernels/ref/ref.h"

#define PASTE_FLOAT(X, ...)           \
    X(DT_FLOAT32, float, __VA_ARGS__) \
    X(DT_FLOAT64, double, __VA_ARGS__)
#define PASTE_SIGNED(X, ...)          \
    X(DT_INT8, int8_t, __VA_ARGS__)   \
    X(DT_INT16, int16_t, __VA_ARGS__) \
    X(DT_INT32, int32_t, __VA_ARGS__) \
    X(DT_INT64, int64_t, __VA_ARGS__)
#define PASTE_UNSIGNED(X, ...)          \
    X(DT_UINT8, uint8_t, __VA_ARGS__)   \
    X(DT_UINT16, uint16_t, __VA_ARGS__) \
    X(DT_UINT32, uint32_t, __VA_ARGS__) \
    X(DT_UINT64, uint64_t, __VA_ARGS__)
#define PASTE_BOOL(X, ...) X(DT_BOOL, uint8_t, __VA_ARGS__)

/* ---- one input: y = EXPR(x), R the result's type ---- */

#define CASE1(D, TYPE, R, EXPR)               \
    case D: {                                 \
        typedef TYPE T;                       \
        const T *xs = in[0].data;             \
        R *ys = out[0].data;                  \
        for (int64_t i = 0; i < count; i++) { \
            const T x = xs[i];                \
            ys[i] = (R)(EXPR);                \
        }                                     \
        return ST_OK;                         \
    }
#define FLOAT1(...) PASTE_FLOAT(CASE1, T, __VA_ARGS__)
#define SIGNED1(...) PASTE_SIGNED(CASE1, T, __VA_ARGS__)
#define UNSIGNED1(...) PASTE_UNSIGNED(CASE1, T, __VA_ARGS__)
#define BOOL1(...) PASTE_BOOL(CASE1, T, __VA_ARGS__)
#define FLOAT1_TO_BOOL(...) PASTE_FLOAT(CASE1, uint8_t, __VA_ARGS__)

/* Defines run_NAME.  `p` is the kernel's state for expressions that have parameters. */
#define ELEMENTWISE(NAME, PARAMS, ...)                                                                 \
    static Status run_##NAME(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)               \
    {                                                                                                  \
        const int64_t count = tensor_numel(&out[0]);                                                   \
        const PARAMS *const p = state;                                                                 \
        (void)ctx;                                                                                     \
        (void)p;                                                                                       \
        (void)count;                                                                                   \
        switch (in[0].dtype) {                                                                         \
            __VA_ARGS__                                                                                \
        default: return FAIL(E_INTERNAL, "%s: no kernel for type %s", #NAME, dtype_name(in[0].dtype)); \
        }                                                                                              \
    }

/* ---- two inputs of one type that broadcast ---- */

#define CASE2(D, TYPE, R, EXPR)                                                                           \
    case D: {                                                                                             \
        typedef TYPE T;                                                                                   \
        R *ys = out[0].data;                                                                              \
        for (WALK(w, &out[0].shape, 2, in)) {                                                             \
            const T *as = (const T *)in[0].data + w.offset[0], *bs = (const T *)in[1].data + w.offset[1]; \
            for (int64_t i = 0; i < w.row; i++) {                                                         \
                const T a = as[i * w.row_stride[0]], b = bs[i * w.row_stride[1]];                         \
                *ys++ = (R)(EXPR);                                                                        \
            }                                                                                             \
        }                                                                                                 \
        return ST_OK;                                                                                     \
    }
#define FLOAT2(...) PASTE_FLOAT(CASE2, T, __VA_ARGS__)
#define SIGNED2(...) PASTE_SIGNED(CASE2, T, __VA_ARGS__)
#define UNSIGNED2(...) PASTE_UNSIGNED(CASE2, T, __VA_ARGS__)
#define FLOAT2_TO_BOOL(...) PASTE_FLOAT(CASE2, uint8_t, __VA_ARGS__)
#define SIGNED2_TO_BOOL(...) PASTE_SIGNED(CASE2, uint8_t, __VA_ARGS__)
#define UNSIGNED2_TO_BOOL(...) PASTE_UNSIGNED(CASE2, uint8_t, __VA_ARGS__)
#define BOOL2(...) PASTE_BOOL(CASE2, uint8_t, __VA_ARGS__)

#endif
