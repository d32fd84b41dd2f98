/* The C API around devices: what there is to run on. */
#include <stdio.h>
#include <string.h>

#include "exec/api/api.h"
#include "exec/api/memory_text.h"
#include "exec/device/device.h"
#include "exec/device/plugin.h"
#include "exec/inspect/measure.h"
#include "graph/base/machine.h"

/* A CPU device is a team of threads: as many as are asked for can be made of the machine's cores. */
static void describe_cpu(dpx_device *out)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256], *colon;

    *out = (dpx_device){ .name = "cpu:0", .description = "CPU", .cores = machine_cores(), .memory = machine_memory() };
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && (colon = strchr(line, ':'))) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out->description, sizeof out->description, "%s", colon + 2);
            break;
        }
    if (f)
        fclose(f);
}

static Status describe_gpu(dpx_device *out, const Runtime *r, int index)
{
    GpuInfo info;

    TRY(runtime_check(r, r->info(&info, index)));
    *out = (dpx_device){ .cores = info.multiprocessors,
                         .memory = (uint64_t)info.memory,
                         .capability = info.capability,
                         .driver = info.driver };
    snprintf(out->name, sizeof out->name, "cuda:%d", index);
    snprintf(out->description, sizeof out->description, "%s", info.name);
    return ST_OK;
}

static Status list_gpus(char *out, int max, int *n, size_t size)
{
    const Runtime *r;
    dpx_device device;
    int gpus = 0;

    TRY(plugin_cuda(&r));
    TRY(runtime_check(r, r->count(&gpus)));
    if (!gpus)
        return FAIL(E_DEVICE, "the driver knows no GPU");
    for (int i = 0; i < gpus; i++, ++*n)
        if (*n < max) {
            TRY(describe_gpu(&device, r, i));
            GIVE(out + (size_t)*n * size, size, device);
        }
    return ST_OK;
}

dpx_status dpx_devices_sized(dpx_device *out, int max, int *n, size_t size)
{
    dpx_device cpu;

    NEED(n, "n");
    NEED_SIZE(size, dpx_device);
    if (max < 0)
        return (dpx_status)FAIL(E_INVALID, "dpx_devices: max is %d", max);
    if (max) {
        NEED(out, "out");
        describe_cpu(&cpu);
        GIVE(out, size, cpu);
    }
    *n = 1;
    return (dpx_status)list_gpus((char *)out, max, n, size);
}

static Status devices_measure(Cluster *out, const Options *o)
{
    DeviceList list;
    int64_t most;

    TRY(options_devices(&list, o));
    for (int i = 0; i < list.n; i++)
        if (*list.device[i].described)
            return FAIL(E_INVALID, "cuda:%d is only described (%s): there is nothing to measure", list.device[i].index,
                        list.device[i].described);
    list.world = o->world ? o->world->world : NULL;
    world_set_purpose(list.world, "the number of devices");
    TRY(world_max(list.world, list.n, &most));
    if (most != list.n)
        return FAIL(E_INVALID, "--devices: %d here and %d in another process: expected as many in each", list.n,
                    (int)most);
    TRY(device_list_equal_teams(&list, o->threads));
    return measure_cluster(out, &list);
}

dpx_status dpx_measure(const dpx_options *options, dpx_write_fn *write, void *user)
{
    const Options *o = (const Options *)options;
    MemoryText text = { 0 };
    Cluster c;
    FILE *f;
    Status st;

    NEED(options, "options");
    NEED(write, "write");
    if ((st = devices_measure(&c, o))) {
        world_abort(o->world ? o->world->world : NULL, status_message());
        return (dpx_status)st;
    }
    if (!(f = memory_text_open(&text)))
        return (dpx_status)FAIL_NOMEM();
    cluster_print(&c, f);
    if (!(st = memory_text_close(f, ST_OK)))
        write(user, text.data, text.n);
    memory_text_free(&text);
    return (dpx_status)st;
}
