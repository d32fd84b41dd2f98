/* Every KERNEL of kernels/cuda/device is in the machine code for every architecture.
 *
 * The names come from the host compiler's preprocessor, for which KERNEL is redefined to leave a mark; that they are
 * compiled is read from what the plug-in holds. */
#include "tests/plugin/plugin.h"

#include <stdio.h>
#include <string.h>

#define LIST                                                                                                    \
    "cd '" SOURCE_DIR "' && { for f in kernels/cuda/device/*.cu; do ${CXX:-c++} -E -P -x c++ -w -I. -DDPX_SIM " \
    "'-DKERNEL(name,params)=DPX_KERNEL name ' '-DKERNEL_OF(threads,name,params)=DPX_KERNEL name ' \"$f\" || "   \
    "echo DPX_FAILED $f; done; } | sed 's/DPX_KERNEL/\\n&/g'"

static void look_up(const CudaDriver *driver, GpuDevice *d, const char *name, int capability)
{
    GpuKernel *k = NULL, *again = NULL;

    if (driver->kernel(d, name, &k))
        TEST_FAIL("sm_%d: %s: %s", capability, name, driver->runtime.message());
    else
        CU_ASSERT_TRUE(!driver->kernel(d, name, &again) && k == again);
}

static int look_up_all(const CudaDriver *driver, GpuDevice *d, int capability)
{
    FILE *list = popen(LIST, "r");
    char line[8192], name[128];
    int n = 0;

    while (list && fgets(line, sizeof line, list)) {
        if (!strncmp(line, "DPX_FAILED", 10))
            TEST_FAIL("%s", line);
        if (sscanf(line, "DPX_KERNEL %127s", name) == 1) {
            look_up(driver, d, name, capability);
            n++;
        }
    }
    CU_ASSERT_TRUE(list && !pclose(list));
    return n;
}

static void test_all_compiled(void)
{
    const CudaDriver *driver = plugin_driver();

    for (const int *capability = plugin_capabilities; driver && *capability; capability++) {
        GpuDevice *d = plugin_device(driver, *capability, NULL);

        if (!d)
            return;
        CU_ASSERT_TRUE(look_up_all(driver, d, *capability) > 100);
        driver->runtime.close(d);
    }
}

/* A later device of the same major capability runs this machine code. */
static void test_later_minor(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d = driver ? plugin_device(driver, plugin_capabilities[0] + 3, NULL) : NULL;

    if (!d)
        return;
    look_up(driver, d, "softmax_block_f32", plugin_capabilities[0] + 3);
    driver->runtime.close(d);
}

static void test_unknown(void)
{
    static const char *const unknown[] = { "softmax_block_f3", "softmax_block_f321", "oftmax_block_f32", "",
                                           "softmax.cu" };
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d = driver ? plugin_device(driver, plugin_capabilities[0], NULL) : NULL;
    GpuKernel *k = NULL;

    for (size_t i = 0; d && i < sizeof unknown / sizeof *unknown; i++)
        PLUGIN_FAILS(driver, E_INTERNAL, unknown[i], driver->kernel(d, unknown[i], &k));
    CU_ASSERT_PTR_NULL(k);
    if (d)
        driver->runtime.close(d);
}

/* What a block may have is the device's; asking for it needs none. */
static void test_shared_memory(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d = driver ? plugin_device(driver, plugin_capabilities[0], NULL) : NULL;
    GpuKernel *k = NULL;

    if (!d || !PLUGIN_OK(driver, driver->kernel(d, "softmax_block_f32", &k)))
        return;
    PLUGIN_OK(driver, driver->kernel_shared(k, 100 << 10));
    PLUGIN_FAILS(driver, E_UNSUPPORTED, "softmax_block_f32", driver->kernel_shared(k, 300 << 10));
    driver->runtime.close(d);
}

DEFINE_SUITE(device_kernels, { "all compiled", test_all_compiled }, { "later minor capability", test_later_minor },
             { "unknown names", test_unknown }, { "shared memory", test_shared_memory });
