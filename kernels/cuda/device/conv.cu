/* The epilogue of a convolution where the library does not fuse it (kernels/cuda/cuda_conv.c): y = max(0, y + z), in
 * place, in any layout.  The sum of 16-bit numbers is computed in float32. */
#include "elementwise.cuh"
#include "group.cuh"

#include "conv.h"

/* z NULL: there is none. */
template <class T> __device__ __forceinline__ void conv_relu(T *y, const T *z, i64 n)
{
    typedef typename Accumulator<T>::type A;

    for (i64 g = (i64)blockIdx.x * CONV_THREADS + threadIdx.x; g * CONV_GROUP < n; g += (i64)gridDim.x * CONV_THREADS) {
        A v[CONV_GROUP], added[CONV_GROUP] = {};

        load_group(v, y, n, g * CONV_GROUP);
        if (z)
            load_group(added, z, n, g * CONV_GROUP);
#pragma unroll
        for (int j = 0; j < CONV_GROUP; j++)
            v[j] = ew::relu(v[j] + added[j]);
        store_group(y, n, g * CONV_GROUP, v);
    }
}

#define CONV(S, T) \
    KERNEL(conv_relu_##S, (T * y, const T *z, i64 n)) { conv_relu<T>(y, z, n); }
CONV(f32, float)
CONV(f64, double)
CONV(f16, f16)
CONV(bf16, bf16)
