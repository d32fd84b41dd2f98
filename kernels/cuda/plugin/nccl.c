/* Collectives between devices by NCCL, which never block the host for good.
 *
 * Communicators are made with blocking = 0: a call may come back "in progress" and is then polled, until the
 * communicator's timeout, so that a member that died leaves the others an error instead of a hang. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "graph/base/heap_array.h"
#include "kernels/cuda/plugin/plugin.h"

enum { PATIENCE = 10 }; /* seconds for an abort to end */

_Static_assert(GPU_COMM_ID == NCCL_UNIQUE_ID_BYTES, "an id of ours holds one of NCCL's");

typedef struct {
    void *memory, *handle;
} Registration;

struct GpuComm {
    GpuDevice *device;
    ncclComm_t comm;
    int rank, n_rank;
    double timeout;           /* seconds */
    Registration *registered; /* n_registered */
    int n_registered;
    size_t room;
    struct Abort *abort; /* under way */
};

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
        return FAIL(st, "NCCL: %s: %s%s%s", call, ncclGetErrorString(r), words && *words ? ": " : "",
                    words ? words : "");
    return FAIL(st, "%s: rank %d of %d: %s: %s%s%s", c->device->label, c->rank, c->n_rank, call, ncclGetErrorString(r),
                words && *words ? ": " : "", words ? words : "");
}

/* Waits while the communicator is at work on `call`, which came back with `r`; looks often at first, then once a
 * millisecond. `wait` says when to give up beside the timeout; NULL: nothing does. */
static Status settle_until(GpuComm *c, const char *call, ncclResult_t r, const GpuCommWait *wait)
{
    double end = now() + c->timeout;

    for (long pause = 2000; r == ncclInProgress; pause = pause < 500000 ? pause * 2 : 1000000) {
        ncclResult_t asked = ncclCommGetAsyncError(c->comm, &r);

        if (asked != ncclSuccess)
            return nccl_fail(c, "ncclCommGetAsyncError", asked);
        if (r != ncclInProgress)
            break;
        if (wait && wait->ended && wait->ended(wait->arg))
            return FAIL(E_INTERRUPTED, "%s: rank %d of %d: %s: the other members have ended", c->device->label, c->rank,
                        c->n_rank, call);
        if (now() > end)
            return FAIL(E_DEVICE, "%s: rank %d of %d: %s: the other members did not come within %g s", c->device->label,
                        c->rank, c->n_rank, call, c->timeout);
        nanosleep(&(struct timespec){ .tv_nsec = pause }, NULL);
    }
    return r == ncclSuccess ? ST_OK : nccl_fail(c, call, r);
}

static Status settle(GpuComm *c, const char *call, ncclResult_t r) { return settle_until(c, call, r, NULL); }

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

/* ---- aborting ----
 * ncclCommAbort first tells the communicator's kernels to end, then waits for them and for graphs that hold its
 * collectives (init.cc, commDestroySync).  A graph that runs may be freed only when its kernels end, and behind another
 * kernel that hangs they never do.  So a thread of its own aborts, the caller frees graphs beside it, and the thread is
 * left to itself after PATIENCE, which begins for all devices of a process at once. */

typedef struct Abort {
    ncclComm_t comm;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct timespec until; /* PATIENCE ends */
    bool over, left;       /* left: the thread frees this */
} Abort;

static void abort_free(Abort *a)
{
    pthread_cond_destroy(&a->ended);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static void *abort_thread(void *arg)
{
    Abort *a = arg;
    bool left;

    (void)ncclCommAbort(a->comm);
    pthread_mutex_lock(&a->lock);
    a->over = true;
    left = a->left;
    pthread_cond_signal(&a->ended);
    pthread_mutex_unlock(&a->lock);
    if (left)
        abort_free(a);
    return NULL;
}

static Abort *abort_start(ncclComm_t comm)
{
    Abort *a = calloc(1, sizeof *a);
    pthread_condattr_t monotonic;
    pthread_t thread;

    if (!a)
        return NULL;
    a->comm = comm;
    clock_gettime(CLOCK_MONOTONIC, &a->until);
    a->until.tv_sec += PATIENCE;
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&a->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&thread, NULL, abort_thread, a)) {
        abort_free(a);
        return NULL;
    }
    pthread_detach(thread);
    return a;
}

static bool abort_wait(Abort *a)
{
    bool over;

    pthread_mutex_lock(&a->lock);
    while (!a->over && pthread_cond_timedwait(&a->ended, &a->lock, &a->until) != ETIMEDOUT)
        ;
    over = a->over;
    a->left = !over;
    pthread_mutex_unlock(&a->lock);
    if (over)
        abort_free(a);
    return over;
}

void comm_abort(GpuComm *c)
{
    if (c->comm && device_frees(c->device))
        c->abort = abort_start(c->comm);
}

/* Without memory for a thread nothing is aborted. */
bool comm_abort_end(GpuComm *c)
{
    const bool over = c->abort ? abort_wait(c->abort) : !c->comm || !device_frees(c->device);

    free(c->registered);
    free(c);
    return over;
}

Status comm_create(GpuComm **out, GpuDevice *d, const GpuCommId *id, int rank, int n_rank, const GpuCommWait *wait)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId nccl_id;
    GpuComm *c;
    Status st;

    TRY(device_use(d));
    if (!(c = calloc(1, sizeof *c)))
        return FAIL_NOMEM();
    *c = (GpuComm){ .device = d, .rank = rank, .n_rank = n_rank, .timeout = wait->timeout };
    for (int i = 0; i < GPU_COMM_ID; i++)
        nccl_id.internal[i] = (char)id->byte[i];
    config.blocking = 0;
    st = settle_until(c, "ncclCommInitRankConfig", ncclCommInitRankConfig(&c->comm, n_rank, nccl_id, rank, &config),
                      wait);
    if (st) {
        comm_abort(c);
        if (!comm_abort_end(c))
            device_abandon(d);
        return st;
    }
    *out = c;
    return ST_OK;
}

/* Members that do not leave in time, or have ended, are left behind. */
bool comm_free(GpuComm *c, const GpuCommWait *wait)
{
    if (!c)
        return true;
    for (int i = 0; i < c->n_registered; i++)
        (void)settle_until(c, "ncclCommDeregister", ncclCommDeregister(c->comm, c->registered[i].handle), wait);
    if (!device_frees(c->device) || settle_until(c, "ncclCommFinalize", ncclCommFinalize(c->comm), wait)) {
        comm_abort(c);
        return comm_abort_end(c);
    }
    (void)ncclCommDestroy(c->comm);
    free(c->registered);
    free(c);
    return true;
}

Status comm_poll(GpuComm *c)
{
    ncclResult_t state, asked = ncclCommGetAsyncError(c->comm, &state);

    if (asked != ncclSuccess)
        return nccl_fail(c, "ncclCommGetAsyncError", asked);
    return state == ncclSuccess || state == ncclInProgress ? ST_OK : nccl_fail(c, "asynchronous error", state);
}

/* Where the system denies NCCL memory that others can map, as some virtual machines do, it is plain memory, which NCCL
 * copies. */
Status comm_alloc(GpuDevice *d, void **out, size_t bytes)
{
    size_t n = bytes ? bytes : 1;
    void *p = NULL;
    Status st;

    TRY(device_use(d));
    if (ncclMemAlloc(&p, n) != ncclSuccess)
        return memory_alloc(d, out, bytes);
    if ((st = memory_clear(d, p, n))) {
        comm_release(d, NULL, p);
        return st;
    }
    *out = p;
    return ST_OK;
}

void comm_release(GpuDevice *d, GpuComm *c, void *p)
{
    if (!p || !device_frees(d))
        return;
    for (int i = 0; c && i < c->n_registered; i++)
        if (c->registered[i].memory == p) {
            (void)settle(c, "ncclCommDeregister", ncclCommDeregister(c->comm, c->registered[i].handle));
            c->registered[i--] = c->registered[--c->n_registered];
        }
    if (ncclMemFree(p) != ncclSuccess) /* plain memory is not NCCL's to free */
        (void)cudaFree(p);
}

Status comm_register(GpuComm *c, void *p, size_t bytes)
{
    Registration *grown = heap_reserve(c->registered, sizeof *grown, (size_t)c->n_registered + 1, &c->room);

    if (!grown)
        return FAIL_NOMEM();
    c->registered = grown;
    TRY(device_use(c->device));
    TRY(settle(c, "ncclCommRegister", ncclCommRegister(c->comm, p, bytes, &grown[c->n_registered].handle)));
    grown[c->n_registered++].memory = p;
    return ST_OK;
}

static Status nccl_type_of(ncclDataType_t *out, const GpuComm *c, DType t)
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

Status comm_all_reduce_sum(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype)
{
    ncclDataType_t t;

    TRY(nccl_type_of(&t, c, dtype));
    TRY(device_use(c->device));
    return settle(c, "ncclAllReduce", ncclAllReduce(send, recv, n, t, ncclSum, c->comm, s->stream));
}

Status comm_reduce_scatter_sum(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype)
{
    ncclDataType_t t;

    TRY(nccl_type_of(&t, c, dtype));
    TRY(device_use(c->device));
    return settle(c, "ncclReduceScatter", ncclReduceScatter(send, recv, n, t, ncclSum, c->comm, s->stream));
}

Status comm_all_gather(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes)
{
    TRY(device_use(c->device));
    return settle(c, "ncclAllGather", ncclAllGather(send, recv, bytes, ncclUint8, c->comm, s->stream));
}

Status comm_all_to_all(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes)
{
    ncclResult_t r;

    TRY(device_use(c->device));
    if ((r = ncclGroupStart()) != ncclSuccess)
        return nccl_fail(c, "ncclGroupStart", r);
    for (int k = 0; k < c->n_rank && (r == ncclSuccess || r == ncclInProgress); k++) {
        const size_t at = (size_t)k * bytes;

        r = ncclSend((const char *)send + at, bytes, ncclUint8, k, c->comm, s->stream);
        if (r == ncclSuccess || r == ncclInProgress)
            r = ncclRecv((char *)recv + at, bytes, ncclUint8, k, c->comm, s->stream);
    }
    if (r != ncclSuccess && r != ncclInProgress) {
        (void)ncclGroupEnd();
        return nccl_fail(c, "ncclSend and ncclRecv", r);
    }
    return settle(c, "ncclGroupEnd", ncclGroupEnd());
}

Status comm_broadcast(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes, int root)
{
    TRY(device_use(c->device));
    return settle(c, "ncclBroadcast", ncclBroadcast(send, recv, bytes, ncclUint8, root, c->comm, s->stream));
}
