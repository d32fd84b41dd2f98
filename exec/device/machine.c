/* Control groups of version 2 are a tree: each limits what is below it, so the least limit on the way up is in force.
 * Of version 1 the group at the root of what is seen is asked, which in a container is its own.
 * https://docs.kernel.org/admin-guide/cgroup-v2.html */
#include "exec/device/machine.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GROUPS "/sys/fs/cgroup"

/* Up to two numbers of a file; how many there are.  "max" is no number. */
static int read_numbers(const char *path, uint64_t v[2])
{
    FILE *f = fopen(path, "r");
    int n = f ? fscanf(f, "%" SCNu64 " %" SCNu64, &v[0], &v[1]) : 0;

    if (f)
        fclose(f);
    return n > 0 ? n : 0;
}

/* Calls `look` for the folder of the process's group and of each above it. */
static void for_groups(void (*look)(const char *folder, void *arg), void *arg)
{
    FILE *f = fopen("/proc/self/cgroup", "r");
    char line[PATH_MAX], path[PATH_MAX + 32], *slash;

    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "0::/", 4))
            continue;
        line[strcspn(line, "\n")] = '\0';
        for (char *group = line + 3; (slash = strrchr(group, '/')); *slash = '\0') {
            snprintf(path, sizeof path, GROUPS "%s", group);
            look(path, arg);
        }
    }
    if (f)
        fclose(f);
    look(GROUPS, arg);
}

static void look_at_memory(const char *folder, void *arg)
{
    uint64_t *least = arg, v[2];
    char path[PATH_MAX + 64];

    snprintf(path, sizeof path, "%s/memory.max", folder);
    if (read_numbers(path, v) && v[0] < *least)
        *least = v[0];
}

uint64_t machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t least = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0, v[2];

    for_groups(look_at_memory, &least);
    if (read_numbers(GROUPS "/memory/memory.limit_in_bytes", v) && v[0] < least)
        least = v[0];
    return least;
}

/* A quota of 2.5 processors is 2: a third thread would be stopped for half of the time, and the others wait for it. */
static void take_quota(int *least, uint64_t quota, uint64_t period)
{
    uint64_t whole = period ? quota / period : 0;

    if (period && whole < (uint64_t)*least)
        *least = whole ? (int)whole : 1;
}

static void look_at_quota(const char *folder, void *arg)
{
    char path[PATH_MAX + 64];
    uint64_t v[2];

    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_numbers(path, v) == 2)
        take_quota(arg, v[0], v[1]);
}

int machine_cores(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t quota[2], period[2];
    cpu_set_t set;
    int least = online > 0 ? (int)online : 1;

    if (!sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 0)
        least = CPU_COUNT(&set);
    for_groups(look_at_quota, &least);
    if (read_numbers(GROUPS "/cpu/cpu.cfs_quota_us", quota) && quota[0] < INT64_MAX &&
        read_numbers(GROUPS "/cpu/cpu.cfs_period_us", period))
        take_quota(&least, quota[0], period[0]);
    return least;
}
