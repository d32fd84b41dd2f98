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

template <class T> static T activation(GemmEpilogue e, T x)
{
    if (e == GEMM_RELU || e == GEMM_BIAS_RELU)
        return x < 0 ? 0 : x;
    if (e == GEMM_GELU_TANH || e == GEMM_BIAS_GELU_TANH)
        return (T)0.5 * x * (1 + std::tanh((T)0.7978845608028654 * (x + (T)0.044715 * x * x * x)));
    return x;
}

static bool has_bias(GemmEpilogue e)
{
    return e == GEMM_BIAS || e == GEMM_BIAS_RELU || e == GEMM_BIAS_GELU_TANH;
}

/* One matrix: row i of the product is the sum over k of A[i, k] times row k of B. */
template <class T> static void multiply(const GpuGemm &d, const T *a, const T *b, const void *c0, const void *bias, void *c, size_t at)
{
    std::vector<T> row((size_t)d.n);

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
                y += (T)d.beta * load<T>(d.dtype_c, c0, where);
            if (has_bias(d.epilogue))
                y += load<T>(d.dtype_c, bias, (size_t)j);
            store(d.dtype_c, c, where, activation(d.epilogue, y));
        }
    }
}

template <class T> static void compute(const GpuGemm &d, size_t na, size_t nb, void *const *buffer)
{
    std::vector<T> a = load_all<T>(d.dtype, buffer[GEMM_A], na), b = load_all<T>(d.dtype, buffer[GEMM_B], nb);

    for (int64_t i = 0; i < d.batch; i++)
        multiply(d, a.data() + i * d.stride_a, b.data() + i * d.stride_b, buffer[GEMM_C0], buffer[GEMM_BIAS_IN], buffer[GEMM_C], (size_t)(i * d.stride_c));
}

static Status check(const GpuGemm &d)
{
    int64_t a_cols = d.trans_a ? d.m : d.k, b_cols = d.trans_b ? d.k : d.n;

    if (!dtype_is_float(d.dtype) || !dtype_is_float(d.dtype_c))
        return FAIL(E_UNSUPPORTED, "gemm: types %s and %s", dtype_name(d.dtype), dtype_name(d.dtype_c));
    if (d.m < 1 || d.n < 1 || d.k < 1 || d.batch < 1)
        return FAIL(E_INVALID, "gemm: m %lld, n %lld, k %lld, batch %lld", (long long)d.m, (long long)d.n, (long long)d.k, (long long)d.batch);
    if (d.lda < a_cols || d.ldb < b_cols || d.ldc < d.n)
        return FAIL(E_INVALID, "gemm: rows of %lld, %lld, %lld elements are stored every %lld, %lld, %lld", (long long)a_cols,
                    (long long)b_cols, (long long)d.n, (long long)d.lda, (long long)d.ldb, (long long)d.ldc);
    if (d.align < 1 || d.align > 256 || (d.align & (d.align - 1)))
        return FAIL(E_INVALID, "gemm: alignment %d", d.align);
    if (has_bias(d.epilogue) && d.dtype == DT_FLOAT64)      /* some versions of cublasLt have none */
        return FAIL(E_UNSUPPORTED, "gemm: no bias in %s", dtype_name(d.dtype));
    if (d.batch > 1 && d.stride_c < (d.m - 1) * d.ldc + d.n)
        return FAIL(E_INVALID, "gemm: products of the batch overlap");
    return ST_OK;
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
    GpuPlan *p = new GpuPlan{ d, "gemm", { { GEMM_A, na * size }, { GEMM_B, nb * size }, { GEMM_C, nc * size_c } }, GEMM_BUFFERS, 1000, c.align, {} };
    if (c.beta != 0)
        p->buffers.push_back({ GEMM_C0, nc * size_c });
    if (has_bias(c.epilogue))
        p->buffers.push_back({ GEMM_BIAS_IN, (size_t)c.n * size_c });
    p->compute = [=](void *const *buffer) {
        if (c.dtype == DT_FLOAT64)
            compute<double>(c, na, nb, buffer);
        else
            compute<float>(c, na, nb, buffer);
    };
    d->objects++;
    *out = p;
    *workspace = p->workspace;
    return ST_OK;
}
