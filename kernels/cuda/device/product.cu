/* The epilogue of a matrix product where the library does not fuse it (kernels/cuda/cuda_product.c).
 *
 * The epilogue reads the product as it was accumulated, A: float32, or float64, and writes Y once, in the formulas of
 * Relu, Gelu and their gradients (elementwise.cuh).  Elements are dealt in groups of FINISH_GROUP along memory,
 * whatever the length of a row, so that every access to them is one of 16 bytes.  The product may stand in Y's memory.
 *
 * The mask of Relu is made of Y: one read of it, and a bit written for each element. */
#include "elementwise.cuh"
#include "group.cuh"
#include "index.cuh"

#include "product.h"

/* ---- groups: elements [at, at + FINISH_GROUP) of n ---- */

/* Where a group begins, and from there to the next element, over the ends of rows. */
template <class I> struct Cursor {
    i64 row, column, columns;

    __device__ __forceinline__ Cursor(const ProductBox &p, i64 at)
        : row(Division<I>::of((I)at, p.by_columns, p.columns)), column(at - row * p.columns), columns(p.columns)
    {
    }
    __device__ __forceinline__ void next()
    {
        if (++column == columns) {
            column = 0;
            row++;
        }
    }
};

/* ---- the epilogue ---- */

template <class T, class A, class I>
__device__ __forceinline__ void add_bias(A (&v)[FINISH_GROUP], const T *bias, const ProductBox &p, i64 at)
{
    Cursor<I> c(p, at);

    if (p.columns % FINISH_GROUP == 0) {
        A b[FINISH_GROUP];

        load_group(b, bias, p.columns, c.column);
#pragma unroll
        for (int j = 0; j < FINISH_GROUP; j++)
            v[j] += b[j];
        return;
    }
#pragma unroll
    for (int j = 0; j < FINISH_GROUP; j++, c.next())
        v[j] += to_float(bias[c.column]);
}

/* 0 where the mask has no bit. */
template <class A, class I>
__device__ __forceinline__ void apply_mask(A (&v)[FINISH_GROUP], const unsigned char *mask, const ProductBox &p, i64 at)
{
    Cursor<I> c(p, at);

    if (p.columns % FINISH_GROUP == 0) {
        const unsigned bits = mask[c.row * p.mask_row + c.column / FINISH_GROUP];

#pragma unroll
        for (int j = 0; j < FINISH_GROUP; j++)
            v[j] = bits >> j & 1 ? v[j] : 0;
        return;
    }
#pragma unroll
    for (int j = 0; j < FINISH_GROUP; j++, c.next())
        if (at + j < p.n && !(mask[c.row * p.mask_row + c.column / 8] >> c.column % 8 & 1))
            v[j] = 0;
}

/* Applies the epilogue to a group before it is stored.  `aux` is read by a gradient, `kept` (NULL: nobody wants it)
 * written by Gelu. */
template <class T, class A, class I>
__device__ __forceinline__ void finish(A (&v)[FINISH_GROUP], const T *bias, const void *aux, const T *added, T *kept,
                                       const ProductBox &p, i64 at)
{
    if (p.gradient && p.relu) {
        apply_mask<A, I>(v, (const unsigned char *)aux, p, at);
        return;
    }
    if (p.gradient) {
        A x[FINISH_GROUP];

        load_group(x, (const T *)aux, p.n, at);
#pragma unroll
        for (int j = 0; j < FINISH_GROUP; j++)
            v[j] = ew::gelu_grad(v[j], x[j], true);
        return;
    }
    if (bias)
        add_bias<T, A, I>(v, bias, p, at);
    if (added) {
        A x[FINISH_GROUP];

        load_group(x, added, p.n, at);
#pragma unroll
        for (int j = 0; j < FINISH_GROUP; j++)
            v[j] += x[j];
    }
    if (kept)
        store_group(kept, p.n, at, v);
#pragma unroll
    for (int j = 0; j < FINISH_GROUP; j++)
        v[j] = p.relu ? ew::relu(v[j]) : p.gelu ? ew::gelu(v[j], true) : v[j];
}

/* y = the epilogue of acc; of zeros where that is NULL. */
template <class T, class A, class I>
__device__ __forceinline__ void epilogue(const A *acc, const T *bias, const void *aux, const T *added, T *y, T *kept,
                                         const ProductBox &p)
{
    for (i64 g = (i64)blockIdx.x * FINISH_THREADS + threadIdx.x; g * FINISH_GROUP < p.n;
         g += (i64)gridDim.x * FINISH_THREADS) {
        const i64 at = g * FINISH_GROUP;
        A v[FINISH_GROUP] = {};

        if (acc)
            load_group(v, acc, p.n, at);
        finish<T, A, I>(v, bias, aux, added, kept, p, at);
        store_group(y, p.n, at, v);
    }
}

/* ---- the mask: a thread, a byte ---- */

template <class T, class I>
__device__ __forceinline__ void relu_mask(const T *y, unsigned char *mask, const ProductBox &p)
{
    typedef typename Accumulator<T>::type A;

    for (i64 i = (i64)blockIdx.x * FINISH_THREADS + threadIdx.x; i < p.n_mask; i += (i64)gridDim.x * FINISH_THREADS) {
        const i64 row = Division<I>::of((I)i, p.by_mask_row, p.mask_row),
                  column = (i - row * p.mask_row) * FINISH_GROUP;
        unsigned bits = 0;
        A v[FINISH_GROUP] = {};

        if (column < p.columns)
            load_group(v, y + row * p.columns, p.columns, column);
#pragma unroll
        for (int j = 0; j < FINISH_GROUP; j++)
            bits |= (unsigned)!(v[j] <= 0) << j;
        mask[i] = (unsigned char)bits;
    }
}

#define SMALL(n) ((n) < 1ll << 31)
#define PRODUCT(S, T, A)                                                                                \
    KERNEL(product_epilogue_##S,                                                                        \
           (const A *acc, const T *bias, const void *aux, const T *added, T *y, T *kept, ProductBox p)) \
    {                                                                                                   \
        if (SMALL(p.n))                                                                                 \
            epilogue<T, A, u32>(acc, bias, aux, added, y, kept, p);                                     \
        else                                                                                            \
            epilogue<T, A, i64>(acc, bias, aux, added, y, kept, p);                                     \
    }                                                                                                   \
    KERNEL(product_mask_##S, (const T *y, unsigned char *mask, ProductBox p))                           \
    {                                                                                                   \
        if (SMALL(p.n_mask))                                                                            \
            relu_mask<T, u32>(y, mask, p);                                                              \
        else                                                                                            \
            relu_mask<T, i64>(y, mask, p);                                                              \
    }
PRODUCT(f32, float, float)
PRODUCT(f64, double, double)
PRODUCT(f16, f16, float)
PRODUCT(bf16, bf16, float)
