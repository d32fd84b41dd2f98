/* Matrix products by the definition (GpuGemm). */
#include "tests/sim/sim.h"

#include <cmath>

#include "tests/sim/numbers.h"

using namespace sim;

/* Elements from the first to behind the last of `batch` matrices of [rows, cols]. */
static size_t extent(int64_t batch, int64_t stride, int64_t rows, int64_t cols, int64_t ld)
{
    return batch && rows && cols ? (size_t)((batch - 1) * stride + (rows - 1) * ld + cols) : 0;
}

/* ---- the epilogue ---- */

template <class T> static T activation(GemmActivation e, T x)
{
    if (e == GEMM_RELU)
        return x < 0 ? 0 : x;
    if (e == GEMM_GELU_TANH)
        return (T)0.5 * x * (1 + std::tanh((T)0.7978845608028654 * (x + (T)0.044715 * x * x * x)));
    return x;
}

/* d/dx 0.5 x (1 + tanh(u)), u = c (x + 0.044715 x^3) */
template <class T> static T gelu_slope(T x)
{
    T c = (T)0.7978845608028654, t = std::tanh(c * (x + (T)0.044715 * x * x * x));

    return (T)0.5 * (1 + t) + (T)0.5 * x * (1 - t * t) * c * (1 + (T)0.134145 * x * x);
}

/* What is written of y, element (i, j). */
template <class T> static T finish(const GpuGemm &d, T y, int64_t i, int64_t j, void *const *buffer)
{
    size_t at = (size_t)(i * d.ld_aux + j);

    if (d.gradient && d.activation == GEMM_RELU)
        return ((const unsigned char *)buffer[GEMM_AUX])[at / 8] >> at % 8 & 1 ? y : 0;
    if (d.gradient)
        return y * gelu_slope(load<T>(d.dtype_c, buffer[GEMM_AUX], at));
    if (d.bias)
        y += load<T>(d.dtype_c, buffer[GEMM_BIAS], (size_t)j);
    if (d.keep)
        store(d.dtype_c, buffer[GEMM_AUX], at, y);
    return activation(d.activation, y);
}

template <class T> static void write_sums(const GpuGemm &d, const std::vector<T> &sum, void *const *buffer)
{
    for (size_t i = 0; i < sum.size(); i++)
        store(d.dtype_c, buffer[GEMM_SUM], i, sum[i]);
}

/* Over the contracted axis, of what `step` separates. */
template <class T> static std::vector<T> sum_operand(const T *x, int64_t n, int64_t step, int64_t k, int64_t along)
{
    std::vector<T> sum((size_t)n);

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++)
            sum[(size_t)i] += x[i * step + j * along];
    return sum;
}

/* ---- the product ---- */

/* One matrix: row i of the product is the sum over k of A[i, k] times row k of B. */
template <class T> static void multiply(const GpuGemm &d, const T *a, const T *b, void *const *buffer, size_t at)
{
    std::vector<T> row((size_t)d.n), sum((size_t)d.n);

    for (int64_t i = 0; i < d.m; i++) {
        for (T &x : row)
            x = 0;
        for (int64_t k = 0; k < d.k; k++) {
            T x = d.trans_a ? a[k * d.lda + i] : a[i * d.lda + k];
            const T *y = d.trans_b ? b + k : b + k * d.ldb;
            int64_t step = d.trans_b ? d.ldb : 1;

            for (int64_t j = 0; j < d.n; j++)
                row[(size_t)j] += x * y[j * step];
        }
        for (int64_t j = 0; j < d.n; j++) {
            size_t where = at + (size_t)(i * d.ldc + j);
            T y = (T)d.alpha * row[(size_t)j];

            if (d.beta != 0)
                y += (T)d.beta * load<T>(d.dtype_c, buffer[GEMM_C0], where);
            y = finish(d, y, i, j, buffer);
            sum[(size_t)j] += y;
            store(d.dtype_c, buffer[GEMM_C], where, y);
        }
    }
    if (d.sum == GEMM_SUM_C)
        write_sums(d, sum, buffer);
}

template <class T> static void compute(const GpuGemm &d, bool tf32, size_t na, size_t nb, void *const *buffer)
{
    std::vector<T> a = load_all<T>(d.dtype, buffer[GEMM_A], na), b = load_all<T>(d.dtype, buffer[GEMM_B], nb);

    if (tf32) {
        round_tf32(a);
        round_tf32(b);
    }
    for (int64_t i = 0; i < d.batch; i++)
        multiply(d, a.data() + i * d.stride_a, b.data() + i * d.stride_b, buffer, (size_t)(i * d.stride_c));
    if (d.sum == GEMM_SUM_A)
        write_sums(d, sum_operand(a.data(), d.m, d.trans_a ? 1 : d.lda, d.k, d.trans_a ? d.lda : 1), buffer);
    if (d.sum == GEMM_SUM_B)
        write_sums(d, sum_operand(b.data(), d.n, d.trans_b ? d.ldb : 1, d.k, d.trans_b ? 1 : d.ldb), buffer);
}

/* What a version of cublasLt, or a shape, may lack: of float64 always, else as DPEXEC_SIM_REFUSE says. */
static Status refuse(const GpuGemm &d)
{
    const char *text = std::getenv("DPEXEC_SIM_REFUSE");
    std::string what = text ? text : "";

    if (d.bias && d.dtype == DT_FLOAT64)
        return FAIL(E_UNSUPPORTED, "gemm: no bias in %s", dtype_name(d.dtype));
    if ((d.gradient || d.keep) && d.ld_aux % (d.activation == GEMM_RELU ? 128 : 8))
        return FAIL(E_UNSUPPORTED, "gemm: rows of aux every %lld", (long long)d.ld_aux);
    if ((what == "epilogues" && !gemm_plain(&d)) || (what == "sums" && d.sum))
        return FAIL(E_UNSUPPORTED, "gemm: DPEXEC_SIM_REFUSE=%s", text);
    return ST_OK;
}

static Status check(const GpuGemm &d)
{
    int64_t a_cols = d.trans_a ? d.m : d.k, b_cols = d.trans_b ? d.k : d.n;

    if (!dtype_is_float(d.dtype) || !dtype_is_float(d.dtype_c))
        return FAIL(E_UNSUPPORTED, "gemm: types %s and %s", dtype_name(d.dtype), dtype_name(d.dtype_c));
    if (d.m < 1 || d.n < 1 || d.k < 1 || d.batch < 1)
        return FAIL(E_INVALID, "gemm: m %lld, n %lld, k %lld, batch %lld", (long long)d.m, (long long)d.n,
                    (long long)d.k, (long long)d.batch);
    if (d.lda < a_cols || d.ldb < b_cols || d.ldc < d.n)
        return FAIL(E_INVALID, "gemm: rows of %lld, %lld, %lld elements are stored every %lld, %lld, %lld",
                    (long long)a_cols, (long long)b_cols, (long long)d.n, (long long)d.lda, (long long)d.ldb,
                    (long long)d.ldc);
    if (d.align < 1 || d.align > 256 || (d.align & (d.align - 1)))
        return FAIL(E_INVALID, "gemm: alignment %d", d.align);
    if (gemm_nonsense(&d))
        return FAIL(E_INVALID, "gemm: bias %d, activation %d, gradient %d, keep %d, sum %d of a batch of %lld", d.bias,
                    (int)d.activation, d.gradient, d.keep, (int)d.sum, (long long)d.batch);
    if (d.batch > 1 && d.stride_c < (d.m - 1) * d.ldc + d.n)
        return FAIL(E_INVALID, "gemm: products of the batch overlap");
    return refuse(d);
}

/* What it reads and writes beside A, B and C. */
static void add_buffers(GpuPlan *p, const GpuGemm &d, size_t nc)
{
    size_t size = dtype_size(d.dtype_c), aux = extent(1, 0, d.m, d.n, d.ld_aux);

    if (d.beta != 0)
        p->buffers.push_back({ GEMM_C0, nc * size });
    if (d.bias)
        p->buffers.push_back({ GEMM_BIAS, (size_t)d.n * size });
    if (d.gradient || d.keep)
        p->buffers.push_back({ GEMM_AUX, d.activation == GEMM_RELU ? (aux + 7) / 8 : aux * size });
    if (d.sum)
        p->buffers.push_back({ GEMM_SUM, (size_t)(d.sum == GEMM_SUM_A ? d.m : d.n) * size });
}

Status sim_gemm(GpuDevice *d, const GpuGemm *desc, GpuPlan **out, size_t *workspace)
{
    Guard g(world().lock);
    GpuGemm c = *desc;
    size_t size = dtype_size(c.dtype), size_c = dtype_size(c.dtype_c);

    SIM_INJECT("gemm");
    TRY(check(c));
    size_t na = extent(c.batch, c.stride_a, c.trans_a ? c.k : c.m, c.trans_a ? c.m : c.k, c.lda);
    size_t nb = extent(c.batch, c.stride_b, c.trans_b ? c.n : c.k, c.trans_b ? c.k : c.n, c.ldb);
    size_t nc = extent(c.batch, c.stride_c, c.m, c.n, c.ldc);
    GpuPlan *p = new GpuPlan{
        d,       "gemm", { { GEMM_A, na * size }, { GEMM_B, nb * size }, { GEMM_C, nc * size_c } }, GEMM_BUFFERS, 1000,
        c.align, {}
    };
    add_buffers(p, c, nc);
    bool tf32 = d->tf32 && c.dtype == DT_FLOAT32;
    p->compute = [=](void *const *buffer) {
        if (c.dtype == DT_FLOAT64)
            compute<double>(c, false, na, nb, buffer);
        else
            compute<float>(c, tf32, na, nb, buffer);
    };
    d->objects++;
    *out = p;
    *workspace = p->workspace;
    return ST_OK;
}
