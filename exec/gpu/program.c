/* Prepares a program for accelerators: plans its streams, prepares its collectives, and allocates memory for the data
 * that comes from the host and goes back.  All of a device is planned before any of it is allocated, so that an error
 * can say in numbers what does not fit.
 *
 * A device reads the graph's inputs in its own memory.  Each range of bytes that one of its nodes reads has a place in
 * the device's input block.  There are two such blocks, each with a pinned block of the host of the same layout; so one
 * transfer uploads a step's inputs, and each range is aligned whatever its offset in the caller's tensor.  Nodes on the
 * host's side read the pinned block.  Behind the inputs are the tables of kernels, which are uploaded when addresses
 * have changed.  Constants are uploaded once, here. */
#include <stdlib.h>

#include "exec/gpu/progress.h"
#include "exec/gpu/run.h"
#include "exec/plan/memory_report.h"
#include "exec/world/world.h"
#include "graph/ir/op.h"

static bool on_host(const GpuPart *part, const Node *n) { return n->device >= part->gpu->group->n_device; }

/* ---- data from the host ---- */

static size_t aligned(const GpuPart *part, size_t bytes) { return plan_aligned(part->gpu->program->plan, bytes); }

/* Notes that the device reads `ref`: adds an input's range, or a constant. */
static void need(GpuPart *part, const MemRef *ref, bool host)
{
    if (ref->kind == MEM_INPUT) {
        for (int i = 0; i < part->n_input; i++) {
            GpuPiece *p = &part->input[i];

            if (!value_eq(p->ref.root, ref->root) || p->ref.offset != ref->offset)
                continue;
            p->ref.bytes = ref->bytes > p->ref.bytes ? ref->bytes : p->ref.bytes;
            return;
        }
        part->input[part->n_input++] = (GpuPiece){ 0, *ref, 0 };
    } else if (ref->kind == MEM_CONST && !host && !part->constant_at[ref->root.i]) {
        part->constant_at[ref->root.i] = part->constant_bytes + 1;
        part->constant_bytes += aligned(part, tensor_bytes(value(part->gpu->program->graph, ref->root)->init));
    }
}

/* Lays out the inputs and constants that the device reads. */
static Status find_needs(GpuPart *part)
{
    const Prepared *p = part->gpu->program;
    size_t most = (size_t)p->plan->n_copy;

    for (int s = 0; s < part->plan->n_step; s++)
        most += (size_t)p->graph->node[part->plan->step[s].node]->n_in;
    part->input = ARENA_NEW(p->arena, GpuPiece, most);
    part->constant_at = ARENA_NEW(p->arena, size_t, p->graph->n_value);
    if (!part->input || !part->constant_at)
        return FAIL_NOMEM();
    for (int s = 0; s < part->plan->n_step; s++) {
        const Node *n = p->graph->node[part->plan->step[s].node];

        for (int i = 0; i < n->n_in; i++)
            need(part, &p->plan->value[n->in[i].i], on_host(part, n));
    }
    for (int i = 0; i < p->plan->n_copy; i++)
        if (p->plan->copy[i].to.device == part->device)
            need(part, &p->plan->copy[i].from, false);
    for (int i = 0; i < part->n_input; i++) {
        part->input[i].at = part->input_bytes;
        part->input_bytes += aligned(part, part->input[i].ref.bytes);
    }
    return ST_OK;
}

/* ---- data for the host ---- */

/* Lays out the outputs that the device holds. */
static Status find_outputs(GpuPart *part)
{
    const Prepared *p = part->gpu->program;

    if (!(part->output = ARENA_NEW(p->arena, GpuPiece, p->graph->n_output)))
        return FAIL_NOMEM();
    for (int i = 0; i < p->graph->n_output; i++) {
        const MemRef *ref = &p->plan->output[i];

        if ((ref->kind != MEM_ARENA && ref->kind != MEM_STATE) || ref->device != part->device)
            continue;
        part->output[part->n_output++] = (GpuPiece){ i, *ref, part->output_bytes };
        part->output_bytes += aligned(part, ref->bytes);
    }
    return ST_OK;
}

/* ---- calls ---- */

/* Tensors of n values without data; NULL: out of memory. */
static Tensor *tensor_headers(const GpuPart *part, int n, const ValueId *v)
{
    const Prepared *p = part->gpu->program;
    Tensor *t = ARENA_NEW(p->arena, Tensor, n);

    for (int i = 0; t && i < n; i++)
        t[i] = has_value(v[i]) ? (Tensor){ value(p->graph, v[i])->dtype, *value(p->graph, v[i])->shape, NULL }
                               : (Tensor){ .shape = shape_unknown() };
    return t;
}

static Status create_call(GpuPart *part, GpuCall *c, const StreamStep *step)
{
    const GpuProgram *gpu = part->gpu;
    Prepared *p = gpu->program;
    const Node *n = p->graph->node[step->node];
    const GpuSharing sharing = { part->device, gpu->group->n_device, step->collective, p->opt.ways.reproducible };
    KernelCtx *ctx = device_ctx(part->member->device);
    size_t bytes = 0;

    *c = (GpuCall){ .step = step, .call = &p->call[step->node] };
    for (int k = 0; k < GPU_SLOTS; k++)
        if (!(c->in[k] = tensor_headers(part, n->n_in, n->in)) || !(c->out[k] = tensor_headers(part, n->n_out, n->out)))
            return FAIL_NOMEM();
    if (on_host(part, n) && c->call->kernel) {
        if (!(c->host = ARENA_NEW(p->arena, HostCall, GPU_SLOTS)))
            return FAIL_NOMEM();
        for (int k = 0; k < GPU_SLOTS; k++)
            c->host[k] =
                (HostCall){ part->member, p->graph, c->call, { .n_threads = ctx->n_threads }, c->in[k], c->out[k] };
        return ST_OK;
    }
    if (!(n->op->flags & OPF_COLLECTIVE))
        return ST_OK;
    TRY(gpu_collective_create(&c->collective, &bytes, ctx, p->graph, n, p->plan, &sharing));
    part->bucket_bytes = bytes > part->bucket_bytes ? bytes : part->bucket_bytes;
    return ST_OK;
}

static Status create_events(GpuPart *part)
{
    const GpuMember *m = part->member;

    if (!(part->event = ARENA_NEW(part->gpu->program->arena, GpuEvent *, part->plan->n_event)))
        return FAIL_NOMEM();
    for (int e = 0; e < part->plan->n_event; e++)
        TRY_MEMBER(m, event_create(m->gpu, &part->event[e], false));
    TRY_MEMBER(m, event_create(m->gpu, &part->begin, false));
    for (int i = 0; i < 2; i++)
        TRY_MEMBER(m, event_create(m->gpu, &part->timed[i], true));
    for (int k = 0; k < GPU_SLOTS; k++) {
        TRY_MEMBER(m, event_create(m->gpu, &part->slot[k].uploaded, false));
        TRY_MEMBER(m, event_create(m->gpu, &part->slot[k].done, false));
    }
    return ST_OK;
}

/* ---- a device ---- */

/* A DeviceJob: plans the part without allocating memory of the device. */
static Status plan_part(Device *d, void *arg)
{
    GpuPart *part = arg;

    (void)d;
    if (!(part->call = ARENA_NEW(part->gpu->program->arena, GpuCall, part->plan->n_step)))
        return FAIL_NOMEM();
    for (int s = 0; s < part->plan->n_step; s++)
        TRY(create_call(part, &part->call[s], &part->plan->step[s]));
    TRY(gpu_progress_plan(part));
    TRY(find_needs(part));
    for (int s = 0; s < part->plan->n_step; s++) { /* tables lie behind the inputs */
        GpuCall *c = &part->call[s];

        c->table_at = part->input_bytes + part->table_bytes;
        part->table_bytes += aligned(part, c->call->table_bytes);
    }
    return find_outputs(part);
}

/* Bytes of the arena of the device's host side. */
static size_t host_arena_bytes(const GpuPart *part)
{
    const MemoryPlan *plan = part->gpu->program->plan;
    const int side = part->device + part->gpu->group->n_device;

    return side < plan->n_device ? plan->device[side].arena_bytes : 0;
}

/* The memory that a step needs of the device and of the host. */
static Status find_memory(MemoryNeed *out, const GpuPart *part)
{
    const Prepared *p = part->gpu->program;
    const GpuMember *m = part->member;
    const size_t given = GPU_SLOTS * (part->input_bytes + part->table_bytes);

    TRY(memory_need(out, p->graph, p->plan, part->device, true));
    out->constants = part->constant_bytes;
    out->inputs = given;
    out->collectives = (part->bucket_bytes > m->bucket_bytes ? part->bucket_bytes : m->bucket_bytes) +
                       aligned(part, gpu_progress_bytes(part));
    out->host = given + GPU_SLOTS * part->output_bytes + host_arena_bytes(part);
    if (m->runtime->free_memory(m->gpu, &out->available))
        out->available = -1;
    return ST_OK;
}

/* A DeviceJob: allocates the part's memory and events, and uploads its constants. */
static Status create_part(Device *d, void *arg)
{
    GpuPart *part = arg;
    GpuGroup *group = part->gpu->group;
    const GpuMember *m = part->member;
    const Graph *g = part->gpu->program->graph;
    const size_t given = part->input_bytes + part->table_bytes;
    void *base;

    TRY(gpu_group_host_arena(group, part->device, host_arena_bytes(part)));
    TRY(gpu_group_bucket(group, part->device, part->bucket_bytes));
    TRY(gpu_progress_create(part));
    TRY(create_events(part));
    for (int k = 0; k < GPU_SLOTS; k++) {
        GpuSlot *slot = &part->slot[k];

        if (given) {
            TRY_MEMBER(m, host_alloc(m->gpu, (void **)&slot->staging, given));
            TRY_MEMBER(m, alloc(m->gpu, (void **)&slot->input, given));
        }
        if (part->output_bytes)
            TRY_MEMBER(m, host_alloc(m->gpu, (void **)&slot->output, part->output_bytes));
    }
    TRY(memory_open(&base, d, part->constant_bytes));
    part->constants = base;
    for (uint32_t v = 1; v < g->n_value; v++)
        if (part->constant_at[v])
            TRY(memory_write(d, part->constants + part->constant_at[v] - 1, g->value[v]->init->data,
                             tensor_bytes(g->value[v]->init)));
    return ST_OK;
}

/* Allocates everything of the device; E_NOMEM lists what a step needs. */
static Status reserve_part(GpuPart *part)
{
    Prepared *p = part->gpu->program;
    Device *d = part->member->device;
    MemoryNeed need;
    Status st;

    TRY(gpu_group_drain(part->gpu->group, part->device)); /* arenas may move */
    TRY(find_memory(&need, part));
    if (!(st = prepared_reserve(p, part->device))) {
        device_start(d, create_part, part);
        st = device_wait(d);
    }
    return st == E_NOMEM ? memory_short(d, p->graph, p->plan, part->device, &need, p->opt.log, p->opt.log_user) : st;
}

/* ---- entry ---- */

/* Makes addresses count as moved in all processes when they have moved in one: steps are captured anew then, which all
 * processes must do at once. */
static Status agree_on_addresses(const Prepared *p)
{
    int64_t arenas, group;

    if (world_size(p->opt.world) == 1)
        return ST_OK;
    world_set_purpose(p->opt.world, "where the memory of devices lies");
    TRY(world_max(p->opt.world, p->opt.arenas->generation, &arenas));
    TRY(world_max(p->opt.world, p->opt.group->generation, &group));
    p->opt.arenas->generation = (unsigned)arenas;
    p->opt.group->generation = (unsigned)group;
    return ST_OK;
}

static void release_graphs(GpuUser *u) { gpu_program_drop_graphs((GpuProgram *)u); }
static const GpuUserClass user_class = { release_graphs, gpu_progress_oldest, gpu_progress_name };

Status gpu_program_create(GpuProgram **out, Prepared *p)
{
    GpuProgram *gpu = calloc(1, sizeof *gpu);
    const GpuPart *first;
    Status st = ST_OK;

    if (!gpu || !(gpu->part = calloc((size_t)p->opt.n_device, sizeof *gpu->part))) {
        free(gpu);
        return FAIL_NOMEM();
    }
    gpu->user.is = &user_class;
    gpu->program = p;
    gpu->group = p->opt.group;
    gpu->by_call = p->opt.ways.uncaptured || p->opt.ways.check_nodes;
    TRY_TO(fail, st, plan_streams(&gpu->streams, p->graph, p->plan, p->plan->scratch_bytes, p->opt.n_device, p->arena));
    FOR_LOCAL(p, d) {
        gpu->part[d] =
            (GpuPart){ .gpu = gpu, .member = &gpu->group->member[d], .plan = &gpu->streams->device[d], .device = d };
        device_start(p->device[d], plan_part, &gpu->part[d]);
        TRY_TO(fail, st, device_wait(p->device[d]));
    }
    FOR_LOCAL(p, d)
        TRY_TO(fail, st, reserve_part(&gpu->part[d]));
    TRY_TO(fail, st, agree_on_addresses(p));
    gpu_group_enter(gpu->group, &gpu->user);
    first = &gpu->part[p->opt.first];
    for (int s = 0; s < first->plan->n_step && p->opt.log && !gpu->group->order_noted; s++)
        if (first->call[s].collective && gpu_collective_has_order(first->call[s].collective)) {
            gpu->group->order_noted = true;
            p->opt.log(p->opt.log_user, LINE_INFO,
                       "sums over these devices are added in the library's order: their last bits depend on which "
                       "device has which replica (--reproducible: they do not)");
        }
    *out = gpu;
    return ST_OK;
fail:
    gpu_program_free(gpu);
    return st;
}

/* A DeviceJob. */
static Status free_part(Device *d, void *arg)
{
    GpuPart *part = arg;
    const GpuMember *m = part->member;

    (void)!gpu_group_drain(part->gpu->group, part->device);
    gpu_progress_free(part);
    for (int s = 0; part->call && s < part->plan->n_step; s++)
        gpu_collective_free(part->call[s].collective);
    for (int e = 0; part->event && e < part->plan->n_event; e++)
        if (part->event[e])
            m->runtime->event_free(part->event[e]);
    if (part->begin)
        m->runtime->event_free(part->begin);
    for (int i = 0; i < 2; i++)
        if (part->timed[i])
            m->runtime->event_free(part->timed[i]);
    for (int k = 0; k < GPU_SLOTS; k++) {
        const GpuSlot *slot = &part->slot[k];

        if (slot->staging)
            m->runtime->host_free(m->gpu, slot->staging);
        if (slot->input)
            m->runtime->free(m->gpu, slot->input);
        if (slot->output)
            m->runtime->host_free(m->gpu, slot->output);
        if (slot->uploaded)
            m->runtime->event_free(slot->uploaded);
        if (slot->done)
            m->runtime->event_free(slot->done);
    }
    memory_close(d, part->constants, part->constant_bytes);
    return ST_OK;
}

void gpu_program_free(GpuProgram *g)
{
    if (!g)
        return;
    if (g->pending)
        (void)!gpu_program_wait(g, g->turn); /* aborts a step that does not end */
    gpu_program_drop_graphs(g);
    gpu_group_leave(g->group, &g->user);
    for (int d = 0; d < g->program->opt.n_device; d++) {
        if (!g->part[d].gpu)
            continue;
        device_start(g->program->device[d], free_part, &g->part[d]);
        (void)!device_wait(g->program->device[d]);
    }
    free(g->part);
    free(g);
}
