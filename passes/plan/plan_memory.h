/* The storage of every value of a scheduled graph. */
#ifndef DPX_PLAN_MEMORY_H
#define DPX_PLAN_MEMORY_H

#include "graph/ir/graph.h"

typedef enum {
    MEM_NONE,  /* absent, or of no bytes */
    MEM_ARENA, /* in the arena of `device` */
    MEM_STATE, /* in the storage of the state `root` */
    MEM_INPUT, /* in the caller's tensor for the input `root` */
    MEM_CONST  /* in the data of the constant `root` */
} MemKind;

typedef struct {
    uint8_t kind; /* MemKind */
    int16_t device;
    ValueId root;
    size_t offset, bytes;
} MemRef;

typedef struct {
    MemRef from, to;
} MemCopy;

typedef struct {
    size_t arena_bytes; /* the size of the device's arena, multiple of `align` */
    size_t live_bytes;  /* the largest sum of buffers alive at one time: no plan can do with less */
    size_t state_bytes; /* parameters, moments, statistics of the device */
} MemDevice;

/* The storage of values that share it. */
typedef struct {
    size_t bytes, offset; /* MEM_ARENA: where in it */
    uint32_t first, last; /* positions of the nodes between which it is alive */
    ValueId root;         /* the first value of it; none: scratch */
    int16_t device;
    uint8_t kind;  /* MemKind */
    bool writable; /* MEM_ARENA, or a state that the graph updates */
} MemBuffer;

typedef struct {
    int n_device;
    size_t align; /* every place in an arena is a multiple */
    MemDevice *device;
    MemRef *value;               /* [n_value] */
    bool *occurs;                /* [n_value] an input, state or constant that the step reads or writes */
    MemRef *output;              /* [n_output]: where the graph's outputs are after the step */
    size_t *scratch;             /* [n_node] offset of the kernel's scratch in the arena of its device */
    const size_t *scratch_bytes; /* [n_node] of it */
    MemCopy *copy;               /* done in this order after the last node: what could not be computed in place */
    int n_copy;
    MemBuffer *buffer; /* [1..n_buffer); [0] stands for none */
    uint32_t n_buffer;
} MemoryPlan;

/* The graph's nodes are in order of execution (passes/plan/schedule.h), all shapes known.  `scratch`: [n_node] bytes
 * that the node's kernel needs while it runs, lent to the plan; may be NULL.  `align`: target_align of the devices
 * (graph/ir/target.h).  The plan lives in `arena`. */
Status plan_memory(MemoryPlan **out, const Graph *g, const size_t *scratch, size_t align, Arena *arena) CHECKED;

/* Bytes as they lie side by side with others of the plan's devices. */
static inline size_t plan_aligned(const MemoryPlan *plan, size_t bytes)
{
    return (bytes + plan->align - 1) / plan->align * plan->align;
}

/* The device that holds a value; 0 where nothing says otherwise. */
int value_device(const Graph *g, ValueId v);

#endif
