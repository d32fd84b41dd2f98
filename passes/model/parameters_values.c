/* Recognition of constants by their numbers: masks, tables of sines and cosines, fixed filters, grids. */
#include <math.h>
#include <xxhash.h>

#include "passes/model/parameters.h"

/* A mask that is added to scores holds zeros and one large negative number; a bias hardly does. */
static const double LARGE_NEGATIVE = -10, CERTAINLY_MASK = -1e4;
enum {
    MIN_WAVES = 16,
    MAX_FITTED = 16,
    MAX_BLOCKS = 3,
    ODD_SINES,
    MIN_WINDOW = 3,
    MIN_STEPS = 4,
    MAX_COORDINATES = 4,
    MAX_KERNEL = 256
};

/* One row along an axis: `n` numbers, `stride` apart, from `first` on. */
typedef struct {
    const Tensor *t;
    int64_t first, n, stride;
} Row;

static double number_of(const Row *r, int64_t k) { return tensor_float(r->t, r->first + k * r->stride); }

static bool is_zero_row(const Row *r)
{
    for (int64_t k = 0; k < r->n; k++)
        if (number_of(r, k) != 0)
            return false;
    return true;
}

/* Distance of a number from its partner.  Partners are side by side (blocks 0), or half a block apart in each of that
 * many blocks, one for each axis of an image. */
static int64_t half_of(const Row *r, int blocks)
{
    return blocks == ODD_SINES ? r->n / 2 + 1 : blocks ? r->n / blocks / 2 : 1;
}

/* *a, *b: pair k of the row, `half` apart. */
static void pair_of(double *a, double *b, const Row *r, int64_t k, int64_t half)
{
    const int64_t at = k / half * 2 * half + k % half;

    *a = number_of(r, at);
    *b = number_of(r, at + half);
}

static Row row_along(const Tensor *t, int axis, int64_t i)
{
    const int64_t width = t->shape.dim[axis], stride = shape_count(&t->shape, axis + 1, t->shape.rank);

    return (Row){ t, i / stride * stride * width + i % stride, width, stride };
}

/* Has the tensor three distinct numbers?  One or two always fit a circle. */
static bool has_three_numbers(const Tensor *t)
{
    const int64_t numel = tensor_numel(t);
    const double one = tensor_float(t, 0);
    double two = one;

    for (int64_t i = 1; i < numel; i++) {
        const double v = tensor_float(t, i);

        if (v != one && two != one && v != two)
            return true;
        if (v != one)
            two = v;
    }
    return false;
}

/* A table of sines and cosines may be shifted and scaled: each pair (sine, cosine) is on the circle around
 * (center, center) with the squared radius `square`.  Fits that circle to the first rows by least squares:
 * a^2 + b^2 = 2 c (a + b) + square - 2 c^2 is a line in a + b. */
static bool find_circle(double *center, double *square, const Tensor *t, int axis, int blocks)
{
    const int64_t rows = tensor_numel(t) / t->shape.dim[axis];
    double n = 0, x = 0, y = 0, xx = 0, xy = 0, a, b, slope;
    int used = 0;

    for (int64_t i = 0; i < rows && used < MAX_FITTED; i++) {
        const Row row = row_along(t, axis, i);

        if (is_zero_row(&row))
            continue;
        used++;
        for (int64_t k = 0; k < row.n / 2; k++) {
            pair_of(&a, &b, &row, k, half_of(&row, blocks));
            n++;
            x += a + b;
            y += a * a + b * b;
            xx += (a + b) * (a + b);
            xy += (a + b) * (a * a + b * b);
        }
    }
    slope = (n * xy - x * y) / (n * xx - x * x);
    *center = slope / 2;
    *square = (y - slope * x) / n + slope * slope / 2;
    return used > 1 && n >= MIN_WAVES && *square > 0 && isfinite(*square) && has_three_numbers(t);
}

/* Are the pairs of the rows along the axis on the circle?  An odd number of elements leaves one without a partner: the
 * last, or (blocks ODD_SINES) the last sine.  Half of the rows may be zeros, for a class token or for padding. */
static bool is_waves_of(const Tensor *t, int axis, int blocks, double center, double square)
{
    const int64_t rows = tensor_numel(t) / t->shape.dim[axis];
    int64_t n_zero = 0;

    for (int64_t i = 0; i < rows; i++) {
        const Row row = row_along(t, axis, i);
        const bool zero = is_zero_row(&row);
        double a, b;

        n_zero += zero;
        for (int64_t k = 0; k < row.n / 2 && !zero; k++) {
            pair_of(&a, &b, &row, k, half_of(&row, blocks));
            a -= center;
            b -= center;
            if (!(fabs(a * a + b * b - square) < 1e-3 * square))
                return false;
        }
    }
    return n_zero <= rows / 2;
}

static bool is_waves_along(const Tensor *t, int axis)
{
    const int64_t width = t->shape.dim[axis];
    const bool odd = width % 2;
    double center, square;

    for (int blocks = 0; blocks <= ODD_SINES; blocks++) {
        const bool fits = blocks == ODD_SINES || (odd && blocks < 2)
                              ? odd && width > 4
                              : width >= 2 && width % (blocks ? 2 * blocks : 2) == 0;

        if (fits && (is_waves_of(t, axis, blocks, 0, 1) ||
                     (find_circle(&center, &square, t, axis, blocks) && is_waves_of(t, axis, blocks, center, square))))
            return true;
    }
    return false;
}

/* Is the tensor a table of sines and cosines, of positions in rows or columns, or of channels in front of an image's
 * axes? */
static bool is_waves(const Tensor *t)
{
    const int rank = t->shape.rank;

    if (!rank || tensor_numel(t) < MIN_WAVES)
        return false;
    return is_waves_along(t, rank - 1) || (rank > 2 && is_waves_along(t, rank - 3)) ||
           (rank == 2 && t->shape.dim[0] > 3 && is_waves_along(t, 0));
}

/* Does a filter [O, I, spatial...] take a weighted mean of each channel? */
static bool is_window(const Tensor *t)
{
    const int64_t filters = t->shape.rank > 2 ? t->shape.dim[0] * t->shape.dim[1] : 0,
                  size = filters ? tensor_numel(t) / filters : 0;

    for (int64_t f = 0; f < filters; f++) {
        double sum = 0;

        for (int64_t i = 0; i < size; i++) {
            double v = tensor_float(t, f * size + i);

            if (!(v >= 0))
                return false;
            sum += v;
        }
        if (fabs(sum - 1) > 1e-5)
            return false;
    }
    return size >= MIN_WINDOW;
}

/* Does a kernel have each magnitude, zeros aside, at least twice on average?  A symmetric kernel, a difference or a
 * Haar wavelet does; learned numbers all differ. */
static bool repeats_magnitudes(const Tensor *t, int64_t from, int64_t size)
{
    int distinct = 0, n = 0;

    for (int64_t i = 0; i < size; i++) {
        const double v = fabs(tensor_float(t, from + i));
        bool new = v != 0;

        for (int64_t k = 0; k < i && new; k++)
            new = fabs(fabs(tensor_float(t, from + k)) - v) > 1e-6 * v;
        n += v != 0;
        distinct += new;
    }
    return n >= 2 && distinct <= n / 2;
}

bool tensor_is_fixed_filter(const Tensor *t)
{
    const int64_t numel = t && t->data ? tensor_numel(t) : 0,
                  kernels = numel && t->shape.rank > 2 ? t->shape.dim[0] * t->shape.dim[1] : 0,
                  size = kernels ? numel / kernels : 0;
    bool same = kernels > 1, repeats = size <= MAX_KERNEL, any = false;

    for (int64_t k = 0; k < kernels && size > 1 && (same || repeats); k++) {
        const double first = tensor_float(t, k * size);
        bool constant = true;

        for (int64_t i = 0; i < size; i++) {
            constant = constant && tensor_float(t, k * size + i) == first;
            same = same && tensor_float(t, k * size + i) == tensor_float(t, i);
        }
        any |= !constant;
        /* One of the four kernels of a Haar transform is a mean, which is constant. */
        repeats = repeats && (constant ? first != 0 : repeats_magnitudes(t, k * size, size));
    }
    return any && (same || repeats);
}

/* Does one coordinate of the points (every `stride`-th number from `first` on) consist of runs that stay or go up by
 * one step (sign -1: down), three numbers a run on average, as a coordinate of a grid does? */
static bool is_even(const Tensor *t, int64_t first, int64_t stride, int sign)
{
    const int64_t numel = tensor_numel(t), n = numel / stride;
    int64_t runs = 1;
    double step = 0;
    bool moves = false;

    for (int64_t i = first + stride; i < numel; i += stride) {
        double v = tensor_float(t, i), d = sign * (v - tensor_float(t, i - stride));

        if (d < 0) {
            runs++;
            step = 0;
        } else if (d > 0) {
            if (step > 0 && fabs(d - step) > 1e-4 * step + 4e-7 * fabs(v))
                return false;
            step = d;
            moves = true;
        }
    }
    return moves && runs <= n / 3;
}

/* Evenly spaced numbers or points, or a geometric sequence. */
static bool is_steps(const Tensor *t)
{
    const int64_t numel = tensor_numel(t), last = shape_columns(&t->shape);
    const int64_t stride = t->shape.rank > 1 && last <= MAX_COORDINATES ? last : 1;
    bool up = true, down = true;
    double ratio;

    if (numel / stride < MIN_STEPS)
        return false;
    for (int64_t i = 0; i < stride; i++) {
        up = up && is_even(t, i, stride, 1);
        down = down && is_even(t, i, stride, -1);
    }
    if (up || down || numel != last)
        return up || down;
    ratio = tensor_float(t, 1) / tensor_float(t, 0);
    for (int64_t i = 1; i < numel; i++) {
        const double v = tensor_float(t, i);

        if (!(fabs(v - ratio * tensor_float(t, i - 1)) <= 1e-5 * fabs(v)))
            return false;
    }
    return ratio > 0;
}

Looks tensor_looks(const Tensor *t)
{
    const int64_t numel = t && t->data ? tensor_numel(t) : 0;
    const double first = numel ? tensor_float(t, 0) : 0;
    bool zero = false, one = false, uniform = true, two = true;
    double other = 0; /* the last number that is not zero; `two`: the only one */

    for (int64_t i = 0; i < numel; i++) {
        double v = tensor_float(t, i);

        if (v <= CERTAINLY_MASK)
            return LOOKS_MASK;
        uniform = uniform && v == first;
        zero |= v == 0;
        one |= v == 1;
        if (v == 0)
            continue;
        two = two && (other == 0 || other == v);
        other = v;
    }
    if (uniform)
        return numel ? LOOKS_UNIFORM : LOOKS_PLAIN;
    if (two && zero && one)
        return LOOKS_SWITCH;
    if (two && zero && other <= LARGE_NEGATIVE)
        return LOOKS_MASK;
    return is_waves(t) ? LOOKS_WAVES : is_window(t) ? LOOKS_WINDOW : is_steps(t) ? LOOKS_STEPS : LOOKS_PLAIN;
}

uint64_t tensor_digest(const Tensor *t, bool transposed)
{
    const int64_t numel = tensor_numel(t), columns = t->shape.rank == 2 ? t->shape.dim[1] : 1,
                  rows = columns ? numel / columns : 0;
    double part[256];
    int n = 0;
    uint64_t digest = 0;

    for (int64_t i = 0; i < numel; i++) {
        part[n++] = tensor_float(t, transposed ? i % rows * columns + i / rows : i);
        if (n == 256 || i + 1 == numel) {
            digest = XXH3_64bits_withSeed(part, (size_t)n * sizeof *part, digest);
            n = 0;
        }
    }
    return digest;
}
