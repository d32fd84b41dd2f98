/* Devices, and the table. */
#include "tests/sim/sim.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace sim;

static Status dev_count(int *out)
{
    Guard g(world().lock);

    SIM_INJECT("count");
    *out = (int)env_number("DPEXEC_SIM_DEVICES", 4);
    return ST_OK;
}

static Status dev_info(GpuInfo *out, int index)
{
    GpuInfo i{};

    if (index < 0 || index >= env_number("DPEXEC_SIM_DEVICES", 4))
        return FAIL(E_DEVICE, "device %d of %d", index, (int)env_number("DPEXEC_SIM_DEVICES", 4));
    std::snprintf(i.name, sizeof i.name, "Simulated GPU");
    std::snprintf(i.bus_id, sizeof i.bus_id, "0000:%02x:00.0", index);
    i.capability = (int)env_number("DPEXEC_SIM_CAPABILITY", 90);
    i.multiprocessors = 4;
    i.warp_size = 32;
    i.max_threads_per_block = 1024;
    i.max_threads_per_multiprocessor = 2048;
    i.memory = env_number("DPEXEC_SIM_MEMORY", (int64_t)4 << 30);
    i.l2 = 1 << 20;
    i.shared_per_block = 227 << 10;
    i.shared_per_multiprocessor = 228 << 10;
    i.driver = 13000;
    *out = i;
    return ST_OK;
}

static Status dev_open(GpuDevice **out, int index, const GpuOptions *opt)
{
    Guard g(world().lock);
    GpuInfo info;

    SIM_INJECT("open");
    if (opt && opt->tune) /* nothing to measure here; a test sees that it was asked for */
        SIM_INJECT("tune");
    if (opt && opt->described)
        info = *opt->described;
    else
        TRY(dev_info(&info, index));
    GpuDevice *d = new GpuDevice;
    d->index = index;
    d->described = opt && opt->described;
    d->tf32 = opt && opt->tf32;
    d->info = info;
    if (opt && opt->cache_dir)
        d->cache_dir = opt->cache_dir;
    world().devices.insert(d);
    *out = d;
    return ST_OK;
}

/* What was made of a device must be freed before it. */
static void dev_close(GpuDevice *d)
{
    if (!d)
        return;
    Guard g(world().lock);
    if (memory_count(d) || d->objects || !d->streams.empty()) {
        std::fprintf(
            stderr,
            "cudasim: misuse: device %d is closed, but %zu allocations, %zu streams and %d other objects live\n",
            d->index, memory_count(d), d->streams.size(), d->objects);
        std::abort();
    }
    world().devices.erase(d);
    delete d;
}

static Status dev_free_memory(GpuDevice *d, int64_t *out)
{
    Guard g(world().lock);

    SIM_INJECT("free_memory");
    *out = d->info.memory - (int64_t)memory_used(d->index);
    return ST_OK;
}

static Status dev_alloc(GpuDevice *d, void **out, size_t bytes)
{
    Guard g(world().lock);

    if (injected("alloc") == HOW_ERROR)
        return FAIL(E_NOMEM, "alloc: injected failure, no memory for %zu bytes", bytes);
    TRY(device_check(d, "alloc"));
    return memory_alloc(d, out, bytes, DEVICE_MEMORY);
}

/* Nothing that waits to run may use it. */
static void check_unused(GpuDevice *d, const void *p)
{
    auto uses = [p](const std::shared_ptr<const Op> &op) {
        return std::find(op->uses.begin(), op->uses.end(), p) != op->uses.end();
    };
    const char *by = nullptr;

    for (GpuStream *s : d->streams)
        for (Entry &e : s->queue) {
            if (e.inst && !e.inst->done && uses(e.inst->op))
                by = e.inst->op->label.c_str();
            for (size_t i = 0; e.run && i < e.run->inst.size(); i++)
                if (!e.run->inst[i]->done && uses(e.run->inst[i]->op))
                    by = e.run->inst[i]->op->label.c_str();
        }
    if (p && by) {
        std::fprintf(stderr, "cudasim: misuse: freeing memory that %s will use\n", by);
        std::abort();
    }
}

static void dev_free(GpuDevice *d, void *p)
{
    Guard g(world().lock);

    check_unused(d, p);
    memory_free(d, p, DEVICE_MEMORY);
}

/* Its work is dropped, which no real device does, so that all that the engine frees can be freed here too. */
static void dev_abandon(GpuDevice *d)
{
    Guard g(world().lock);

    (void)device_fail(d, FAIL(E_DEVICE, "device %d has been abandoned", d->index));
}

static Status dev_host_alloc(GpuDevice *d, void **out, size_t bytes)
{
    Guard g(world().lock);

    if (injected("host_alloc") == HOW_ERROR)
        return FAIL(E_NOMEM, "host_alloc: injected failure, no memory for %zu bytes", bytes);
    TRY(device_check(d, "host_alloc"));
    return memory_alloc(d, out, bytes, PINNED_MEMORY);
}

static void dev_host_free(GpuDevice *d, void *p)
{
    Guard g(world().lock);

    check_unused(d, p);
    memory_free(d, p, PINNED_MEMORY);
}

static const CudaDriver driver = {
    .runtime = {
        .abi = RUNTIME_ABI,
        .name = "cuda",
        .simulated = true,
        .message = status_message,
        .count = dev_count,
        .info = dev_info,
        .open = dev_open,
        .close = dev_close,
        .abandon = dev_abandon,
        .free_memory = dev_free_memory,
        .alloc = dev_alloc,
        .free = dev_free,
        .host_alloc = dev_host_alloc,
        .host_free = dev_host_free,
        .stream_create = sim_stream_create,
        .stream_free = sim_stream_free,
        .stream_wait = sim_stream_wait,
        .event_create = sim_event_create,
        .event_free = sim_event_free,
        .event_record = sim_event_record,
        .event_await = sim_event_await,
        .event_wait = sim_event_wait,
        .event_query = sim_event_query,
        .event_elapsed = sim_event_elapsed,
        .zero = sim_zero,
        .copy = sim_copy,
        .copy_rows = sim_copy_rows,
        .host_call = sim_host_call,
        .capture_begin = sim_capture_begin,
        .capture_end = sim_capture_end,
        .graph_launch = sim_graph_launch,
        .graph_free = sim_graph_free,
        .comm_id = sim_comm_id,
        .comm_create = sim_comm_create,
        .comm_free = sim_comm_free,
        .comm_abort = sim_comm_abort,
        .comm_abort_end = sim_comm_abort_end,
        .comm_poll = sim_comm_poll,
        .comm_alloc = sim_comm_alloc,
        .comm_register = sim_comm_register,
        .comm_release = sim_comm_release,
        .all_reduce_sum = sim_all_reduce_sum,
        .reduce_scatter_sum = sim_reduce_scatter_sum,
        .all_gather = sim_all_gather,
        .all_to_all = sim_all_to_all,
        .broadcast = sim_broadcast,
    },
    .kernel = sim_kernel,
    .compile = sim_compile,
    .module_kernel = sim_module_kernel,
    .module_free = sim_module_free,
    .kernel_shared = sim_kernel_shared,
    .launch = sim_launch,
    .gemm = sim_gemm,
    .conv = sim_conv,
    .attention = sim_attention,
    .plan_run = sim_plan_run,
    .plan_free = sim_plan_free,
};

extern "C" __attribute__((visibility("default"))) const CudaDriver *dpexec_cuda_driver(void) { return &driver; }
