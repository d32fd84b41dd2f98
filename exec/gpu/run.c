/* Runs steps on accelerators.  Every device's thread fills a slot, gives the step to the streams and returns; the
 * caller waits when it wants the outputs.
 *
 * The first step of a program is issued call by call, so that libraries load what they load on first use.  From the
 * second step on, the whole step of a slot is captured once as one graph, and launched as one: the same calls with the
 * same addresses in the same order, so the same bits.  When an arena has moved, the step is captured anew.  While a
 * trace is taken, steps are issued call by call, and each call is waited for.
 *
 * All members of a collective must capture it, or none.  So all devices capture before any launches.  If a device of
 * any process cannot, all devices issue call by call from then on.  They come to this at the same step, because
 * addresses count as moved everywhere when they have moved anywhere.  A communicator keeps the failure of a call, and
 * nothing can follow it; if one has failed by the time all have captured, the run ends with that failure. */
#include "exec/gpu/run.h"

#include <stdio.h>
#include <string.h>

#include "exec/gpu/issue.h"
#include "exec/gpu/progress.h"
#include "exec/world/world.h"

static bool is_captured(const GpuPart *part, int k)
{
    return part->slot[k].graph && part->slot[k].captured == gpu_program_epoch(part->gpu);
}

static void drop_graph(const GpuPart *part, GpuSlot *slot)
{
    if (slot->graph)
        part->member->runtime->graph_free(slot->graph);
    slot->graph = NULL;
}

void gpu_program_drop_graphs(GpuProgram *g)
{
    FOR_LOCAL(g->program, d)
        for (int k = 0; k < GPU_SLOTS; k++)
            drop_graph(&g->part[d], &g->part[d].slot[k]);
}

/* ---- capturing ---- */

static Status capture(GpuPart *part, int k)
{
    const GpuMember *m = part->member;
    GpuSlot *slot = &part->slot[k];
    char message[GPU_MESSAGE];
    Status st;

    TRY_MEMBER(m, capture_begin(m->stream[STREAM_COMPUTE]));
    if ((st = gpu_part_issue(part, k))) {
        snprintf(message, sizeof message, "%s", status_message());
        if (!m->runtime->capture_end(m->stream[STREAM_COMPUTE], &slot->graph))
            drop_graph(part, slot);
        slot->graph = NULL;
        return FAIL(st, "%s", message);
    }
    TRY_MEMBER(m, capture_end(m->stream[STREAM_COMPUTE], &slot->graph));
    slot->captured = gpu_program_epoch(part->gpu);
    return ST_OK;
}

/* A DeviceJob: captures the step of the next turn, whose slot is free.  It is no failure when the step cannot be
 * captured; part->why then has the call's error, or that of the communicator, which the call may have broken. */
static Status capture_part(Device *d, void *arg)
{
    GpuPart *part = arg;
    const GpuMember *m = part->member;
    int k = (int)(part->gpu->turn % GPU_SLOTS);
    GpuSlot *slot = &part->slot[k];

    (void)d;
    drop_graph(part, slot);
    TRY(gpu_part_bind(part, k));
    part->capturing = true;
    if ((part->uncapturable = capture(part, k)))
        snprintf(part->why, sizeof part->why, "%s", status_message());
    part->capturing = false;
    part->lost = m->comm && device_check(m->device, m->runtime->comm_poll(m->comm));
    if (part->lost && !part->uncapturable)
        snprintf(part->why, sizeof part->why, "%s", status_message());
    return ST_OK;
}

/* Outcomes of a capture; the highest of all devices is reported.  LOST_BY_CALL: the device's own call broke the
 * communicator, of which the others find it LOST. */
enum { CAPTURED, UNCAPTURED, LOST, LOST_BY_CALL };

static int capture_outcome(const GpuPart *part)
{
    return part->lost ? (part->uncapturable ? LOST_BY_CALL : LOST) : part->uncapturable ? UNCAPTURED : CAPTURED;
}

/* Finds the highest outcome of all devices of all processes; `worst` is the local device with the highest.  If one
 * could not capture, all issue call by call from now on; if a communicator is lost, that is the error. */
static Status agree_on_capture(GpuProgram *g, int worst)
{
    const Prepared *p = g->program;
    World *w = p->opt.world;
    int64_t found = capture_outcome(&g->part[worst]) * WORLD_MAX + world_rank(w);
    char why[GPU_MESSAGE] = "", who[64] = "", line[GPU_MESSAGE + 192];
    int rank;

    world_set_purpose(w, "how a step is captured");
    if (world_size(w) > 1)
        TRY(world_max(w, found, &found));
    if (found / WORLD_MAX == CAPTURED)
        return ST_OK;
    if ((rank = (int)(found % WORLD_MAX)) == world_rank(w))
        snprintf(why, sizeof why, "%s", g->part[worst].why);
    else
        snprintf(who, sizeof who, "rank %d of %d: ", rank, world_size(w));
    if (world_size(w) > 1)
        TRY(world_share(w, rank, why, sizeof why));
    if (found / WORLD_MAX >= LOST)
        return FAIL(E_DEVICE, "%s%s", who, why);
    g->by_call = true;
    gpu_program_drop_graphs(g);
    snprintf(line, sizeof line, "a step cannot be captured as one graph, so every call is given to the GPU: %s%.*s",
             who, GPU_MESSAGE - 1, why);
    if (p->opt.log)
        p->opt.log(p->opt.log_user, LINE_WARNING, line);
    return ST_OK;
}

/* Runs a job on all devices. */
static Status run_jobs(GpuProgram *g, DeviceJob *job)
{
    const Prepared *p = g->program;

    FOR_LOCAL(p, d)
        device_start(p->device[d], job, &g->part[d]);
    return device_wait_all(p->device + p->opt.first, p->opt.n_local);
}

/* Captures the step of the next turn on all devices, where steps are captured and this one is not yet. */
static Status capture_all(GpuProgram *g)
{
    const Prepared *p = g->program;
    int worst = p->opt.first;

    if (g->by_call || p->trace || !g->turn || is_captured(&g->part[p->opt.first], (int)(g->turn % GPU_SLOTS)))
        return ST_OK;
    TRY(run_jobs(g, capture_part));
    FOR_LOCAL(p, d)
        worst = capture_outcome(&g->part[d]) > capture_outcome(&g->part[worst]) ? d : worst;
    return agree_on_capture(g, worst);
}

/* ---- a step ---- */

static Status run_begin_step(GpuPart *part)
{
    const GpuMember *m = part->member;
    int k = (int)(part->gpu->turn % GPU_SLOTS);
    GpuSlot *slot = &part->slot[k];

    TRY(gpu_part_bind(part, k));
    TRY(gpu_part_upload(part, k));
    if (!part->gpu->program->trace && is_captured(part, k))
        TRY_MEMBER(m, graph_launch(slot->graph, m->stream[STREAM_COMPUTE]));
    else
        TRY(gpu_part_issue(part, k));
    TRY_MEMBER(m, event_record(slot->done, m->stream[STREAM_COMPUTE]));
    slot->used = true;
    return ST_OK;
}

/* A DeviceJob. */
static Status begin_part(Device *d, void *arg)
{
    GpuPart *part = arg;
    Status st = run_begin_step(part);

    (void)d;
    if (st)
        atomic_store(&part->gpu->group->failed, true);
    return st;
}

/* ---- entry ---- */

/* Points the program's outputs to those of the step in slot k. */
static void run_set_outputs(GpuProgram *g, unsigned k)
{
    Prepared *p = g->program;

    for (int i = 0; i < p->graph->n_output; i++) {
        const MemRef *ref = &p->plan->output[i];
        char *data = ref->kind == MEM_INPUT   ? prepared_input(p, ref)
                     : ref->kind == MEM_CONST ? (char *)value(p->graph, ref->root)->init->data + ref->offset
                                              : NULL;

        p->output[i].tensor.data = data;
    }
    for (int d = 0; d < p->opt.n_device; d++)
        for (int i = 0; i < g->part[d].n_output; i++)
            p->output[g->part[d].output[i].index].tensor.data = g->part[d].slot[k].output + g->part[d].output[i].at;
}

/* Adds a hint to the error of a device that has failed: every call fails then, so where it happened is known only if
 * each call was waited for. */
static Status add_hint(const GpuProgram *g, Status st)
{
    const Prepared *p = g->program;
    char message[GPU_MESSAGE];

    snprintf(message, sizeof message, "%s", status_message());
    if (st == E_DEVICE && !p->opt.ways.check_nodes)
        FOR_LOCAL(p, d)
            if (gpu_group_faulted(g->group, d))
                return FAIL(st, "%s; --check-nodes tells which node it was", message);
    return st;
}

Status gpu_program_begin(GpuProgram *g)
{
    const unsigned k = g->turn % GPU_SLOTS;
    Status st = ST_OK;

    TRY(gpu_group_check(g->group));
    FOR_LOCAL(g->program, d) /* until the slot's last step has ended */
        if (!st && g->part[d].slot[k].used)
            st = gpu_group_wait(g->group, d, g->part[d].slot[k].done);
    if (!st) {
        gpu_progress_begin(g, k);
        st = capture_all(g);
    }
    if (!st)
        st = run_jobs(g, begin_part);
    if (st) {
        st = add_hint(g, st);
        gpu_group_abort(g->group);
        return st;
    }
    g->turn++;
    g->pending = true;
    return ST_OK;
}

unsigned gpu_program_turn(const GpuProgram *g) { return g->turn; }

Status gpu_program_wait(GpuProgram *g, unsigned turn)
{
    unsigned k = (turn - 1) % GPU_SLOTS;
    const bool last = turn == g->turn;

    TRY(gpu_group_check(g->group));
    if (g->turn - turn >= GPU_SLOTS)
        return FAIL(E_INTERNAL, "the outputs of step %u are asked for after step %u", turn, g->turn);
    FOR_LOCAL(g->program, d) {
        Status st = g->pending || !last ? gpu_group_wait(g->group, d, g->part[d].slot[k].done) : ST_OK;

        if (!st)
            continue;
        st = add_hint(g, st);
        gpu_group_abort(g->group);
        g->pending = false;
        return st;
    }
    g->pending &= !last;
    run_set_outputs(g, k);
    return ST_OK;
}
