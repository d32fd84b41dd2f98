/* The C API around devices: what there is to run on. */
#include <stdio.h>
#include <string.h>

#include "exec/api/api.h"
#include "exec/device/machine.h"
#include "exec/device/device.h"
#include "exec/device/plugin.h"

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

static Status list_gpus(dpx_device *out, int max, int *n)
{
    const Runtime *r;
    int gpus = 0;

    TRY(plugin_cuda(&r));
    TRY(runtime_check(r, r->count(&gpus)));
    if (!gpus)
        return FAIL(E_DEVICE, "the driver knows no GPU");
    for (int i = 0; i < gpus; i++, ++*n)
        if (*n < max)
            TRY(describe_gpu(&out[*n], r, i));
    return ST_OK;
}

dpx_status dpx_devices(dpx_device *out, int max, int *n)
{
    NEED(n, "n");
    if (max < 0)
        return (dpx_status)FAIL(E_INVALID, "dpx_devices: max is %d", max);
    if (max) {
        NEED(out, "out");
        describe_cpu(out);
    }
    *n = 1;
    return (dpx_status)list_gpus(out, max, n);
}
