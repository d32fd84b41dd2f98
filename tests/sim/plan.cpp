/* Prepared calls of the libraries: what is common to them.  A run checks every buffer, and spoils the workspace. */
#include "tests/sim/sim.h"

#include <cstring>

using namespace sim;

Status sim_plan_run(GpuStream *s, GpuPlan *p, void *const *buffers, void *workspace)
{
    Guard g(world().lock);
    std::vector<void *> copy(buffers, buffers + p->n_buffers);
    std::vector<const void *> uses{ memory_block(workspace) };
    How how = injected("plan_run");

    TRY(device_check(s->device, "plan_run"));
    if (how == HOW_ERROR)
        return FAIL(E_DEVICE, "plan_run: injected failure");
    if (s->device != p->device)
        return FAIL(E_INVALID, "plan_run: a plan of device %d on device %d", p->device->index, s->device->index);
    for (const GpuPlan::Buffer &b : p->buffers) {
        std::string what = p->label + ", buffer " + std::to_string(b.index);

        TRY(memory_check(s->device, copy[(size_t)b.index], b.bytes, true, what.c_str()));
        if ((uintptr_t)copy[(size_t)b.index] % (size_t)p->align)
            return FAIL(E_INVALID, "%s is not aligned to %d bytes", what.c_str(), p->align);
        uses.push_back(memory_block(copy[(size_t)b.index]));
    }
    TRY(memory_check(s->device, workspace, p->workspace, true, (p->label + ", workspace").c_str()));
    auto compute = p->compute;
    size_t bytes = p->workspace;
    return submit(s, make_op(
                         WORK, p->label,
                         [=] {
                             std::memset(workspace, 0xff, bytes);
                             compute(copy.data());
                             std::memset(workspace, 0xff, bytes);
                             return how == HOW_ASYNC ? FAIL(E_DEVICE, "plan_run: injected failure") : ST_OK;
                         },
                         uses));
}

void sim_plan_free(GpuPlan *p)
{
    if (!p)
        return;
    Guard g(world().lock);
    p->device->objects--;
    delete p;
}
