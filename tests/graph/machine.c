/* What groups leave of a machine, by trees of files in place of /proc and /sys. */
#include "graph/base/machine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/harness/test.h"

static char root[] = "/tmp/dpx-machine-XXXXXX";

/* Writes the file below `root`, with the folders on its way. */
static void put(const char *name, const char *text)
{
    char path[PATH_MAX];
    FILE *f;

    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *s = path + strlen(root) + 1; (s = strchr(s, '/')); *s++ = '/') {
        *s = '\0';
        (void)mkdir(path, 0777);
    }
    if (!(f = fopen(path, "w")) || fputs(text, f) < 0 || fclose(f))
        TEST_FAIL("%s cannot be written", path);
}

static void clear(void)
{
    char command[64];

    snprintf(command, sizeof command, "rm -rf %s/*", root);
    CU_ASSERT_EQUAL(system(command), 0);
}

static const char one_mount[] = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
                                "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
                                "35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n";

/* Limits of version 1 stand at the group, above it, or nowhere. */
static void test_version_1(void)
{
    const uint64_t all = machine_memory_below(root);

    put("/proc/self/mountinfo", one_mount);
    put("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/batch/job_7\n1:cpu,cpuacct:/batch/job_7/step\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    CU_ASSERT_EQUAL(machine_memory_below(root), all);
    put("/sys/fs/cgroup/memory/batch/job_7/memory.limit_in_bytes", "67108864\n");
    CU_ASSERT_EQUAL(machine_memory_below(root), 67108864);
    put("/sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "1048576\n");
    CU_ASSERT_EQUAL(machine_memory_below(root), 1048576);
    put("/sys/fs/cgroup/cpu,cpuacct/batch/job_7/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/batch/job_7/cpu.cfs_period_us", "100000\n");
    CU_ASSERT_EQUAL(machine_cores_below(root), machine_cores_below("/nowhere"));
    put("/sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us", "150000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us", "100000\n");
    CU_ASSERT_EQUAL(machine_cores_below(root), 1);
    clear();
}

/* The mount of a container begins at its own group, or at one above; /proc tells the way from the machine's root. */
static void test_container(void)
{
    put("/proc/self/mountinfo", "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro master:9 - cgroup cgroup rw,memory\n");
    put("/proc/self/cgroup", "4:memory:/docker/ab/inner\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2097152\n");
    CU_ASSERT_EQUAL(machine_memory_below(root), 2097152);
    put("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "1048576\n");
    CU_ASSERT_EQUAL(machine_memory_below(root), 1048576);
    put("/proc/self/cgroup", "4:memory:/elsewhere\n");
    CU_ASSERT_EQUAL(machine_memory_below(root), 2097152);
    put("/proc/self/cgroup", "4:memory:/docker/abc/inner\n"); /* another one, whose name only begins alike */
    CU_ASSERT_EQUAL(machine_memory_below(root), 2097152);
    clear();
}

static void test_version_2(void)
{
    put("/proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
    put("/proc/self/cgroup", "0::/user/session\n");
    put("/sys/fs/cgroup/user/session/memory.max", "max\n");
    put("/sys/fs/cgroup/user/memory.max", "3145728\n");
    put("/sys/fs/cgroup/user/session/cpu.max", "100000 100000\n");
    CU_ASSERT_EQUAL(machine_memory_below(root), 3145728);
    CU_ASSERT_EQUAL(machine_cores_below(root), 1);
    put("/proc/self/cgroup", "0::/../../..\n"); /* seen from a namespace that it is not in */
    put("/memory.max", "1\n");
    CU_ASSERT(machine_memory_below(root) > 1);
    clear();
}

/* Without /proc the usual places are looked at. */
static void test_usual_places(void)
{
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4194304\n");
    CU_ASSERT_EQUAL(machine_memory_below(root), 4194304);
    put("/sys/fs/cgroup/memory.max", "2097152\n");
    CU_ASSERT_EQUAL(machine_memory_below(root), 2097152);
    put("/proc/self/cgroup", ":::\n4:memory\n\n");
    put("/proc/self/mountinfo", " - \n1 2 3 - cgroup\n");
    CU_ASSERT_EQUAL(machine_memory_below(root), 2097152);
    clear();
}

/* Free memory is MemAvailable, or a group's lower limit. */
static void test_free(void)
{
    put("/sys/fs/cgroup/memory.max", "2097152\n");
    CU_ASSERT_EQUAL(machine_memory_free_below(root), 2097152);
    put("/proc/meminfo", "MemTotal:       16316284 kB\nMemFree:            1000 kB\nMemAvailable:       1500 kB\n");
    CU_ASSERT_EQUAL(machine_memory_free_below(root), 1536000);
    put("/sys/fs/cgroup/memory.max", "1048576\n");
    CU_ASSERT_EQUAL(machine_memory_free_below(root), 1048576);
    clear();
}

static const TestCase *list(void)
{
    static const TestCase cases[] = { { "version 1 below the root", test_version_1 },
                                      { "a container's mount", test_container },
                                      { "free memory", test_free },
                                      { "version 2", test_version_2 },
                                      { "usual places", test_usual_places },
                                      { NULL, NULL } };

    return mkdtemp(root) ? cases : NULL;
}

DEFINE_SUITE_LIST(exec_machine, list);
