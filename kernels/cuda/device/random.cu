/* Random operators: Philox by (seed, draw, key, global element), the same words as on the CPU (graph/base/philox.h).
 *
 * A thread makes whole blocks of four words: groups of elements begin at multiples of their size in the whole tensor.
 * Where this replica's rows begin on such boundaries too, and those of 16 bytes, accesses are whole; dropout moves 2
 * sizeof(T) + 1 bytes an element. */
#include "graph/base/philox.h"

#include "random.h"
#include "row.cuh"

/* Elements of a group: whole accesses and whole blocks. */
template <class T> struct Group {
    static const int size = Chunk<T>::size < 4 ? 4 : Chunk<T>::size;
};

/* Group u of all: its row, where in the row it begins (from -size on), and its number in the whole tensor, in
 * blocks. */
struct Place {
    i64 row, at, block;
};

template <int U> __device__ __forceinline__ Place place_of(const RandomBox &p, i64 u)
{
    const i64 o = p.outer == 1 ? 0 : u / p.groups, begin = o * p.global_row + p.global_start,
              first = begin / U * U + (u - o * p.groups) * U;

    return { o * p.row, first - begin, first / 4 };
}

__device__ __forceinline__ PhiloxKey philox_key(const RandomBox &p, const i64 *draw)
{
    PhiloxKey key;

    key.seed = p.seed;
    key.step = (u32)*draw;
    key.node = p.key;
    return key;
}

template <class T>
__device__ __forceinline__ void dropout(const RandomBox &p, const T *x, const i64 *draw, T *y, unsigned char *mask)
{
    typedef typename Accumulator<T>::type A;
    const int V = Chunk<T>::size, U = Group<T>::size;
    const PhiloxKey key = philox_key(p, draw);
    const A scale = (A)p.scale;

    for (i64 u = (i64)blockIdx.x * blockDim.x + threadIdx.x; u < p.outer * p.groups; u += (i64)gridDim.x * blockDim.x) {
        const Place to = place_of<U>(p, u);
        Vec<unsigned char, U> keep;
        Vec<T, V> v[U / V];

        if (to.at >= p.row)
            continue;
#pragma unroll
        for (int k = 0; k < U / V; k++)
            v[k] = chunk_load<T, V>(x + to.row, p.row, to.at + k * V, from_float<T>((A)0));
#pragma unroll
        for (int b = 0; b < U / 4; b++) {
            const PhiloxBlock words = philox_block(key, to.block + b);

#pragma unroll
            for (int j = 0; j < 4; j++)
                keep.at[4 * b + j] = words.word[j] >= p.threshold;
        }
#pragma unroll
        for (int k = 0; k < U / V; k++) {
#pragma unroll
            for (int j = 0; j < V; j++)
                v[k].at[j] = from_float<T>(keep.at[k * V + j] ? (A)(to_float(v[k].at[j]) * scale) : (A)0);
            chunk_store<T, V>(y + to.row, p.row, to.at + k * V, v[k]);
        }
        chunk_store<unsigned char, U>(mask + to.row, p.row, to.at, keep);
    }
}

/* A float is drawn from 24 bits. */
__device__ __forceinline__ double uniform_of(u32 word, float) { return philox_uniform_float(word); }
__device__ __forceinline__ double uniform_of(u32 word, double) { return philox_uniform(word); }

/* Box and Muller: words 0, 1 of a block make normals 0 and 1, words 2, 3 make normals 2 and 3. */
__device__ __forceinline__ void normal_pair(const u32 *word, double *even, double *odd)
{
    const double radius = sqrt(-2 * log(philox_uniform(word[0]))),
                 angle = 6.283185307179586476925 * philox_uniform(word[1]);

    *even = radius * cos(angle);
    *odd = radius * sin(angle);
}

template <class T> __device__ __forceinline__ void draw_block(const RandomBox &p, const PhiloxBlock &words, double *y)
{
    typedef typename Accumulator<T>::type A;

    if (p.normal) {
        normal_pair(words.word, y, y + 1);
        normal_pair(words.word + 2, y + 2, y + 3);
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        y[j] = p.normal ? p.a + p.b * y[j] : p.a + (p.b - p.a) * uniform_of(words.word[j], A());
}

template <class T> __device__ __forceinline__ void random_numbers(const RandomBox &p, const i64 *draw, T *y)
{
    typedef typename Accumulator<T>::type A;
    const int V = Chunk<T>::size, U = Group<T>::size;
    const PhiloxKey key = philox_key(p, draw);

    for (i64 u = (i64)blockIdx.x * blockDim.x + threadIdx.x; u < p.outer * p.groups; u += (i64)gridDim.x * blockDim.x) {
        const Place to = place_of<U>(p, u);
        double drawn[U];

        if (to.at >= p.row)
            continue;
#pragma unroll
        for (int b = 0; b < U / 4; b++)
            draw_block<T>(p, philox_block(key, to.block + b), drawn + 4 * b);
#pragma unroll
        for (int k = 0; k < U / V; k++) {
            Vec<T, V> v;

#pragma unroll
            for (int j = 0; j < V; j++)
                v.at[j] = from_float<T>((A)drawn[k * V + j]);
            chunk_store<T, V>(y + to.row, p.row, to.at + k * V, v);
        }
    }
}

#define RANDOM(S, T)                                                                                        \
    KERNEL(random_dropout_##S, (const RandomBox p, const T *x, const i64 *draw, T *y, unsigned char *mask)) \
    {                                                                                                       \
        dropout<T>(p, x, draw, y, mask);                                                                    \
    }                                                                                                       \
    KERNEL(random_numbers_##S, (const RandomBox p, const i64 *draw, T *y)) { random_numbers<T>(p, draw, y); }

RANDOM(f32, float)
RANDOM(f64, double)
RANDOM(f16, f16)
RANDOM(bf16, bf16)
