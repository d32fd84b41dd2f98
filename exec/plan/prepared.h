/* A graph made ready to run: a prepared kernel for every node, a place in memory for every value.  The programs of CPUs
 * (exec/run/program.h) and of accelerators (exec/gpu/program.h) make their lists of calls from it. */
#ifndef DPX_PREPARED_H
#define DPX_PREPARED_H

#include "exec/device/memory.h"
#include "exec/plan/input_part.h"
#include "exec/plan/program_log.h"
#include "exec/state/safetensors.h"
#include "passes/plan/plan_memory.h"

typedef struct Trace Trace; /* exec/plan/trace.h */

/* How a step is run: accelerators are given it, and sums cross processes. */
typedef struct {
    bool uncaptured;   /* every step to the streams, call by call; else it is captured once and launched as one graph */
    bool check_nodes;  /* and each call is waited for, so that a failure names the node */
    bool reproducible; /* sums over devices are added by the tree of graph/tensor/reduce_tree.h, not in the library's
                          order */
    bool library_sums; /* over processes of CPU devices what carries the world's messages adds, in its own order */
    double latency_bytes; /* how many take as long on a link as an empty message (exec/run/collective_span.h); 0: not
                             known */
    const char *isa;      /* of the kernels of CPU devices (kernels/backend.h); NULL: the fastest */
} Ways;

typedef struct {
    Device *const *device; /* [n_device] open devices; lent, they must outlive the program.  NULL: another process's */
    int n_device;
    struct World *world; /* lent; NULL: all devices are of this process */
    int first, n_local;  /* the devices of this process; n_local 0: all */
    Arenas *arenas;      /* lent; grown to what the program needs */
    /* The storage of a state of the graph; lent, fixed while the program lives. */
    Status (*state)(void **data, void *user, const Value *v);
    /* Optional: before the storage of n states, all of one device, is asked for. */
    Status (*reserve)(void *user, const Value *const *v, int n);
    void *user;
    bool spin;
    bool plan_only;  /* nothing is allocated and the program cannot run: for looking at it (exec/inspect/dry_run.h) */
    ProgramLog *log; /* receives what needs how much when memory does not suffice; may be NULL */
    void *log_user;
    struct GpuGroup *group; /* lent; of devices that are accelerators */
    Ways ways;
} ProgramOptions;

/* The prepared call of one node. */
typedef struct {
    const Node *node;
    const Kernel *kernel; /* NULL: nothing to do (a view) or a collective */
    void *state;
    size_t scratch_bytes, table_bytes;
    int16_t device; /* that prepares and, unless it is a collective, runs it */
    bool lent;      /* the state is another call's */
} Call;

typedef struct {
    Graph *graph; /* given */
    Arena *arena;
    MemoryPlan *plan;
    ProgramOptions opt;
    Device **device;       /* [opt.n_device] */
    Call *call;            /* [n_node] */
    void **storage;        /* [n_value] of states; of inputs, this step's; NULL where nothing is to run */
    InputPart *input_part; /* [n_value] of inputs: the part that is in storage; likewise NULL */
    NamedTensor *output;   /* [n_output] of the step that was run or waited for last */
    Trace *trace;
} Prepared;

/* Where a piece of this step's inputs is; NULL: with the process that reads it. */
static inline void *prepared_input(const Prepared *p, const MemRef *ref)
{
    return input_part_at(&p->input_part[ref->root.i], p->storage[ref->root.i], ref->offset, ref->bytes);
}

/* The devices of this process. */
#define FOR_LOCAL(p, d) for (int d = (p)->opt.first; d < (p)->opt.first + (p)->opt.n_local; d++)
static inline bool prepared_is_local(const Prepared *p, int d)
{
    return d >= p->opt.first && d < p->opt.first + p->opt.n_local;
}

/* Takes the graph, also on failure; errors as program_compile's.  The device of a node or of memory that is
 * opt.n_device or more is the host's side of an accelerator. */
Status prepared_create(Prepared *p, Graph *g, const ProgramOptions *opt) CHECKED;
void prepared_free(Prepared *p); /* what it points to; of { 0 }: nothing */
/* The runtime of the devices, which are accelerators of one kind; NULL: they are CPUs. */
const Runtime *prepared_runtime(const Prepared *p);
/* The states and the arena of device d of this process, so that what does not fit shows before the first step. */
Status prepared_reserve(Prepared *p, int d) CHECKED;
/* prepared_reserve of all CPU devices; E_NOMEM lists what a step needs. */
Status prepared_reserve_all(Prepared *p) CHECKED;

#endif
