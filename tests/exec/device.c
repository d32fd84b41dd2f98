/* Devices: the grammar of --devices, and threads that take jobs and give back their failures. */
#include "exec/device.h"

#include <omp.h>
#include <string.h>

#include "tests/harness/test.h"

static void test_lists(void)
{
    DeviceList l;

    CHECK_OK(device_list_parse(&l, NULL, 0));
    CU_ASSERT(l.n == 1 && l.device[0].index == 0 && l.device[0].threads == cpu_cores());
    CHECK_OK(device_list_parse(&l, "cpu:3,cpu:1", 5));
    CU_ASSERT(l.n == 2 && l.device[0].index == 3 && l.device[1].index == 1 && l.device[1].threads == 5);
    CHECK_OK(device_list_parse(&l, "cpu*4", 0));
    CU_ASSERT(l.n == 4 && l.device[3].index == 3);
    CU_ASSERT(l.device[0].threads >= 1 && (l.device[0].threads == 1 || 4 * l.device[0].threads <= cpu_cores()));
    CHECK_OK(device_list_parse(&l, "all", 0));
    CU_ASSERT_EQUAL(l.n, 1);
}

static void test_bad_lists(void)
{
    static const char *const bad[] = { "gpu", "cpu:", "cpu:x", "cpu*0", "cpu*", "cpu:1,", ",", "cpu:-1", "cpu:99999999999", "cpu*1000" };
    static const char *const cuda[] = { "cuda:0", "cuda", "0,1", "cpu:0,cuda:1", "cuda*2" };
    DeviceList l = { .n = 77 };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_FAILS(E_INVALID, "devices: ", device_list_parse(&l, bad[i], 0));
    for (size_t i = 0; i < sizeof cuda / sizeof *cuda; i++)
        CHECK_FAILS(E_DEVICE, "CUDA backend is not part of this build", device_list_parse(&l, cuda[i], 0));
    CHECK_FAILS(E_INVALID, "cpu:1 is named twice", device_list_parse(&l, "cpu:1,cpu:0,cpu:1", 0));
    CHECK_FAILS(E_INVALID, "threads", device_list_parse(&l, "cpu", -1));
    CU_ASSERT_EQUAL(l.n, 77);
}

static void test_unequal(void)
{
    DeviceList l = { .n = 2, .device = { { 0, 4, 1000 }, { 1, 3, 1000 } } };
    char text[DEVICE_TEXT];

    CU_ASSERT_FALSE(device_list_unequal(&l, text));
    l.device[1].threads = 2;
    CU_ASSERT_TRUE(device_list_unequal(&l, text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "cpu:0"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "cpu:1"));
    l.device[1] = (DeviceSpec){ 1, 4, 740 };
    CU_ASSERT_TRUE(device_list_unequal(&l, text));
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

DEFINE_SUITE(device, { "lists", test_lists }, { "bad lists", test_bad_lists }, { "unequal devices", test_unequal }, { "jobs", test_jobs });
