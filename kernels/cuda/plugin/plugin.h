/* Declarations for the files of libdpexec_cuda.so: its objects, messages made of a library's errors, and the cache on
 * disk.
 *
 * The plug-in knows no graph and no engine: it compiles its own copy of graph/base/status.c, so a failure is FAIL and
 * TRY here too, and the engine reads the text through Runtime.message. */
#ifndef DPX_CUDA_PLUGIN_H
#define DPX_CUDA_PLUGIN_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>
#include <nvrtc.h>

#include "kernels/cuda/driver.h"
#include "kernels/cuda/plugin/images.h"

typedef struct CudnnState CudnnState; /* cudnn.c: its handle, or what stands for a described device */

/* A library's function that runs when a device is closed. */
typedef struct CloseHook {
    struct CloseHook *next;
    void (*close)(GpuDevice *d);
} CloseHook;

struct GpuDevice {
    int index;      /* of the CUDA runtime; -1 when described: such a device plans and compiles, but runs nothing */
    char label[24]; /* "cuda:0", "described GPU": begins messages */
    GpuInfo info;
    bool tf32, tune, exact;
    bool abandoned;            /* nothing of it is freed any more */
    char *cache_dir;           /* owned; NULL: no cache */
    char *description;         /* owned; NULL unless described */
    const DeviceImage **image; /* those of kernels/cuda/device that fit it, one a source; n_image */
    cudaLibrary_t *library;    /* each loaded; NULL when described */
    size_t n_image;
    GpuKernel *kernels;  /* found so far */
    cublasLtHandle_t lt; /* made when the first product is planned */
    CudnnState *cudnn;   /* made when the first convolution or attention is planned */
    CloseHook *closing;  /* the last made comes first */
};

struct GpuStream {
    GpuDevice *device;
    cudaStream_t stream;
};

struct GpuKernel {
    GpuKernel *next; /* of the same device or module */
    GpuDevice *device;
    cudaKernel_t kernel; /* NULL when described */
    char name[];
};

/* A library's prepared call: the first member of gemm.c's, cudnn.c's own. */
typedef struct {
    /* `buffers` are device pointers by the indices of driver.h; neither allocates nor synchronises. */
    Status (*run)(GpuPlan *p, GpuStream *s, void *const *buffers, void *workspace);
    void (*free)(GpuPlan *p);
} GpuPlanClass;
struct GpuPlan {
    const GpuPlanClass *is;
    GpuDevice *device;
};

/* ---- failures: a library's code as a Status, with the call and the library's own words ---- */
#define TRY_CUDART(device, call) TRY(cudart_check((device), #call, (call)))
#define TRY_CUBLAS(device, call) TRY(cublas_check((device), #call, (call)))
#define TRY_CUDNN(device, call) TRY(cudnn_check((device), #call, (call)))

/* E_NOMEM when the device's memory is short, else E_DEVICE.  `call`: the text of the call, of which the name is shown.
 * `device` may be NULL. */
Status cudart_check(const GpuDevice *device, const char *call, cudaError_t e) CHECKED;
Status cublas_check(const GpuDevice *device, const char *call, cublasStatus_t e) CHECKED;
/* E_UNSUPPORTED for what cuDNN does not support. */
Status cudnn_check(const GpuDevice *device, const char *call, cudnnStatus_t e) CHECKED;
Status nvrtc_check(const char *call, nvrtcResult e) CHECKED;

/* ---- devices ---- */
/* Makes `d` the current device of this thread; E_DEVICE for a described one. */
Status device_use(const GpuDevice *d) CHECKED;
/* Makes it so to free something of its; false when nothing is to be freed: it is only described, has failed or is
 * abandoned. */
bool device_frees(const GpuDevice *d);
/* `close` is called when the device is closed, before its kernels go, the last given first; at once when there is no
 * memory to remember it. */
Status device_on_close(GpuDevice *d, void (*close)(GpuDevice *d)) CHECKED;

/* ---- the cache on disk: entries of opt.cache_dir, found by a key of any length ----
 * An entry is written under another name first and then renamed, so a reader sees all of it or none, and processes may
 * write at once.  One that is damaged, or of another key, counts as absent.  A failure to write is no error: nothing is
 * cached. */
/* *out NULL and *n 0 when there is none; else malloc'ed. */
Status cache_read(const GpuDevice *d, const char *kind, const void *key, size_t n_key, void **out, size_t *n) CHECKED;
void cache_write(const GpuDevice *d, const char *kind, const void *key, size_t n_key, const void *data, size_t n);

/* ---- the table's functions, one file each ---- */
Status device_count(int *out);
Status device_info(GpuInfo *out, int index);
Status device_open(GpuDevice **out, int index, const GpuOptions *opt);
void device_close(GpuDevice *d);
void device_abandon(GpuDevice *d);
Status device_free_memory(GpuDevice *d, int64_t *out);

Status memory_alloc(GpuDevice *d, void **out, size_t bytes);
void memory_free(GpuDevice *d, void *p);
/* Zeroes memory that no stream uses yet, and waits for it. */
Status memory_clear(const GpuDevice *d, void *p, size_t bytes) CHECKED;
/* Whether the elements of a floating type in these bytes are all NaN, once the stream has done what it was given; waits
 * for it. */
Status memory_all_nan(bool *out, GpuStream *s, const void *p, size_t bytes, DType t) CHECKED;
Status memory_host_alloc(GpuDevice *d, void **out, size_t bytes);
void memory_host_free(GpuDevice *d, void *p);
Status memory_zero(GpuStream *s, void *p, size_t bytes);
Status memory_copy(GpuStream *s, void *to, const void *from, size_t bytes);
Status memory_copy_rows(GpuStream *s, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                        size_t rows);

Status stream_create(GpuDevice *d, GpuStream **out, bool urgent);
void stream_free(GpuStream *s);
Status stream_wait(GpuStream *s);
Status stream_host_call(GpuStream *s, void (*fn)(void *), void *arg);
Status event_create(GpuDevice *d, GpuEvent **out, bool timed);
void event_free(GpuEvent *e);
Status event_record(GpuEvent *e, GpuStream *s);
Status event_await(GpuEvent *e, GpuStream *s);
Status event_wait(GpuEvent *e);
Status event_query(GpuEvent *e, bool *done);
Status event_elapsed(GpuEvent *from, GpuEvent *to, double *seconds);
Status capture_begin(GpuStream *s);
Status capture_end(GpuStream *s, GpuGraph **out);
Status captured_launch(GpuGraph *g, GpuStream *s);
void captured_free(GpuGraph *g);

Status comm_id(GpuCommId *out);
Status comm_create(GpuComm **out, GpuDevice *d, const GpuCommId *id, int rank, int n_rank, const GpuCommWait *wait);
bool comm_free(GpuComm *c, const GpuCommWait *wait);
void comm_abort(GpuComm *c);
bool comm_abort_end(GpuComm *c);
Status comm_poll(GpuComm *c);
Status comm_alloc(GpuDevice *d, void **out, size_t bytes);
void comm_release(GpuDevice *d, GpuComm *c, void *p);
Status comm_register(GpuComm *c, void *p, size_t bytes);
Status comm_all_reduce_sum(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype);
Status comm_reduce_scatter_sum(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype);
Status comm_all_gather(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes);
Status comm_all_to_all(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes);
Status comm_broadcast(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes, int root);

/* Chooses the images of kernels/cuda/device that fit d->info.capability and, unless d is described, loads them. */
Status kernels_open(GpuDevice *d) CHECKED;
void kernels_close(GpuDevice *d);
Status kernel_find(GpuDevice *d, const char *name, GpuKernel **out);
Status kernel_shared(GpuKernel *k, size_t bytes);
Status kernel_launch(GpuStream *s, GpuKernel *k, const unsigned grid[3], const unsigned block[3], size_t shared,
                     void *const *args);
/* The kernel `name` of a list, added when `library` (NULL: of a described device, where it is known to exist) has
 * it. */
Status kernel_from(GpuKernel **list, GpuDevice *d, cudaLibrary_t library, const char *name, GpuKernel **out) CHECKED;
GpuKernel *kernel_listed(GpuKernel *list, const char *name);
void kernel_list_free(GpuKernel *list);
Status module_compile(GpuDevice *d, const char *source, const char *name, GpuModule **out);
Status module_kernel(GpuModule *m, const char *name, GpuKernel **out);
void module_free(GpuModule *m);

Status gemm_plan(GpuDevice *d, const GpuGemm *desc, GpuPlan **out, size_t *workspace);
Status conv_plan(GpuDevice *d, const GpuConv *desc, GpuPlan **out, size_t *workspace);
Status attention_plan(GpuDevice *d, const GpuAttention *desc, GpuPlan **out, size_t *workspace);
Status plan_run(GpuStream *s, GpuPlan *p, void *const *buffers, void *workspace);
void plan_free(GpuPlan *p);

#endif
