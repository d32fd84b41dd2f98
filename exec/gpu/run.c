/* Running on accelerators: every device's thread fills a slot, gives the step to the streams and returns; whoever wants
 * the outputs waits.
 *
 * The first step of a program is issued call by call, so that libraries load what they load on first use.  From the
 * second on the whole step of a slot is captured once as one graph and launched as one; the same calls with the same
 * addresses in the same order, so the same bits.  When an arena has moved it is captured anew.  While a trace is taken,
 * steps are issued call by call and each is waited for.
 *
 * Whether a collective is captured must be the same for all its members.  So all devices capture before any launches,
 * and when one of them, or of another process, cannot, all go on call by call.  They come to it at the same step:
 * addresses count as moved everywhere when they have moved anywhere.  A communicator keeps the failure of a call, and
 * then nothing can go on: if one has failed when all have captured, the run ends with what it failed of. */
#include "exec/gpu/run.h"

#include <stdio.h>
#include <string.h>

#include "exec/gpu/issue.h"
#include "exec/device/plugin.h"
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

/* Can collectives go on after what was captured?  If not, `why` is of the call that failed, where it is this
 * device's. */
static bool has_lost_comm(GpuPart *part)
{
    const GpuMember *m = part->member;

    if (!m->comm || !device_check(m->device, m->runtime->comm_poll(m->comm)))
        return false;
    if (!part->uncapturable)
        snprintf(part->why, sizeof part->why, "%s", status_message());
    return true;
}

/* A DeviceJob: captures the step of the next turn, whose slot is free.  That it cannot be captured is no failure. */
static Status capture_part(Device *d, void *arg)
{
    GpuPart *part = arg;
    int k = (int)(part->gpu->turn % GPU_SLOTS);
    GpuSlot *slot = &part->slot[k];

    (void)d;
    drop_graph(part, slot);
    TRY(gpu_part_bind(part, k));
    part->capturing = true;
    if ((part->uncapturable = capture(part, k)))
        snprintf(part->why, sizeof part->why, "%s", status_message());
    part->capturing = false;
    part->lost = has_lost_comm(part);
    return ST_OK;
}

static void run_warn(const Prepared *p, int rank, const char *why)
{
    char line[GPU_MESSAGE + 192], who[64] = "";

    if (rank != world_rank(p->opt.world))
        snprintf(who, sizeof who, "rank %d of %d: ", rank, world_size(p->opt.world));
    snprintf(line, sizeof line, "a step cannot be captured as one graph, so every call is given to the GPU: %s%.*s",
             who, GPU_MESSAGE - 1, why);
    if (p->opt.log)
        p->opt.log(p->opt.log_user, true, line);
}

/* How much a part's capture is to be heard of: before all its own call that cost it the communicator, of which others
 * only hear. */
enum { CAPTURED, UNCAPTURED, LOST, LOST_BY_CALL };

static int outcome(const GpuPart *part)
{
    return part->lost ? (part->uncapturable ? LOST_BY_CALL : LOST) : part->uncapturable ? UNCAPTURED : CAPTURED;
}

static Status by_call(GpuProgram *g, int rank, const char *why)
{
    const Prepared *p = g->program;

    g->by_call = true;
    gpu_program_drop_graphs(g);
    run_warn(p, rank, why);
    return ST_OK;
}

static Status end_lost(World *w, int rank, const char *why)
{
    return rank == world_rank(w) ? FAIL(E_DEVICE, "%s", why)
                                 : FAIL(E_DEVICE, "rank %d of %d: %s", rank, world_size(w), why);
}

/* All devices of all processes together.  `worst`: the local device that is to be heard of. */
static Status agree_on_capture(GpuProgram *g, int worst)
{
    World *w = g->program->opt.world;
    int64_t found = outcome(&g->part[worst]) * WORLD_MAX + world_rank(w);
    char why[GPU_MESSAGE] = "";
    int rank;

    world_set_purpose(w, "how a step is captured");
    if (world_size(w) > 1)
        TRY(world_max(w, found, &found));
    if (found / WORLD_MAX == CAPTURED)
        return ST_OK;
    if ((rank = (int)(found % WORLD_MAX)) == world_rank(w))
        snprintf(why, sizeof why, "%s", g->part[worst].why);
    if (world_size(w) > 1)
        TRY(world_share(w, rank, why, sizeof why));
    return found / WORLD_MAX >= LOST ? end_lost(w, rank, why) : by_call(g, rank, why);
}

/* Runs a job on all devices. */
static Status run_jobs(GpuProgram *g, DeviceJob *job)
{
    const Prepared *p = g->program;

    FOR_LOCAL(p, d)
        device_start(p->device[d], job, &g->part[d]);
    return device_wait_all(p->device + p->opt.first, p->opt.n_local);
}

static Status capture_all(GpuProgram *g)
{
    const Prepared *p = g->program;
    int worst = p->opt.first;

    if (g->by_call || p->trace || !g->turn || is_captured(&g->part[p->opt.first], (int)(g->turn % GPU_SLOTS)))
        return ST_OK;
    TRY(run_jobs(g, capture_part));
    FOR_LOCAL(p, d)
        worst = outcome(&g->part[d]) > outcome(&g->part[worst]) ? d : worst;
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

/* The outputs are those of the step in slot k. */
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

/* A device that has failed fails every call: where it happened is not known unless each call was waited for. */
static Status explain(const GpuProgram *g, Status st)
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

/* Until the step that was the last in the next turn's slot has ended. */
static Status wait_for_slot(GpuProgram *g)
{
    FOR_LOCAL(g->program, d) {
        const GpuSlot *slot = &g->part[d].slot[g->turn % GPU_SLOTS];

        if (slot->used)
            TRY(gpu_group_wait(g->group, d, slot->done));
    }
    return ST_OK;
}

static Status run_begin(GpuProgram *g)
{
    TRY(wait_for_slot(g));
    gpu_progress_begin(g, g->turn % GPU_SLOTS);
    TRY(capture_all(g));
    return run_jobs(g, begin_part);
}

Status gpu_program_begin(GpuProgram *g)
{
    Status st;

    TRY(gpu_group_check(g->group));
    if ((st = run_begin(g))) {
        st = explain(g, st);
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
        st = explain(g, st);
        gpu_group_abort(g->group);
        g->pending = false;
        return st;
    }
    g->pending &= !last;
    run_set_outputs(g, k);
    return ST_OK;
}
