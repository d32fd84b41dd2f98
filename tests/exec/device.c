/* Devices: the grammar of --devices, and threads that take jobs and give back their failures. */
#include "exec/device/device.h"
#include "exec/device/device_differences.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/device/describe.h"
#include "graph/base/machine.h"
#include "tests/harness/test.h"

static void test_lists(void)
{
    DeviceList l;

    CHECK_OK(device_list_parse(&l, NULL, 0));
    CU_ASSERT(l.n == 1 && l.device[0].index == 0 && l.device[0].threads == machine_cores());
    CHECK_OK(device_list_parse(&l, "cpu:3,cpu:1", 5));
    CU_ASSERT(l.n == 2 && l.device[0].index == 3 && l.device[1].index == 1 && l.device[1].threads == 5);
    CHECK_OK(device_list_parse(&l, "cpu*4", 0));
    CU_ASSERT(l.n == 4 && l.device[3].index == 3);
    CU_ASSERT(l.device[0].threads >= 1 && (l.device[0].threads == 1 || 4 * l.device[0].threads <= machine_cores()));
    device_list_leave(&l, 1);
    CU_ASSERT(l.device[3].threads == (machine_cores() < 9 ? 1 : (machine_cores() - 1) / 4));
    device_list_leave(&l, 1000000);
    CU_ASSERT_EQUAL(l.device[0].threads, 1);
    CHECK_OK(device_list_parse(&l, "all", 0));
    CU_ASSERT_EQUAL(l.n, 1);
}

static void test_cuda_lists(void)
{
    DeviceList l;

    CHECK_OK(device_list_parse(&l, "cuda", 1));
    CU_ASSERT(l.n == 1 && l.device[0].cuda && l.device[0].index == 0 && !*l.device[0].described);
    CHECK_OK(device_list_parse(&l, "cuda:2,cuda:0", 1));
    CU_ASSERT(l.n == 2 && l.device[0].cuda && l.device[0].index == 2 && l.device[1].cuda && l.device[1].index == 0);
    CHECK_OK(device_list_parse(&l, "1,cuda:0", 1));
    CU_ASSERT(l.n == 2 && l.device[0].cuda && l.device[0].index == 1 && l.device[1].index == 0);
    CHECK_OK(device_list_parse(&l, "cuda*3", 1));
    CU_ASSERT(l.n == 3 && l.device[2].cuda && l.device[2].index == 2);
    CHECK_OK(device_list_parse(
        &l, "cuda*2@" SOURCE_DIR "/tests/devices/h100.json,cuda:7@" SOURCE_DIR "/tests/devices/a100.json", 1));
    CU_ASSERT(l.n == 3 && l.device[1].memory == 85017755648 && l.device[2].memory == 42298834944);
    CHECK_STR(SOURCE_DIR "/tests/devices/a100.json", l.device[2].described);
}

static void test_bad_lists(void)
{
    static const char *const bad[] = { "gpu",      "cpu:",   "cpu:x",    "cpu*0",           "cpu*",
                                       "cpu:1,",   ",",      "cpu:-1",   "cpu:99999999999", "cpu*1000",
                                       "cuda:",    "cuda*0", "cudax",    "cuda*257",        "cpu:0,cuda:1",
                                       "cuda,cpu", "0,cpu",  "0,cuda:0", "cuda@",           "cpu:0@x.json" };
    DeviceList l = { .n = 77 };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_FAILS(E_INVALID, "devices: ", device_list_parse(&l, bad[i], 0));
    CHECK_FAILS(E_INVALID, "cpu:0 and cuda:1: CPU and CUDA devices do not work together",
                device_list_parse(&l, "cpu:0,cuda:1", 0));
    CHECK_FAILS(E_INVALID, "cpu:1 is named twice", device_list_parse(&l, "cpu:1,cpu:0,cpu:1", 0));
    CHECK_FAILS(E_INVALID, "cuda:1 is named twice", device_list_parse(&l, "1,cuda:1", 0));
    CHECK_FAILS(E_IO, "no/such.json: cannot be read", device_list_parse(&l, "cuda@no/such.json", 0));
    CHECK_FAILS(E_INVALID, "threads", device_list_parse(&l, "cpu", -1));
    CU_ASSERT_EQUAL(l.n, 77);
}

/* What the description `text` is refused with. */
static void check_description(const char *text, const char *const *problems)
{
    char path[] = "/tmp/dpexec-device-XXXXXX";
    int fd = mkstemp(path);
    GpuInfo info;

    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    for (; *problems; problems++)
        CHECK_FAILS(E_INVALID, *problems, describe_read(&info, NULL, path));
    unlink(path);
}

static void test_descriptions(void)
{
    GpuInfo info;
    char *text;

    CHECK_OK(describe_read(&info, &text, SOURCE_DIR "/tests/devices/h100.json"));
    CHECK_STR("NVIDIA H100 80GB HBM3", info.name);
    CU_ASSERT(info.capability == 90 && info.multiprocessors == 132 && info.warp_size == 32 &&
              info.shared_per_block == 232448);
    CU_ASSERT(info.driver == 0 && !*info.bus_id && text[0] == '{');
    free(text);
    check_description("{}", (const char *const[]){ "'name' is missing", "'capability' is missing",
                                                   "'memory' is missing", "'l2' is missing", NULL });
    check_description("{\"name\": 3, \"capability\": \"9\", \"memory\": 0, \"warp_size\": 64, \"l2\": 1.5, \"sms\": 4}",
                      (const char *const[]){ "'name': expected a text", "'capability': expected", "'memory': expected",
                                             "'warp_size': expected", "'l2': expected", "'sms' is not a property",
                                             "'multiprocessors' is missing", NULL });
    check_description("[]", (const char *const[]){ "expected an object", NULL });
    check_description("{\"name\":\"a\",\n\"name\":\"b\"}", (const char *const[]){ ":2: ", NULL });
    check_description("", (const char *const[]){ ":", NULL });
}

/* What is no plug-in is refused with its cause, and nothing is left open. */
static void test_plugin_errors(void)
{
    static const struct {
        const char *file, *why;
    } bad[] = {
        { "/no/such/libdpexec_cuda.so", "cuda:1: the CUDA plug-in /no/such/libdpexec_cuda.so cannot be loaded: " },
        { SOURCE_DIR "/README.md", "cannot be loaded: " },
        { "libm.so.6", "libm.so.6 is no plug-in: it has no dpexec_cuda_driver" },
    };
    Device *d = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("DPEXEC_CUDA_PLUGIN", bad[i].file, 1);
        CHECK_FAILS(E_DEVICE, bad[i].why,
                    device_open(&d, &(DeviceSpec){ .cuda = true, .index = 1, .threads = 1 }, false));
    }
    unsetenv("DPEXEC_CUDA_PLUGIN");
    CU_ASSERT_PTR_NULL(d);
}

static void test_unequal(void)
{
    DeviceFacts f[4] = { { .cores = 4, .memory = 1000ull << 20, .index = 0 },
                         { .cores = 3, .memory = 1000ull << 20, .index = 1 },
                         { .cores = 4, .memory = 750ull << 20, .index = 0 },
                         { .cores = 4, .memory = 1000ull << 20, .index = 1 } };
    char text[UNEQUAL_TEXT];

    CU_ASSERT_FALSE(find_unequal_devices(f, 4, 2, text));
    f[2].memory--;
    CU_ASSERT_TRUE(find_unequal_devices(f, 4, 2, text));
    CHECK_STR("cpu:0 of rank 0 (4 cores, 1000 MiB) and cpu:0 of rank 1 (4 cores, 749 MiB) are unequal", text);
    CU_ASSERT_FALSE(find_unequal_devices(f, 2, 2, text));
    f[1].cores = 1;
    CU_ASSERT_TRUE(find_unequal_devices(f, 2, 2, text));
    CHECK_STR("cpu:0 (4 cores, 1000 MiB) and cpu:1 (1 core, 1000 MiB) are unequal", text);
    f[1] = (DeviceFacts){ .cores = 4, .memory = 0, .index = 1 }; /* unknown */
    CU_ASSERT_FALSE(find_unequal_devices(f, 2, 2, text));
}

static Status count(Device *d, void *arg)
{
    int *n = arg;

    if (omp_get_max_threads() != device_ctx(d)->n_threads)
        return FAIL(E_INTERNAL, "the team has %d threads", omp_get_max_threads());
    return ++*n % 3 ? ST_OK : FAIL(E_DEVICE, "job %d on %s", *n, device_name(d));
}

static void test_jobs(void)
{
    for (int spin = 0; spin < 2; spin++) {
        Device *d[3] = { NULL };
        int n[3] = { 0 };

        for (int i = 0; i < 3; i++)
            CHECK_OK(device_open(&d[i], &(DeviceSpec){ .index = i, .threads = 1 + i % 2 }, spin));
        for (int turn = 1; turn <= 300; turn++) {
            for (int i = 0; i < 3; i++)
                device_start(d[i], count, &n[i]);
            for (int i = 0; i < 3; i++) {
                Status st = device_wait(d[i]);
                char text[32];

                snprintf(text, sizeof text, "job %d on cpu:%d", turn, i);
                if (turn % 3 == 0)
                    CHECK_FAILS(E_DEVICE, text, st);
                else
                    CU_ASSERT_EQUAL(st, ST_OK);
            }
        }
        for (int i = 0; i < 3; i++) {
            CU_ASSERT_EQUAL(n[i], 300);
            device_close(d[i]);
        }
    }
    device_close(NULL);
}

/* A DeviceJob: fails, or echoes another's failure, as *arg says. */
static Status fail_as_told(Device *d, void *arg)
{
    Status st = *(const Status *)arg;

    return st && st != E_INTERRUPTED ? FAIL(st, "%s has failed", device_name(d)) : st;
}

static void check_all(Device **d, const Status told[3], Status expected, const char *message)
{
    for (int i = 0; i < 3; i++)
        device_start(d[i], fail_as_told, (void *)(uintptr_t)&told[i]);
    if (message)
        CHECK_FAILS(expected, message, device_wait_all(d, 3));
    else
        CU_ASSERT_EQUAL(device_wait_all(d, 3), expected);
}

/* Of several failures the first that is not the echo of another. */
static void test_all(void)
{
    Device *d[4] = { NULL };

    for (int i = 0; i < 3; i++)
        if (!CHECK_OK(device_open(&d[i], &(DeviceSpec){ .index = i, .threads = 1 }, false)))
            goto done;
    check_all(d, (Status[]){ ST_OK, ST_OK, ST_OK }, ST_OK, NULL);
    check_all(d, (Status[]){ ST_OK, E_IO, E_DEVICE }, E_IO, "cpu:1 has failed");
    check_all(d, (Status[]){ E_INTERRUPTED, ST_OK, E_DEVICE }, E_DEVICE, "cpu:2 has failed");
    check_all(d, (Status[]){ E_DEVICE, E_INTERRUPTED, E_IO }, E_DEVICE, "cpu:0 has failed");
    check_all(d, (Status[]){ ST_OK, E_INTERRUPTED, E_INTERRUPTED }, E_INTERRUPTED, NULL);
    device_start(d[0], fail_as_told, &(Status){ ST_OK });
    CU_ASSERT_EQUAL(device_wait_all((Device *[]){ NULL, d[0], NULL }, 3), ST_OK);
done:
    for (int i = 0; i < 3; i++)
        device_close(d[i]);
}

DEFINE_SUITE(device, { "lists", test_lists }, { "CUDA lists", test_cuda_lists }, { "bad lists", test_bad_lists },
             { "descriptions", test_descriptions }, { "plug-in errors", test_plugin_errors },
             { "unequal devices", test_unequal }, { "jobs", test_jobs }, { "waiting for all", test_all });
