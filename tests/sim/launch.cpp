/* Kernels: the own ones of kernels/cuda/device, compiled into this library, and what compile() has made; their
 * launches. */
#include "tests/sim/sim.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>

#include "tests/sim/module.h"

using namespace sim;

struct GpuKernel {
    GpuDevice *device;
    const dpx_sim::KernelEntry *entry;
    size_t shared = 48 << 10; /* dynamic, the most that a launch may ask for */
};

struct GpuModule {
    GpuDevice *device;
    std::string name;
    const dpx_sim::KernelEntry *kernels;
    std::map<std::string, GpuKernel> made;
};

static const dpx_sim::KernelEntry *find(const dpx_sim::KernelEntry *list, const char *name)
{
    for (; list; list = list->next)
        if (!std::strcmp(list->name, name))
            return list;
    return nullptr;
}

Status sim_kernel(GpuDevice *d, const char *name, GpuKernel **out)
{
    Guard g(world().lock);
    const dpx_sim::KernelEntry *entry = find(dpx_sim::kernels, name);

    SIM_INJECT("kernel");
    if (!entry)
        return FAIL(E_INTERNAL, "no own kernel is called %s", name);
    auto &k = d->kernels[name];
    if (!k)
        k.reset(new GpuKernel{ d, entry });
    *out = k.get();
    return ST_OK;
}

Status sim_compile(GpuDevice *d, const char *source, const char *name, GpuModule **out)
{
    How how;
    const dpx_sim::KernelEntry *kernels;

    {
        Guard g(world().lock);
        how = injected("compile");
    }
    if (how == HOW_ERROR)
        return FAIL(E_INTERNAL, "compile %s: injected failure", name);
    TRY(module_build(&kernels, source, name, d->cache_dir));
    Guard g(world().lock);
    d->objects++;
    *out = new GpuModule{ d, name, kernels, {} };
    return ST_OK;
}

Status sim_module_kernel(GpuModule *m, const char *name, GpuKernel **out)
{
    Guard g(world().lock);
    const dpx_sim::KernelEntry *entry = find(m->kernels, name);

    if (!entry)
        return FAIL(E_INTERNAL, "module %s has no kernel %s", m->name.c_str(), name);
    *out = &m->made.emplace(name, GpuKernel{ m->device, entry }).first->second;
    return ST_OK;
}

void sim_module_free(GpuModule *m)
{
    if (!m)
        return;
    Guard g(world().lock);
    m->device->objects--;
    delete m;
}

Status sim_kernel_shared(GpuKernel *k, size_t bytes)
{
    Guard g(world().lock);

    if (bytes > (size_t)k->device->info.shared_per_block)
        return FAIL(E_INVALID, "kernel %s: %zu bytes of shared memory, a block can have %lld", k->entry->name, bytes,
                    (long long)k->device->info.shared_per_block);
    if (bytes > k->shared)
        k->shared = bytes;
    return ST_OK;
}

static Status check_launch(const GpuKernel *k, const Launch &l, const GpuInfo &info)
{
    const char *name = k->entry->name;
    uint64_t threads = (uint64_t)l.block[0] * l.block[1] * l.block[2];

    if (!threads || threads > (uint64_t)info.max_threads_per_block || l.block[2] > 64)
        return FAIL(E_INVALID, "kernel %s: blocks of %u x %u x %u threads", name, l.block[0], l.block[1], l.block[2]);
    if (threads > k->entry->threads)
        return FAIL(E_INVALID, "kernel %s: a block of %llu threads, it is compiled for at most %u", name,
                    (unsigned long long)threads, k->entry->threads);
    if (!l.grid[0] || !l.grid[1] || !l.grid[2] || l.grid[0] > 0x7fffffffu || l.grid[1] > 65535 || l.grid[2] > 65535)
        return FAIL(E_INVALID, "kernel %s: a grid of %u x %u x %u blocks", name, l.grid[0], l.grid[1], l.grid[2]);
    if (l.shared > k->shared)
        return FAIL(E_INVALID, "kernel %s: %zu bytes of dynamic shared memory, %zu were asked for by kernel_shared",
                    name, l.shared, k->shared);
    return ST_OK;
}

/* Pointers must be NULL or point into (or behind) memory that the device can reach. */
static Status check_pointer(const GpuStream *s, const GpuKernel *k, int i, const void *p)
{
    std::string what = std::string("kernel ") + k->entry->name + ", argument " + std::to_string(i);

    return p ? memory_check(s->device, p, 0, true, what.c_str()) : ST_OK;
}

Status sim_launch(GpuStream *s, GpuKernel *k, const unsigned grid[3], const unsigned block[3], size_t shared,
                  void *const *args)
{
    Guard g(world().lock);
    Launch l{ { grid[0], grid[1], grid[2] }, { block[0], block[1], block[2] }, shared };
    const dpx_sim::KernelEntry *e = k->entry;
    std::vector<std::vector<char>> values;
    std::vector<const void *> uses;
    How how = injected_on("launch", s->device);

    TRY(device_check(s->device, "launch"));
    if (how == HOW_ERROR)
        return FAIL(E_DEVICE, "launch of %s: injected failure", e->name);
    if (k->device != s->device)
        return FAIL(E_INVALID, "kernel %s of device %d on a stream of device %d", e->name, k->device->index,
                    s->device->index);
    TRY(check_launch(k, l, s->device->info));
    for (int i = 0; i < e->n_params; i++) {
        values.emplace_back((const char *)args[i], (const char *)args[i] + e->params[i].bytes);
        if (e->params[i].pointer) {
            const void *p = *(const void *const *)args[i];

            TRY(check_pointer(s, k, i, p));
            uses.push_back(memory_block(p));
        }
    }
    auto op = make_op(
        WORK, std::string("kernel ") + e->name,
        [=] {
            std::vector<void *> pointers;

            for (const std::vector<char> &v : values)
                pointers.push_back(const_cast<char *>(v.data()));
            TRY(run_blocks(e->name, e->call, l, pointers.data()));
            return how == HOW_ASYNC ? FAIL(E_DEVICE, "kernel %s: injected failure", e->name) : ST_OK;
        },
        uses);
    op->hang = how == HOW_HANG;
    return submit(s, op);
}
