/* A device's part in a sum over devices: its own partial sums of many tensors are added, or just moved, into one bucket
 * by one launch.  Sums are of two operands, so their bits are those of any other processor. */
#include "collective.h"
#include "kernel.cuh"

template <class T> __device__ __forceinline__ T plus(T a, T b) { return (T)(a + b); }
__device__ __forceinline__ f16 plus(f16 a, f16 b) { return from_float<f16>(to_float(a) + to_float(b)); }
__device__ __forceinline__ bf16 plus(bf16 a, bf16 b) { return from_float<bf16>(to_float(a) + to_float(b)); }

/* Entry blockIdx.y, strided over by all blocks of its row: whole vectors, then what is left of the last one. */
template <class T> __device__ void add_parts(const PartTable &table)
{
    enum { N = 16 / sizeof(T) };
    const PartEntry e = table.at[blockIdx.y];
    const T *a = (const T *)e.a, *b = (const T *)e.b;
    T *out = (T *)e.out;
    i64 whole = ((u64)a | (u64)b | (u64)out) & 15 ? 0 : e.n / N;
    i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x, step = (i64)gridDim.x * blockDim.x;

    for (i64 i = first; i < whole; i += step) {
        Vec<T, N> x = ((const Vec<T, N> *)a)[i];

        if (b) {
            Vec<T, N> y = ((const Vec<T, N> *)b)[i];

            for (int k = 0; k < N; k++)
                x.at[k] = plus(x.at[k], y.at[k]);
        }
        ((Vec<T, N> *)out)[i] = x;
    }
    for (i64 i = whole * N + first; i < e.n; i += step)
        out[i] = b ? plus(a[i], b[i]) : a[i];
}

#define ADD_PARTS(suffix, T) \
    KERNEL(add_parts_##suffix, (PartTable table)) { add_parts<T>(table); }
ADD_PARTS(f32, float)
ADD_PARTS(f64, double)
ADD_PARTS(f16, f16)
ADD_PARTS(bf16, bf16)
/* Two's complement: of either sign, and no sum overflows. */
ADD_PARTS(i8, unsigned char)
ADD_PARTS(i16, unsigned short)
ADD_PARTS(i32, u32)
ADD_PARTS(i64, u64)
