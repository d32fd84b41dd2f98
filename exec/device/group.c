/* Creating, sharing, failing.
 *
 * When a device fails in the middle of a step whoever starts the step aborts all communicators once no thread is inside
 * one. Parameters may differ between devices then, so the group stays broken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/hang_report.h"
#include "graph/base/numtext.h"

enum { TIMEOUT = 300 };

typedef struct {
    GpuGroup *group;
    int rank;
    GpuCommId id;
    Status heard; /* why the others will not come */
} Member;

/* ---- creation ---- */

static double patience(void)
{
    const char *given = getenv("DPEXEC_GPU_TIMEOUT");
    double seconds;

    return given && text_to_float64(&seconds, given, strlen(given)) && seconds > 0 ? seconds : TIMEOUT;
}

/* DeviceJobs. */
static Status open_streams(Device *d, void *arg)
{
    GpuMember *m = arg;

    m->stream[STREAM_COMPUTE] = device_stream(d);
    for (int s = 0; s < N_STREAMS; s++)
        if (s != STREAM_COMPUTE)
            TRY_MEMBER(m, stream_create(m->gpu, &m->stream[s], s == STREAM_COMM));
    if (m->group->n_device > 1)
        TRY_MEMBER(m, stream_create(m->gpu, &m->marks, false));
    TRY_MEMBER(m, event_create(m->gpu, &m->drained, false));
    device_set_sync(d, gpu_group_sync, m);
    return ST_OK;
}

/* Asked while a member waits for the others: has a device of this process failed, or another process? */
static bool others_ended(void *arg)
{
    Member *me = arg;

    if (!me->heard)
        me->heard = atomic_load(&me->group->failed)    ? E_INTERRUPTED
                    : world_size(me->group->world) > 1 ? world_poll(me->group->world)
                                                       : ST_OK;
    return me->heard;
}

static Status connect_member(Device *d, void *arg)
{
    Member *me = arg;
    GpuMember *m = &me->group->member[me->rank];
    const GpuCommWait wait = { me->group->timeout, others_ended, me };
    Status st = m->runtime->comm_create(&m->comm, m->gpu, &me->id, me->rank, me->group->n_device, &wait);

    if (me->heard) /* its message is this thread's */
        return me->heard;
    if (st)
        atomic_store(&me->group->failed, true);
    return device_check(d, st);
}

static Status agree_id(const GpuGroup *g, GpuCommId *id)
{
    const GpuMember *first = &g->member[0];

    if (first->device)
        TRY_MEMBER(first, comm_id(id));
    return world_size(g->world) > 1 ? world_share(g->world, 0, id, sizeof *id) : ST_OK;
}

/* The process of the first device makes the id.  Nobody goes on before all are here: who fails before is heard of at
 * once, not by the communicator's timeout. */
static Status connect_members(GpuGroup *g, Device *const *device)
{
    Member *me = calloc((size_t)g->n_device, sizeof *me);
    GpuCommId id = { 0 };
    int64_t all;
    Status st;

    if (!me)
        return FAIL_NOMEM();
    world_set_purpose(g->world, "the communicator of the devices");
    st = agree_id(g, &id);
    if (!st && world_size(g->world) > 1)
        st = world_max(g->world, 0, &all);
    if (!st) {
        for (int d = 0; d < g->n_device; d++) {
            me[d] = (Member){ g, d, id, ST_OK };
            if (device[d])
                device_start(device[d], connect_member, &me[d]);
        }
        st = device_wait_all(device, g->n_device);
    }
    free(me);
    return st;
}

Status gpu_group_create(GpuGroup **out, Device *const *device, int n, World *world)
{
    GpuGroup *g = calloc(1, sizeof *g);
    char message[GPU_MESSAGE];
    Status st = ST_OK;

    if (!g || !(g->member = calloc((size_t)n, sizeof *g->member))) {
        free(g);
        return FAIL_NOMEM();
    }
    pthread_mutex_init(&g->lock, NULL);
    g->n_device = n;
    g->world = world;
    g->timeout = world_size(world) > 1 ? world_timeout(world) : patience();
    for (int d = 0; d < n; d++) {
        if (!device[d])
            continue;
        g->member[d] = (GpuMember){
            .group = g, .device = device[d], .runtime = device_runtime(device[d]), .gpu = device_gpu(device[d])
        };
        device_start(device[d], open_streams, &g->member[d]);
        TRY_TO(fail, st, device_wait(device[d]));
    }
    if (n > 1)
        TRY_TO(fail, st, connect_members(g, device));
    if (world_size(world) > 1)
        world_set_progress(world, gpu_late_progress, g);
    *out = g;
    return ST_OK;
fail:
    snprintf(message, sizeof message, "%s", status_message());
    gpu_group_free(g);
    return FAIL(st, "%s", message);
}

/* The others leave too; who has heard that they have failed does not wait for them. */
static void leave_comm(GpuGroup *g, int d)
{
    Member me = { .group = g, .rank = d };
    const GpuCommWait wait = { g->timeout, others_ended, &me };

    if (g->member[d].comm && !g->member[d].runtime->comm_free(g->member[d].comm, &wait))
        gpu_member_leave(&g->member[d]);
    g->member[d].comm = NULL;
}

void gpu_group_free(GpuGroup *g)
{
    if (!g)
        return;
    if (world_size(g->world) > 1)
        world_set_progress(g->world, NULL, NULL);
    if (world_size(g->world) > 1 && world_poll(g->world))
        gpu_group_abort(g);
    for (int d = 0; d < g->n_device; d++)
        (void)!gpu_group_drain(g, d);
    for (int d = 0; d < g->n_device; d++) {
        GpuMember *m = &g->member[d];

        leave_comm(g, d);
        if (m->bucket)
            m->runtime->comm_release(m->gpu, NULL, m->bucket);
        if (m->host)
            m->runtime->host_free(m->gpu, m->host);
        if (m->drained)
            m->runtime->event_free(m->drained);
        for (int s = 0; s < N_STREAMS; s++)
            if (s != STREAM_COMPUTE && m->stream[s])
                m->runtime->stream_free(m->stream[s]);
        if (m->marks)
            m->runtime->stream_free(m->marks);
        if (m->device)
            device_set_sync(m->device, NULL, NULL);
    }
    pthread_mutex_destroy(&g->lock);
    free(g->member);
    free(g);
}

/* ---- users ---- */

void gpu_group_enter(GpuGroup *g, GpuUser *u)
{
    pthread_mutex_lock(&g->lock);
    u->next = g->users;
    g->users = u;
    pthread_mutex_unlock(&g->lock);
}

void gpu_group_leave(GpuGroup *g, GpuUser *u)
{
    pthread_mutex_lock(&g->lock);
    for (GpuUser **at = &g->users; *at; at = &(*at)->next)
        if (*at == u) {
            *at = u->next;
            break;
        }
    pthread_mutex_unlock(&g->lock);
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
    TRY_MEMBER(m, comm_alloc(m->gpu, &m->bucket, bytes));
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
    TRY_MEMBER(m, host_alloc(m->gpu, &m->host, bytes));
    m->host_bytes = bytes;
    return ST_OK;
}

/* ---- failing ---- */

static void end_abort(GpuMember *m)
{
    if (!m->runtime->comm_abort_end(m->comm))
        gpu_member_leave(m);
    m->comm = NULL;
}

/* Communicators first: what they run, graphs that are freed in mid-run included, ends by that alone. */
void gpu_group_abort(GpuGroup *g)
{
    if (g->broken)
        return;
    snprintf(g->message, sizeof g->message, "%s", status_message());
    g->broken = true;
    atomic_store(&g->failed, true);
    for (int d = 0; d < g->n_device; d++)
        if (g->member[d].comm)
            g->member[d].runtime->comm_abort(g->member[d].comm);
    pthread_mutex_lock(&g->lock);
    for (GpuUser *u = g->users; u; u = u->next)
        u->is->release(u);
    pthread_mutex_unlock(&g->lock);
    for (int d = 0; d < g->n_device; d++)
        if (g->member[d].comm)
            end_abort(&g->member[d]);
}

Status gpu_group_check(const GpuGroup *g)
{
    return g->broken ? FAIL(E_DEVICE, "an earlier step failed: %s", g->message) : ST_OK;
}
