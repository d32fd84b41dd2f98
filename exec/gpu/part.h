/* A program's part on one accelerator: what the device issues to its streams in a step, and where the data lies that
 * comes from the host and goes back to it.  program.c makes it, run.c runs it. */
#ifndef DPX_GPU_PART_H
#define DPX_GPU_PART_H

#include "exec/device/group.h"
#include "exec/gpu/collective.h"
#include "exec/gpu/program.h"

enum { GPU_SLOTS = 2 };

typedef struct GpuPart GpuPart;

/* A kernel that the host runs when the stream comes to it. */
typedef struct {
    GpuMember *member;
    const Graph *graph;
    const Call *call;
    KernelCtx ctx;
    Tensor *in, *out;
} HostCall;

typedef struct {
    const StreamStep *step;
    const Call *call;
    void *scratch;
    GpuCollective *collective;
    Tensor *in[GPU_SLOTS], *out[GPU_SLOTS]; /* data NULL where another device holds it */
    HostCall *host;                         /* [GPU_SLOTS] of a node on the host's side, else NULL */
    size_t table_at;                        /* of its kernel's table, in a slot's inputs */
    int mark;                               /* exec/gpu/progress.h; 0: none */
} GpuCall;

/* Bytes of an input or an output of the graph in a slot. */
typedef struct {
    int index; /* number of the output */
    MemRef ref;
    size_t at;
} GpuPiece;

/* The memory of one step.  Two steps can be under way: while one runs, the host fills the other's slot. */
typedef struct {
    char *staging, *input; /* inputs, then tables: in pinned memory of the host, and on the device */
    char *output;          /* pinned memory of the host */
    GpuEvent *uploaded, *done;
    bool used;                /* `done` has been recorded */
    GpuGraph *graph;          /* the captured step; NULL: none yet */
    unsigned bound, captured; /* gpu_program_epoch of the addresses in use, and of those in the graph */
    uint32_t *mark;           /* pinned: the mark that the step has reached (progress.h); NULL: the only device */
} GpuSlot;

struct GpuPart {
    GpuProgram *gpu;
    GpuMember *member;
    const StreamDevice *plan;
    int device;
    GpuCall *call;            /* [plan->n_step] */
    GpuEvent **event, *begin; /* [plan->n_event] */
    GpuEvent *timed[2];       /* before and after a call, for --trace and --check-nodes */
    GpuPiece *input, *output;
    int n_input, n_output;
    size_t input_bytes, table_bytes, output_bytes;
    size_t bucket_bytes; /* that the collectives need of the group's bucket */
    char *constants;     /* on the device */
    size_t constant_bytes;
    size_t *constant_at; /* [n_value] offset + 1 in `constants`; 0: not on the device */
    GpuSlot slot[GPU_SLOTS];
    const Node **marked; /* [n_mark + 1] collectives with other devices, from 1 */
    int n_mark;
    uint32_t *mark_table; /* on the device: 0, 1, 2 ... n_mark + 1 */
    GpuEvent *passed;
    bool capturing;
    Status uncapturable;   /* why a step could not be captured */
    bool lost;             /* the communicator has failed meanwhile */
    char why[GPU_MESSAGE]; /* the message of either */
};

struct GpuProgram {
    GpuUser user; /* of the group; first, so that a GpuUser * is a GpuProgram * */
    Prepared *program;
    GpuGroup *group;
    StreamPlan *streams;
    GpuPart *part;             /* [n_device] */
    unsigned turn;             /* steps begun */
    bool pending;              /* the last one has not been waited for */
    bool by_call;              /* steps are not captured but issued call by call */
    int64_t number[GPU_SLOTS]; /* the group's number of the slot's last step; 0: none yet.  Under the group's lock */
};

/* Changes whenever memory moves. */
static inline unsigned gpu_program_epoch(const GpuProgram *g)
{
    return g->program->opt.arenas->generation + g->group->generation + 1;
}

#endif
