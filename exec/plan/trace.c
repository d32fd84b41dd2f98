/* Events go into an array made beforehand, each thread taking the next place: timing allocates nothing and locks
 * nothing. */
#include "exec/plan/trace.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "graph/base/json_writer.h"
#include "graph/ir/op.h"

struct Trace {
    atomic_uint n;
    uint32_t max;
    TraceEvent event[];
};

Status trace_create(Trace **out, uint32_t max)
{
    Trace *t = calloc(1, sizeof *t + (size_t)max * sizeof(TraceEvent));

    if (!t)
        return FAIL_NOMEM();
    t->max = max;
    *out = t;
    return ST_OK;
}

void trace_free(Trace *t) { free(t); }

uint64_t trace_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void trace_add(Trace *t, const TraceEvent *e)
{
    uint32_t i = atomic_load(&t->n) < t->max ? atomic_fetch_add(&t->n, 1) : t->max;

    if (i < t->max)
        t->event[i] = *e;
}

uint32_t trace_count(const Trace *t)
{
    const uint32_t n = atomic_load(&t->n);

    return n < t->max ? n : t->max;
}

const TraceEvent *trace_at(const Trace *t, uint32_t i) { return &t->event[i]; }

void trace_cut(Trace *t, uint32_t n)
{
    if (n < trace_count(t))
        atomic_store(&t->n, n);
}

bool trace_is_full(const Trace *t) { return trace_count(t) == t->max; }

/* An absent input has rank -1. */
static uint64_t trace_bytes_of(const Tensor *t, int n)
{
    uint64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += t[i].shape.rank < 0 ? 0 : tensor_bytes(&t[i]);
    return sum;
}

uint64_t trace_bytes(const Node *n, const Tensor *in, const Tensor *out)
{
    return trace_bytes_of(in, n->n_in) + trace_bytes_of(out, n->n_out);
}

void trace_write(const Trace *t, FILE *to)
{
    const uint32_t n = trace_count(t);
    JsonWriter w = { .to = to, .compact = true, .lines = 2 };
    uint64_t zero = UINT64_MAX;

    for (uint32_t i = 0; i < n; i++)
        zero = t->event[i].start < zero ? t->event[i].start : zero;
    json_open(&w, NULL, '{');
    json_open(&w, "traceEvents", '[');
    for (uint32_t i = 0; i < n; i++) {
        const TraceEvent *e = &t->event[i];

        json_open(&w, NULL, '{');
        json_write_string(&w, "ph", "X");
        json_write_int(&w, "pid", e->device);
        json_write_int(&w, "tid", e->node->replica < 0 ? 0 : e->node->replica + 1);
        json_write_float(&w, "ts", (double)(e->start - zero) / 1e3); /* microseconds */
        json_write_float(&w, "dur", (double)(e->end - e->start) / 1e3);
        json_write_string(&w, "cat", e->node->op->name);
        json_write_string(&w, "name", e->node->name);
        json_open(&w, "args", '{');
        json_write_string(&w, "kernel", e->kernel ? e->kernel : "");
        json_write_int(&w, "bytes", (int64_t)e->bytes);
        json_close(&w);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
}
