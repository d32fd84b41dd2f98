/* Training in 16 bits on CUDA devices: step by step what the CPU computes with every operator by itself. */
#include <stdlib.h>

#include "tests/exec/gpu_training.h"
#include "tests/harness/test.h"

/* At a rate at which the loss stays near where it began: steps that diverge multiply what rounding did.  Float16 with a
 * dynamic loss scale; several replicas add their 16-bit gradients in float32. */
static void test_16_bits(void)
{
    const GpuRun runs[] = {
        { .model = "transformer",
          .batch = 1,
          .steps = 2,
          .replicas = 1,
          .devices = 1,
          .precision = DT_BFLOAT16,
          .rate = 0.002 },
        { .model = "mlp",
          .batch = 4,
          .steps = 8,
          .replicas = 1,
          .devices = 1,
          .precision = DT_BFLOAT16,
          .rate = 0.002 },
        { .model = "fashion_cnn",
          .batch = 4,
          .steps = 6,
          .replicas = 1,
          .devices = 1,
          .precision = DT_BFLOAT16,
          .rate = 0.002 },
        { .model = "mlp", .batch = 6, .steps = 8, .replicas = 1, .devices = 1, .precision = DT_FLOAT16, .rate = 0.002 },
        { .model = "mlp", .batch = 6, .steps = 8, .replicas = 3, .devices = 2, .precision = DT_FLOAT16, .rate = 0.002 }
    };

    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        gpu_check_run(runs[i]);
}

/* Without the epilogues that a version of the library may not have. */
static void test_own_epilogues(void)
{
    static const char *const refused[] = { "sums", "epilogues" };

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        setenv("DPEXEC_SIM_REFUSE", refused[i], 1);
        gpu_check_model("mlp", 8, 3, 2);
        gpu_check_run((GpuRun){ .model = "mlp",
                                .batch = 4,
                                .steps = 4,
                                .replicas = 1,
                                .devices = 1,
                                .precision = DT_BFLOAT16,
                                .rate = 0.002 });
    }
    gpu_check_run((GpuRun){ .model = "transformer",
                            .batch = 1,
                            .steps = 2,
                            .replicas = 1,
                            .devices = 1,
                            .precision = DT_FLOAT16,
                            .rate = 0.002 });
    unsetenv("DPEXEC_SIM_REFUSE");
}

DEFINE_SUITE(gpu_16_bits, { "losses of the CPU", test_16_bits }, { "products with own epilogues", test_own_epilogues });
