/* TopK along one axis of [outer, n, inner]: a block sorts a line, keys and where they came from, in shared memory or,
 * when it is long, in scratch, by the network of Batcher ("Sorting networks and their applications", AFIPS 1968).  No
 * two elements are equal (of equal numbers the first comes first), so the order is the same each time.  NaN counts as
 * the largest. */
#include "line.h"
#include "order.cuh"

/* `room` keys and their indices. */
struct Places {
    u64 *key;
    u32 *index;
};

/* Behind every element: the greatest index under the least key. */
template <class T> __device__ __forceinline__ void fill_places(const Places &to, const TopBox &p, const T *x)
{
    for (u32 i = threadIdx.x; i < p.room; i += blockDim.x) {
        const bool there = i < p.line.n;
        const T v = there ? x[i * p.line.inner] : T();
        const u64 key = is_nan(v) ? KEY_FIRST : key_of(v);

        to.key[i] = !there ? 0 : p.smallest ? ~key : key;
        to.index[i] = i;
    }
}

__device__ __forceinline__ void put_in_order(const Places &at, u32 a, u32 b, bool descending)
{
    const u64 ka = at.key[a], kb = at.key[b];
    const u32 ia = at.index[a], ib = at.index[b];
    const bool first = ka > kb || (ka == kb && ia < ib);

    if (first == descending)
        return;
    at.key[a] = kb;
    at.key[b] = ka;
    at.index[a] = ib;
    at.index[b] = ia;
}

__device__ __forceinline__ void sort_places(const Places &at, u32 room)
{
    for (u32 size = 2; size <= room; size *= 2)
        for (u32 step = size / 2; step; step /= 2) {
            __syncthreads();
            for (u32 i = threadIdx.x; i < room / 2; i += blockDim.x) {
                const u32 a = i / step * 2 * step + i % step;

                put_in_order(at, a, a + step, !(a & size));
            }
        }
    __syncthreads();
}

template <class T> __device__ __forceinline__ void top_k(const TopBox &p, const T *x, T *y, i64 *index, u64 *scratch)
{
    DYNAMIC_SHARED(u64, shared);
    u64 *const mine = p.room > TOP_SHARED ? scratch + blockIdx.x * (i64)p.room * 3 / 2 : shared;
    const Places places = { mine, (u32 *)(mine + p.room) };

    for (i64 line = blockIdx.x; line < p.line.outer * p.line.inner; line += gridDim.x) {
        const i64 o = line / p.line.inner, i = line - o * p.line.inner, to = o * p.k * p.line.inner + i;
        const T *xs = x + o * p.line.n * p.line.inner + i;

        __syncthreads();
        fill_places(places, p, xs);
        sort_places(places, p.room);
        for (u32 j = threadIdx.x; j < p.k; j += blockDim.x) {
            y[to + j * p.line.inner] = xs[places.index[j] * p.line.inner];
            index[to + j * p.line.inner] = places.index[j];
        }
    }
}

#define TOP(S, T)                                                                   \
    KERNEL(top_k_##S, (const TopBox p, const T *x, T *y, i64 *index, u64 *scratch)) \
    {                                                                               \
        top_k<T>(p, x, y, index, scratch);                                          \
    }

TOP(f32, float)
TOP(f64, double)
TOP(f16, f16)
TOP(bf16, bf16)
TOP(i8, signed char)
TOP(i16, short)
TOP(i32, int)
TOP(i64, i64)
TOP(u8, unsigned char)
TOP(u16, unsigned short)
TOP(u32, u32)
TOP(u64, u64)
