/* Typed loops for functions of one, two or three elements.
 *
 * FLOAT1 and its like are cases by the type of input 0; in its expressions x (or a, b, c) are the elements and T their
 * type. <tgmath.h> picks expf or exp. */
#ifndef DPX_KERNELS_REF_REF_ELEMENTWISE_H
#define DPX_KERNELS_REF_REF_ELEMENTWISE_H

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

#define CASE1(D, TYPE, R, EXPR)                                  \
    if (in[0].dtype == (D)) {                                    \
        typedef TYPE T;                                          \
        for (int64_t i = 0, n = tensor_numel(out); i < n; i++) { \
            const T x = ((const T *)in[0].data)[i];              \
            ((R *)out[0].data)[i] = (R)(EXPR);                   \
        }                                                        \
    }
#define FLOAT1(...) PASTE_FLOAT(CASE1, T, __VA_ARGS__)
#define SIGNED1(...) PASTE_SIGNED(CASE1, T, __VA_ARGS__)
#define UNSIGNED1(...) PASTE_UNSIGNED(CASE1, T, __VA_ARGS__)
#define BOOL1(...) PASTE_BOOL(CASE1, T, __VA_ARGS__)
#define FLOAT1_TO_BOOL(...) PASTE_FLOAT(CASE1, uint8_t, __VA_ARGS__)

/* Defines run_NAME of the types listed, which are those of the kernel.  `p` is the kernel's state for expressions that
 * have parameters. */
#define ELEMENTWISE(NAME, PARAMS, ...)                                                   \
    static Status run_##NAME(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out) \
    {                                                                                    \
        const PARAMS *const p = state;                                                   \
        (void)ctx, (void)p;                                                              \
        __VA_ARGS__                                                                      \
        return ST_OK;                                                                    \
    }

/* ---- two inputs of one type that broadcast ---- */

#define CASE2(D, TYPE, R, EXPR)               \
    if (in[0].dtype == (D)) {                 \
        typedef TYPE T;                       \
        R *ys = out[0].data;                  \
        for (WALK(w, &out[0].shape, 2, in))   \
            EACH_OF_ROW(w, *ys++ = (R)(EXPR)) \
    }
/* For each pair a, b of a row. */
#define EACH_OF_ROW(w, DO)                                                      \
    for (int64_t i = 0; i < w.row; i++) {                                       \
        const T a = ((const T *)in[0].data)[w.offset[0] + i * w.row_stride[0]]; \
        const T b = ((const T *)in[1].data)[w.offset[1] + i * w.row_stride[1]]; \
        DO;                                                                     \
    }
#define FLOAT2(...) PASTE_FLOAT(CASE2, T, __VA_ARGS__)
#define SIGNED2(...) PASTE_SIGNED(CASE2, T, __VA_ARGS__)
#define UNSIGNED2(...) PASTE_UNSIGNED(CASE2, T, __VA_ARGS__)
#define FLOAT2_TO_BOOL(...) PASTE_FLOAT(CASE2, uint8_t, __VA_ARGS__)
#define SIGNED2_TO_BOOL(...) PASTE_SIGNED(CASE2, uint8_t, __VA_ARGS__)
#define UNSIGNED2_TO_BOOL(...) PASTE_UNSIGNED(CASE2, uint8_t, __VA_ARGS__)
#define BOOL2(...) PASTE_BOOL(CASE2, uint8_t, __VA_ARGS__)

#endif
