/* The plug-in as a file (what it exports, what it says without a driver) and as it plans for a device that is only
 * described. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/plugin/plugin.h"

/* ---- the file ---- */

/* As the tool that everyone would ask says it. */
static void test_exports(void)
{
    FILE *nm = popen("nm -D --defined-only '" PLUGIN "'", "r");
    char line[512], name[256];
    int n = 0;

    while (nm && fgets(line, sizeof line, nm)) {
        CU_ASSERT_EQUAL(sscanf(line, "%*s T %255s", name), 1);
        CHECK_STR(CUDA_DRIVER_SYMBOL, name);
        n++;
    }
    CU_ASSERT_TRUE(nm && !pclose(nm));
    CU_ASSERT_EQUAL(n, 1);
}

static void test_table(void)
{
    const CudaDriver *driver = plugin_driver();
    void (*function[sizeof(CudaDriver) / sizeof(void (*)(void))])(void);

    if (!driver)
        return;
    CU_ASSERT_EQUAL(driver->runtime.abi, RUNTIME_ABI);
    CHECK_STR("cuda", driver->runtime.name);
    CU_ASSERT_FALSE(driver->runtime.simulated);
    memcpy(function, driver, sizeof *driver); /* abi and name, then pointers to functions to the end */
    for (size_t i = offsetof(Runtime, message) / sizeof *function; i < sizeof function / sizeof *function; i++)
        if (!function[i])
            TEST_FAIL("function %zu of the table is missing", i);
}

/* With a driver there are devices that can be asked; without one the message says what is missing. */
static void test_driver(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d = NULL;
    GpuInfo info;
    int n = -1;

    if (!driver)
        return;
    if (access("/dev/nvidiactl", F_OK)) {
        PLUGIN_FAILS(driver, E_DEVICE, "NVIDIA driver", driver->runtime.count(&n));
        PLUGIN_FAILS(driver, E_DEVICE, "NVIDIA driver", driver->runtime.info(&info, 0));
        PLUGIN_FAILS(driver, E_DEVICE, "NVIDIA driver", driver->runtime.open(&d, 0, NULL));
        CU_ASSERT_PTR_NULL(d);
    } else if (PLUGIN_OK(driver, driver->runtime.count(&n))) {
        CU_ASSERT_TRUE(n > 0);
        PLUGIN_OK(driver, driver->runtime.info(&info, 0));
        CU_ASSERT_TRUE(info.capability > 0 && info.memory > 0 && info.driver >= 13000 && *info.bus_id);
        PLUGIN_FAILS(driver, E_DEVICE, "expected a device below", driver->runtime.info(&info, n));
    }
}

/* ---- a described device ---- */

static void test_runs_nothing(void)
{
    static const char *const why = "only described";
    const CudaDriver *driver = plugin_driver();
    const Runtime *r = &driver->runtime;
    GpuDevice *d = driver ? plugin_device(driver, plugin_capabilities[0], NULL) : NULL;
    GpuCommId id = { { 0 } };
    const GpuCommWait wait = { .timeout = 1 };
    GpuStream *s;
    GpuEvent *e;
    GpuComm *c;
    void *p = NULL;
    int64_t n;

    if (!d)
        return;
    PLUGIN_FAILS(driver, E_DEVICE, why, r->alloc(d, &p, 16));
    PLUGIN_FAILS(driver, E_DEVICE, why, r->host_alloc(d, &p, 16));
    PLUGIN_FAILS(driver, E_DEVICE, why, r->comm_alloc(d, &p, 16));
    PLUGIN_FAILS(driver, E_DEVICE, why, r->free_memory(d, &n));
    PLUGIN_FAILS(driver, E_DEVICE, why, r->stream_create(d, &s, true));
    PLUGIN_FAILS(driver, E_DEVICE, why, r->event_create(d, &e, false));
    PLUGIN_FAILS(driver, E_DEVICE, why, r->comm_create(&c, d, &id, 0, 1, &wait));
    CU_ASSERT_PTR_NULL(p);
    r->close(d);
}

static void test_too_old(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuInfo info = plugin_gpu(70);
    GpuOptions opt = { .described = &info, .description = "{}" };
    GpuDevice *d = NULL;
    GpuKernel *k = NULL;
    GpuModule *m = NULL;

    if (!driver || !PLUGIN_OK(driver, driver->runtime.open(&d, 0, &opt)))
        return;
    PLUGIN_FAILS(driver, E_DEVICE, "compute capability 7.0", driver->kernel(d, "softmax_block_f32", &k));
    PLUGIN_FAILS(driver, E_DEVICE, "compute capability 70",
                 driver->compile(d, "extern \"C\" __global__ void k() {}", "k", &m));
    CU_ASSERT_TRUE(!k && !m);
    driver->runtime.close(d);
    driver->runtime.close(NULL);
}

DEFINE_SUITE(plugin, { "exports one symbol", test_exports }, { "has every function", test_table },
             { "tells of the driver", test_driver }, { "runs nothing on a described device", test_runs_nothing },
             { "refuses an old device", test_too_old });
