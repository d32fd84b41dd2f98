/* Warnings about unequal devices.  Each process sends its devices' facts to all, so that a warning can name any two. */
#include "exec/device/device_differences.h"

#include <stdio.h>

#include "exec/world/world.h"
#include "graph/base/numtext.h"

static double cores_of(const DeviceFacts *f) { return f->cores; }
static double memory_of(const DeviceFacts *f) { return (double)f->memory; }

/* "cuda:1 of rank 2 (132 multiprocessors, 80000 MiB)" */
static int describe(char *text, size_t size, const DeviceFacts *f, int i, int each, bool several)
{
    char rank[32] = "";

    if (several)
        snprintf(rank, sizeof rank, " of rank %d", i / each);
    return text_format(text, size, "%s:%d%s (%g %s%s, %llu MiB)", f[i].cuda ? "cuda" : "cpu", f[i].index, rank,
                       f[i].cores, f[i].cuda ? "multiprocessor" : "core", f[i].cores == 1 ? "" : "s",
                       (unsigned long long)(f[i].memory >> 20));
}

bool find_unequal_devices(const DeviceFacts *f, int n, int each, char text[UNEQUAL_TEXT])
{
    double (*const of[])(const DeviceFacts *) = { cores_of, memory_of };

    for (int k = 0; k < 2; k++) {
        int least = 0, most = 0, first, second, len;

        for (int i = 1; i < n; i++) {
            least = of[k](&f[i]) < of[k](&f[least]) ? i : least;
            most = of[k](&f[i]) > of[k](&f[most]) ? i : most;
        }
        first = least < most ? least : most;
        second = least + most - first;
        if (!(of[k](&f[least]) > 0) || of[k](&f[least]) >= 0.75 * of[k](&f[most]))
            continue;
        len = describe(text, UNEQUAL_TEXT, f, first, each, n > each);
        len += snprintf(text + len, UNEQUAL_TEXT - (size_t)len, " and ");
        len += describe(text + len, UNEQUAL_TEXT - (size_t)len, f, second, each, n > each);
        snprintf(text + len, UNEQUAL_TEXT - (size_t)len, " are unequal");
        return true;
    }
    return false;
}

Status device_set_find_unequal(char text[UNEQUAL_TEXT], const DeviceSet *s, const DeviceList *list)
{
    DeviceFacts f[MAX_DEVICES] = { { 0 } };

    for (int i = 0; i < s->n_local; i++) {
        const DeviceSpec *d = &list->device[i];
        const GpuInfo *gpu = device_info(s->device[s->first + i]);

        f[s->first + i] = (DeviceFacts){ .cores = gpu            ? gpu->multiprocessors
                                                  : d->cores > 0 ? d->cores
                                                                 : d->threads,
                                         .memory = gpu ? (uint64_t)gpu->memory : d->memory,
                                         .index = d->index,
                                         .cuda = d->cuda };
    }
    world_set_purpose(s->world, "the sizes of devices");
    for (int r = 0; r < world_size(s->world) && s->world; r++)
        TRY(world_share(s->world, r, f + r * s->n_local, (size_t)s->n_local * sizeof *f));
    if (!find_unequal_devices(f, s->n, s->n_local, text))
        *text = '\0';
    return ST_OK;
}
