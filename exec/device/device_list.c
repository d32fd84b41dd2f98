/* Parses --devices: which devices a run uses. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "exec/device/describe.h"
#include "exec/device/device.h"
#include "exec/device/plugin.h"
#include "graph/base/machine.h"

static const char *kind(bool cuda) { return cuda ? "cuda" : "cpu"; }

static Status device_list_add(DeviceList *list, bool cuda, int index)
{
    for (int i = 0; i < list->n; i++) {
        if (list->device[i].cuda != cuda)
            return FAIL(E_INVALID, "devices: %s:%d and %s:%d: CPU and CUDA devices do not work together", kind(!cuda),
                        list->device[i].index, kind(cuda), index);
        if (list->device[i].index == index)
            return FAIL(E_INVALID, "devices: %s:%d is named twice", kind(cuda), index);
    }
    if (list->n == MAX_DEVICES)
        return FAIL(E_INVALID, "devices: more than %d", MAX_DEVICES);
    list->device[list->n++] = (DeviceSpec){ .cuda = cuda, .index = index, .memory = cuda ? 0 : machine_memory() };
    return ST_OK;
}

/* The decimal number that is all of s[len]; -1: it is none. */
static int device_list_number(const char *s, size_t len)
{
    int v = 0;

    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)s[i]) || v > 100000)
            return -1;
        v = 10 * v + (s[i] - '0');
    }
    return len ? v : -1;
}

/* Adds every GPU, or the CPU where none can be used.  `dpexec devices` prints why a GPU cannot. */
static Status add_all(DeviceList *list)
{
    const Runtime *r;
    int n = 0;

    if (plugin_cuda(&r) || r->count(&n) || !n)
        return device_list_add(list, false, 0);
    for (int i = 0; i < n; i++)
        TRY(device_list_add(list, true, i));
    return ST_OK;
}

/* Attaches the description in file[len] to the devices from `first` on: the word before "@FILE" added these. */
static Status set_described(DeviceList *list, int first, const char *file, size_t len)
{
    GpuInfo info;

    if (!len || len >= DEVICE_PATH)
        return FAIL(E_INVALID, "devices: '@%.*s': expected the name of a file of at most %d bytes",
                    (int)(len > 64 ? 64 : len), file, DEVICE_PATH - 1);
    for (int i = first; i < list->n; i++) {
        DeviceSpec *d = &list->device[i];

        if (!d->cuda)
            return FAIL(E_INVALID, "devices: cpu:%d@%.*s: only a CUDA device can be described", d->index, (int)len,
                        file);
        snprintf(d->described, sizeof d->described, "%.*s", (int)len, file);
        TRY(describe_read(&info, NULL, d->described));
        d->memory = (uint64_t)info.memory;
    }
    return ST_OK;
}

static bool begins(const char *s, size_t len, const char *with)
{
    return len >= strlen(with) && !strncmp(s, with, strlen(with));
}

/* Adds the devices of one word, such as "cpu*4". */
static Status add_word(DeviceList *list, const char *s, size_t len)
{
    bool cuda = begins(s, len, "cuda");
    size_t at = cuda ? 4 : 3;
    int n;

    if (len == 3 && begins(s, len, "all"))
        return add_all(list);
    if ((n = device_list_number(s, len)) >= 0)
        return device_list_add(list, true, n);
    if ((cuda || begins(s, len, "cpu")) && len == at)
        return device_list_add(list, cuda, 0);
    if ((cuda || begins(s, len, "cpu")) && s[at] == ':' && (n = device_list_number(s + at + 1, len - at - 1)) >= 0)
        return device_list_add(list, cuda, n);
    if ((cuda || begins(s, len, "cpu")) && s[at] == '*' && (n = device_list_number(s + at + 1, len - at - 1)) > 0) {
        for (int i = 0; i < n; i++)
            TRY(device_list_add(list, cuda, i));
        return ST_OK;
    }
    return FAIL(E_INVALID, "devices: '%.*s': expected cpu, cpu:N, cpu*N, cuda, cuda:N, cuda*N, N or all",
                (int)(len > 64 ? 64 : len), s);
}

void device_list_leave(DeviceList *list, int cores)
{
    const int share = (machine_cores() - cores) / list->n;

    list->taken = cores;
    for (int i = 0; i < list->n; i++)
        list->device[i].threads = share > 1 ? share : 1;
}

Status device_list_parse(DeviceList *out, const char *text, int threads)
{
    DeviceList list = { 0 };

    if (threads < 0)
        return FAIL(E_INVALID, "threads: expected a positive number, found %d", threads);
    if (!text || !*text)
        text = "cpu";
    for (const char *s = text, *end; s; s = *end ? end + 1 : NULL) {
        const char *at;
        const int first = list.n;

        end = s + strcspn(s, ",");
        at = memchr(s, '@', (size_t)(end - s));
        TRY(add_word(&list, s, (size_t)((at ? at : end) - s)));
        if (at)
            TRY(set_described(&list, first, at + 1, (size_t)(end - at - 1)));
    }
    device_list_leave(&list, 0);
    for (int i = 0; i < list.n && threads; i++)
        list.device[i].threads = threads;
    *out = list;
    return ST_OK;
}
