/* Timing of a step, node by node, in Chrome's trace format (chrome://tracing, Perfetto). */
#ifndef DPX_TRACE_H
#define DPX_TRACE_H

#include <stdio.h>

#include "graph/graph.h"

typedef struct Trace Trace;

/* Room for `max` events; later ones are dropped. */
Status trace_create(Trace **out, uint32_t max) CHECKED;
void trace_free(Trace *t);                  /* NULL is legal */
uint64_t trace_now(void);                   /* nanoseconds */
/* From any thread: the node ran on the device from `start` to `end`. */
void trace_add(Trace *t, int device, const Node *n, uint64_t start, uint64_t end);
/* The graphs of the traced programs must still exist. */
Status trace_write(const Trace *t, FILE *to) CHECKED;

#endif
