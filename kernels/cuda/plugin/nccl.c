/* Collectives between devices by NCCL, which never block the host for good.
 *
 * Communicators are made with blocking = 0: a call may come back "in progress" and is then polled, until the communicator's
 * timeout, so that a member that died leaves the others an error instead of a hang.  Within a group the calls are polled when
 * it ends; the thread keeps the list of the group's communicators meanwhile. */
#include <stdlib.h>
#include <time.h>

#include "kernels/cuda/plugin/plugin.h"

_Static_assert(GPU_COMM_ID == NCCL_UNIQUE_ID_BYTES, "an id of ours holds one of NCCL's");

struct GpuComm {
    GpuDevice *device;
    ncclComm_t comm;
    int rank, n_rank;
    double timeout;             /* seconds */
    void **registered;          /* handles; n_registered */
    int n_registered;
    bool grouped;               /* in this thread's list */
    GpuComm *next;
};

static _Thread_local GpuComm *group;
static _Thread_local int group_depth;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static Status nccl_fail(const GpuComm *c, const char *call, ncclResult_t r)
{
    const char *words = ncclGetLastError(c ? c->comm : NULL);
    Status st = r == ncclInvalidArgument || r == ncclInvalidUsage ? E_INVALID : E_DEVICE;

    if (!c)
        return FAIL(st, "NCCL: %s: %s%s%s", call, ncclGetErrorString(r), words && *words ? ": " : "", words ? words : "");
    return FAIL(st, "%s: rank %d of %d: %s: %s%s%s", c->device->label, c->rank, c->n_rank, call, ncclGetErrorString(r),
                words && *words ? ": " : "", words ? words : "");
}

/* Waits while the communicator is at work on `call`, which came back with `r`; looks often at first, then once a millisecond. */
static Status settle(GpuComm *c, const char *call, ncclResult_t r)
{
    double end = now() + c->timeout;

    for (long pause = 2000; r == ncclInProgress; pause = pause < 500000 ? pause * 2 : 1000000) {
        ncclResult_t asked = ncclCommGetAsyncError(c->comm, &r);

        if (asked != ncclSuccess)
            return nccl_fail(c, "ncclCommGetAsyncError", asked);
        if (r != ncclInProgress)
            break;
        if (now() > end)
            return FAIL(E_DEVICE, "%s: rank %d of %d: %s: the other members did not come within %g s", c->device->label, c->rank,
                        c->n_rank, call, c->timeout);
        nanosleep(&(struct timespec){ .tv_nsec = pause }, NULL);
    }
    return r == ncclSuccess ? ST_OK : nccl_fail(c, call, r);
}

Status comm_id(GpuCommId *out)
{
    ncclUniqueId id;
    ncclResult_t r = ncclGetUniqueId(&id);

    if (r != ncclSuccess)
        return nccl_fail(NULL, "ncclGetUniqueId", r);
    for (int i = 0; i < GPU_COMM_ID; i++)
        out->byte[i] = (unsigned char)id.internal[i];
    return ST_OK;
}

Status comm_create(GpuComm **out, GpuDevice *d, const GpuCommId *id, int rank, int n_rank, double timeout)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId nccl_id;
    GpuComm *c;
    Status st;

    TRY(device_use(d));
    if (!(c = calloc(1, sizeof *c)))
        return FAIL_NOMEM();
    *c = (GpuComm){ .device = d, .rank = rank, .n_rank = n_rank, .timeout = timeout };
    for (int i = 0; i < GPU_COMM_ID; i++)
        nccl_id.internal[i] = (char)id->byte[i];
    config.blocking = 0;
    st = settle(c, "ncclCommInitRankConfig", ncclCommInitRankConfig(&c->comm, n_rank, nccl_id, rank, &config));
    if (st) {
        comm_abort(c);
        return st;
    }
    *out = c;
    return ST_OK;
}

/* Out of this thread's group, should it be there. */
static void leave_group(GpuComm *c)
{
    for (GpuComm **at = &group; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    c->grouped = false;
}

void comm_abort(GpuComm *c)
{
    if (!c)
        return;
    leave_group(c);
    if (c->comm && cudaSetDevice(c->device->index) == cudaSuccess)
        (void)ncclCommAbort(c->comm);
    free(c->registered);
    free(c);
}

/* Members that do not leave in time are left behind. */
void comm_free(GpuComm *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n_registered; i++)
        (void)ncclCommDeregister(c->comm, c->registered[i]);
    if (cudaSetDevice(c->device->index) != cudaSuccess || settle(c, "ncclCommFinalize", ncclCommFinalize(c->comm))) {
        comm_abort(c);
        return;
    }
    leave_group(c);
    (void)ncclCommDestroy(c->comm);
    free(c->registered);
    free(c);
}

Status comm_poll(GpuComm *c)
{
    ncclResult_t state, asked = ncclCommGetAsyncError(c->comm, &state);

    if (asked != ncclSuccess)
        return nccl_fail(c, "ncclCommGetAsyncError", asked);
    return state == ncclSuccess || state == ncclInProgress ? ST_OK : nccl_fail(c, "asynchronous error", state);
}

Status comm_alloc(GpuDevice *d, void **out, size_t bytes)
{
    size_t n = bytes ? bytes : 1;
    ncclResult_t r;
    void *p;
    Status st;

    TRY(device_use(d));
    if ((r = ncclMemAlloc(&p, n)) != ncclSuccess)
        return status_prefix(nccl_fail(NULL, "ncclMemAlloc", r), "%s: %zu bytes", d->label, bytes);
    if ((st = memory_clear(d, p, n))) {
        comm_release(d, p);
        return st;
    }
    *out = p;
    return ST_OK;
}

void comm_release(GpuDevice *d, void *p)
{
    if (p && cudaSetDevice(d->index) == cudaSuccess)
        (void)ncclMemFree(p);
}

Status comm_register(GpuComm *c, void *p, size_t bytes)
{
    void **grown = realloc(c->registered, (size_t)(c->n_registered + 1) * sizeof *grown);

    if (!grown)
        return FAIL_NOMEM();
    c->registered = grown;
    TRY(device_use(c->device));
    TRY(settle(c, "ncclCommRegister", ncclCommRegister(c->comm, p, bytes, &grown[c->n_registered])));
    c->n_registered++;
    return ST_OK;
}

static Status type_of(ncclDataType_t *out, const GpuComm *c, DType t)
{
    switch (t) {
    case DT_FLOAT32: *out = ncclFloat32; return ST_OK;
    case DT_FLOAT64: *out = ncclFloat64; return ST_OK;
    case DT_FLOAT16: *out = ncclFloat16; return ST_OK;
    case DT_BFLOAT16: *out = ncclBfloat16; return ST_OK;
    case DT_INT8: *out = ncclInt8; return ST_OK;
    case DT_UINT8: *out = ncclUint8; return ST_OK;
    case DT_INT32: *out = ncclInt32; return ST_OK;
    case DT_UINT32: *out = ncclUint32; return ST_OK;
    case DT_INT64: *out = ncclInt64; return ST_OK;
    case DT_UINT64: *out = ncclUint64; return ST_OK;
    default: return FAIL(E_UNSUPPORTED, "%s: NCCL does not add %s", c->device->label, dtype_name(t));
    }
}

/* A collective was given: polled now, or by the end of the group. */
static Status given(GpuComm *c, const char *call, ncclResult_t r)
{
    if (!group_depth || (r != ncclSuccess && r != ncclInProgress))
        return settle(c, call, r);
    if (!c->grouped) {
        c->grouped = true;
        c->next = group;
        group = c;
    }
    return ST_OK;
}

Status comm_all_reduce_sum(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype)
{
    ncclDataType_t t;

    TRY(type_of(&t, c, dtype));
    TRY(device_use(c->device));
    return given(c, "ncclAllReduce", ncclAllReduce(send, recv, n, t, ncclSum, c->comm, s->stream));
}

Status comm_reduce_scatter_sum(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype)
{
    ncclDataType_t t;

    TRY(type_of(&t, c, dtype));
    TRY(device_use(c->device));
    return given(c, "ncclReduceScatter", ncclReduceScatter(send, recv, n, t, ncclSum, c->comm, s->stream));
}

Status comm_all_gather(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes)
{
    TRY(device_use(c->device));
    return given(c, "ncclAllGather", ncclAllGather(send, recv, bytes, ncclUint8, c->comm, s->stream));
}

Status comm_broadcast(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes, int root)
{
    TRY(device_use(c->device));
    return given(c, "ncclBroadcast", ncclBroadcast(send, recv, bytes, ncclUint8, root, c->comm, s->stream));
}

Status comm_group_begin(void)
{
    ncclResult_t r = ncclGroupStart();

    if (r != ncclSuccess)
        return nccl_fail(NULL, "ncclGroupStart", r);
    group_depth++;
    return ST_OK;
}

/* Every member is polled though another has failed: none stays in the list. */
Status comm_group_end(void)
{
    ncclResult_t r = ncclGroupEnd();
    Status st = ST_OK;

    if (group_depth > 0)
        group_depth--;
    if (r != ncclSuccess && r != ncclInProgress)
        st = nccl_fail(group, "ncclGroupEnd", r);
    while (!group_depth && group) {
        GpuComm *c = group;

        group = c->next;
        c->grouped = false;
        if (!st)
            st = settle(c, "ncclGroupEnd", r == ncclInProgress ? ncclInProgress : ncclSuccess);
    }
    return st;
}
