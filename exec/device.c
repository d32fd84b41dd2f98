/* The thread of a CPU device.
 *
 * OpenMP keeps one team per thread that opens parallel regions, so a thread per device gives every device a team of its
 * own, of the size set once when the thread starts.  Work is handed over by a counter: the caller raises `posted`, the
 * thread runs the job and raises `finished` to it.  Whoever waits spins a while, because steps follow each other closely,
 * and then sleeps on the condition variable; the one who raises a counter takes the lock only to wake a sleeper. */
#include "exec/device.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { MESSAGE_BYTES = 2048 };

struct Device {
    char name[16];
    KernelCtx ctx;
    bool spin;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_uint posted, finished;
    atomic_int sleepers;
    DeviceJob *job;             /* NULL: end the thread */
    void *arg;
    Status status;
    char message[MESSAGE_BYTES];
};

static void wait_for(Device *d, atomic_uint *counter, unsigned wanted)
{
    for (int i = 0; d->spin && i < SPIN_ROUNDS; i++) {
        if (atomic_load(counter) == wanted)
            return;
        cpu_relax();
    }
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

static void *serve(void *arg)
{
    Device *d = arg;

    omp_set_dynamic(0);
    omp_set_num_threads(d->ctx.n_threads);
    for (unsigned turn = 1;; turn++) {
        wait_for(d, &d->posted, turn);
        if (!d->job)
            return NULL;
        d->status = d->job(d, d->arg);
        if (d->status)
            snprintf(d->message, sizeof d->message, "%s", status_message());
        raise_to(d, &d->finished, turn);
    }
}

Status device_open(Device **out, const DeviceSpec *spec, bool spin)
{
    Device *d = calloc(1, sizeof *d);

    if (!d)
        return FAIL_NOMEM();
    snprintf(d->name, sizeof d->name, "cpu:%d", spec->index);
    d->ctx.n_threads = spec->threads;
    d->spin = spin;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    if (pthread_create(&d->thread, NULL, serve, d)) {
        pthread_cond_destroy(&d->changed);
        pthread_mutex_destroy(&d->lock);
        free(d);
        return FAIL(E_DEVICE, "cpu:%d: a thread cannot be started", spec->index);
    }
    *out = d;
    return ST_OK;
}

void device_close(Device *d)
{
    if (!d)
        return;
    device_start(d, NULL, NULL);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

void device_start(Device *d, DeviceJob *job, void *arg)
{
    d->job = job;
    d->arg = arg;
    raise_to(d, &d->posted, atomic_load(&d->posted) + 1);
}

Status device_wait(Device *d)
{
    wait_for(d, &d->finished, atomic_load(&d->posted));
    return d->status ? FAIL(d->status, "%s", d->message) : ST_OK;
}

KernelCtx *device_ctx(Device *d) { return &d->ctx; }
const char *device_name(const Device *d) { return d->name; }
