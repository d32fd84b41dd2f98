/* Creating, sharing, waiting, failing.
 *
 * A device that fails in the middle of a step leaves others in collectives that can never end.  So nobody waits for an event
 * blindly while there is a communicator: the host asks for the event, the communicator and the failure of others in turn, and
 * whoever starts the step aborts all communicators once no thread is inside one.  Parameters may differ between devices then,
 * so the group stays broken.  Failures of other processes are heard in the same way, from the world. */
#include "exec/gpu/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "exec/world/world.h"

enum { TIMEOUT = 300, SPINS = 2000, NAP = 20000 /* nanoseconds */ };

typedef struct {
    GpuGroup *group;
    int rank;
    GpuCommId id;
} Member;

/* ---- creation ---- */

static double patience(void)
{
    const char *given = getenv("DPEXEC_GPU_TIMEOUT");
    double seconds = given ? strtod(given, NULL) : 0;

    return seconds > 0 ? seconds : TIMEOUT;
}

/* DeviceJobs. */
static Status open_streams(Device *d, void *arg)
{
    GpuMember *m = arg;

    m->stream[STREAM_COMPUTE] = device_stream(d);
    for (int s = 0; s < N_STREAMS; s++)
        if (s != STREAM_COMPUTE)
            TRY(device_check(d, m->runtime->stream_create(m->gpu, &m->stream[s], s == STREAM_COMM)));
    return device_check(d, m->runtime->event_create(m->gpu, &m->drained, false));
}

static Status connect_member(Device *d, void *arg)
{
    Member *me = arg;
    GpuMember *m = &me->group->member[me->rank];

    return device_check(d, m->runtime->comm_create(&m->comm, m->gpu, &me->id, me->rank, me->group->n_device, me->group->timeout));
}

static Status wait_all(const GpuGroup *g)
{
    Status st = ST_OK;
    int failed = -1;

    for (int d = 0; d < g->n_device; d++) {
        Status own = g->member[d].device ? device_wait(g->member[d].device) : ST_OK;

        failed = own && failed < 0 ? d : failed;
        st = st ? st : own;
    }
    return failed < 0 ? st : device_wait(g->member[failed].device);      /* again: its message */
}

static Status agree_id(const GpuGroup *g, GpuCommId *id)
{
    const GpuMember *first = &g->member[0];

    if (first->device)
        TRY(device_check(first->device, first->runtime->comm_id(id)));
    return world_size(g->world) > 1 ? world_share(g->world, id, sizeof *id) : ST_OK;
}

/* The process of the first device makes the id.  Nobody goes on before all are here: who fails before is heard of at once, not
 * by the communicator's timeout. */
static Status connect_members(GpuGroup *g)
{
    Member *me = calloc((size_t)g->n_device, sizeof *me);
    GpuCommId id = { 0 };
    int64_t all;
    Status st;

    if (!me)
        return FAIL_NOMEM();
    st = agree_id(g, &id);
    if (!st && world_size(g->world) > 1)
        st = world_max(g->world, 0, &all);
    if (!st) {
        for (int d = 0; d < g->n_device; d++) {
            me[d] = (Member){ g, d, id };
            if (g->member[d].device)
                device_start(g->member[d].device, connect_member, &me[d]);
        }
        st = wait_all(g);
    }
    free(me);
    return st;
}

Status gpu_group_create(GpuGroup **out, Device *const *device, int n, World *world)
{
    GpuGroup *g = calloc(1, sizeof *g);
    Status st = ST_OK;

    if (!g || !(g->member = calloc((size_t)n, sizeof *g->member))) {
        free(g);
        return FAIL_NOMEM();
    }
    g->n_device = n;
    g->world = world;
    g->timeout = world_size(world) > 1 ? world_timeout(world) : patience();
    for (int d = 0; d < n; d++) {
        if (!device[d])
            continue;
        g->member[d] = (GpuMember){ .device = device[d], .runtime = device_runtime(device[d]), .gpu = device_gpu(device[d]) };
        device_start(device[d], open_streams, &g->member[d]);
        TRY_TO(fail, st, device_wait(device[d]));
    }
    if (n > 1)
        TRY_TO(fail, st, connect_members(g));
    *out = g;
    return ST_OK;
fail:
    gpu_group_free(g);
    return st;
}

void gpu_group_free(GpuGroup *g)
{
    if (!g)
        return;
    for (int d = 0; d < g->n_device; d++)
        (void)!gpu_group_drain(g, d);
    for (int d = 0; d < g->n_device; d++) {
        GpuMember *m = &g->member[d];

        if (m->bucket)
            m->runtime->comm_release(m->gpu, m->comm, m->bucket);
        if (m->host)
            m->runtime->host_free(m->gpu, m->host);
        if (m->comm)
            m->runtime->comm_free(m->comm);
        if (m->drained)
            m->runtime->event_free(m->drained);
        for (int s = 0; s < N_STREAMS; s++)
            if (s != STREAM_COMPUTE && m->stream[s])
                m->runtime->stream_free(m->stream[s]);
    }
    free(g->member);
    free(g);
}

/* ---- memory ---- */

Status gpu_group_bucket(GpuGroup *g, int d, size_t bytes)
{
    GpuMember *m = &g->member[d];

    if (bytes <= m->bucket_bytes)
        return ST_OK;
    TRY(gpu_group_drain(g, d));
    if (m->bucket)
        m->runtime->comm_release(m->gpu, m->comm, m->bucket);
    m->bucket = NULL;
    m->bucket_bytes = 0;
    g->generation++;
    TRY(device_check(m->device, m->runtime->comm_alloc(m->gpu, &m->bucket, bytes)));
    m->bucket_bytes = bytes;
    return m->comm ? device_check(m->device, m->runtime->comm_register(m->comm, m->bucket, bytes)) : ST_OK;
}

Status gpu_group_host_arena(GpuGroup *g, int d, size_t bytes)
{
    GpuMember *m = &g->member[d];

    if (bytes <= m->host_bytes)
        return ST_OK;
    TRY(gpu_group_drain(g, d));
    if (m->host)
        m->runtime->host_free(m->gpu, m->host);
    m->host = NULL;
    m->host_bytes = 0;
    g->generation++;
    TRY(device_check(m->device, m->runtime->host_alloc(m->gpu, &m->host, bytes)));
    m->host_bytes = bytes;
    return ST_OK;
}

/* ---- waiting ---- */

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

Status gpu_group_wait(GpuGroup *g, int d, GpuEvent *e)
{
    const GpuMember *m = &g->member[d];
    double until;

    if (!m->comm) {
        TRY(device_check(m->device, m->runtime->event_wait(e)));
        return host_failure(m);
    }
    until = world_now() + g->timeout;
    for (int round = 0;; round++) {
        bool done = false;

        TRY(device_check(m->device, m->runtime->event_query(e, &done)));
        if (done)
            return host_failure(m);
        if (atomic_load(&g->failed))
            return E_INTERRUPTED;
        if (round >= SPINS && world_size(g->world) > 1)
            TRY(world_poll(g->world));
        TRY(device_check(m->device, m->runtime->comm_poll(m->comm)));
        if (world_now() > until)
            return FAIL(E_DEVICE, "%s: the step has not ended within %g seconds", device_name(m->device), g->timeout);
        pause_for(round);
    }
}

Status gpu_group_drain(GpuGroup *g, int d)
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
    for (int s = 0; s < N_STREAMS; s++)
        if (m->stream[s])
            (void)!m->runtime->stream_wait(m->stream[s]);
    return st;
}

/* ---- failing ---- */

void gpu_group_abort(GpuGroup *g)
{
    if (g->broken)
        return;
    snprintf(g->message, sizeof g->message, "%s", status_message());
    g->broken = true;
    atomic_store(&g->failed, true);
    for (int d = 0; d < g->n_device; d++) {
        if (g->member[d].comm)
            g->member[d].runtime->comm_abort(g->member[d].comm);
        g->member[d].comm = NULL;
    }
}

Status gpu_group_check(const GpuGroup *g)
{
    return g->broken ? FAIL(E_DEVICE, "an earlier step failed: %s", g->message) : ST_OK;
}
