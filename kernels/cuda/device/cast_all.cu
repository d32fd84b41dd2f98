/* CastAll: float32 to 16-bit floats, many tensors at once; 6 bytes an element, read in two accesses of 16 bytes and written in one. */
#include "row.cuh"
#include "update.cuh"

/* x[0..8) to y[0..8), both on 16-byte boundaries. */
template <class T> __device__ __forceinline__ void cast_chunk(T *y, const float *x)
{
    const Vec<float, 4> low = *(const Vec<float, 4> *)x, high = *(const Vec<float, 4> *)(x + 4);
    Vec<T, 8> r;

#pragma unroll
    for (int j = 0; j < 4; j++) {
        r.at[j] = from_float<T>(low.at[j]);
        r.at[4 + j] = from_float<T>(high.at[j]);
    }
    *(Vec<T, 8> *)y = r;
}

template <class T> __device__ __forceinline__ void cast_all(const UpdateTable &table)
{
    const UpdateSpan s(table);
    T *y = (T *)s.t.w;
    const float *x = (const float *)s.t.g;
    const i64 whole = on_boundary(y) && on_boundary(x) ? s.from + (s.to - s.from) / 8 * 8 : s.from;

#pragma unroll 2
    for (i64 k = s.from + threadIdx.x * 8; k < whole; k += blockDim.x * 8)
        cast_chunk(y + k, x + k);
    for (i64 k = whole + threadIdx.x; k < s.to; k += blockDim.x)
        y[k] = from_float<T>(x[k]);
}

KERNEL(cast_all_f16, (UpdateTable table)) { cast_all<f16>(table); }
KERNEL(cast_all_bf16, (UpdateTable table)) { cast_all<bf16>(table); }
