/* The cores and the memory that this process may use.
 *
 * Control groups form a tree: one tree in version 2, one for each controller in version 1.  A group's limit holds for
 * all groups below it, so the smallest limit on the path to the root is in force.  In a container the path ends at the
 * mount's root, which may be a group itself.
 * https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/cgroups.html */
#include "graph/base/machine.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GROUPS "/sys/fs/cgroup"
#define VERSION_2 "" /* where version 1 has a controller's name */

static FILE *open_below(const char *root, const char *path)
{
    char file[PATH_MAX];

    return snprintf(file, sizeof file, "%s%s", root, path) < (int)sizeof file ? fopen(file, "r") : NULL;
}

/* Reads up to two numbers of a file and returns how many there are.  "max" is no number; -1 is read as the largest. */
static int machine_read_numbers(const char *folder, const char *name, uint64_t v[2])
{
    char path[2 * PATH_MAX + 64];
    FILE *f;
    int n;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "r");
    n = f ? fscanf(f, "%" SCNu64 " %" SCNu64, &v[0], &v[1]) : 0;
    if (f)
        fclose(f);
    return n > 0 ? n : 0;
}

/* Whether the word is in a list, such as "cpu,cpuacct".  For version 2 the list and the word are empty. */
static bool has_word(const char *list, const char *word)
{
    for (size_t n = strcspn(list, ",\n");; list += n + 1, n = strcspn(list, ",\n")) {
        if (n == strlen(word) && !strncmp(list, word, n))
            return true;
        if (list[n] != ',')
            return false;
    }
}

/* Finds the process's group in lines such as "4:memory:/a/b". */
static bool find_group(char out[PATH_MAX], const char *root, const char *controller)
{
    FILE *f = open_below(root, "/proc/self/cgroup");
    char line[PATH_MAX + 256];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f)) {
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;

        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if ((found = *group == '/' && has_word(list + 1, controller)))
            snprintf(out, PATH_MAX, "%s", group);
    }
    if (f)
        fclose(f);
    return found;
}

/* Finds the folder where groups are mounted, and the group that is mounted there, in lines such as
 * "35 31 0:32 /TOP /AT rw,relatime - cgroup cgroup rw,memory". */
static void find_mount(char at[PATH_MAX], char top[PATH_MAX], const char *root, const char *controller)
{
    FILE *f = open_below(root, "/proc/self/mountinfo");
    char line[3 * PATH_MAX], its_top[PATH_MAX], its_at[PATH_MAX], kind[32], words[256];

    snprintf(at, PATH_MAX, GROUPS "%s%s", *controller ? "/" : "", controller);
    strcpy(top, "/");
    while (f && fgets(line, sizeof line, f)) {
        const char *behind = strstr(line, " - ");

        if (!behind || sscanf(line, "%*s %*s %*s %4095s %4095s", its_top, its_at) != 2 ||
            sscanf(behind, " - %31s %*s %255s", kind, words) != 2)
            continue;
        if (*controller ? strcmp(kind, "cgroup") || !has_word(words, controller) : strcmp(kind, "cgroup2") != 0)
            continue;
        strcpy(top, its_top);
        strcpy(at, its_at);
        break;
    }
    if (f)
        fclose(f);
}

/* Calls `visit` for the folder of the process's group, and for every visible group above it. */
static void for_groups(const char *root, const char *controller, void (*visit)(const char *folder, void *arg),
                       void *arg)
{
    char group[PATH_MAX], at[PATH_MAX], top[PATH_MAX], folder[3 * PATH_MAX], *inside = group, *slash;
    size_t n;

    if (!find_group(group, root, controller) || strstr(group, "/.."))
        strcpy(group, "/");
    find_mount(at, top, root, controller);
    n = strcmp(top, "/") ? strlen(top) : 0;
    if (!strncmp(inside, top, n) && (inside[n] == '/' || !inside[n]))
        inside += n;
    snprintf(folder, sizeof folder, "%s" GROUPS "%s%s", root, *controller ? "/" : "", controller);
    visit(folder, arg);
    for (;; *slash = '\0') {
        snprintf(folder, sizeof folder, "%s%s%s", root, at, inside);
        visit(folder, arg);
        if (!(slash = strrchr(inside, '/')))
            return;
    }
}

static void take_memory_limit(const char *folder, void *arg)
{
    uint64_t *least = arg, v[2];

    if ((machine_read_numbers(folder, "memory.max", v) || machine_read_numbers(folder, "memory.limit_in_bytes", v)) &&
        v[0] < *least)
        *least = v[0];
}

uint64_t machine_memory_below(const char *root)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t least = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;

    for_groups(root, VERSION_2, take_memory_limit, &least);
    for_groups(root, "memory", take_memory_limit, &least);
    return least;
}

uint64_t machine_memory(void) { return machine_memory_below(""); }

uint64_t machine_memory_free_below(const char *root)
{
    FILE *f = open_below(root, "/proc/meminfo");
    uint64_t least = machine_memory_below(root), kilobytes;
    char line[256];

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kilobytes) == 1 && (!least || kilobytes < least / 1024))
            least = kilobytes * 1024;
    if (f)
        fclose(f);
    return least;
}

uint64_t machine_memory_free(void) { return machine_memory_free_below(""); }

/* Lowers *least to the whole processors of a quota.  A quota of 2.5 processors counts as 2: a third thread would be
 * stopped half of the time, and the others would wait for it. */
static void take_quota(int *least, uint64_t quota, uint64_t period)
{
    uint64_t whole = period ? quota / period : 0;

    if (period && whole < (uint64_t)*least)
        *least = whole ? (int)whole : 1;
}

static void take_cpu_limit(const char *folder, void *arg)
{
    uint64_t v[2], period[2];

    if (machine_read_numbers(folder, "cpu.max", v) == 2)
        take_quota(arg, v[0], v[1]);
    if (machine_read_numbers(folder, "cpu.cfs_quota_us", v) && v[0] < INT64_MAX &&
        machine_read_numbers(folder, "cpu.cfs_period_us", period))
        take_quota(arg, v[0], period[0]);
}

int machine_cores_below(const char *root)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    int least = online > 0 ? (int)online : 1;

    if (!sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 0)
        least = CPU_COUNT(&set);
    for_groups(root, VERSION_2, take_cpu_limit, &least);
    for_groups(root, "cpu", take_cpu_limit, &least);
    return least;
}

int machine_cores(void) { return machine_cores_below(""); }
