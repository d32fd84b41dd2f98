/* The definition of a kernel, and how the executor calls it. */
#ifndef DPX_BACKEND_H
#define DPX_BACKEND_H

#include "graph/ir/target.h"
#include "kernels/runtime.h"

/* One per device and thread team.  `prepare` raises scratch_bytes to what `run` will need; before `run` the executor
 * sets `scratch` to at least that many bytes, aligned as its Target says, shared by all kernels of the device. On an
 * accelerator tensors and scratch lie in its memory, and `run` gives its work to `stream` and returns.
 *
 * A kernel of an accelerator whose launch cannot carry the addresses of all its tensors raises table_bytes in
 * `prepare`: so many bytes of the device, aligned likewise, are the call's own, and hold what `tabulate` writes once
 * the addresses are known. */
typedef struct {
    int n_threads; /* of the OpenMP team that `run` may use */
    int64_t grain; /* elements for which a thread more pays; 0: as the kernel estimates */
    size_t scratch_bytes, table_bytes;
    void *scratch, *table;
    Arena *texts;           /* the memory of strings, which their kernels take as they run; NULL except in the
                             * interpreter, which alone runs them */
    const Runtime *runtime; /* NULL: a CPU device */
    GpuDevice *gpu;
    GpuStream *stream; /* of the node that runs; NULL while preparing */
} KernelCtx;

/* The state of a kernel that needs none is NULL.  `in` and `out` have n_in and n_out entries; an absent optional one
 * has data NULL and rank -1.  Outputs do not overlap inputs but where OpDef.inplace allows it; then they coincide
 * exactly. */
typedef struct Kernel {
    const OpDef *op;
    const char *name;
    unsigned dtypes; /* of input 0 (output 0 when there are no inputs); 0: any */
    int rank;        /* candidates of one backend are tried by increasing rank */
    /* Asked where something that the node reads or writes is not stored by rows: does the kernel take all of it as it
     * is stored (Value.layout)?  NULL: it takes rows alone. */
    bool (*layouts)(const Graph *, const Node *);
    bool (*supports)(const Graph *, const Node *); /* optional: shapes and attributes are known */
    /* Once per program: reads attributes and shapes, creates primitives, says how much scratch is needed. */
    Status (*prepare)(void **state, KernelCtx *, const Graph *, const Node *); /* optional */
    Status (*run)(KernelCtx *, void *state, const Tensor *in, Tensor *out);    /* never allocates or reads attributes */
    /* Fills the table, in the host's memory; of kernels that ask for one.  Again whenever an address has changed. */
    void (*tabulate)(void *table, const void *state, const Tensor *in, const Tensor *out);
    void (*release)(void *state); /* optional; gets what prepare made */
    /* `run` leaves nothing in the state that a later run reads, and `prepare` looks at nothing of the node but its
     * attributes, constants, types, shapes and layouts: nodes that are equal in those share a state where one thread
     * runs them. */
    bool shares;
    bool by_rows; /* of a CPU and elementwise: the state tells how to compute any part of the elements, so that Fused
                   * may compute part by part (kernels/cpu/cpu_fused.c) */
} Kernel;

/* Kernels stand in kernels/<backend>/<backend>_<family>.c, where the build finds DEFINE_KERNEL( in column 0, or are
 * made of a row of kernels/formulas.def.  `ident` begins with the backend's name: ref_softmax, cpu_conv_forward. */
#define DEFINE_KERNEL(ident, ...) const Kernel kernel_##ident = { .name = #ident, __VA_ARGS__ }

extern const Kernel *const kernels_ref[]; /* plain C, every operator, every type: the oracle and the fallback */
extern const int kernels_ref_len;
/* The fast path, compiled for one instruction set. */
typedef struct {
    const char *isa; /* "x86-64-v3" ...; "native": that of the processor at build time; NULL: there are no kernels */
    const Kernel *const *kernel; /* [n] */
    int n;
} CpuKernels;

/* Number i of the sets that this build has and this processor runs, the fastest first; past the last, all fields are 0.
 */
CpuKernels cpu_kernels_at(int i);
/* The set for `isa`, or with NULL the fastest.  All fields are 0 if this build has no such set or the processor cannot
 * run it. */
CpuKernels cpu_kernels(const char *isa);

extern const Kernel *const kernels_cuda[]; /* of CUDA devices; ctx->runtime is a CudaDriver (kernels/cuda/driver.h) */
extern const int kernels_cuda_len;

/* The answers of CPU and of CUDA devices to passes; `precision` and `tf32` are as in Target. */
Target cpu_target(DType precision, bool tf32, bool blocks, bool fuse);
Target cuda_target(DType precision, bool tf32);

/* The runtime of CUDA devices that are only described (GpuOptions.described).  It plans and runs nothing; it needs no
 * plug-in. */
const Runtime *described_runtime(void);
typedef enum {
    DESCRIBED_PLAN,
    DESCRIBED_GENERATED,
    DESCRIBED_OWN,
    N_DESCRIBED
} DescribedKind; /* own: of kernels/cuda/device */
typedef struct {
    bool asked; /* the libraries of GpuOptions.confirm could be asked */
    int wanted[N_DESCRIBED],
        confirmed[N_DESCRIBED]; /* library plans, generated and own kernels; those that the libraries confirm */
    size_t workspace;           /* bytes, the most that a confirmed plan needs: the plan of memory has none */
    size_t epilogue;   /* bytes, the most scratch that a product takes where the library lacks its epilogue: the plan
                          takes it to have all */
    char refusal[256]; /* their first message about a plan that they do not confirm, or about the device; "": none */
} Described;
void described_count(Described *out, const GpuDevice *d); /* of described_runtime() */

/* For Kernel.layouts: nothing is in blocks; each value that is not by rows is channels last. */
bool kernel_channels_last(const Graph *g, const Node *n);
/* For Kernel.layouts: one layout, and one shape but for single elements, so that elements meet where they lie. */
bool kernel_same_layout(const Graph *g, const Node *n);
/* Makes a copy of the `size` bytes at `plan` the state, to be released with free(). */
Status kernel_state(void **state, const void *plan, size_t size) CHECKED;
/* Memory of `prepare`, zeroed, to be freed with free(): a table whose length follows from shapes.  It counts as
 * planning's for as long as the budget of the graph lasts; NULL when that or the memory is exhausted. */
void *kernel_table(const Graph *g, size_t n, size_t size);
/* The first candidate by rank whose op, dtypes and `supports` fit, or NULL. */
const Kernel *kernel_find(const Kernel *const *list, int len, const Graph *g, const Node *n);
/* Is there one of the operator, in a type that the target computes in?  For Target.fuses. */
bool kernel_exists(const Kernel *const *list, int len, const OpDef *op, const Target *t);
/* The reference kernel, of an embedder's operator its own; for 16-bit floats, where there is none, that of float32
 * between conversions.  NULL: neither. */
const Kernel *kernel_reference(const Graph *g, const Node *n);
extern const Kernel kernel_half; /* kernels/ref/half.c */

#endif
