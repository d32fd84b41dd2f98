/* Waiting for accelerators, with a timeout where devices depend on each other.
 *
 * A device that fails in the middle of a step leaves others in collectives that never end.  So where there is a
 * communicator, the host polls in turn the event, the communicator, and the failures of other devices and processes.  A
 * single device keeps no other waiting, and may take as long as it likes. */
#include <stdio.h>
#include <time.h>

#include "exec/device/hang_report.h"
#include "graph/base/spin.h"

enum { SPINS = 2000, NAP = 20000 /* nanoseconds */ };
static const double REASON_SECONDS = 2; /* for another process's reason, after its communicator has failed */
static const double DRAIN_SECONDS = 2;  /* for work that was given to a device before the failure */

static void pause_for(int round)
{
    if (round < SPINS)
        cpu_relax();
    else
        nanosleep(&(struct timespec){ 0, NAP }, NULL);
}

/* The failure of a kernel on the host's side. */
static Status host_failure(const GpuMember *m)
{
    Status st = (Status)atomic_load(&m->host_status);

    return st ? FAIL(st, "%s: %s", device_name(m->device), m->host_message) : ST_OK;
}

/* Whether a failure elsewhere makes waiting futile.  A communicator shows that a member has gone; its process reports
 * why a little later, which is waited for. */
static Status check_others(const GpuGroup *g, const GpuMember *m, int round)
{
    char message[GPU_MESSAGE];
    double until;
    Status st;

    if (!m->comm)
        return ST_OK;
    if (atomic_load(&g->failed))
        return E_INTERRUPTED;
    if (round >= SPINS && world_size(g->world) > 1)
        TRY(world_poll(g->world));
    if (!(st = device_check(m->device, m->runtime->comm_poll(m->comm))))
        return ST_OK;
    snprintf(message, sizeof message, "%s", status_message());
    until = world_now() + REASON_SECONDS;
    while (world_size(g->world) > 1 && world_now() < until) {
        TRY(world_poll(g->world));
        pause_for(SPINS);
    }
    return FAIL(st, "%s", message);
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
        TRY(check_others(g, m, round));
        if (world_now() > until)
            return hang_report(g, d);
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

/* Whether everything given to the stream, whose collectives have been aborted, ends within DRAIN_SECONDS, be it because
 * the device has failed. */
static bool ends_in_time(const GpuMember *m, GpuStream *s)
{
    double until = world_now() + DRAIN_SECONDS;
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

Status gpu_group_drain(GpuGroup *g, int d)
{
    GpuMember *m = &g->member[d];
    bool ended = true;
    Status st = ST_OK;

    if (!m->device)
        return ST_OK;
    if (m->left)
        return gpu_group_check(g);
    for (int s = 0; s < N_STREAMS && m->comm && !st; s++) {
        st = device_check(m->device, m->runtime->event_record(m->drained, m->stream[s]));
        if (!st)
            st = gpu_group_wait(g, d, m->drained);
    }
    if (st)
        gpu_group_abort(g);
    if (g->broken && !m->left) { /* a kernel that hangs is given up, with all that would wait for it */
        for (int s = 0; s < N_STREAMS && ended && m->drained; s++)
            ended = !m->stream[s] || ends_in_time(m, m->stream[s]);
        if (ended && m->drained && m->marks)
            ended = ends_in_time(m, m->marks);
        if (!ended)
            gpu_member_leave(m);
    }
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
