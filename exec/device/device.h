/* Devices.  A CPU device is a thread that leads an OpenMP team of its own; a CUDA device is a thread that gives work to
 * a GPU. */
#ifndef DPX_DEVICE_H
#define DPX_DEVICE_H

#include "kernels/backend.h"

enum { DEVICE_PATH = 256 };

typedef struct {
    bool cuda;                   /* else a team of the CPU's cores */
    int index;                   /* the N of cpu:N or cuda:N */
    int threads;                 /* of its team; a CUDA device uses them for its nodes on the CPU */
    double cores;                /* its share of the CPU's cores; 0: as many as threads */
    uint64_t memory;             /* bytes that it can use; 0: not known before it is opened */
    bool tf32;                   /* CUDA: products of float32 may round their inputs to TF32 */
    bool tune;                   /* CUDA: measure algorithms of convolutions and products */
    bool exact;                  /* CUDA: fused operators round as separate ones do */
    char described[DEVICE_PATH]; /* file with the description of a device that need not exist; "": a real device */
} DeviceSpec;

typedef struct {
    int n;
    DeviceSpec device[MAX_DEVICES];
    struct World *world; /* its processes have this many devices each; NULL: there is one process */
    int taken;           /* cores of each process that other threads of it have, by device_list_leave */
} DeviceList;

/* Parses --devices: "cpu:0,cpu:1", "cpu*4", "cuda", "cuda:0,cuda:1", "0,1", "cuda*2", "cuda:0@h100.json"; "all": every
 * GPU where there are any, else the CPU; NULL or "": one CPU device.  CPU and CUDA devices cannot be mixed.  `threads`
 * is the number for each device; 0: the cores are divided among the devices, at least one each.  Whether a CUDA device
 * exists shows when it is opened. */
Status device_list_parse(DeviceList *out, const char *text, int threads) CHECKED;

/* Divides the cores anew, without `cores` of them, which other threads of the process have. */
void device_list_leave(DeviceList *list, int cores);

/* Gives the devices of all processes teams of the same size, because every device must compute the same bits.  The size
 * is `asked`, or with 0 what the machine with the fewest cores per device can give. */
Status device_list_equal_teams(DeviceList *list, int asked) CHECKED;

typedef struct Device Device;
typedef Status DeviceJob(Device *d, void *arg);

/* Starts the device's thread, which opens its GPU.  `spin`: the thread spins for a while before it sleeps, which is
 * right when no core is shared. */
Status device_open(Device **out, const DeviceSpec *spec, bool spin) CHECKED;
void device_close(Device *d); /* NULL is legal; no job may be running */
/* Runs a job on the device's thread.  Every start must be followed by a wait, which returns the job's status and
 * message.
 */
void device_start(Device *d, DeviceJob *job, void *arg);
Status device_wait(Device *d) CHECKED;
/* Waits for all devices that are not NULL.  Returns the first failure and its message; E_INTERRUPTED, the echo of
 * another failure, only when there is no other. */
Status device_wait_all(Device *const *d, int n) CHECKED;
KernelCtx *device_ctx(Device *d);         /* for use on the device's thread */
const char *device_name(const Device *d); /* "cpu:0" */

size_t device_align(const Device *d); /* bytes: target_align of its target (graph/ir/target.h) */

/* ---- accelerators; NULL for a CPU device ---- */
const Runtime *device_runtime(const Device *d);
GpuDevice *device_gpu(const Device *d);
const GpuInfo *device_info(const Device *d);
/* The device's own stream.  Its memory is filled and read in the order of this stream (exec/device/memory.h), and a
 * step ends when this stream does.  NULL for a described device, which runs nothing. */
GpuStream *device_stream(const Device *d);
/* Sets how device_sync waits for the work on device_stream(d); NULL, the default: however long it takes. */
typedef Status DeviceSync(void *arg);
void device_set_sync(Device *d, DeviceSync *sync, void *arg);
Status device_sync(Device *d) CHECKED;
/* Turns a failure of the device's runtime into an error with the device's name and the runtime's message; returns ST_OK
 * when `st` is. */
Status device_check(const Device *d, Status st) CHECKED;

#endif
