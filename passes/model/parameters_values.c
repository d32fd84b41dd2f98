/* What the numbers of a constant tell of it. */
#include <math.h>
#include <xxhash.h>

#include "passes/model/parameters.h"

/* Zeros beside one number: what a mask that is added to scores holds.  A bias of zeros and one such number is not
 * likely. */
static const double LARGE_NEGATIVE = -10, CERTAINLY_MASK = -1e4;
enum { MIN_WAVES = 16, MIN_WINDOW = 3, MIN_STEPS = 4, MAX_COORDINATES = 4 };

/* Pairs of numbers in a row, side by side or a half row apart, that are sine and cosine of one angle. */
static bool is_waves(const Tensor *t)
{
    const int rank = t->shape.rank;
    const int64_t width = rank ? t->shape.dim[rank - 1] : 0, numel = tensor_numel(t), half = width / 2;
    bool beside = true, apart = true;

    if (numel < MIN_WAVES || width < 2 || width % 2)
        return false;
    for (int64_t row = 0; row < numel && (beside || apart); row += width)
        for (int64_t k = 0; k < half && (beside || apart); k++) {
            double a = tensor_float(t, row + 2 * k), b = tensor_float(t, row + 2 * k + 1);
            double c = tensor_float(t, row + k), d = tensor_float(t, row + half + k);

            beside = beside && fabs(a * a + b * b - 1) < 1e-3;
            apart = apart && fabs(c * c + d * d - 1) < 1e-3;
        }
    return beside || apart;
}

/* Convolutions [O, I, spatial...] that take a weighted mean of each channel. */
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

/* One coordinate of points, every `stride`-th number from `first` on: runs that go up (down: sign -1) by one step, or
 * stay, as each coordinate of a grid does; three numbers a run or more. */
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

/* Each number a multiple of the one before, by the same factor. */
static bool is_rates(const Tensor *t)
{
    const int64_t numel = tensor_numel(t);
    const double ratio = tensor_float(t, 1) / tensor_float(t, 0);

    for (int64_t i = 1; i < numel; i++) {
        double v = tensor_float(t, i);

        if (!(fabs(v - ratio * tensor_float(t, i - 1)) <= 1e-5 * fabs(v)))
            return false;
    }
    return ratio > 0;
}

static bool is_steps(const Tensor *t)
{
    const int64_t numel = tensor_numel(t), last = shape_columns(&t->shape);
    const int64_t stride = t->shape.rank > 1 && last <= MAX_COORDINATES ? last : 1;
    bool up = true, down = true;

    if (numel / stride < MIN_STEPS)
        return false;
    for (int64_t i = 0; i < stride; i++) {
        up = up && is_even(t, i, stride, 1);
        down = down && is_even(t, i, stride, -1);
    }
    return up || down || (numel == last && is_rates(t));
}

Looks tensor_looks(const Tensor *t)
{
    const int64_t numel = t && t->data ? tensor_numel(t) : 0;
    const double first = numel ? tensor_float(t, 0) : 0;
    bool zero = false, one = false, uniform = true, two = true;
    double other = 0; /* the number that is not zero, while there is but one */

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
