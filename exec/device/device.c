/* The thread of a device.
 *
 * OpenMP keeps one team for each thread that opens parallel regions, so a thread per device gives every device a team
 * of its own, whose size is set once when the thread starts.  Work is handed over by counters: the caller raises
 * `posted`, the thread runs the job and raises `finished` to the same number.  A waiting thread spins for a while,
 * because steps follow each other closely, and then sleeps on the condition variable; a thread that raises a counter
 * takes the lock only to wake a sleeper.  A GPU is opened and closed on the thread that drives it.
 *
 * fork() copies only the calling thread.  So in a child process a device starts nothing, and waiting for it is an
 * error.
 *
 * A device of one thread may instead run its jobs in the thread that starts them (direct.h). */
#include "exec/device/device.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "exec/device/accelerator.h"
#include "exec/device/direct.h"
#include "graph/base/spin.h"

enum { MESSAGE_BYTES = 2048 };

struct Device {
    char name[16];
    KernelCtx ctx;
    Accelerator accelerator; /* of a CUDA device */
    DeviceSync *sync;
    void *sync_arg;
    bool spin;
    bool direct; /* jobs run in the thread that starts them */
    pid_t owner; /* the process that has the thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_uint posted, finished;
    atomic_int sleepers;
    DeviceJob *job; /* NULL: end the thread */
    void *arg;
    Status status;
    char message[MESSAGE_BYTES];
};

/* Waits until the counter is `wanted`. */
static void wait_for(Device *d, atomic_uint *counter, unsigned wanted)
{
    for (Spin s = spin_begin(d->spin && atomic_load(counter) != wanted); spin_on(&s);)
        if (atomic_load(counter) == wanted)
            return;
    pthread_mutex_lock(&d->lock);
    atomic_fetch_add(&d->sleepers, 1);
    while (atomic_load(counter) != wanted)
        pthread_cond_wait(&d->changed, &d->lock);
    atomic_fetch_sub(&d->sleepers, 1);
    pthread_mutex_unlock(&d->lock);
}

static void raise_to(Device *d, atomic_uint *counter, unsigned to)
{
    atomic_store(counter, to);
    if (!atomic_load(&d->sleepers))
        return;
    pthread_mutex_lock(&d->lock);
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

static void run_here(Device *d)
{
    d->status = d->job(d, d->arg);
    if (d->status)
        snprintf(d->message, sizeof d->message, "%s", status_message());
}

static void *serve(void *arg)
{
    Device *d = arg;

    omp_set_dynamic(0);
    omp_set_num_threads(d->ctx.n_threads);
    for (unsigned turn = 1;; turn++) {
        wait_for(d, &d->posted, turn);
        if (!d->job)
            return NULL;
        run_here(d);
        raise_to(d, &d->finished, turn);
    }
}

static bool has_thread(const Device *d) { return d->owner == getpid(); }

/* DeviceJobs. */
static Status open_accelerator(Device *d, void *arg)
{
    TRY(accelerator_open(&d->accelerator, arg));
    d->ctx.runtime = d->accelerator.runtime;
    d->ctx.gpu = d->accelerator.gpu;
    return ST_OK;
}

static Status close_accelerator(Device *d, void *arg)
{
    (void)arg;
    accelerator_close(&d->accelerator);
    return ST_OK;
}

static Status run_job(Device *d, DeviceJob *job, void *arg)
{
    device_start(d, job, arg);
    return device_wait(d);
}

Status device_open(Device **out, const DeviceSpec *spec, bool spin)
{
    Device *d = calloc(1, sizeof *d);
    DeviceSpec own = *spec;
    Status st;

    if (!d)
        return FAIL_NOMEM();
    snprintf(d->name, sizeof d->name, "%s:%d", spec->cuda ? "cuda" : "cpu", spec->index);
    d->ctx.n_threads = spec->threads;
    d->spin = spin;
    d->owner = getpid();
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    if (pthread_create(&d->thread, NULL, serve, d)) {
        st = FAIL(E_DEVICE, "%s: a thread cannot be started", d->name);
        pthread_cond_destroy(&d->changed);
        pthread_mutex_destroy(&d->lock);
        free(d);
        return st;
    }
    if (spec->cuda && (st = run_job(d, open_accelerator, &own))) {
        device_close(d);
        return st;
    }
    *out = d;
    return ST_OK;
}

void device_close(Device *d)
{
    if (!d)
        return;
    if (!has_thread(d)) { /* a fork: the locks may be held by a thread that does not exist here */
        free(d);
        return;
    }
    if (d->accelerator.runtime)
        (void)!run_job(d, close_accelerator, NULL);
    device_start(d, NULL, NULL);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

void device_run_directly(Device *d) { d->direct = !device_runtime(d) && d->ctx.n_threads == 1; }

/* With the number of threads that the device's own thread has. */
static void run_in_caller(Device *d)
{
    const int threads = omp_get_max_threads();

    omp_set_num_threads(d->ctx.n_threads);
    run_here(d);
    omp_set_num_threads(threads);
}

void device_start(Device *d, DeviceJob *job, void *arg)
{
    if (!has_thread(d))
        return; /* device_wait is an error then */
    d->job = job;
    d->arg = arg;
    if (d->direct && job)
        run_in_caller(d);
    else
        raise_to(d, &d->posted, atomic_load(&d->posted) + 1);
}

Status device_wait(Device *d)
{
    if (!has_thread(d))
        return FAIL(E_DEVICE,
                    "%s: its thread is in process %ld, of which this one is a fork: create trainers after the fork",
                    d->name, (long)d->owner);
    wait_for(d, &d->finished, atomic_load(&d->posted));
    return d->status ? FAIL(d->status, "%s", d->message) : ST_OK;
}

Status device_wait_all(Device *const *d, int n)
{
    Status first = ST_OK;
    int failed = 0;

    for (int i = 0; i < n; i++) {
        Status st = d[i] ? device_wait(d[i]) : ST_OK;

        if (st && (!first || first == E_INTERRUPTED)) {
            failed = i;
            first = st;
        }
    }
    return first ? device_wait(d[failed]) : ST_OK; /* again, for its message */
}

KernelCtx *device_ctx(Device *d) { return &d->ctx; }
const char *device_name(const Device *d) { return d->name; }

/* ---- accelerators ---- */

size_t device_align(const Device *d)
{
    const Target t = device_runtime(d) ? cuda_target(DT_NONE, false) : cpu_target(DT_NONE, false, false, false);

    return target_align(&t);
}

const Runtime *device_runtime(const Device *d) { return d->accelerator.runtime; }
GpuDevice *device_gpu(const Device *d) { return d->accelerator.gpu; }
const GpuInfo *device_info(const Device *d) { return d->accelerator.runtime ? &d->accelerator.info : NULL; }
GpuStream *device_stream(const Device *d) { return d->accelerator.stream; }

void device_set_sync(Device *d, DeviceSync *sync, void *arg)
{
    d->sync = sync;
    d->sync_arg = arg;
}

Status device_sync(Device *d)
{
    const Accelerator *a = &d->accelerator;

    return d->sync ? d->sync(d->sync_arg) : device_check(d, a->runtime->stream_wait(a->stream));
}

Status device_check(const Device *d, Status st)
{
    return st ? FAIL(st, "%s: %s", d->name, d->accelerator.runtime->message()) : ST_OK;
}
