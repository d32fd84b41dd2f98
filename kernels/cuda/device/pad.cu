/* Pad and the gradient of those of its modes that repeat elements.
 *
 * Pad writes each unit of the result once and reads what stands there, if anything: 2 bytes moved for a byte.  In the
 * gradient every element of x collects from the places that show it, in their order in dy: no two threads write the
 * same element. */
#include "index.cuh"

enum { CONSTANT, REFLECT, EDGE, WRAP };

/* The element of an axis of d that stands at i; -1: the constant. */
__device__ __forceinline__ i64 source_of(int mode, i64 i, i64 d)
{
    if (i >= 0 && i < d)
        return i;
    if (mode == EDGE)
        return i < 0 ? 0 : d - 1;
    if (mode == WRAP)
        return (i % d + d) % d;
    if (mode == REFLECT) {
        const i64 period = 2 * (d - 1);

        if (d == 1)
            return 0;
        i = (i % period + period) % period;
        return i < d ? i : period - i;
    }
    return -1;
}

template <class I> struct Unsigned {
    typedef I type;
};
template <> struct Unsigned<i64> {
    typedef u64 type;
};

/* Where unit n comes from; false: from nowhere. */
template <class I> __device__ __forceinline__ bool padded_from(const PadBox &p, I n, i64 *from)
{
    i64 f = 0;
    bool inside = true;

#pragma unroll
    for (int k = 0; k < MOVE_RANK; k++) {
        if (k < p.box.rank) {
            const I rest = Division<I>::of(n, p.box.by[k], p.box.dim[k]);
            const i64 at = source_of(p.mode, (i64)(n - rest * (I)p.box.dim[k]) - p.shift[k], p.size[k]);

            inside = inside && at >= 0;
            f += at * p.box.from[k];
            n = rest;
        }
    }
    *from = f;
    return inside;
}

/* The same where a constant stands outside, in as few bits as n has, which hold the source's positions too: one below 0
 * becomes a very large one. */
template <class I> __device__ __forceinline__ bool constant_from(const PadBox &p, I n, i64 *from)
{
    typedef typename Unsigned<I>::type U;
    U f = 0;
    bool inside = true;

#pragma unroll
    for (int k = 0; k < MOVE_RANK; k++) {
        if (k < p.box.rank) {
            const I rest = Division<I>::of(n, p.box.by[k], p.box.dim[k]);
            const U at = (U)n - (U)rest * (U)p.box.dim[k] - (U)p.shift[k];

            inside = inside && at < (U)p.size[k];
            f += at * (U)p.box.from[k];
            n = rest;
        }
    }
    *from = (i64)f;
    return inside;
}

/* The unit made of the element at `value`. */
template <class T> __device__ __forceinline__ T repeated(const unsigned char *value, int element)
{
    T unit;

#pragma unroll
    for (int j = 0; j < (int)sizeof(T); j++)
        ((unsigned char *)&unit)[j] = value[j & (element - 1)];
    return unit;
}

template <class T, class I>
__device__ __forceinline__ void pad_box(const PadBox &p, T *to, const T *from, const unsigned char *value)
{
    /* `fill` is aligned to 8 alone. */
    const T outside =
        value ? repeated<T>(value, p.element) : repeated<T>((const unsigned char *)p.fill, (int)sizeof p.fill);
    T v[MOVE_PER_THREAD];

#pragma unroll
    for (int k = 0; k < MOVE_PER_THREAD; k++) {
        const i64 n = first_unit() + k * MOVE_THREADS;
        i64 f;

        if (n < p.box.n)
            v[k] =
                (p.mode == CONSTANT ? constant_from<I>(p, (I)n, &f) : padded_from<I>(p, (I)n, &f)) ? from[f] : outside;
    }
#pragma unroll
    for (int k = 0; k < MOVE_PER_THREAD; k++)
        if (first_unit() + k * MOVE_THREADS < p.box.n)
            to[first_unit() + k * MOVE_THREADS] = v[k];
}

/* ---- the gradient ---- */

/* The first position from `low` on that shows element s of an axis of d. */
__device__ __forceinline__ i64 first_showing(int mode, i64 s, i64 d, i64 low)
{
    const i64 period = mode == WRAP ? d : 2 * (d - 1);
    i64 a, b;

    if (mode == EDGE || d == 1)
        return s == 0 && low < 0 ? low : s;
    a = s - (s - low) / period * period; /* low <= 0 <= s */
    b = (period - s) - (period - s - low) / period * period;
    return mode == REFLECT && b < a ? b : a;
}

/* The next one after i. */
__device__ __forceinline__ i64 next_showing(int mode, i64 s, i64 d, i64 i, i64 end)
{
    const i64 period = mode == WRAP ? d : 2 * (d - 1);

    if (d == 1)
        return i + 1;
    if (mode == EDGE)
        return (s == 0 && i < 0) || (s == d - 1 && i >= d - 1) ? i + 1 : end;
    if (mode == WRAP || s == 0 || s == d - 1)
        return i + period;
    return (i % period + period) % period == s ? i + period - 2 * s : i + 2 * s;
}

template <class T> __device__ __forceinline__ void pad_grad(const PadGradBox &p, T *dx, const T *dy)
{
    typedef typename Accumulator<T>::type A;

    for (i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x; n < p.box.n; n += (i64)gridDim.x * blockDim.x) {
        i64 rest = n, at[MOVE_RANK], s[MOVE_RANK], offset = 0;
        bool shown = true;
        A sum = 0;

        for (int k = 0; k < p.box.rank; rest /= p.box.dim[k], k++) {
            s[k] = rest % p.box.dim[k] - p.cut[k];
            shown = shown && s[k] >= 0 && s[k] < p.size[k];
        }
        for (int k = 0; shown && k < p.box.rank; k++) {
            at[k] = first_showing(p.mode, s[k], p.size[k], -p.shift[k]);
            shown = at[k] + p.shift[k] < p.padded[k];
            offset += (at[k] + p.shift[k]) * p.box.from[k];
        }
        while (shown) {
            int k = 0;

            sum += to_float(dy[offset]);
            for (; k < p.box.rank; k++) {
                const i64 end = p.padded[k] - p.shift[k], next = next_showing(p.mode, s[k], p.size[k], at[k], end);

                offset -= at[k] * p.box.from[k];
                at[k] = next < end ? next : first_showing(p.mode, s[k], p.size[k], -p.shift[k]);
                offset += at[k] * p.box.from[k];
                if (next < end)
                    break;
            }
            shown = k < p.box.rank;
        }
        dx[n] = from_float<T>(sum);
    }
}

#define PADS(W)                                                                                                     \
    KERNEL(pad_##W, (const PadBox p, UnitOf<W>::type *to, const UnitOf<W>::type *from, const unsigned char *value)) \
    {                                                                                                               \
        pad_box<UnitOf<W>::type, u32>(p, to, from, value);                                                          \
    }                                                                                                               \
    KERNEL(pad_wide_##W,                                                                                            \
           (const PadBox p, UnitOf<W>::type *to, const UnitOf<W>::type *from, const unsigned char *value))          \
    {                                                                                                               \
        pad_box<UnitOf<W>::type, i64>(p, to, from, value);                                                          \
    }
PADS(1)
PADS(2)
PADS(4)
PADS(8)
PADS(16)

KERNEL(pad_grad_f32, (const PadGradBox p, float *dx, const float *dy)) { pad_grad<float>(p, dx, dy); }
KERNEL(pad_grad_f64, (const PadGradBox p, double *dx, const double *dy)) { pad_grad<double>(p, dx, dy); }
KERNEL(pad_grad_f16, (const PadGradBox p, f16 *dx, const f16 *dy)) { pad_grad<f16>(p, dx, dy); }
KERNEL(pad_grad_bf16, (const PadGradBox p, bf16 *dx, const bf16 *dy)) { pad_grad<bf16>(p, dx, dy); }
