/* Products on a described device: cublasLt, which cannot say more without a driver, takes the description of every
 * epilogue that kernels ask for; what no epilogue can be is refused before. */
#include "tests/plugin/plugin.h"

static GpuGemm product(DType t, DType c)
{
    return (GpuGemm){ .dtype = t,
                      .dtype_c = c,
                      .m = 256,
                      .n = 384,
                      .k = 128,
                      .batch = 1,
                      .lda = 128,
                      .ldb = 384,
                      .ldc = 384,
                      .alpha = 1,
                      .ld_aux = 384,
                      .align = 16 };
}

static void check_plan(const CudaDriver *driver, GpuDevice *d, const GpuGemm *g)
{
    GpuPlan *plan = NULL;
    size_t workspace;

    if (PLUGIN_OK(driver, driver->gemm(d, g, &plan, &workspace)))
        driver->plan_free(plan);
}

static void check_type(const CudaDriver *driver, GpuDevice *d, DType t, DType c)
{
    static const GemmActivation activations[] = { GEMM_LINEAR, GEMM_RELU, GEMM_GELU_TANH };

    for (int i = 0; i < 3; i++)
        for (int bits = 0; bits < 4; bits++) {
            GpuGemm g = product(t, c);

            g.activation = activations[i];
            g.bias = bits & 1;
            g.keep = bits & 2 && g.activation == GEMM_GELU_TANH;
            check_plan(driver, d, &g);
            g.gradient = g.activation != GEMM_LINEAR;
            g.bias = g.keep = false;
            g.sum = g.gradient ? (bits & 1 ? GEMM_SUM_C : GEMM_NO_SUM) : bits & 1 ? GEMM_SUM_A : GEMM_SUM_B;
            check_plan(driver, d, &g);
        }
}

static void test_epilogues(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d = driver ? plugin_device(driver, plugin_capabilities[0], NULL) : NULL;

    if (!d)
        return;
    check_type(driver, d, DT_BFLOAT16, DT_BFLOAT16);
    check_type(driver, d, DT_FLOAT16, DT_FLOAT16);
    check_type(driver, d, DT_BFLOAT16, DT_FLOAT32);
    check_type(driver, d, DT_FLOAT32, DT_FLOAT32);
    driver->runtime.close(d);
}

static void test_nonsense(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d = driver ? plugin_device(driver, plugin_capabilities[0], NULL) : NULL;
    GpuGemm wrong[7], fails;
    GpuPlan *plan;
    size_t workspace;

    if (!d)
        return;
    for (int i = 0; i < 7; i++)
        wrong[i] = product(DT_BFLOAT16, DT_BFLOAT16);
    wrong[0].gradient = true; /* of nothing */
    wrong[1].keep = true;
    wrong[2].sum = GEMM_SUM_C;
    wrong[3].sum = GEMM_SUM_A, wrong[3].bias = true;
    wrong[4].activation = GEMM_RELU, wrong[4].gradient = true, wrong[4].bias = true;
    wrong[5].activation = GEMM_RELU, wrong[5].gradient = true, wrong[5].ld_aux = 256;
    wrong[6].activation = GEMM_RELU, wrong[6].batch = 2;
    for (int i = 0; i < 7; i++)
        PLUGIN_FAILS(driver, E_INVALID, "no epilogue has", driver->gemm(d, &wrong[i], &plan, &workspace));
    fails = product(DT_BFLOAT16, DT_BFLOAT16);
    fails.activation = GEMM_GELU_TANH;
    fails.keep = true;
    fails.ld_aux = 387;
    PLUGIN_FAILS(driver, E_UNSUPPORTED, "387 elements", driver->gemm(d, &fails, &plan, &workspace));
    driver->runtime.close(d);
}

DEFINE_SUITE(gemm, { "epilogues can be described", test_epilogues }, { "nonsense is refused", test_nonsense });
