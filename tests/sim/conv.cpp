/* Convolutions and their gradients by the definition (GpuConv), for up to three spatial dimensions. */
#include "tests/sim/sim.h"

#include <algorithm>

#include "tests/sim/numbers.h"

using namespace sim;

namespace
{

/* Three spatial dimensions, the missing ones of size 1 in front. */
struct Geometry {
    int64_t n, c, k, group, in[3], kernel[3], out[3], stride[3], dilation[3], pad[3];

    explicit Geometry(const GpuConv &d) : n(d.n), c(d.c), k(d.k), group(d.group)
    {
        for (int i = 0; i < 3; i++) {
            int from = i - (3 - d.n_spatial);

            in[i] = from < 0 ? 1 : d.in[from];
            kernel[i] = from < 0 ? 1 : d.kernel[from];
            out[i] = from < 0 ? 1 : d.out[from];
            stride[i] = from < 0 ? 1 : d.stride[from];
            dilation[i] = from < 0 ? 1 : d.dilation[from];
            pad[i] = from < 0 ? 0 : d.pad_before[from];
        }
    }
};

int64_t volume(const int64_t s[3]) { return s[0] * s[1] * s[2]; }

/* An array of [outer, channels, spatial], whatever the order in memory. */
template <class T> struct Array {
    int64_t outer, channels, spatial;
    std::vector<T> at;

    Array(int64_t o, int64_t c, int64_t s) : outer(o), channels(c), spatial(s), at((size_t)(o * c * s)) {}
    size_t stored(bool last, int64_t o, int64_t c, int64_t s) const
    {
        return (size_t)(last ? (o * spatial + s) * channels + c : (o * channels + c) * spatial + s);
    }
    template <class F> void each(bool last, F f)
    {
        for (int64_t o = 0; o < outer; o++)
            for (int64_t c = 0; c < channels; c++)
                for (int64_t s = 0; s < spatial; s++)
                    f(at[(size_t)((o * channels + c) * spatial + s)], stored(last, o, c, s));
    }
    void get(DType t, bool last, const void *p)
    {
        each(last, [=](T &x, size_t i) { x = load<T>(t, p, i); });
    }
    void put(DType t, bool last, void *p)
    {
        each(last, [=](T &x, size_t i) { store(t, p, i, x); });
    }
};

/* One row of outputs against the row of inputs that one element of the kernel meets: x[j * step] for j in [from,
 * to). */
template <class T> void row(ConvKind kind, T *x, T *w, T *y, int64_t from, int64_t to, int64_t step)
{
    T sum = 0;

    if (kind == CONV_FORWARD)
        for (int64_t j = from; j < to; j++)
            y[j] += *w * x[j * step];
    else if (kind == CONV_GRAD_INPUT)
        for (int64_t j = from; j < to; j++)
            x[j * step] += *w * y[j];
    else
        for (int64_t j = from; j < to; j++)
            sum += x[j * step] * y[j];
    *w += sum;
}

/* x, y: one channel; w: its kernel. */
template <class T> void channel(ConvKind kind, const Geometry &g, T *x, T *w, T *y)
{
    for (int64_t a = 0; a < g.kernel[0]; a++)
        for (int64_t b = 0; b < g.kernel[1]; b++)
            for (int64_t c = 0; c < g.kernel[2]; c++, w++) {
                int64_t shift = c * g.dilation[2] - g.pad[2], from = 0, to = g.out[2];

                while (from < to && from * g.stride[2] + shift < 0)
                    from++;
                while (to > from && (to - 1) * g.stride[2] + shift >= g.in[2])
                    to--;
                for (int64_t i = 0; i < g.out[0]; i++)
                    for (int64_t j = 0; j < g.out[1]; j++) {
                        int64_t u = i * g.stride[0] + a * g.dilation[0] - g.pad[0],
                                v = j * g.stride[1] + b * g.dilation[1] - g.pad[1];

                        if (u >= 0 && u < g.in[0] && v >= 0 && v < g.in[1])
                            row(kind, x + (u * g.in[1] + v) * g.in[2] + shift, w, y + (i * g.out[1] + j) * g.out[2],
                                from, to, g.stride[2]);
                    }
            }
}

template <class T> void compute(const GpuConv &d, bool tf32, void *const *buffer)
{
    Geometry g(d);
    int64_t cg = g.c / g.group, kg = g.k / g.group, in = volume(g.in), out = volume(g.out), size = volume(g.kernel);
    Array<T> x(g.n, g.c, in), w(g.k, cg, size), y(g.n, g.k, out);

    if (d.kind != CONV_GRAD_INPUT)
        x.get(d.dtype, d.channels_last, buffer[CONV_X]);
    if (d.kind != CONV_GRAD_WEIGHT)
        w.get(d.dtype, d.channels_last, buffer[CONV_W]);
    if (d.kind != CONV_FORWARD)
        y.get(d.dtype, d.channels_last, buffer[CONV_Y]);
    if (tf32) /* what is not read is zero */
        for (Array<T> *a : { &x, &w, &y })
            round_tf32(a->at);
    for (int64_t n = 0; n < g.n; n++)
        for (int64_t k = 0; k < g.k; k++)
            for (int64_t c = 0; c < cg; c++)
                channel(d.kind, g, &x.at[(size_t)((n * g.c + k / kg * cg + c) * in)],
                        &w.at[(size_t)((k * cg + c) * size)], &y.at[(size_t)((n * g.k + k) * out)]);
    if (d.kind == CONV_GRAD_INPUT)
        return x.put(d.dtype, d.channels_last, buffer[CONV_X]);
    if (d.kind == CONV_GRAD_WEIGHT)
        return w.put(d.dtype, d.channels_last, buffer[CONV_W]);
    for (size_t i = 0; d.bias && i < y.at.size(); i++)
        y.at[i] += load<T>(d.dtype, buffer[CONV_BIAS], i / (size_t)out % (size_t)g.k);
    if (d.add)
        y.each(d.channels_last, [&](T &v, size_t i) { v += load<T>(d.dtype, buffer[CONV_Z], i); });
    for (size_t i = 0; d.relu && i < y.at.size(); i++)
        y.at[i] = y.at[i] < 0 ? 0 : y.at[i]; /* a NaN stays one */
    y.put(d.dtype, d.channels_last, buffer[CONV_Y]);
}

Status check(const GpuConv &d)
{
    if (!dtype_is_float(d.dtype))
        return FAIL(E_UNSUPPORTED, "conv: type %s", dtype_name(d.dtype));
    if (d.n_spatial < 1 || d.n_spatial > 3 || d.n < 1 || d.c < 1 || d.k < 1 || d.group < 1 || d.c % d.group ||
        d.k % d.group)
        return FAIL(E_INVALID, "conv: n %lld, c %lld, k %lld, group %lld, %d spatial dimensions", (long long)d.n,
                    (long long)d.c, (long long)d.k, (long long)d.group, d.n_spatial);
    for (int i = 0; i < d.n_spatial; i++) {
        int64_t room = d.in[i] + d.pad_before[i] + d.pad_after[i] - (d.kernel[i] - 1) * d.dilation[i] - 1;

        if (d.stride[i] < 1 || d.dilation[i] < 1 || d.kernel[i] < 1 || room < 0 || d.out[i] != room / d.stride[i] + 1)
            return FAIL(E_INVALID, "conv: output %lld in dimension %d, expected %lld", (long long)d.out[i], i,
                        d.stride[i] > 0 && room >= 0 ? (long long)(room / d.stride[i] + 1) : 0LL);
    }
    if (conv_nonsense(&d))
        return FAIL(E_INVALID, "conv: kind %d with bias %d, add %d, relu %d", (int)d.kind, d.bias, d.add, d.relu);
    return ST_OK;
}

/* What a version of cuDNN, or a shape, may lack, as DPEXEC_SIM_REFUSE says. */
Status refuse(const GpuConv &d)
{
    const char *text = std::getenv("DPEXEC_SIM_REFUSE");

    if (d.relu && text && std::string(text) == "relu")
        return FAIL(E_UNSUPPORTED, "conv: DPEXEC_SIM_REFUSE=%s", text);
    return ST_OK;
}

} // namespace

Status sim_conv(GpuDevice *d, const GpuConv *desc, GpuPlan **out, size_t *workspace)
{
    static const char *const names[] = { "conv", "conv grad-input", "conv grad-weight" };
    Guard guard(world().lock);
    GpuConv c = *desc;

    SIM_INJECT("conv");
    TRY(check(c));
    TRY(refuse(c));
    Geometry g(c);
    size_t size = dtype_size(c.dtype);
    GpuPlan *p = new GpuPlan{ d, names[c.kind], {}, CONV_BUFFERS, 1000, 1, {} };
    p->buffers = { { CONV_X, (size_t)(g.n * g.c * volume(g.in)) * size },
                   { CONV_W, (size_t)(g.k * g.c / g.group * volume(g.kernel)) * size },
                   { CONV_Y, (size_t)(g.n * g.k * volume(g.out)) * size } };
    if (c.bias)
        p->buffers.push_back({ CONV_BIAS, (size_t)c.k * size });
    if (c.add)
        p->buffers.push_back({ CONV_Z, (size_t)(g.n * g.k * volume(g.out)) * size });
    bool tf32 = d->tf32 && c.dtype == DT_FLOAT32;
    p->compute = [=](void *const *buffer) {
        if (c.dtype == DT_FLOAT64)
            compute<double>(c, false, buffer);
        else
            compute<float>(c, tf32, buffer);
    };
    d->objects++;
    *out = p;
    *workspace = p->workspace;
    return ST_OK;
}
