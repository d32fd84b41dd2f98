/* Waiting for accelerators, never blindly where that can be helped.
 *
 * A device that fails in the middle of a step leaves others in collectives that can never end.  So nobody waits for an
 * event blindly while there is a communicator: the host asks for the event, the communicator and the failure of others
 * in turn. Failures of other processes are heard in the same way, from the world.  A single device keeps nobody
 * waiting, and works as long as it works. */
#include <stdio.h>
#include <time.h>

#include "exec/device/hang_report.h"
#include "graph/base/spin.h"

enum { SPINS = 2000, NAP = 20000 /* nanoseconds */ };
static const double LAST_WORDS = 2, LAST_WORK = 2; /* seconds */

static void pause_for(int round)
{
    if (round < SPINS)
        cpu_relax();
    else
        nanosleep(&(struct timespec){ 0, NAP }, NULL);
}

static Status host_failure(const GpuMember *m)
{
    Status st = (Status)atomic_load(&m->host_status);

    return st ? FAIL(st, "%s: %s", device_name(m->device), m->host_message) : ST_OK;
}

/* A communicator tells that a member has gone; why is told by its process, a little later. */
static Status hear_why(const GpuGroup *g, Status st)
{
    double until = world_now() + LAST_WORDS;
    char message[GPU_MESSAGE];

    snprintf(message, sizeof message, "%s", status_message());
    while (world_size(g->world) > 1 && world_now() < until) {
        TRY(world_poll(g->world));
        pause_for(SPINS);
    }
    return FAIL(st, "%s", message);
}

/* What ends waiting before its time. */
static Status hear(const GpuGroup *g, const GpuMember *m, int round)
{
    Status st;

    if (!m->comm)
        return ST_OK;
    if (atomic_load(&g->failed))
        return E_INTERRUPTED;
    if (round >= SPINS && world_size(g->world) > 1)
        TRY(world_poll(g->world));
    st = device_check(m->device, m->runtime->comm_poll(m->comm));
    return st ? hear_why(g, st) : ST_OK;
}

static Status wait_bounded(GpuGroup *g, int d, GpuEvent *e)
{
    const GpuMember *m = &g->member[d];
    double until = world_now() + g->timeout;

    for (int round = 0;; round++) {
        bool done = false;

        TRY_MEMBER(m, event_query(e, &done));
        if (done)
            return host_failure(m);
        TRY(hear(g, m, round));
        if (world_now() > until)
            return gpu_late(g, d);
        pause_for(round);
    }
}

Status gpu_group_wait(GpuGroup *g, int d, GpuEvent *e)
{
    const GpuMember *m = &g->member[d];

    if (g->n_device > 1)
        return wait_bounded(g, d, e);
    TRY_MEMBER(m, event_wait(e));
    return host_failure(m);
}

/* All that was given to the device, whose collectives have been aborted, ends within LAST_WORK, or because the device
 * has failed. */
static bool ends(const GpuMember *m, GpuStream *s)
{
    double until = world_now() + LAST_WORK;
    bool done = false;

    if (m->runtime->event_record(m->drained, s))
        return true;
    for (int round = 0; !done && world_now() < until; round++) {
        if (m->runtime->event_query(m->drained, &done))
            return true;
        pause_for(round);
    }
    return done;
}

void gpu_member_leave(GpuMember *m)
{
    m->runtime->abandon(m->gpu);
    m->left = true;
}

/* After a failure: a kernel that hangs by itself is not waited for, and neither is what would wait for it. */
static void leave_what_hangs(GpuMember *m)
{
    bool ended = true;

    for (int s = 0; s < N_STREAMS && ended && m->drained; s++)
        ended = !m->stream[s] || ends(m, m->stream[s]);
    if (ended && m->drained && m->marks)
        ended = ends(m, m->marks);
    if (!ended)
        gpu_member_leave(m);
}

static Status drain_bounded(GpuGroup *g, int d)
{
    GpuMember *m = &g->member[d];
    Status st = ST_OK;

    for (int s = 0; s < N_STREAMS && m->comm && !st; s++) {
        st = device_check(m->device, m->runtime->event_record(m->drained, m->stream[s]));
        if (!st)
            st = gpu_group_wait(g, d, m->drained);
    }
    if (st)
        gpu_group_abort(g);
    return st;
}

Status gpu_group_drain(GpuGroup *g, int d)
{
    GpuMember *m = &g->member[d];
    Status st;

    if (!m->device)
        return ST_OK;
    if (m->left)
        return gpu_group_check(g);
    st = drain_bounded(g, d);
    if (g->broken && !m->left)
        leave_what_hangs(m);
    for (int s = 0; s < N_STREAMS && !m->left; s++)
        if (m->stream[s])
            (void)!m->runtime->stream_wait(m->stream[s]);
    if (m->marks && !m->left)
        (void)!m->runtime->stream_wait(m->marks);
    return st;
}

/* A DeviceSync. */
Status gpu_group_sync(void *arg)
{
    GpuMember *m = arg;
    GpuGroup *g = m->group;
    Status st;

    if (m->left)
        return gpu_group_check(g);
    st = device_check(m->device, m->runtime->event_record(m->drained, m->stream[STREAM_COMPUTE]));
    if (!st)
        st = gpu_group_wait(g, (int)(m - g->member), m->drained);
    if (st)
        gpu_group_abort(g);
    return st == E_INTERRUPTED ? gpu_group_check(g) : st;
}

bool gpu_group_faulted(const GpuGroup *g, int d)
{
    const GpuMember *m = &g->member[d];
    bool done;

    return m->runtime->event_query(m->drained, &done) != ST_OK;
}
