/* Statistics: y = (x - mean) / sqrt(variance + epsilon) * scale + bias for each channel (axis 1), with the mean and the
 * variance of the whole batch, on however many replicas it is: batch-norm as an operator of one's own.
 *
 *     cc -shared -fPIC statistics.c $(pkg-config --cflags dpexec) -lm -o statistics.so
 *     dpexec train model.onnx --operators ./statistics.so ...
 */
#include <dpexec.h>
#include <math.h>

/* The messages between copies hold the moments of each channel; those of the gradient hold the sums. */
typedef struct {
    double n, mean, m2; /* m2: squared differences from the mean, added up */
} Moments;

typedef struct {
    double dy, dyx; /* of the gradient, and of it times what was normalised */
} Sums;

enum { NUMBERS_OF_MOMENTS = sizeof(Moments) / sizeof(double), NUMBERS_OF_SUMS = sizeof(Sums) / sizeof(double) };

/* ---- tensors [samples, channels, ...] of both types ---- */

typedef struct {
    dpx_tensor x, scale, bias, dy;
    int64_t samples, channels, inner;
    double epsilon;
} Data;

static double get(const dpx_tensor *t, int64_t i)
{
    return t->dtype == DPX_FLOAT64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static void put(const dpx_tensor *t, int64_t i, double v)
{
    if (t->dtype == DPX_FLOAT64)
        ((double *)t->data)[i] = v;
    else
        ((float *)t->data)[i] = (float)v;
}

static Data read_data(const dpx_node *n)
{
    Data d = { .inner = 1, .epsilon = dpx_node_float(n, "epsilon") };

    (void)dpx_node_input(n, 0, &d.x);
    (void)dpx_node_input(n, 1, &d.scale);
    (void)dpx_node_input(n, 2, &d.bias);
    (void)dpx_node_output_gradient(n, 0, &d.dy);
    d.samples = d.x.dim[0];
    d.channels = d.x.dim[1];
    for (int i = 2; i < d.x.rank; i++)
        d.inner *= d.x.dim[i];
    return d;
}

/* Where number i of channel c stands, of samples * inner. */
static int64_t place(const Data *d, int64_t c, int64_t i)
{
    return (i / d->inner * d->channels + c) * d->inner + i % d->inner;
}

static double deviation(const Data *d, const Moments *m) { return sqrt(m->m2 / m->n + d->epsilon); }

/* ---- the operator ---- */

static dpx_status shape(void *user, dpx_node *n)
{
    dpx_tensor x, by[2];
    dpx_status st;

    (void)user;
    if (!dpx_node_input(n, 0, &x) || x.rank < 2)
        return dpx_node_fail(n, DPX_SHAPE, "expected an input [samples, channels, ...]");
    for (int i = 0; i < 2; i++)
        if (!dpx_node_input(n, 1 + i, &by[i]) || by[i].rank != 1 || by[i].dim[0] != x.dim[1] || by[i].dtype != x.dtype)
            return dpx_node_fail(n, DPX_SHAPE, "expected a scale and a bias, a number of the input's type per channel");
    if (!(st = dpx_node_set_output(n, 0, x.dtype, x.rank, x.dim)) &&
        !(st = dpx_node_set_message(n, x.dim[1] * NUMBERS_OF_MOMENTS, x.dim[1] * NUMBERS_OF_MOMENTS)))
        st = dpx_node_set_gradient_message(n, x.dim[1] * NUMBERS_OF_SUMS, x.dim[1] * NUMBERS_OF_SUMS);
    return st;
}

/* Computes the moments of this copy's samples; there may be none. */
static dpx_status collect(void *user, dpx_node *n)
{
    const Data d = read_data(n);
    const int64_t count = d.samples * d.inner;
    dpx_tensor message;

    (void)user;
    (void)dpx_node_message(n, 0, &message);
    for (int64_t c = 0; c < d.channels; c++) {
        Moments m = { .n = (double)count };

        for (int64_t i = 0; i < count; i++)
            m.mean += get(&d.x, place(&d, c, i)) / (double)count;
        for (int64_t i = 0; i < count; i++)
            m.m2 += pow(get(&d.x, place(&d, c, i)) - m.mean, 2);
        ((Moments *)message.data)[c] = m;
    }
    return DPX_OK;
}

/* Chan, Golub, LeVeque 1979. */
static Moments merge(Moments a, Moments b)
{
    const double n = a.n + b.n, by = b.mean - a.mean;

    return a.n == 0   ? b
           : b.n == 0 ? a
                      : (Moments){ .n = n, .mean = a.mean + by * b.n / n, .m2 = a.m2 + b.m2 + by * by * a.n * b.n / n };
}

/* All copies get one answer. */
static dpx_status combine(void *user, dpx_node *n)
{
    const int copies = dpx_node_count_messages(n);
    dpx_tensor message, answer;

    (void)user;
    (void)dpx_node_message(n, 0, &message);
    for (int64_t c = 0; c < message.dim[0] / NUMBERS_OF_MOMENTS; c++) {
        Moments all = { 0 };

        for (int copy = 0; copy < copies && dpx_node_message(n, copy, &message); copy++)
            all = merge(all, ((const Moments *)message.data)[c]);
        for (int copy = 0; copy < copies && dpx_node_answer(n, copy, &answer); copy++)
            ((Moments *)answer.data)[c] = all;
    }
    return DPX_OK;
}

static dpx_status apply(void *user, dpx_node *n)
{
    const Data d = read_data(n);
    dpx_tensor answer, y;

    (void)user;
    if (!dpx_node_answer(n, 0, &answer) || !dpx_node_output(n, 0, &y))
        return DPX_INTERNAL;
    for (int64_t c = 0; c < d.channels; c++) {
        const Moments *m = &((const Moments *)answer.data)[c];
        const double by = get(&d.scale, c) / deviation(&d, m);

        for (int64_t i = 0, at; i < d.samples * d.inner; i++) {
            at = place(&d, c, i);
            put(&y, at, (get(&d.x, at) - m->mean) * by + get(&d.bias, c));
        }
    }
    return DPX_OK;
}

/* ---- its gradient ---- */

static Sums add_up(const Data *d, int64_t c, const Moments *m)
{
    Sums s = { 0 };

    for (int64_t i = 0, at; i < d->samples * d->inner; i++) {
        at = place(d, c, i);
        s.dy += get(&d->dy, at);
        s.dyx += get(&d->dy, at) * (get(&d->x, at) - m->mean);
    }
    s.dyx /= deviation(d, m);
    return s;
}

static dpx_status gradient_collect(void *user, dpx_node *n)
{
    const Data d = read_data(n);
    dpx_tensor answer, message;

    (void)user;
    if (!dpx_node_answer(n, 0, &answer) || !dpx_node_message(n, 0, &message))
        return DPX_INTERNAL;
    for (int64_t c = 0; c < d.channels; c++)
        ((Sums *)message.data)[c] = add_up(&d, c, &((const Moments *)answer.data)[c]);
    return DPX_OK;
}

static dpx_status gradient_combine(void *user, dpx_node *n)
{
    const int copies = dpx_node_count_messages(n);
    dpx_tensor message, answer;

    (void)user;
    (void)dpx_node_message(n, 0, &message);
    for (int64_t i = 0; i < message.dim[0]; i++) {
        double sum = 0;

        for (int copy = 0; copy < copies && dpx_node_message(n, copy, &message); copy++)
            sum += ((const double *)message.data)[i];
        for (int copy = 0; copy < copies && dpx_node_answer(n, copy, &answer); copy++)
            ((double *)answer.data)[i] = sum;
    }
    return DPX_OK;
}

/* dx of the whole batch's sums; by scale and bias those of this copy's samples, which the library adds up. */
static dpx_status gradient(void *user, dpx_node *n)
{
    const Data d = read_data(n);
    dpx_tensor answer, sums, dx, dscale, dbias;
    const int by_x = dpx_node_input_gradient(n, 0, &dx), by_scale = dpx_node_input_gradient(n, 1, &dscale),
              by_bias = dpx_node_input_gradient(n, 2, &dbias);

    (void)user;
    if (!dpx_node_answer(n, 0, &answer) || !dpx_node_gradient_answer(n, &sums))
        return DPX_INTERNAL;
    for (int64_t c = 0; c < d.channels; c++) {
        const Moments *m = &((const Moments *)answer.data)[c];
        const Sums all = ((const Sums *)sums.data)[c], own = add_up(&d, c, m);
        const double sd = deviation(&d, m), by = get(&d.scale, c) / sd;

        for (int64_t i = 0, at; by_x && i < d.samples * d.inner; i++) {
            at = place(&d, c, i);
            put(&dx, at, by * (get(&d.dy, at) - (all.dy + (get(&d.x, at) - m->mean) / sd * all.dyx) / m->n));
        }
        if (by_scale)
            put(&dscale, c, own.dyx);
        if (by_bias)
            put(&dbias, c, own.dy);
    }
    return DPX_OK;
}

/* ---- what the library brings ---- */

static dpx_status add(dpx_operators *set)
{
    static const dpx_kernels kernels = { .size = sizeof kernels,
                                         .apply = apply,
                                         .gradient = gradient,
                                         .collect = collect,
                                         .combine = combine,
                                         .gradient_collect = gradient_collect,
                                         .gradient_combine = gradient_combine };
    static const dpx_attribute epsilon = {
        .size = sizeof epsilon, .name = "epsilon", .type = DPX_ATTRIBUTE_FLOAT, .f = 1e-5
    };
    static const dpx_operator statistics = { .size = sizeof statistics,
                                             .domain = "com.example",
                                             .name = "Statistics",
                                             .min_inputs = 3,
                                             .max_inputs = 3,
                                             .min_outputs = 1,
                                             .max_outputs = 1,
                                             .attributes = &epsilon,
                                             .n_attributes = 1,
                                             .flags = DPX_OPERATOR_PER_SAMPLE,
                                             .sample_inputs = 1, /* bit 0: x */
                                             .parameter_inputs = 2 | 4,
                                             .shape = shape,
                                             .float32 = &kernels,
                                             .float64 = &kernels,
                                             .gradient_inputs = 1 | 2 };

    return dpx_operators_add(set, &statistics);
}

const dpx_library dpx_operator_library = { sizeof(dpx_library), DPX_LIBRARY_ABI, add };
