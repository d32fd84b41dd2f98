/* CastAll: float32 to 16-bit floats or back, many tensors at once; 6 bytes an element, of which eight are an access of
 * 16 bytes in 16 bits and two in float32. */
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

template <class T> __device__ __forceinline__ void cast_chunk(float *y, const T *x)
{
    const Vec<T, 8> v = *(const Vec<T, 8> *)x;
    Vec<float, 4> low, high;

#pragma unroll
    for (int j = 0; j < 4; j++) {
        low.at[j] = to_float(v.at[j]);
        high.at[j] = to_float(v.at[4 + j]);
    }
    *(Vec<float, 4> *)y = low;
    *(Vec<float, 4> *)(y + 4) = high;
}

template <class T, class X> __device__ __forceinline__ void cast_all(const UpdateTable &table)
{
    const UpdateSpan s(table);
    T *y = (T *)s.t.w;
    const X
    *x = (const X *)s.t.g;
    const i64 whole = on_boundary(y) && on_boundary(x) ? s.from + (s.to - s.from) / 8 * 8 : s.from;

#pragma unroll 2
    for (i64 k = s.from + threadIdx.x * 8; k < whole; k += blockDim.x * 8)
        cast_chunk(y + k, x + k);
    for (i64 k = whole + threadIdx.x; k < s.to; k += blockDim.x)
        y[k] = from_float<T>(to_float(x[k]));
}

KERNEL(cast_all_f16, (UpdateTable table)) { cast_all<f16, float>(table); }
KERNEL(cast_all_bf16, (UpdateTable table)) { cast_all<bf16, float>(table); }
KERNEL(cast_all_from_f16, (UpdateTable table)) { cast_all<float, f16>(table); }
KERNEL(cast_all_from_bf16, (UpdateTable table)) { cast_all<float, bf16>(table); }
