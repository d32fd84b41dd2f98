/* Events go into an array made beforehand, each thread taking the next place: timing allocates nothing and locks nothing. */
#include "exec/trace.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "graph/op.h"

typedef struct { int device; const Node *node; uint64_t start, end; } Event;

struct Trace {
    atomic_uint n;
    uint32_t max;
    Event event[];
};

Status trace_create(Trace **out, uint32_t max)
{
    Trace *t = calloc(1, sizeof *t + (size_t)max * sizeof(Event));

    if (!t)
        return FAIL_NOMEM();
    t->max = max;
    *out = t;
    return ST_OK;
}

void trace_free(Trace *t)
{
    free(t);
}

uint64_t trace_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void trace_add(Trace *t, int device, const Node *n, uint64_t start, uint64_t end)
{
    uint32_t i = atomic_load(&t->n) < t->max ? atomic_fetch_add(&t->n, 1) : t->max;

    if (i < t->max)
        t->event[i] = (Event){ device, n, start, end };
}

static void write_string(FILE *to, const char *s)
{
    fputc('"', to);
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if ((unsigned char)*s < ' ')
            fprintf(to, "\\u%04x", *s);
        else
            fputc(*s, to);
    fputc('"', to);
}

Status trace_write(const Trace *t, FILE *to)
{
    uint32_t n = atomic_load(&t->n) < t->max ? atomic_load(&t->n) : t->max;

    fputs("{\"traceEvents\":[", to);
    for (uint32_t i = 0; i < n; i++) {
        const Event *e = &t->event[i];

        fprintf(to, "%s\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":", i ? "," : "", e->device,
                e->node->replica < 0 ? 0 : e->node->replica + 1, (double)(e->start - t->event[0].start) * 1e-3,
                (double)(e->end - e->start) * 1e-3);
        write_string(to, e->node->op->name);
        fputs(",\"name\":", to);
        write_string(to, e->node->name);
        fputc('}', to);
    }
    fputs("\n]}\n", to);
    return ferror(to) ? FAIL(E_IO, "the trace cannot be written") : ST_OK;
}
