/* Events go into an array made beforehand, each thread taking the next place: timing allocates nothing and locks
 * nothing. */
#include "exec/plan/trace.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "graph/text/write_json.h"
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

/* Microseconds with three digits behind the point, whatever the locale. */
static void write_time(FILE *to, const char *key, uint64_t ns)
{
    fprintf(to, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

void trace_write(const Trace *t, FILE *to)
{
    uint32_t n = atomic_load(&t->n) < t->max ? atomic_load(&t->n) : t->max;
    uint64_t zero = UINT64_MAX;

    for (uint32_t i = 0; i < n; i++)
        zero = t->event[i].start < zero ? t->event[i].start : zero;
    fputs("{\"traceEvents\":[", to);
    for (uint32_t i = 0; i < n; i++) {
        const TraceEvent *e = &t->event[i];

        fprintf(to, "%s\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d", i ? "," : "", e->device,
                e->node->replica < 0 ? 0 : e->node->replica + 1);
        write_time(to, "ts", e->start - zero);
        write_time(to, "dur", e->end - e->start);
        fputs(",\"cat\":", to);
        json_write_string(to, e->node->op->name);
        fputs(",\"name\":", to);
        json_write_string(to, e->node->name);
        fprintf(to, ",\"args\":{\"kernel\":\"%s\",\"bytes\":%" PRIu64 "}}", e->kernel ? e->kernel : "", e->bytes);
    }
    fputs("\n]}\n", to);
}
