/* Memory of devices.  A CPU device has pages that its own thread touches first, so that they lie near it; an
 * accelerator has its own memory, which the host reaches by the functions below. */
#ifndef DPX_MEMORY_H
#define DPX_MEMORY_H

#include "exec/device/device.h"

/* Allocates memory.  On a CPU device it is zeroed, page aligned, and of huge pages where the system has them; on an
 * accelerator it is aligned as device_align says. */
Status memory_open(void **out, Device *d, size_t bytes) CHECKED;
void memory_close(Device *d, void *p, size_t bytes); /* NULL is legal */

/* Copy between the host's memory and the device's, after all work that was given to device_stream(d) before; done on
 * return. */
Status memory_write(Device *d, void *to, const void *from_host, size_t bytes) CHECKED;
Status memory_read(Device *d, void *to_host, const void *from, size_t bytes) CHECKED;
Status memory_zero(Device *d, void *p, size_t bytes) CHECKED;
/* Copies from device to device; done on return. */
Status memory_copy(Device *to_device, void *to, Device *from_device, const void *from, size_t bytes) CHECKED;

/* One arena for each device.  The programs of a session share it: they run one at a time and keep nothing there between
 * steps. */
typedef struct {
    int n_device;
    Device **device; /* lent; NULL: of another process */
    void *base[MAX_DEVICES];
    size_t bytes[MAX_DEVICES];
    unsigned generation; /* changes whenever a base does: programs then bind their addresses again */
} Arenas;

/* Grows the device's arena to at least `bytes`; its contents are lost. */

Status arenas_reserve(Arenas *a, int device, size_t bytes) CHECKED;
void arenas_close(Arenas *a);

#endif
