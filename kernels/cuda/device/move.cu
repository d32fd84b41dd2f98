/* Strided copies: Transpose, Expand, Tile, Slice, DepthToSpace ... are one box of units seen through two sets of
 * strides; Concat and Split are rows of parts.  Each byte is read once and written once: 2 bytes moved for a byte of
 * the result, 1 where a source is repeated.  Four units are in flight per thread; units are 16 bytes where both sides
 * run along the same axis, and where they do not, tiles turn in shared memory so that both sides are accessed along
 * their own. */
#include "index.cuh"

/* The thread's units, and where each goes. */
template <class T, class I>
__device__ __forceinline__ void read_units(const MoveBox &box, T (&v)[MOVE_PER_THREAD], i64 (&at)[MOVE_PER_THREAD],
                                           const T *from)
{
#pragma unroll
    for (int k = 0; k < MOVE_PER_THREAD; k++) {
        const i64 n = first_unit() + k * MOVE_THREADS;

        if (n < box.n) {
            i64 f;

            locate<I>(box, (I)n, &at[k], &f);
            v[k] = from[f];
        }
    }
}

template <class T, class I> __device__ __forceinline__ void move_box(const MoveBox &box, T *to, const T *from)
{
    T v[MOVE_PER_THREAD];
    i64 at[MOVE_PER_THREAD];

    read_units<T, I>(box, v, at, from);
#pragma unroll
    for (int k = 0; k < MOVE_PER_THREAD; k++)
        if (first_unit() + k * MOVE_THREADS < box.n)
            to[at[k]] = v[k];
}

/* Units of the destination are V equal elements. */
template <class T>
__device__ __forceinline__ void splat_box(const MoveBox &box, Vec<T, 16 / sizeof(T)> *to, const T *from)
{
    const int V = 16 / sizeof(T);
    T v[MOVE_PER_THREAD];
    i64 at[MOVE_PER_THREAD];

    read_units<T, u32>(box, v, at, from);
#pragma unroll
    for (int k = 0; k < MOVE_PER_THREAD; k++)
        if (first_unit() + k * MOVE_THREADS < box.n) {
            Vec<T, V> out;

#pragma unroll
            for (int j = 0; j < V; j++)
                out.at[j] = v[k];
            to[at[k]] = out;
        }
}

/* ---- turning tiles: RV elements are read, WV written by one access ---- */

template <class T, int RV, int WV> __device__ __forceinline__ void turn_tile(const TileBox &box, T *to, const T *from)
{
    const int TILE = sizeof(T) < 8 ? 64 : 32, WORD = sizeof(T) < 4 ? 4 / sizeof(T) : 1, PITCH = TILE + WORD;
    const int S = RV < WORD ? 1 : WORD, READS = TILE * TILE / RV / MOVE_THREADS,
              WRITES = TILE * TILE / WV / MOVE_THREADS;
    __shared__ __align__(16) T tile[TILE * PITCH];
    const u32 rest = Division<u32>::of(blockIdx.x, box.tiles_a, 0), point = Division<u32>::of(rest, box.tiles_b, 0);
    const i64 a0 = (i64)(blockIdx.x - rest * box.tiles_a.d) * TILE, b0 = (i64)(rest - point * box.tiles_b.d) * TILE;
    Vec<T, RV> v[READS];
    i64 t, f;

    locate<u32>(box.outer, point, &t, &f);
    to += t;
    from += f;
#pragma unroll
    for (int k = 0; k < READS; k++) {
        const int n = threadIdx.x + k * MOVE_THREADS, j = n / (TILE / RV), i = n % (TILE / RV) * RV;

        if (a0 + i < box.a && b0 + j < box.b)
            v[k] = *(const Vec<T, RV> *)(from + (b0 + j) * box.from_b + a0 + i);
    }
#pragma unroll
    for (int k = 0; k < READS; k++) {
        const int n = threadIdx.x + k * MOVE_THREADS, j = n / (TILE / RV), i = n % (TILE / RV) * RV;

#pragma unroll
        for (int e = 0; e < RV; e += S)
            *(Vec<T, S> *)(tile + j * PITCH + i + e) = *(const Vec<T, S> *)(v[k].at + e);
    }
    __syncthreads();
    Vec<T, WV> out[WRITES]; /* complete before the first is written: then each is one access */
#pragma unroll
    for (int k = 0; k < WRITES; k++) {
        const int n = threadIdx.x + k * MOVE_THREADS, i = n / (TILE / WV), j = n % (TILE / WV) * WV;

#pragma unroll
        for (int e = 0; e < WV; e++)
            out[k].at[e] = tile[(j + e) * PITCH + i];
    }
#pragma unroll
    for (int k = 0; k < WRITES; k++) {
        const int n = threadIdx.x + k * MOVE_THREADS, i = n / (TILE / WV), j = n % (TILE / WV) * WV;

        if (a0 + i < box.a && b0 + j < box.b)
            put_vec(to + (a0 + i) * box.to_a + b0 + j, out[k]);
    }
}

/* ---- rows of parts ---- */

template <class T, bool JOIN> __device__ __forceinline__ void join_parts(const JoinBox &box, T *whole)
{
    T *out[MOVE_PER_THREAD];
    T v[MOVE_PER_THREAD];

#pragma unroll
    for (int k = 0; k < MOVE_PER_THREAD; k++) {
        const i64 n = first_unit() + k * MOVE_THREADS;

        out[k] = nullptr;
        if (n < box.n) {
            const i64 row = Division<u32>::of((u32)n, box.by_row, 0), at = n - row * box.by_row.d;
            T *there = whole + row * box.pitch + box.first + at;
            int p = 0;

            while (at >= box.begin[p + 1])
                p++;
            if (box.part[p]) {
                T *here = (T *)box.part[p] + row * (box.begin[p + 1] - box.begin[p]) + at - box.begin[p];

                out[k] = JOIN ? there : here;
                v[k] = JOIN ? *here : *there;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < MOVE_PER_THREAD; k++)
        if (out[k])
            *out[k] = v[k];
}

#define MOVES(W)                                                                                                     \
    KERNEL(move_##W, (const MoveBox box, UnitOf<W>::type *to, const UnitOf<W>::type *from))                          \
    {                                                                                                                \
        move_box<UnitOf<W>::type, u32>(box, to, from);                                                               \
    }                                                                                                                \
    KERNEL(move_wide_##W, (const MoveBox box, UnitOf<W>::type *to, const UnitOf<W>::type *from))                     \
    {                                                                                                                \
        move_box<UnitOf<W>::type, i64>(box, to, from);                                                               \
    }                                                                                                                \
    KERNEL(join_##W, (const JoinBox box, UnitOf<W>::type *whole)) { join_parts<UnitOf<W>::type, true>(box, whole); } \
    KERNEL(cut_##W, (const JoinBox box, UnitOf<W>::type *whole)) { join_parts<UnitOf<W>::type, false>(box, whole); }
#define TURNS(W, V)                                                                                       \
    KERNEL(splat_##W, (const MoveBox box, Vec<UnitOf<W>::type, 16 / W> *to, const UnitOf<W>::type *from)) \
    {                                                                                                     \
        splat_box<UnitOf<W>::type>(box, to, from);                                                        \
    }                                                                                                     \
    KERNEL(turn_11_##W, (const TileBox box, UnitOf<W>::type *to, const UnitOf<W>::type *from))            \
    {                                                                                                     \
        turn_tile<UnitOf<W>::type, 1, 1>(box, to, from);                                                  \
    }                                                                                                     \
    KERNEL(turn_1v_##W, (const TileBox box, UnitOf<W>::type *to, const UnitOf<W>::type *from))            \
    {                                                                                                     \
        turn_tile<UnitOf<W>::type, 1, V>(box, to, from);                                                  \
    }                                                                                                     \
    KERNEL(turn_v1_##W, (const TileBox box, UnitOf<W>::type *to, const UnitOf<W>::type *from))            \
    {                                                                                                     \
        turn_tile<UnitOf<W>::type, V, 1>(box, to, from);                                                  \
    }                                                                                                     \
    KERNEL(turn_vv_##W, (const TileBox box, UnitOf<W>::type *to, const UnitOf<W>::type *from))            \
    {                                                                                                     \
        turn_tile<UnitOf<W>::type, V, V>(box, to, from);                                                  \
    }

MOVES(1)
MOVES(2)
MOVES(4)
MOVES(8)
MOVES(16)
TURNS(1, 4)
TURNS(2, 8)
TURNS(4, 4)
TURNS(8, 2)
