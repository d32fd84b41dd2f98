/* The functions of an accelerator for the executor: memory, streams, events, captured steps, collectives.
 *
 * A table of functions over plain types, so that a plug-in gives it without linking to the engine: libdpexec_cuda.so on
 * CUDA, and a simulation on the CPU for the tests.  A function that fails leaves a one-line message for message(), of
 * the calling thread; runtime_check() (exec/device/plugin.h) turns it into ours.
 *
 * Work given to a stream runs in order, asynchronously; addresses and parameters are read when it is given, what they
 * point to when it runs.  Between streams nothing is ordered but by events.  Any thread may call, one at a time per
 * object. */
#ifndef DPX_RUNTIME_H
#define DPX_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/base/status.h"
#include "graph/tensor/dtype.h"

typedef struct GpuDevice GpuDevice;
typedef struct GpuStream GpuStream;
typedef struct GpuEvent GpuEvent;
typedef struct GpuGraph GpuGraph; /* a captured step, ready to be launched again and again */
typedef struct GpuComm GpuComm;   /* this device's membership of a group of devices */

enum { GPU_NAME = 96, GPU_COMM_ID = 128, RUNTIME_ABI = 5 };

/* The properties of a device: read from the driver, or from a description (docs/reference/devices.md) when the device
 * is not there. */
typedef struct {
    char name[GPU_NAME];
    char bus_id[32]; /* "" when described */
    int capability;  /* 90: compute capability 9.0 */
    int multiprocessors, warp_size, max_threads_per_block, max_threads_per_multiprocessor;
    int64_t memory, l2;                                  /* bytes */
    int64_t shared_per_block, shared_per_multiprocessor; /* bytes; the most a block can opt in to */
    int driver;                                          /* 13000: CUDA 13.0; 0 when described */
} GpuInfo;

typedef struct {
    const GpuInfo *described; /* not NULL: plan for this device, which need not be there; nothing can run */
    const char *description;  /* the JSON text it was read from */
    bool tf32;                /* float32 convolutions and products may round their inputs to TF32 */
    bool tune;                /* measure algorithms instead of asking heuristics */
    bool exact;               /* compiled kernels make no multiplication and addition one instruction */
    const char *cache_dir;    /* of compiled kernels and plans; NULL: none */
    const struct Runtime
        *confirm; /* of described_runtime() (kernels/backend.h): whose libraries are asked too; NULL: none */
} GpuOptions;

typedef struct {
    unsigned char byte[GPU_COMM_ID];
} GpuCommId;

/* How long a member waits for the others.  `ended` is asked now and then, on the caller's thread, while it does: when
 * it is true nobody will come any more, and the call gives up with E_INTERRUPTED. */
typedef struct {
    double timeout;           /* seconds */
    bool (*ended)(void *arg); /* may be NULL */
    void *arg;
} GpuCommWait;

typedef struct Runtime {
    int abi;                      /* RUNTIME_ABI */
    const char *name;             /* "cuda" */
    bool simulated;               /* no accelerator: the tests' stand-in */
    const char *(*message)(void); /* of this thread's last failure */

    /* ---- devices ---- */
    Status (*count)(int *out); /* E_DEVICE when there is no driver */
    Status (*info)(GpuInfo *out, int index);
    Status (*open)(GpuDevice **out, int index, const GpuOptions *opt);
    void (*close)(GpuDevice *d); /* NULL is legal; nothing may be running */
    /* Work that does not end holds the device, and freeing what it may use would wait for it: from now on nothing of
     * the device is freed, closing it included, before the process ends.  Nothing else may be asked of it. */
    void (*abandon)(GpuDevice *d);
    Status (*free_memory)(GpuDevice *d, int64_t *out); /* bytes that could be allocated now */

    /* ---- memory; 256-byte aligned, zeroed ---- */
    Status (*alloc)(GpuDevice *d, void **out, size_t bytes);
    void (*free)(GpuDevice *d, void *p);
    Status (*host_alloc)(GpuDevice *d, void **out, size_t bytes); /* of the host, pinned, readable by kernels */
    void (*host_free)(GpuDevice *d, void *p);

    /* ---- streams and events ---- */
    Status (*stream_create)(GpuDevice *d, GpuStream **out, bool urgent);
    void (*stream_free)(GpuStream *s);
    Status (*stream_wait)(GpuStream *s); /* the host waits until all of it has run */
    Status (*event_create)(GpuDevice *d, GpuEvent **out, bool timed);
    void (*event_free)(GpuEvent *e);
    Status (*event_record)(GpuEvent *e, GpuStream *s);
    Status (*event_await)(GpuEvent *e, GpuStream *s); /* the stream waits for the latest record */
    Status (*event_wait)(GpuEvent *e);                /* the host waits for the latest record */
    Status (*event_query)(GpuEvent *e, bool *done);   /* has the latest record happened?  Does not wait */
    Status (*event_elapsed)(GpuEvent *from, GpuEvent *to, double *seconds); /* both timed and past */

    /* ---- work ---- */
    Status (*zero)(GpuStream *s, void *p, size_t bytes);
    Status (*copy)(GpuStream *s, void *to, const void *from, size_t bytes); /* host or device, either way */
    /* `rows` of `width` bytes, the next row `pitch` bytes on. */
    Status (*copy_rows)(GpuStream *s, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                        size_t rows);
    /* Calls back on a host thread when the stream gets there; the callback must not use the runtime. */
    Status (*host_call)(GpuStream *s, void (*fn)(void *), void *arg);

    /* ---- captured steps ---- */
    /* Until capture_end, what is given to `s`, and to streams that await events recorded after it began, is recorded
     * instead of run; all of them must have joined `s` again by events. */
    Status (*capture_begin)(GpuStream *s);
    Status (*capture_end)(GpuStream *s, GpuGraph **out); /* also ends it when it failed */
    Status (*graph_launch)(GpuGraph *g, GpuStream *s);
    void (*graph_free)(GpuGraph *g);

    /* ---- collectives between devices; each member calls with the same sizes, in the same order ---- */
    Status (*comm_id)(GpuCommId *out);
    /* All members of all processes call it at about the same time; E_DEVICE when they do not within `wait->timeout`
     * seconds. */
    Status (*comm_create)(GpuComm **out, GpuDevice *d, const GpuCommId *id, int rank, int n_rank,
                          const GpuCommWait *wait);
    /* Waits for members that have not come to the end, and aborts when they do not within comm_create's timeout or have
     * ended; false when the abort takes too long: then the device is to be abandoned.  Not while a graph holds a
     * collective of the communicator: it would wait for the graph to be freed. */
    bool (*comm_free)(GpuComm *c, const GpuCommWait *wait);
    /* Work under way ends, undefined.  Does not wait, and is followed by comm_abort_end, before which graphs that hold
     * collectives of the communicator are freed: those that run end only now. */
    void (*comm_abort)(GpuComm *c);
    /* Frees it when the abort has ended; false when that takes too long: then the device is to be abandoned. */
    bool (*comm_abort_end)(GpuComm *c);
    Status (*comm_poll)(GpuComm *c); /* E_DEVICE when a member or a link has failed */
    /* Memory that collectives reach without copying, once it is registered.  In a collective the memory of all members
     * is registered, or of none. */
    Status (*comm_alloc)(GpuDevice *d, void **out, size_t bytes);
    Status (*comm_register)(GpuComm *c, void *p, size_t bytes); /* all of a comm_alloc */
    /* Frees it, and ends its registration with `c`; NULL: it has none, or that member is gone. */
    void (*comm_release)(GpuDevice *d, GpuComm *c, void *p);
    /* n elements; send may be recv, but for all_to_all.  All_gather: recv holds n_rank * n; reduce_scatter: send does;
     * all_to_all: both do. */
    Status (*all_reduce_sum)(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype);
    Status (*reduce_scatter_sum)(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype);
    Status (*all_gather)(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes);
    Status (*all_to_all)(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes);
    Status (*broadcast)(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes, int root);
} Runtime;

/* The one symbol that a plug-in for CUDA exports; a CudaDriver (kernels/cuda/driver.h) begins with its Runtime. */
#define CUDA_DRIVER_SYMBOL "dpexec_cuda_driver"
typedef const struct CudaDriver *CudaDriverEntry(void);

#endif
