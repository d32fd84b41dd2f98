/* Devices: a CPU device is a thread that leads an OpenMP team of its own; a CUDA device is a thread that gives work to
 * a GPU. */
#ifndef DPX_DEVICE_H
#define DPX_DEVICE_H

#include "kernels/backend.h"

enum { DEVICE_PATH = 256 };

typedef struct {
    bool cuda;                   /* else a team of the CPU's cores */
    int index;                   /* the N of cpu:N or cuda:N */
    int threads;                 /* of its team; of a CUDA device: for what it leaves to the CPU */
    double cores;                /* of the CPU that it could have; 0: as many as threads */
    uint64_t memory;             /* bytes that it can use; 0: not known before it is opened */
    bool tf32;                   /* of a CUDA device: products of float32 may round their inputs to TF32 */
    bool tune;                   /* of a CUDA device: measure algorithms of convolutions and products */
    bool exact;                  /* of a CUDA device: what is computed together rounds as what is computed apart */
    char described[DEVICE_PATH]; /* file with the description of a device that need not be there; "": it is there */
} DeviceSpec;

typedef struct {
    int n;
    DeviceSpec device[MAX_DEVICES];
    struct World *world; /* whose processes have as many devices each; NULL: there are no others */
} DeviceList;

/* "cpu:0,cpu:1", "cpu*4", "cuda", "cuda:0,cuda:1", "0,1", "cuda*2", "cuda:0@h100.json"; "all": every GPU where there
 * are any, else the CPU; NULL or "": one CPU device.  CPU and CUDA devices do not mix.  `threads` per device; 0: the
 * cores divided among the devices, at least one each.  Whether a CUDA device that is named is there shows when it is
 * opened. */
Status device_list_parse(DeviceList *out, const char *text, int threads) CHECKED;

/* What is computed on every device must come out the same, so teams are equal: in all processes of the list's world, of
 * as many threads as the machine with the fewest cores for each can give, or as are `asked` for. */
Status device_list_equal_teams(DeviceList *list, int asked) CHECKED;

typedef struct Device Device;
typedef Status DeviceJob(Device *d, void *arg);

/* Starts the device's thread, which opens its GPU.  `spin`: wait for work a while before sleeping (right when no core
 * is shared). */
Status device_open(Device **out, const DeviceSpec *spec, bool spin) CHECKED;
void device_close(Device *d); /* NULL is legal; no job may be running */
/* The job runs on the device's thread; every start is followed by a wait, which returns the job's status and
 * message. */
void device_start(Device *d, DeviceJob *job, void *arg);
Status device_wait(Device *d) CHECKED;
/* Waits for all of them, but those that are NULL: the first failure and its message, E_INTERRUPTED only when there is
 * no other, of which it is the echo. */
Status device_wait_all(Device *const *d, int n) CHECKED;
KernelCtx *device_ctx(Device *d);         /* for use on the device's thread */
const char *device_name(const Device *d); /* "cpu:0" */

size_t device_align(const Device *d); /* target_align of what passes ask (graph/ir/target.h) */

/* Of an accelerator; NULL for a CPU device. */
const Runtime *device_runtime(const Device *d);
GpuDevice *device_gpu(const Device *d);
const GpuInfo *device_info(const Device *d);
/* Its own stream, in order with which its memory is filled and read (exec/device/memory.h): a step is over when it is
 * over on this stream.  NULL for a described device, which runs nothing. */
GpuStream *device_stream(const Device *d);
/* How the host waits for all that was given to device_stream(d); NULL, which it is at first: until it has ended,
 * however long. */
typedef Status DeviceSync(void *arg);
void device_set_sync(Device *d, DeviceSync *sync, void *arg);
Status device_sync(Device *d) CHECKED;
/* A failure of the device's runtime as ours: its name and the runtime's message; `st` when that is ST_OK. */
Status device_check(const Device *d, Status st) CHECKED;

#endif
