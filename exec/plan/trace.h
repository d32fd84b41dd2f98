/* Timing of a step, node by node, in Chrome's trace format (chrome://tracing, Perfetto). */
#ifndef DPX_TRACE_H
#define DPX_TRACE_H

#include <stdio.h>

#include "graph/ir/graph.h"

typedef struct Trace Trace;

/* Room for `max` events; later ones are dropped. */
Status trace_create(Trace **out, uint32_t max) CHECKED;
void trace_free(Trace *t); /* NULL is legal */
uint64_t trace_now(void);  /* nanoseconds */
/* One node's run on a device. */
typedef struct {
    int device;
    const Graph *graph;
    const Node *node;    /* of the graph */
    const char *kernel;  /* lives as long as the program; NULL: no kernel (a copy, a collective) */
    uint64_t bytes;      /* of its inputs and outputs, each counted once */
    uint64_t start, end; /* nanoseconds */
} TraceEvent;
/* From any thread. */
void trace_add(Trace *t, const TraceEvent *e);
/* How many events there are; at most as many as there is room for. */
uint32_t trace_count(const Trace *t);
const TraceEvent *trace_at(const Trace *t, uint32_t i);
/* Drops all events but the first n.  While no device runs. */
void trace_cut(Trace *t, uint32_t n);
bool trace_is_full(const Trace *t);
/* Bytes of a node's inputs and outputs. */
uint64_t trace_bytes(const Node *n, const Tensor *in, const Tensor *out);
/* The graphs of the traced programs must still exist. */
void trace_write(const Trace *t, FILE *to);

#endif
