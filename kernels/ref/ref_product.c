/* Product by the definition: sums and the epilogue in double, each result rounded once. */
#include "graph/ops/product.gen.h"
#include "graph/ops/product.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/ref_formulas.h"

static Status ref_product_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Product p;
    size_t bytes;

    TRY(product_read(&p, g, n));
    bytes = sizeof(double) * (size_t)(p.m * p.k + p.k * p.n + p.n + 1); /* never none */
    ctx->scratch_bytes = ctx->scratch_bytes > bytes ? ctx->scratch_bytes : bytes;
    return kernel_state(state, &p, sizeof p);
}

/* op(X) [rows, cols] of a stored matrix. */
static void ref_product_load(double *to, const Tensor *x, int64_t rows, int64_t cols, bool trans)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[i * cols + j] = tensor_float(x, trans ? j * rows + i : i * cols + j);
}

static int mask_bit(const uint8_t *mask, int64_t row, int64_t column, int64_t n)
{
    return mask[row * product_mask_row(n) + column / 8] >> column % 8 & 1;
}

/* Element `at` of Y from the sum of products v, in column j. */
static double epilogue(const Product *p, double v, int64_t at, const Tensor *in, Tensor *out)
{
    int64_t i = at / p->n, j = at % p->n;

    v *= p->alpha;
    if (p->gradient && p->activation == PRODUCT_RELU)
        return mask_bit(in[PRODUCT_AUX].data, i, j, p->n) ? v : 0;
    if (p->gradient) {
        double x = tensor_float(&in[PRODUCT_AUX], at);

        return formula_gelu_grad_f64(v, x, true);
    }
    if (p->bias)
        v += tensor_float(&in[PRODUCT_BIAS], j);
    if (p->added)
        v += tensor_float(&in[PRODUCT_ADDED], at);
    if (p->activation == PRODUCT_GELU_TANH && p->aux)
        tensor_set_float(&out[PRODUCT_AUX_OUT], at, v);
    return p->activation == PRODUCT_GELU_TANH ? formula_gelu_f64(v, true)
           : p->activation == PRODUCT_RELU    ? formula_relu_f64(v)
                                              : v;
}

static void set_mask(uint8_t *mask, const Tensor *y, int64_t m, int64_t n)
{
    memset(mask, 0, (size_t)(m * product_mask_row(n)));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            if (!(tensor_float(y, i * n + j) <= 0))
                mask[i * product_mask_row(n) + j / 8] |= (uint8_t)(1 << j % 8);
}

/* Row i of Y; `sum` [n] takes up its elements. */
static void run_row(const Product *p, int64_t i, const double *a, const double *b, double *sum, const Tensor *in,
                    Tensor *out)
{
    for (int64_t j = 0; j < p->n; j++) {
        double v = 0;

        for (int64_t k = 0; k < p->k; k++)
            v += a[i * p->k + k] * b[k * p->n + j];
        v = epilogue(p, v, i * p->n + j, in, out);
        tensor_set_float(&out[PRODUCT_Y], i * p->n + j, v);
        sum[j] += v;
    }
}

/* Sums along `over` of `n_over` elements for each of n. */
static void sum_operand(Tensor *out, const double *x, int64_t n, int64_t step, int64_t n_over, int64_t over)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;

        for (int64_t k = 0; k < n_over; k++)
            sum += x[i * step + k * over];
        tensor_set_float(out, i, sum);
    }
}

static Status ref_product_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Product *p = state;
    double *a = ctx->scratch, *b = a + p->m * p->k, *sum = b + p->k * p->n;

    ref_product_load(a, &in[PRODUCT_A], p->m, p->k, p->trans_a);
    ref_product_load(b, &in[PRODUCT_B], p->k, p->n, p->trans_b);
    for (int64_t j = 0; j < p->n; j++)
        sum[j] = 0;
    for (int64_t i = 0; i < p->m; i++)
        run_row(p, i, a, b, sum, in, out);
    if (p->activation == PRODUCT_RELU && !p->gradient && p->aux && p->m > 0 && p->n > 0)
        set_mask(out[PRODUCT_AUX_OUT].data, &out[PRODUCT_Y], p->m, p->n);
    if (p->sum == PRODUCT_SUM_RESULT)
        sum_operand(&out[PRODUCT_BIAS_GRAD], sum, p->n, 1, 1, 0);
    else if (p->sum == PRODUCT_SUM_OF_A)
        sum_operand(&out[PRODUCT_BIAS_GRAD], a, p->m, p->k, p->k, 1);
    else if (p->sum == PRODUCT_SUM_OF_B)
        sum_operand(&out[PRODUCT_BIAS_GRAD], b, p->n, 1, p->k, p->n);
    return ST_OK;
}

DEFINE_KERNEL(ref_product, .op = &op_Product, .dtypes = DTYPES_FLOAT, .prepare = ref_product_prepare,
              .run = ref_product_run, .release = free);
