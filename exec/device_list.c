/* Which devices a run uses: the grammar of --devices. */
#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/device.h"

int cpu_cores(void)
{
    cpu_set_t set;

    if (!sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    return sysconf(_SC_NPROCESSORS_ONLN) > 0 ? (int)sysconf(_SC_NPROCESSORS_ONLN) : 1;
}

uint64_t cpu_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

static Status add(DeviceList *list, int index)
{
    for (int i = 0; i < list->n; i++)
        if (list->device[i].index == index)
            return FAIL(E_INVALID, "devices: cpu:%d is named twice", index);
    if (list->n == MAX_DEVICES)
        return FAIL(E_INVALID, "devices: more than %d", MAX_DEVICES);
    list->device[list->n++] = (DeviceSpec){ .index = index, .memory = cpu_memory() };
    return ST_OK;
}

/* A decimal number that ends the word; -1 when it is none. */
static int number(const char *s, size_t len)
{
    int v = 0;

    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)s[i]) || v > 100000)
            return -1;
        v = 10 * v + (s[i] - '0');
    }
    return len ? v : -1;
}

static Status add_word(DeviceList *list, const char *s, size_t len)
{
    int n;

    if ((len >= 4 && !strncmp(s, "cuda", 4)) || number(s, len) >= 0)
        return FAIL(E_DEVICE, "devices: '%.*s': the CUDA backend is not part of this build", (int)len, s);
    if ((len == 3 && !strncmp(s, "cpu", 3)) || (len == 3 && !strncmp(s, "all", 3)))
        return add(list, 0);
    if (len > 4 && !strncmp(s, "cpu:", 4) && (n = number(s + 4, len - 4)) >= 0)
        return add(list, n);
    if (len > 4 && !strncmp(s, "cpu*", 4) && (n = number(s + 4, len - 4)) > 0) {
        for (int i = 0; i < n; i++)
            TRY(add(list, i));
        return ST_OK;
    }
    return FAIL(E_INVALID, "devices: '%.*s': expected cpu, cpu:N, cpu*N, cuda:N or all", (int)(len > 64 ? 64 : len), s);
}

Status device_list_parse(DeviceList *out, const char *text, int threads)
{
    DeviceList list = { 0 };
    int share;

    if (threads < 0)
        return FAIL(E_INVALID, "threads: expected a positive number, found %d", threads);
    if (!text || !*text)
        text = "cpu";
    for (const char *s = text, *end; s; s = *end ? end + 1 : NULL) {
        end = s + strcspn(s, ",");
        TRY(add_word(&list, s, (size_t)(end - s)));
    }
    share = cpu_cores() / list.n;
    for (int i = 0; i < list.n; i++)
        list.device[i].threads = threads ? threads : share > 1 ? share : 1;
    *out = list;
    return ST_OK;
}

static bool unequal(uint64_t a, uint64_t b)
{
    return 4 * (a < b ? a : b) < 3 * (a < b ? b : a);
}

bool device_list_unequal(const DeviceList *list, char text[DEVICE_TEXT])
{
    for (int i = 0; i < list->n; i++)
        for (int j = i + 1; j < list->n; j++) {
            const DeviceSpec *a = &list->device[i], *b = &list->device[j];

            if (!unequal((uint64_t)a->threads, (uint64_t)b->threads) && !unequal(a->memory, b->memory))
                continue;
            snprintf(text, DEVICE_TEXT, "cpu:%d (%d threads, %llu MiB) and cpu:%d (%d threads, %llu MiB) are unequal", a->index,
                     a->threads, (unsigned long long)(a->memory >> 20), b->index, b->threads,
                     (unsigned long long)(b->memory >> 20));
            return true;
        }
    return false;
}
