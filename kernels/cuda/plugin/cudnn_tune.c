/* Measuring cuDNN's candidates for one call, on memory of their own. */
#include <float.h>
#include <stdlib.h>

#include "kernels/cuda/plugin/cudnn_tune.h"

enum { WARM = 1, TIMED = 5 };

void cudnn_bench_close(CudnnBench *b)
{
    for (int i = 0; i < CUDNN_BINDINGS; i++)
        memory_free(b->device, b->buffer[i]);
    memory_free(b->device, b->workspace);
    event_free(b->from);
    event_free(b->to);
    stream_free(b->stream);
}

Status cudnn_bench_open(CudnnBench *b, CudnnPlan *const *plan, int n)
{
    size_t most = 0;

    TRY(stream_create(b->device, &b->stream, false));
    TRY(event_create(b->device, &b->from, true));
    TRY(event_create(b->device, &b->to, true));
    for (int i = 0; i < plan[0]->n; i++)
        if (plan[0]->bind[i].kind == BIND_BUFFER)
            TRY(memory_alloc(b->device, &b->buffer[plan[0]->bind[i].buffer], plan[0]->bind[i].bytes));
    for (int i = 0; i < n; i++)
        most = plan[i]->workspace > most ? plan[i]->workspace : most;
    return most ? memory_alloc(b->device, &b->workspace, most) : ST_OK;
}

static Status cudnn_tune_measure(CudnnBench *b, CudnnPlan *p, double *seconds)
{
    for (int i = 0; i < WARM + TIMED; i++) {
        if (i == WARM)
            TRY(event_record(b->from, b->stream));
        TRY(p->plan.is->run(&p->plan, b->stream, b->buffer, b->workspace));
    }
    TRY(event_record(b->to, b->stream));
    TRY(stream_wait(b->stream));
    return event_elapsed(b->from, b->to, seconds);
}

Status cudnn_fastest(CudnnPlan **out, CudnnPlan *const *plan, int n)
{
    CudnnBench b = { .device = plan[0]->plan.device };
    double best = DBL_MAX, seconds;
    CudnnPlan *fastest = NULL;
    Status st = cudnn_bench_open(&b, plan, n);

    for (int i = 0; i < n && !st; i++)
        if (!cudnn_tune_measure(&b, plan[i], &seconds) && seconds < best) {
            best = seconds;
            fastest = plan[i];
        }
    cudnn_bench_close(&b);
    if (!st && !fastest)
        return E_DEVICE; /* the message of the last measurement stands */
    if (!st)
        *out = fastest;
    return st;
}
