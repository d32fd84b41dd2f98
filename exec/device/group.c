/* The group of a session's accelerators: its creation, what its members share, and how it fails.
 *
 * When a device fails in the middle of a step, the thread that started the step aborts all communicators, once no
 * thread is inside one.  Parameters may differ between devices then, so the group stays broken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/hang_report.h"
#include "graph/base/numtext.h"

enum { TIMEOUT = 300 };

/* ---- creation ---- */

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

/* A callback while a member waits for the others: has a device of this process failed, or another process? */
static bool others_ended(void *arg)
{
    GpuMember *m = arg;

    if (!m->other_failure)
        m->other_failure = atomic_load(&m->group->failed)    ? E_INTERRUPTED
                           : world_size(m->group->world) > 1 ? world_poll(m->group->world)
                                                             : ST_OK;
    return m->other_failure;
}

/* A DeviceJob: joins the communicator. */
static Status connect_member(Device *d, void *arg)
{
    GpuMember *m = arg;
    GpuGroup *g = m->group;
    const GpuCommWait wait = { g->timeout, others_ended, m };
    Status st = m->runtime->comm_create(&m->comm, m->gpu, &g->comm_id, (int)(m - g->member), g->n_device, &wait);

    if (m->other_failure) /* its message is this thread's */
        return m->other_failure;
    if (st)
        atomic_store(&g->failed, true);
    return device_check(d, st);
}

/* Creates the communicator.  The process of the first device makes its id.  All processes wait until every one is here,
 * so that a failure before is heard of at once and not by the communicator's timeout. */
static Status connect_members(GpuGroup *g, Device *const *device)
{
    int64_t all;

    world_set_purpose(g->world, "the communicator of the devices");
    if (g->member[0].device)
        TRY(device_check(g->member[0].device, g->member[0].runtime->comm_id(&g->comm_id)));
    if (world_size(g->world) > 1) {
        TRY(world_share(g->world, 0, &g->comm_id, sizeof g->comm_id));
        TRY(world_max(g->world, 0, &all));
    }
    for (int d = 0; d < g->n_device; d++)
        if (device[d])
            device_start(device[d], connect_member, &g->member[d]);
    return device_wait_all(device, g->n_device);
}

Status gpu_group_create(GpuGroup **out, Device *const *device, int n, World *world)
{
    GpuGroup *g = calloc(1, sizeof *g);
    const char *given = getenv("DPEXEC_GPU_TIMEOUT");
    char message[GPU_MESSAGE];
    Status st = ST_OK;

    if (!g || !(g->member = calloc((size_t)n, sizeof *g->member))) {
        free(g);
        return FAIL_NOMEM();
    }
    pthread_mutex_init(&g->lock, NULL);
    g->n_device = n;
    g->world = world;
    if (world_size(world) > 1)
        g->timeout = world_timeout(world);
    else if (!given || !text_to_float64(&g->timeout, given, strlen(given)) || !(g->timeout > 0))
        g->timeout = TIMEOUT;
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
        world_set_progress(world, hang_report_progress, g);
    *out = g;
    return ST_OK;
fail:
    snprintf(message, sizeof message, "%s", status_message());
    gpu_group_free(g);
    return FAIL(st, "%s", message);
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
        const GpuCommWait wait = { g->timeout, others_ended, m }; /* the others leave, too, unless they have failed */

        m->other_failure = ST_OK;
        if (m->comm && !m->runtime->comm_free(m->comm, &wait))
            gpu_member_leave(m);
        m->comm = NULL;
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

/* Communicators come first: what they run, including graphs that are freed in mid-run, ends by that alone. */
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
    for (int d = 0; d < g->n_device; d++) {
        GpuMember *m = &g->member[d];

        if (m->comm && !m->runtime->comm_abort_end(m->comm))
            gpu_member_leave(m);
        m->comm = NULL;
    }
}

Status gpu_group_check(const GpuGroup *g)
{
    return g->broken ? FAIL(E_DEVICE, "an earlier step failed: %s", g->message) : ST_OK;
}
