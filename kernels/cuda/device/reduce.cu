/* Reductions.  Any set of axes becomes runs of neighbours (the last axis is reduced) or columns (it is kept), with what
 * is left of kept and reduced axes walked by strides: Reduction in reduction.h.
 *
 * Every element is read once, in accesses of 16 bytes where runs or columns begin on boundaries: sizeof(T) bytes an
 * element, nothing else of note.  An output of much work is computed in parts by several blocks; what they leave in
 * scratch is added up by a second kernel in the order of the parts.  Which thread adds what depends on shapes alone:
 * the same bits each time. */
#include "running.cuh"

#include "walk.h"

/* ---- what is accumulated ---- */

template <class T> __device__ __forceinline__ auto widen(T x) { return to_float(x); }
__device__ __forceinline__ i64 widen(i64 x) { return x; }
__device__ __forceinline__ i64 widen(int x) { return x; }
__device__ __forceinline__ signed char widen(signed char x) { return x; }
__device__ __forceinline__ unsigned char widen(unsigned char x) { return x; }
template <class T, class A> __device__ __forceinline__ T narrow(A x) { return from_float<T>(x); }
template <> __device__ __forceinline__ i64 narrow<i64, i64>(i64 x) { return x; }
template <> __device__ __forceinline__ int narrow<int, i64>(i64 x) { return (int)x; }
template <> __device__ __forceinline__ int narrow<int, int>(int x) { return x; }
template <> __device__ __forceinline__ signed char narrow<signed char, signed char>(signed char x) { return x; }
template <> __device__ __forceinline__ unsigned char narrow<unsigned char, unsigned char>(unsigned char x) { return x; }

template <class A> __device__ __forceinline__ A lowest() { return -infinity_of<A>(); }
template <> __device__ __forceinline__ i64 lowest<i64>() { return -9223372036854775807ll - 1; }
template <> __device__ __forceinline__ int lowest<int>() { return -2147483647 - 1; }
template <> __device__ __forceinline__ signed char lowest<signed char>() { return -128; }
template <> __device__ __forceinline__ unsigned char lowest<unsigned char>() { return 0; }
template <class A> __device__ __forceinline__ A highest() { return infinity_of<A>(); }
template <> __device__ __forceinline__ i64 highest<i64>() { return 9223372036854775807ll; }
template <> __device__ __forceinline__ int highest<int>() { return 2147483647; }
template <> __device__ __forceinline__ signed char highest<signed char>() { return 127; }
template <> __device__ __forceinline__ unsigned char highest<unsigned char>() { return 255; }

/* first: of nothing; of(a, b): of two parts; add: one more element x. */
template <class A> struct SumOf {
    typedef A Acc;
    static __device__ __forceinline__ A first() { return 0; }
    static __device__ __forceinline__ A of(A a, A b) { return (A)((u64)a + (u64)b); }
    static __device__ __forceinline__ void add(A &r, A x) { r = of(r, x); }
};
template <> __device__ __forceinline__ float SumOf<float>::of(float a, float b) { return a + b; }
template <> __device__ __forceinline__ double SumOf<double>::of(double a, double b) { return a + b; }

template <class A> struct SumSquareOf : SumOf<A> {
    static __device__ __forceinline__ void add(A &r, A x) { r += x * x; }
};
template <class A> struct SumAbsOf : SumOf<A> {
    static __device__ __forceinline__ void add(A &r, A x) { r += x < 0 ? -x : x; }
};
template <class A> struct ProdOf {
    typedef A Acc;
    static __device__ __forceinline__ A first() { return 1; }
    static __device__ __forceinline__ A of(A a, A b) { return (A)((u64)a * (u64)b); }
    static __device__ __forceinline__ void add(A &r, A x) { r = of(r, x); }
};
template <> __device__ __forceinline__ float ProdOf<float>::of(float a, float b) { return a * b; }
template <> __device__ __forceinline__ double ProdOf<double>::of(double a, double b) { return a * b; }
/* NaN wins. */
template <class A> struct MaxOf {
    typedef A Acc;
    static __device__ __forceinline__ A first() { return lowest<A>(); }
    static __device__ __forceinline__ A of(A a, A b) { return b > a || b != b ? b : a; }
    static __device__ __forceinline__ void add(A &r, A x) { r = of(r, x); }
};
template <class A> struct MinOf {
    typedef A Acc;
    static __device__ __forceinline__ A first() { return highest<A>(); }
    static __device__ __forceinline__ A of(A a, A b) { return b < a || b != b ? b : a; }
    static __device__ __forceinline__ void add(A &r, A x) { r = of(r, x); }
};
template <class A> struct LogSumExpOf {
    typedef Running<A> Acc;
    static __device__ __forceinline__ Acc first() { return { -infinity_of<A>(), 0 }; }
    static __device__ __forceinline__ Acc of(Acc a, const Acc &b)
    {
        a.merge(b);
        return a;
    }
    static __device__ __forceinline__ void add(Acc &r, A x) { r.add(x); }
};

/* Adds the V elements of a whole chunk at once, where that is cheaper than one by one, else returns false. */
template <class Op, class T, int V> __device__ __forceinline__ bool add_whole(Op, typename Op::Acc &, const Vec<T, V> &)
{
    return false;
}
template <class A, class T, int V>
__device__ __forceinline__ bool add_whole(LogSumExpOf<A>, Running<A> &r, const Vec<T, V> &v)
{
    A x[V];

#pragma unroll
    for (int j = 0; j < V; j++)
        x[j] = widen(v.at[j]);
    add_all(r, x);
    return true;
}

/* Reduces over the team's threads. */
template <class Op> __device__ __forceinline__ typename Op::Acc all_of(Op, LaneTeam team, const typename Op::Acc &r)
{
    return team.all<Op>(r);
}
template <class A> __device__ __forceinline__ Running<A> all_of(LogSumExpOf<A>, LaneTeam team, const Running<A> &r)
{
    return running_all(team, r);
}

/* No reduction asks for the root of an integer. */
template <class A> __device__ __forceinline__ A root(A x) { return x; }

template <class A> __device__ __forceinline__ A result(A r, Finish f) { return f == FINISH_ROOT ? root(r) : r; }
template <class A> __device__ __forceinline__ A result(const Running<A> &r, Finish) { return r.max + logarithm(r.sum); }

/* ---- runs ---- */

enum { FLIGHT = 4 }; /* accesses under way at a time */

template <class T, class Op>
__device__ __forceinline__ typename Op::Acc run_part(LaneTeam team, const T *x, const Reduction &p, i64 item)
{
    typedef typename Op::Acc Acc;
    const int V = Chunk<T>::size;
    Acc r = Op::first();
    const T *xs = x + walk(p.kept, (u32)(item / p.parts));
    u32 from, to;

    part_of((u32)(p.runs * p.chunks), (u32)(item % p.parts), p.parts, &from, &to);
    for (u32 c = from + team.rank(); c < to; c += FLIGHT * team.size()) {
        Vec<T, V> v[FLIGHT];
        i64 at[FLIGHT];

#pragma unroll
        for (int f = 0; f < FLIGHT; f++) {
            const u32 mine = c + f * team.size(), run = p.runs > 1 ? mine / p.chunks : 0;
            const T *row = xs + (run ? walk(p.reduced, run) : 0);

            at[f] = mine < to ? (i64)(mine - run * p.chunks) * V - row_offset(row) : p.n;
            if (at[f] < p.n)
                v[f] = chunk_load<T, V>(row, p.n, at[f], T());
        }
#pragma unroll
        for (int f = 0; f < FLIGHT; f++) {
            if (at[f] >= 0 && at[f] + V <= p.n && add_whole(Op(), r, v[f]))
                continue;
#pragma unroll
            for (int j = 0; j < V; j++)
                if (at[f] + j >= 0 && at[f] + j < p.n)
                    Op::add(r, widen(v[f].at[j]));
        }
    }
    return r;
}

/* Without parts y is the result, else partial[output][part]. */
template <class T, class Op, class Y>
__device__ __forceinline__ void reduce_runs(const T *x, Y *y, typename Op::Acc *partial, const Reduction &p, int lanes)
{
    const LaneTeam team = { lanes };

    for (i64 item = team.first(); team.base(item) < p.outputs * p.parts; item += team.stride()) {
        const bool valid = item < p.outputs * p.parts;
        typename Op::Acc r = Op::first();

        if (valid)
            r = run_part<T, Op>(team, x, p, item);
        r = all_of(Op(), team, r);
        if (valid && team.rank() == 0) {
            if (p.parts == 1)
                y[item] = narrow<Y>(result(r, p.finish));
            else
                partial[item] = r;
        }
    }
}

/* ---- columns: blocks of (X, R) threads, X W neighbouring columns, their elements dealt to R ---- */

template <class T, class Op, int W>
__device__ __forceinline__ void column_part(typename Op::Acc (&r)[W], const T *x, const Reduction &p, u32 part)
{
    const u32 R = blockDim.y;
    u32 from, to;

    part_of((u32)p.n, part, p.parts, &from, &to);
    for (u32 k = from + threadIdx.y; k < to; k += FLIGHT * R) {
        Vec<T, W> v[FLIGHT];

#pragma unroll
        for (int f = 0; f < FLIGHT; f++)
            if (k + f * R < to)
                v[f] = *(const Vec<T, W> *)(x + walk(p.reduced, k + f * R));
#pragma unroll
        for (int f = 0; f < FLIGHT; f++)
#pragma unroll
            for (int j = 0; j < W; j++)
                if (k + f * R < to)
                    Op::add(r[j], widen(v[f].at[j]));
    }
}

template <class T, class Op, int W, class Y>
__device__ __forceinline__ void reduce_columns(const T *x, Y *y, typename Op::Acc *partial, const Reduction &p)
{
    typedef typename Op::Acc Acc;
    DYNAMIC_SHARED(Acc, shared); /* [R][X][W] */
    const i64 groups = p.inner / W, tiles = (groups + blockDim.x - 1) / blockDim.x, outer = p.outputs / p.inner;

    for (i64 item = blockIdx.x; item < outer * tiles * p.parts; item += gridDim.x) {
        const i64 tile = item / p.parts % tiles, o = item / p.parts / tiles, group = tile * blockDim.x + threadIdx.x;
        const u32 part = (u32)(item % p.parts);
        Acc r[W];

#pragma unroll
        for (int j = 0; j < W; j++)
            r[j] = Op::first();
        if (group < groups)
            column_part<T, Op, W>(r, x + walk(p.kept, (u32)o) + group * W, p, part);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < W; j++)
            shared[(threadIdx.y * blockDim.x + threadIdx.x) * W + j] = r[j];
        __syncthreads();
        /* The block's threads share the tile's columns now. */
        for (u32 c = threadIdx.y * blockDim.x + threadIdx.x; c < blockDim.x * W; c += blockDim.x * blockDim.y) {
            const i64 column = tile * blockDim.x * W + c, out = o * p.inner + column;
            Acc sum = shared[c];

            if (column >= p.inner)
                continue;
            for (u32 q = 1; q < blockDim.y; q++)
                sum = Op::of(sum, shared[q * blockDim.x * W + c]);
            if (p.parts == 1)
                y[out] = narrow<Y>(result(sum, p.finish));
            else
                partial[out * p.parts + part] = sum;
        }
    }
}

/* ---- parts: a block adds up an output's ---- */

template <class T, class Op>
__device__ __forceinline__ void reduce_parts(const typename Op::Acc *partial, T *y, const Reduction &p)
{
    for (i64 o = blockIdx.x; o < p.outputs; o += gridDim.x) {
        typename Op::Acc r = Op::first();

        for (u32 k = threadIdx.x; k < p.parts; k += blockDim.x)
            r = Op::of(r, partial[o * p.parts + k]);
        r = block_all<Op>(r);
        if (threadIdx.x == 0)
            y[o] = narrow<T>(result(r, p.finish));
    }
}

/* The kernels that reduce T into Y. */
#define REDUCE_INTO(NAME, S, T, OP, A, Y)                                                             \
    KERNEL(reduce_##NAME##_runs_##S, (const T *x, Y *y, OP<A>::Acc *partial, Reduction p, int lanes)) \
    {                                                                                                 \
        reduce_runs<T, OP<A>>(x, y, partial, p, lanes);                                               \
    }                                                                                                 \
    KERNEL(reduce_##NAME##_columns_##S, (const T *x, Y *y, OP<A>::Acc *partial, Reduction p))         \
    {                                                                                                 \
        reduce_columns<T, OP<A>, 1>(x, y, partial, p);                                                \
    }                                                                                                 \
    KERNEL(reduce_##NAME##_parts_##S, (const OP<A>::Acc *partial, Y *y, Reduction p))                 \
    {                                                                                                 \
        reduce_parts<Y, OP<A>>(partial, y, p);                                                        \
    }
#define WIDE_INTO(NAME, S, T, OP, A, Y)                                                    \
    REDUCE_INTO(NAME, S, T, OP, A, Y)                                                      \
    KERNEL(reduce_##NAME##_wide_##S, (const T *x, Y *y, OP<A>::Acc *partial, Reduction p)) \
    {                                                                                      \
        reduce_columns<T, OP<A>, Chunk<T>::size>(x, y, partial, p);                        \
    }
#define REDUCE(NAME, S, T, OP, A) REDUCE_INTO(NAME, S, T, OP, A, T)
#define WIDE(NAME, S, T, OP, A) WIDE_INTO(NAME, S, T, OP, A, T)
#define FLOATS(X, NAME, OP)          \
    X(NAME, f32, float, OP, float)   \
    X(NAME, f64, double, OP, double) \
    X(NAME, f16, f16, OP, float)     \
    X(NAME, bf16, bf16, OP, float)
#define INTS(NAME, OP)              \
    REDUCE(NAME, i64, i64, OP, i64) \
    REDUCE(NAME, i32, int, OP, i64)
#define EXTREMES(NAME, OP)                             \
    REDUCE(NAME, i64, i64, OP, i64)                    \
    REDUCE(NAME, i32, int, OP, int)                    \
    REDUCE(NAME, i8, signed char, OP, signed char)     \
    REDUCE(NAME, u8, unsigned char, OP, unsigned char) \
    REDUCE(NAME, b, unsigned char, OP, unsigned char)

/* Columns of whole accesses for what training sums up; the others read element by element. */
FLOATS(WIDE, sum, SumOf)
WIDE_INTO(sum_wide, f16, f16, SumOf, float, float)
WIDE_INTO(sum_wide, bf16, bf16, SumOf, float, float)
FLOATS(WIDE, sum_square, SumSquareOf)
FLOATS(REDUCE, sum_abs, SumAbsOf)
FLOATS(REDUCE, prod, ProdOf)
FLOATS(REDUCE, max, MaxOf)
FLOATS(REDUCE, min, MinOf)
FLOATS(REDUCE, log_sum_exp, LogSumExpOf)
INTS(sum, SumOf)
INTS(prod, ProdOf)
EXTREMES(max, MaxOf)
EXTREMES(min, MinOf)
