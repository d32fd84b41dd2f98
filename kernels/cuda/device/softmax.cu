/* Softmax and LogSoftmax along one axis of [outer, n, inner].
 *
 * Rows (inner = 1) are read once, held in registers, and written once: 2 sizeof(T) bytes an element.  Rows too long for
 * the registers of a block are read twice, the second time mostly from L2, and so are columns (inner > 1): maximum and
 * sum are then found in one pass by rescaling the sum whenever the maximum grows. */
#include "running.cuh"

template <bool LOG> struct Result {
    template <class A> static __device__ __forceinline__ A of(A d, A e, A sum_or_scale)
    {
        return LOG ? d - sum_or_scale : e * sum_or_scale;
    }
    /* Computes `sum_or_scale` from the sum of exponentials. */
    static __device__ __forceinline__ float prepare(float sum) { return LOG ? logf(sum) : 1 / sum; }
    static __device__ __forceinline__ double prepare(double sum) { return LOG ? log(sum) : 1 / sum; }
};

template <class T, int K, bool LOG, class Team>
__device__ __forceinline__ void softmax_row(Team team, const T *x, T *y, i64 rows, i64 n)
{
    typedef typename Accumulator<T>::type A;
    const int V = Chunk<T>::size;
    const A lowest = -infinity_of<A>();
    const T fill = from_float<T>(lowest);

    for (i64 row = team.first(); team.base(row) < rows; row += team.stride()) {
        const i64 count = row < rows ? n : 0;
        const T *xs = x + (row < rows ? row * n : 0);
        T *ys = y + (row < rows ? row * n : 0);
        const int offset = row_offset(xs);
        Vec<T, V> in[K];
        A max = lowest, sum = 0;

#pragma unroll
        for (int k = 0; k < K; k++)
            in[k] = chunk_load<T, V>(xs, count, (i64)(team.rank() + k * team.size()) * V - offset, fill);
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int j = 0; j < V; j++)
                max = larger(to_float(in[k].at[j]), max);
        max = team.template all<Larger>(max);
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int j = 0; j < V; j++) {
                const i64 at = (i64)(team.rank() + k * team.size()) * V - offset + j;

                sum += at >= 0 && at < count ? exponential(to_float(in[k].at[j]) - max) : 0;
            }
        sum = Result<LOG>::prepare(team.template all<Sum>(sum));
#pragma unroll
        for (int k = 0; k < K; k++) {
            Vec<T, V> out;

#pragma unroll
            for (int j = 0; j < V; j++) {
                const A d = to_float(in[k].at[j]) - max;

                out.at[j] = from_float<T>(Result<LOG>::of(d, LOG ? 0 : exponential(d), sum));
            }
            chunk_store<T, V>(ys, count, (i64)(team.rank() + k * team.size()) * V - offset, out);
        }
    }
}

/* Whole rows of 16-bit elements, at most K chunks a thread: one exponential an element. */
template <class T, int K, bool LOG, class Team>
__device__ __forceinline__ void softmax_whole(Team team, const T *x, T *y, i64 rows, int n)
{
    const int V = Chunk<T>::size, chunks = n / V;
    const float lowest = -infinity_of<float>();

    for (i64 row = team.first(); row < rows; row += team.stride()) {
        Words w[K];
        float d[K][V], max = lowest, sum = 0;

        whole_load(w, team, x + row * n, chunks, pack_pair<T>(lowest, lowest));
#pragma unroll
        for (int k = 0; k < K; k++) {
            Packed<T>::get(d[k], w[k]);
#pragma unroll
            for (int j = 0; j < V; j++)
                max = larger(d[k][j], max);
        }
        max = team.template all<Larger>(max);
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float e = exponential_fast(d[k][j] - max);

                d[k][j] = LOG ? d[k][j] - max : e;
                sum += e;
            }
        sum = Result<LOG>::prepare(team.template all<Sum>(sum));
#pragma unroll
        for (int k = 0; k < K; k++) {
#pragma unroll
            for (int j = 0; j < V; j++)
                d[k][j] = Result<LOG>::of(d[k][j], d[k][j], sum);
            if (team.rank() + k * team.size() < chunks)
                whole_store(y + row * n, team.rank() + k * team.size(), d[k]);
        }
    }
}

template <class T, bool LOG> __device__ __forceinline__ void softmax_long(const T *x, T *y, i64 rows, i64 n)
{
    typedef typename Accumulator<T>::type A;
    const int V = Chunk<T>::size;
    const T fill = from_float<T>(-infinity_of<A>());

    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const T *xs = x + row * n;
        T *ys = y + row * n;
        const int offset = row_offset(xs);
        Running<A> r = { -infinity_of<A>(), 0 };
        A max, scale;

        for (i64 at = (i64)threadIdx.x * V - offset; at < n; at += (i64)blockDim.x * V) {
            const Vec<T, V> in = chunk_load<T, V>(xs, n, at, fill);

#pragma unroll
            for (int j = 0; j < V; j++)
                if (at + j >= 0 && at + j < n)
                    r.add(to_float(in.at[j]));
        }
        max = block_all<Larger>(r.max);
        scale = Result<LOG>::prepare(block_all<Sum>(r.scaled(max)));
        for (i64 at = (i64)threadIdx.x * V - offset; at < n; at += (i64)blockDim.x * V) {
            const Vec<T, V> in = chunk_load<T, V>(xs, n, at, fill);
            Vec<T, V> out;

#pragma unroll
            for (int j = 0; j < V; j++) {
                const A d = to_float(in.at[j]) - max;

                out.at[j] = from_float<T>(Result<LOG>::of(d, LOG ? 0 : exponential(d), scale));
            }
            chunk_store<T, V>(ys, n, at, out);
        }
    }
}

/* Blocks of (32, R) threads: 32 W neighbouring columns, their n elements dealt to R threads each.  `inner` is a
 * multiple of W and the tensors begin on boundaries of W elements. */
template <class T, int W, bool LOG>
__device__ __forceinline__ void softmax_columns(const T *x, T *y, i64 outer, i64 n, i64 inner)
{
    typedef typename Accumulator<T>::type A;
    DYNAMIC_SHARED(Running<A>, part); /* [R][32][W] */
    const i64 groups = inner / W, tiles = (groups + WARP - 1) / WARP;
    const int lane = threadIdx.x, r = threadIdx.y, R = blockDim.y;

    for (i64 tile = blockIdx.x; tile < outer * tiles; tile += gridDim.x) {
        const i64 group = tile % tiles * WARP + lane, from = tile / tiles * n * inner + group * W;
        const bool valid = group < groups;
        Running<A> run[W];

#pragma unroll
        for (int j = 0; j < W; j++)
            run[j] = { -infinity_of<A>(), 0 };
        for (i64 k = r; valid && k < n; k += R) {
            const Vec<T, W> in = *(const Vec<T, W> *)(x + from + k * inner);

#pragma unroll
            for (int j = 0; j < W; j++)
                run[j].add(to_float(in.at[j]));
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < W; j++)
            part[(r * WARP + lane) * W + j] = run[j];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < W; j++) {
            run[j] = { -infinity_of<A>(), 0 };
            for (int q = 0; q < R; q++)
                run[j].merge(part[(q * WARP + lane) * W + j]);
            run[j].sum = Result<LOG>::prepare(run[j].sum);
        }
        for (i64 k = r; valid && k < n; k += R) {
            const Vec<T, W> in = *(const Vec<T, W> *)(x + from + k * inner);
            Vec<T, W> out;

#pragma unroll
            for (int j = 0; j < W; j++) {
                const A d = to_float(in.at[j]) - run[j].max;

                out.at[j] = from_float<T>(Result<LOG>::of(d, LOG ? 0 : exponential(d), run[j].sum));
            }
            *(Vec<T, W> *)(y + from + k * inner) = out;
        }
    }
}

#define ROWS(NAME, S, T, LOG)                                                   \
    KERNEL(NAME##_lanes1_##S, (const T *x, T *y, i64 rows, i64 n, int lanes))   \
    {                                                                           \
        softmax_row<T, 1, LOG>(LaneTeam{ lanes }, x, y, rows, n);               \
    }                                                                           \
    KERNEL(NAME##_lanes4_##S, (const T *x, T *y, i64 rows, i64 n, int lanes))   \
    {                                                                           \
        softmax_row<T, 4, LOG>(LaneTeam{ lanes }, x, y, rows, n);               \
    }                                                                           \
    KERNEL_OF(ROW_BLOCK, NAME##_block_##S, (const T *x, T *y, i64 rows, i64 n)) \
    {                                                                           \
        softmax_row<T, 4, LOG>(BlockTeam{}, x, y, rows, n);                     \
    }                                                                           \
    KERNEL_OF(ROW_BLOCK, NAME##_long_##S, (const T *x, T *y, i64 rows, i64 n))  \
    {                                                                           \
        softmax_long<T, LOG>(x, y, rows, n);                                    \
    }                                                                           \
    KERNEL(NAME##_columns_##S, (const T *x, T *y, i64 outer, i64 n, i64 inner)) \
    {                                                                           \
        softmax_columns<T, 1, LOG>(x, y, outer, n, inner);                      \
    }                                                                           \
    KERNEL(NAME##_wide_##S, (const T *x, T *y, i64 outer, i64 n, i64 inner))    \
    {                                                                           \
        softmax_columns<T, Chunk<T>::size, LOG>(x, y, outer, n, inner);         \
    }
#define BOTH(S, T) ROWS(softmax, S, T, false) ROWS(log_softmax, S, T, true)

BOTH(f32, float)
BOTH(f64, double)
BOTH(f16, f16)
BOTH(bf16, bf16)

#define WHOLE(NAME, S, T, LOG, K)                                      \
    KERNEL(NAME##_whole##K##_##S, (const T *x, T *y, i64 rows, i64 n)) \
    {                                                                  \
        softmax_whole<T, K, LOG>(WarpTeam{}, x, y, rows, (int)n);      \
    }
#define WHOLES(NAME, S, T, LOG)                                                       \
    WHOLE(NAME, S, T, LOG, 1)                                                         \
    WHOLE(NAME, S, T, LOG, 2)                                                         \
    WHOLE(NAME, S, T, LOG, 3)                                                         \
    WHOLE(NAME, S, T, LOG, 4)                                                         \
    WHOLE(NAME, S, T, LOG, 6)                                                         \
    KERNEL_OF(ROW_BLOCK, NAME##_whole_block_##S, (const T *x, T *y, i64 rows, i64 n)) \
    {                                                                                 \
        softmax_whole<T, 4, LOG>(BlockTeam{}, x, y, rows, (int)n);                    \
    }

WHOLES(softmax, f16, f16, false)
WHOLES(softmax, bf16, bf16, false)
WHOLES(log_softmax, f16, f16, true)
WHOLES(log_softmax, bf16, bf16, true)
