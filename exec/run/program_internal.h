/* Shared by program.c (compiling) and run.c (running). */
#ifndef DPX_PROGRAM_INTERNAL_H
#define DPX_PROGRAM_INTERNAL_H

#include "exec/run/check_indices.h"
#include "exec/run/collective.h"
#include "exec/run/program.h"

typedef struct {
    Tensor *tensor;
    MemRef ref;
} Binding; /* a tensor whose data lies there */

/* The work of a CPU device's thread for one node. */
typedef struct {
    const Call *call;
    Collective *collective; /* NULL: the call's kernel runs */
    Tensor *in, *out;
    void *scratch;
} CpuCall;

typedef struct {
    Program *program;
    int device;
    CpuCall **call; /* in order */
    int n_call;
    void **from, **to; /* copies after the last node */
    size_t *bytes;
    int n_copy;
    Status status;
} DeviceProgram;

typedef struct GpuProgram GpuProgram;     /* exec/gpu/program.h */
typedef struct WorldOutputs WorldOutputs; /* exec/run/program_world.c */

/* The functions of CPUs, or of accelerators. */
typedef struct {
    Status (*reserve)(Program *p); /* memory, or a check that it can be had */
    Status (*create)(Program *p);  /* the last part of compiling: the tensors are there */
    Status (*begin)(Program *p);   /* a step: the inputs are set */
    unsigned (*turn)(const Program *p);
    Status (*wait)(Program *p, unsigned turn);
    void (*release)(Program *p); /* also after a failure to create */
} ProgramKind;

extern const ProgramKind program_on_cpus, program_on_accelerators; /* exec/run/run.c */

struct Program {
    Prepared ready;
    const ProgramKind *kind; /* NULL: it is for looking at only */
    CpuCall *call;           /* [n_call] a call a node, of CPUs */
    uint32_t n_call;
    DeviceProgram *part; /* [n_device] of CPUs */
    Rendezvous meet;
    void *staging; /* of the collectives, one after another; NULL: they need none */
    Tensor *input; /* [n_input] this step's */
    int *place;    /* [n_input] for program_run: where its list has them */
    Binding *binding, *input_binding;
    int n_binding, n_input_binding;
    GpuProgram *gpu; /* of accelerators, else NULL */
    IndexCheck *indices;
    WorldOutputs *away; /* outputs that other processes hold; NULL: no other process */
    unsigned bound;     /* Arenas.generation of the addresses; 0: none yet */
};

/* Makes the collectives of CPUs and the list of calls of each device; program_free frees them. */
Status program_create_parts(Program *p) CHECKED;

/* Each process gets the outputs that it does not hold itself, from the one that does, after every step. */
Status program_world_create(Program *p) CHECKED;
void program_world_free(WorldOutputs *w);         /* NULL is legal */
Status program_world_outputs(Program *p) CHECKED; /* of a program whose `away` is not NULL */

/* The address; a tensor without bytes gets one that is not NULL, because kernels may add 0 to it. */
static inline void *program_place(void *at, size_t bytes)
{
    static const char empty = 0;

    return at || bytes ? at : (void *)(uintptr_t)&empty;
}

void *program_address(const Program *p, const MemRef *ref); /* NULL for MEM_NONE and MEM_INPUT */

#endif
