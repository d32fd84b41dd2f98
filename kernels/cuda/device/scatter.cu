/* Writing at indices without atomics: every element of the result has one owner, which goes through what belongs to it
 * in the order of the indices, so the bits are those of a serial loop.
 *
 * For rows (the gradient of an embedding) the indices are first turned into lists: `order` holds the positions of the
 * indices sorted by the row they name, those of row r in [start[r], start[r + 1]).  A block makes the lists of
 * LIST_ROWS rows: it reads all indices, from L2 after the first block, and sees for itself how many name lower rows. 16
 * bytes are read for an index and group of rows.  Then a warp sums each row: n rows are read and d rows written once,
 * sizeof(T) (n + d) inner bytes. */
#include "index.cuh"

enum { HEAVY = 64 }; /* rows of more summands are shared by all warps of a block */

/* ---- lists ---- */

/* Adds up, for each warp and row, what stands in the warp's part of the indices; with `order`, places it too.  `count`
 * holds how many were seen, or where the next one goes. */
__device__ __forceinline__ int list_part(const void *index, int wide, i64 n, i64 d, i64 low, u32 (*count)[LIST_ROWS],
                                         u32 *order)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x / 32;
    const i64 part = (n + warps - 1) / warps, end = min(n, (warp + 1) * part);
    int below = 0;

    for (i64 first = warp * part; first < end; first += 128) {
        i64 at[4];

#pragma unroll
        for (int k = 0; k < 4; k++) {
            const i64 i = first + k * 32 + lane;

            at[k] = i < end ? index_in(index, wide, i, d) : -1;
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int row = at[k] >= low && at[k] < low + LIST_ROWS ? (int)(at[k] - low) : -1;
            u32 left = __ballot_sync(0xffffffffu, row >= 0);

            below += at[k] >= 0 && at[k] < low;
            while (left) {
                const int named = __shfl_sync(0xffffffffu, row, __ffs((int)left) - 1);
                const u32 same = __ballot_sync(0xffffffffu, row == named), seen = count[warp][named];

                if (order && row == named)
                    order[seen + __popc(same & ((1u << lane) - 1))] = (u32)(first + k * 32 + lane);
                __syncwarp();
                if (lane == 0)
                    count[warp][named] = seen + __popc(same);
                __syncwarp();
                left &= ~same;
            }
        }
    }
    return below;
}

/* The sum over the block of what the threads before this one hold; the sum of all of them in *total. */
__device__ __forceinline__ u32 scan_before(u32 v, u32 *total)
{
    __shared__ u32 part[LIST_MAKERS];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x / 32;
    u32 sum = v, before = 0;

#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
        const u32 other = __shfl_up_sync(0xffffffffu, sum, o);

        sum += lane >= o ? other : 0;
    }
    __syncthreads();
    if (lane == 31)
        part[warp] = sum;
    __syncthreads();
    *total = 0;
    for (int w = 0; w < warps; w++) {
        before += w < warp ? part[w] : 0;
        *total += part[w];
    }
    return before + sum - v;
}

/* start [d + 1], order [n]; blocks of at least LIST_ROWS threads, one for each LIST_ROWS rows. */
KERNEL_OF(32 * LIST_MAKERS, index_lists, (const void *index, int wide, i64 n, i64 d, u32 *start, u32 *order))
{
    __shared__ u32 count[LIST_MAKERS][LIST_ROWS];
    const i64 low = (i64)blockIdx.x * LIST_ROWS;
    const int row = threadIdx.x, warps = blockDim.x / 32;
    const bool has_row = row < LIST_ROWS;
    u32 here = 0, total, below, at;

    for (int w = 0; has_row && w < warps; w++)
        count[w][row] = 0;
    __syncthreads();
    scan_before((u32)list_part(index, wide, n, d, low, count, nullptr), &below);
    __syncthreads();
    for (int w = 0; has_row && w < warps; w++)
        here += count[w][row];
    at = below + scan_before(here, &total);
    if (has_row && low + row < d)
        start[low + row] = at;
    if (row == 0 && low + LIST_ROWS >= d)
        start[d] = below + total;
    for (int w = 0; has_row && w < warps; w++) {
        const u32 own = count[w][row];

        count[w][row] = at;
        at += own;
    }
    __syncthreads();
    list_part(index, wide, n, d, low, count, order);
}

/* ---- sums of rows ---- */

template <class T, int V>
__device__ __forceinline__ void add_rows(typename Accumulator<T>::type *sum, const T *dy, i64 inner, const u32 *order,
                                         u32 from, u32 to)
{
    while (from < to) {
        const int count = to - from < 4 ? (int)(to - from) : 4;
        Vec<T, V> v[4];

#pragma unroll
        for (int k = 0; k < 4; k++)
            if (k < count)
                v[k] = *(const Vec<T, V> *)(dy + order[from + k] * inner);
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (k < count)
#pragma unroll
                for (int j = 0; j < V; j++)
                    sum[j] += to_float(v[k].at[j]);
        from += 4;
    }
}

template <class T, int V> __device__ __forceinline__ void put_sum(T *dx, const typename Accumulator<T>::type *sum)
{
    Vec<T, V> v;

#pragma unroll
    for (int j = 0; j < V; j++)
        v.at[j] = from_float<T>(sum[j]);
    put_vec(dx, v);
}

/* dx [outer, d, inner] = rows of dy [outer, n, inner] by their lists.  Each warp has a row and 32 V columns of it. */
template <class T, int V>
__device__ __forceinline__ void row_sums(T *dx, const T *dy, const u32 *start, const u32 *order, i64 outer, i64 n,
                                         i64 d, i64 inner)
{
    typedef typename Accumulator<T>::type A;
    __shared__ A part[LIST_WARPS][32 * V];
    __shared__ bool heavy[LIST_WARPS];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const i64 groups = (d + LIST_WARPS - 1) / LIST_WARPS, chunks = (inner + 32 * V - 1) / (32 * V);

    for (i64 item = blockIdx.x; item < outer * groups * chunks; item += gridDim.x) {
        const i64 group = item / chunks % groups, o = item / chunks / groups, row = group * LIST_WARPS + warp;
        const i64 column = (item % chunks * 32 + lane) * V;
        const bool inside = row < d && column < inner;
        const u32 from = row < d ? start[row] : 0, to = row < d ? start[row + 1] : 0;
        const T *source = dy + o * n * inner + column;
        T *sink = dx + o * d * inner + column;
        A sum[V] = {};

        if (to - from <= HEAVY && inside) {
            add_rows<T, V>(sum, source, inner, order, from, to);
            put_sum<T, V>(sink + row * inner, sum);
        }
        if (lane == 0)
            heavy[warp] = to - from > HEAVY;
        __syncthreads();
        for (int w = 0; w < LIST_WARPS; w++) {
            const i64 shared = group * LIST_WARPS + w;
            A own[V] = {};
            u32 first, last, each;

            if (!heavy[w])
                continue;
            first = start[shared];
            last = start[shared + 1];
            each = (last - first + LIST_WARPS - 1) / LIST_WARPS;
            if (column < inner)
                add_rows<T, V>(own, source, inner, order, min(last, first + warp * each),
                               min(last, first + (warp + 1) * each));
#pragma unroll
            for (int j = 0; j < V; j++)
                part[warp][j * 32 + lane] = own[j];
            __syncthreads();
            if (warp == 0 && column < inner) {
                for (int other = 1; other < LIST_WARPS; other++)
#pragma unroll
                    for (int j = 0; j < V; j++)
                        own[j] += part[other][j * 32 + lane];
                put_sum<T, V>(sink + shared * inner, own);
            }
            __syncthreads();
        }
        __syncthreads();
    }
}

/* ---- reductions at indices ---- */

template <class A> __device__ __forceinline__ A combined(int how, A y, A u)
{
    switch (how) {
    case SCATTER_ADD: return (A)(y + u);
    case SCATTER_MUL: return (A)(y * u);
    case SCATTER_MAX: return u > y || u != u ? u : y;
    case SCATTER_MIN: return u < y || u != u ? u : y;
    default: return u;
    }
}

/* How a T is computed with: itself for integers. */
template <class T> struct Number {
    typedef T type;
    static __device__ __forceinline__ T read(T x) { return x; }
    static __device__ __forceinline__ T write(T x) { return x; }
};
#define SHORT_FLOAT(T)                                                                  \
    template <> struct Number<T> {                                                      \
        typedef float type;                                                             \
        static __device__ __forceinline__ float read(T x) { return to_float(x); }       \
        static __device__ __forceinline__ T write(float x) { return from_float<T>(x); } \
    };
SHORT_FLOAT(f16)
SHORT_FLOAT(bf16)

/* y [d, inner] = x with rows of u combined by their lists; x may be y. */
template <class T>
__device__ __forceinline__ void scatter_rows(T *y, const T *x, const T *u, const u32 *start, const u32 *order, i64 d,
                                             i64 inner, int how)
{
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < d * inner; i += (i64)gridDim.x * blockDim.x) {
        const i64 row = i / inner, column = i - row * inner;
        const u32 to = start[row + 1];
        u32 from = start[row];
        typename Number<T>::type v = Number<T>::read(x[i]);

        if (how == SCATTER_NONE && from < to)
            from = to - 1;
        for (; from < to; from++)
            v = combined(how, v, Number<T>::read(u[order[from] * inner + column]));
        y[i] = Number<T>::write(v);
    }
}

/* Every element of y goes through the indices of its line. */
template <class T>
__device__ __forceinline__ void scatter_elements(const ScatterBox &p, T *y, const T *x, const T *u, const void *index)
{
    for (i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x; n < p.box.n; n += (i64)gridDim.x * blockDim.x) {
        typename Number<T>::type v = Number<T>::read(x[n]);
        i64 rest = n, from = 0, own = 0;
        bool inside = true;

        for (int k = 0; k < p.box.rank; k++) {
            const i64 next = rest / p.box.dim[k], at = rest - next * p.box.dim[k];

            rest = next;
            own = k == p.axis ? at : own;
            inside = inside && at < p.limit[k];
            from += at * p.box.from[k];
        }
        for (i64 j = 0; inside && j < p.line; j++)
            if (index_in(index, p.wide, from + j * p.step, p.box.dim[p.axis]) == own)
                v = combined(p.how, v, Number<T>::read(u[from + j * p.step]));
        y[n] = Number<T>::write(v);
    }
}

/* Every lane of a warp puts v at element `at` of a line, -1: nowhere; of those that name one element the lower lane
 * comes first. */
template <class N> __device__ __forceinline__ void put_in_order(N *line, int at, N v, int how)
{
    const u32 same = __match_any_sync(0xffffffffu, at), before = (1u << (threadIdx.x & 31)) - 1;
    const int turn = at < 0 ? -1 : __popc(same & before);

    for (int now = 0; __ballot_sync(0xffffffffu, turn >= now); now++) {
        if (turn == now)
            line[at] = combined(how, line[at], v);
        __syncwarp();
    }
}

/* Along the last axis: a warp has a line of y in shared memory and goes through the line's indices once, in order. */
template <class T>
__device__ __forceinline__ void scatter_lines(const ScatterBox &p, T *y, const T *x, const T *u, const void *index)
{
    typedef typename Number<T>::type N;
    DYNAMIC_SHARED(N, held);
    const int lane = threadIdx.x & 31, warps = blockDim.x / 32, d = (int)p.box.dim[0];
    N *own = held + (threadIdx.x >> 5) * d;

    for (i64 line = (i64)blockIdx.x * warps + (threadIdx.x >> 5); line < p.box.n / d; line += (i64)gridDim.x * warps) {
        i64 rest = line, from = 0;
        bool inside = true;

        for (int k = 1; k < p.box.rank; k++) {
            const i64 next = rest / p.box.dim[k], at = rest - next * p.box.dim[k];

            rest = next;
            inside = inside && at < p.limit[k];
            from += at * p.box.from[k];
        }
        for (int i = lane; i < d; i += 32)
            own[i] = Number<T>::read(x[line * d + i]);
        __syncwarp();
        for (i64 j = lane; inside && j - lane < p.line; j += 128) {
            int at[4];
            N v[4];

#pragma unroll
            for (int k = 0; k < 4; k++) {
                const bool known = j + 32 * k < p.line;

                at[k] = known ? (int)index_in(index, p.wide, from + j + 32 * k, d) : -1;
                v[k] = known ? Number<T>::read(u[from + j + 32 * k]) : N();
            }
#pragma unroll
            for (int k = 0; k < 4; k++)
                put_in_order(own, at[k], v[k], p.how);
        }
        for (int i = lane; i < d; i += 32)
            y[line * d + i] = Number<T>::write(own[i]);
        __syncwarp();
    }
}

#define SUMS(S, T)                                                                                        \
    KERNEL(row_sums_v_##S,                                                                                \
           (T * dx, const T *dy, const u32 *start, const u32 *order, i64 outer, i64 n, i64 d, i64 inner)) \
    {                                                                                                     \
        row_sums<T, 16 / sizeof(T)>(dx, dy, start, order, outer, n, d, inner);                            \
    }                                                                                                     \
    KERNEL(row_sums_1_##S,                                                                                \
           (T * dx, const T *dy, const u32 *start, const u32 *order, i64 outer, i64 n, i64 d, i64 inner)) \
    {                                                                                                     \
        row_sums<T, 1>(dx, dy, start, order, outer, n, d, inner);                                         \
    }
#define SCATTERS(S, T)                                                                                     \
    KERNEL(scatter_rows_##S,                                                                               \
           (T * y, const T *x, const T *u, const u32 *start, const u32 *order, i64 d, i64 inner, int how)) \
    {                                                                                                      \
        scatter_rows<T>(y, x, u, start, order, d, inner, how);                                             \
    }                                                                                                      \
    KERNEL(scatter_elements_##S, (const ScatterBox p, T *y, const T *x, const T *u, const void *index))    \
    {                                                                                                      \
        scatter_elements<T>(p, y, x, u, index);                                                            \
    }                                                                                                      \
    KERNEL(scatter_lines_##S, (const ScatterBox p, T *y, const T *x, const T *u, const void *index))       \
    {                                                                                                      \
        scatter_lines<T>(p, y, x, u, index);                                                               \
    }

SUMS(f32, float)
SUMS(f64, double)
SUMS(f16, f16)
SUMS(bf16, bf16)
SCATTERS(f32, float)
SCATTERS(f64, double)
SCATTERS(f16, f16)
SCATTERS(bf16, bf16)
SCATTERS(i8, signed char)
SCATTERS(i16, short)
SCATTERS(i32, int)
SCATTERS(i64, i64)
SCATTERS(u8, unsigned char)
SCATTERS(u16, unsigned short)
SCATTERS(u32, u32)
SCATTERS(u64, u64)
SCATTERS(b, unsigned char)
