/* Devices: a CPU device is a thread that leads an OpenMP team of its own. */
#ifndef DPX_DEVICE_H
#define DPX_DEVICE_H

#include "exec/backend.h"

enum { MAX_DEVICES = 256, DEVICE_TEXT = 96 };

typedef struct {
    int index;              /* the N of cpu:N */
    int threads;            /* of its team */
    uint64_t memory;        /* bytes that it can use */
} DeviceSpec;

typedef struct {
    int n;
    DeviceSpec device[MAX_DEVICES];
} DeviceList;

int cpu_cores(void);                    /* that this process may run on */
uint64_t cpu_memory(void);              /* bytes of the machine */
/* "cpu:0,cpu:1", "cpu*4", "all"; NULL or "": one CPU device.  `threads` per device; 0: the cores divided among the devices,
 * at least one each. */
Status device_list_parse(DeviceList *out, const char *text, int threads) CHECKED;
/* Names two devices whose memory or team sizes differ by more than a quarter; false: there are none. */
bool device_list_unequal(const DeviceList *list, char text[DEVICE_TEXT]);

typedef struct Device Device;
typedef Status DeviceJob(Device *d, void *arg);

/* Starts the device's thread.  `spin`: wait for work a while before sleeping (right when no core is shared). */
Status device_open(Device **out, const DeviceSpec *spec, bool spin) CHECKED;
void device_close(Device *d);           /* NULL is legal; no job may be running */
/* The job runs on the device's thread; every start is followed by a wait, which returns the job's status and message. */
void device_start(Device *d, DeviceJob *job, void *arg);
Status device_wait(Device *d) CHECKED;
KernelCtx *device_ctx(Device *d);       /* for use on the device's thread */
const char *device_name(const Device *d);   /* "cpu:0" */

/* Waiting for a word that another thread will change: spins, then sleeps. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
enum { SPIN_ROUNDS = 4000 };

#endif
