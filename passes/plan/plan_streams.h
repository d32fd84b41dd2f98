/* The stream of its accelerator on which each node of a planned graph runs, and the waits between streams. */
#ifndef DPX_PLAN_STREAMS_H
#define DPX_PLAN_STREAMS_H

#include "passes/plan/plan_memory.h"

typedef enum { STREAM_COMPUTE, STREAM_COPY, STREAM_COMM, N_STREAMS } StreamKind;

/* One device's part in a node.  Streams run their steps in the order of the list. */
typedef struct {
    uint32_t node;
    StreamKind stream;
    bool collective;         /* all devices take part by a collective operation */
    int event;               /* recorded after it; -1: none */
    int wait[N_STREAMS - 1]; /* events that its stream waits for before it */
    int n_wait;
} StreamStep;

typedef struct {
    StreamStep *step; /* in the order in which they are given to the streams */
    int n_step, n_event;
    bool uses[N_STREAMS];
    int join[N_STREAMS]; /* the event that ends a stream's work, not for the compute stream; -1: it ends before the last
                            step of the compute stream */
} StreamDevice;

typedef struct {
    int n_device;
    StreamDevice *device;
} StreamPlan;

/* The devices of the graph are numbered [0, n_device), and n_device + d is the host's side of device d
 * (passes/plan/place_host.c).  `plan` is plan_memory's result, `scratch` its argument.  A step begins with all streams
 * free and ends when the compute stream has waited for the events of `join`.  The plan lives in `arena`. */
Status plan_streams(StreamPlan **out, const Graph *g, const MemoryPlan *plan, const size_t *scratch, int n_device,
                    Arena *arena) CHECKED;

/* Has the node nothing to do because every output shares its input's bytes? */
bool stream_is_view(const MemoryPlan *plan, const Node *n);

#endif
