/* Streams, events, callbacks, and steps captured from streams as CUDA graphs. */
#include <stdlib.h>

#include "kernels/cuda/plugin/plugin.h"

struct GpuEvent {
    GpuDevice *device;
    cudaEvent_t event;
};
struct GpuGraph {
    GpuDevice *device;
    cudaGraphExec_t exec;
};

/* Streams do not wait for the legacy stream: nothing of ours runs there but the zeroing of new memory, which is waited
 * for. */
Status stream_create(GpuDevice *d, GpuStream **out, bool urgent)
{
    int least, greatest;
    GpuStream *s;
    Status st;

    TRY(device_use(d));
    TRY_CUDART(d, cudaDeviceGetStreamPriorityRange(&least, &greatest));
    if (!(s = calloc(1, sizeof *s)))
        return FAIL_NOMEM();
    s->device = d;
    st = cudart_check(d, "cudaStreamCreate",
                      cudaStreamCreateWithPriority(&s->stream, cudaStreamNonBlocking, urgent ? greatest : least));
    if (st) {
        free(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

void stream_free(GpuStream *s)
{
    if (s && device_frees(s->device))
        (void)cudaStreamDestroy(s->stream);
    free(s);
}

Status stream_wait(GpuStream *s)
{
    TRY(device_use(s->device));
    TRY_CUDART(s->device, cudaStreamSynchronize(s->stream));
    return ST_OK;
}

Status stream_host_call(GpuStream *s, void (*fn)(void *), void *arg)
{
    TRY(device_use(s->device));
    TRY_CUDART(s->device, cudaLaunchHostFunc(s->stream, fn, arg));
    return ST_OK;
}

Status event_create(GpuDevice *d, GpuEvent **out, bool timed)
{
    GpuEvent *e;
    Status st;

    TRY(device_use(d));
    if (!(e = calloc(1, sizeof *e)))
        return FAIL_NOMEM();
    e->device = d;
    st = cudart_check(d, "cudaEventCreate",
                      cudaEventCreateWithFlags(&e->event, timed ? cudaEventDefault : cudaEventDisableTiming));
    if (st) {
        free(e);
        return st;
    }
    *out = e;
    return ST_OK;
}

void event_free(GpuEvent *e)
{
    if (e && device_frees(e->device))
        (void)cudaEventDestroy(e->event);
    free(e);
}

Status event_record(GpuEvent *e, GpuStream *s)
{
    TRY(device_use(s->device));
    TRY_CUDART(s->device, cudaEventRecord(e->event, s->stream));
    return ST_OK;
}

Status event_await(GpuEvent *e, GpuStream *s)
{
    TRY(device_use(s->device));
    TRY_CUDART(s->device, cudaStreamWaitEvent(s->stream, e->event, cudaEventWaitDefault));
    return ST_OK;
}

Status event_wait(GpuEvent *e)
{
    TRY(device_use(e->device));
    TRY_CUDART(e->device, cudaEventSynchronize(e->event));
    return ST_OK;
}

Status event_query(GpuEvent *e, bool *done)
{
    cudaError_t state;

    TRY(device_use(e->device));
    state = cudaEventQuery(e->event);
    if (state != cudaErrorNotReady)
        TRY(cudart_check(e->device, "cudaEventQuery", state));
    *done = state == cudaSuccess;
    return ST_OK;
}

Status event_elapsed(GpuEvent *from, GpuEvent *to, double *seconds)
{
    float ms;

    TRY(device_use(from->device));
    TRY_CUDART(from->device, cudaEventElapsedTime(&ms, from->event, to->event));
    *seconds = ms * 1e-3;
    return ST_OK;
}

/* Thread-local: other threads may allocate and plan for their devices meanwhile; calls of this thread that a captured
 * step must not make fail instead of being forgotten. */
Status capture_begin(GpuStream *s)
{
    TRY(device_use(s->device));
    TRY_CUDART(s->device, cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal));
    return ST_OK;
}

/* Whatever else fails, the capture ends. */
Status capture_end(GpuStream *s, GpuGraph **out)
{
    cudaGraph_t captured = NULL;
    Status st = device_use(s->device);
    cudaError_t ended = cudaStreamEndCapture(s->stream, &captured);
    GpuGraph *g = calloc(1, sizeof *g);

    if (st)
        goto done;
    TRY_TO(done, st, cudart_check(s->device, "cudaStreamEndCapture", ended));
    if (!g) {
        st = FAIL_NOMEM();
        goto done;
    }
    g->device = s->device;
    TRY_TO(done, st, cudart_check(s->device, "cudaGraphInstantiate", cudaGraphInstantiate(&g->exec, captured, 0)));
    *out = g;
    g = NULL;
done:
    if (captured)
        (void)cudaGraphDestroy(captured);
    free(g);
    return st;
}

Status captured_launch(GpuGraph *g, GpuStream *s)
{
    TRY(device_use(s->device));
    TRY_CUDART(s->device, cudaGraphLaunch(g->exec, s->stream));
    return ST_OK;
}

void captured_free(GpuGraph *g)
{
    if (g && device_frees(g->device))
        (void)cudaGraphExecDestroy(g->exec);
    free(g);
}
