/* Memory of a device: of a CPU device pages that its own thread touches first, so that they lie near it; of an
 * accelerator its own memory, which the host reaches by the functions below. */
#ifndef DPX_MEMORY_H
#define DPX_MEMORY_H

#include "exec/device/device.h"

/* Zeroed, page aligned, huge pages where the system has them; on an accelerator aligned as device_align says. */
Status memory_open(void **out, Device *d, size_t bytes) CHECKED;
void memory_close(Device *d, void *p, size_t bytes); /* NULL is legal */

/* Between the host's memory and the device's; done on return.  What was given to device_stream(d) before comes
 * first. */
Status memory_write(Device *d, void *to, const void *from_host, size_t bytes) CHECKED;
Status memory_read(Device *d, void *to_host, const void *from, size_t bytes) CHECKED;
Status memory_zero(Device *d, void *p, size_t bytes) CHECKED;
/* From device to device. */
Status memory_copy(Device *to_device, void *to, Device *from_device, const void *from, size_t bytes) CHECKED;

/* One arena per device, shared by the programs of a session, which run one at a time and keep nothing there between
 * steps. */
typedef struct {
    int n_device;
    Device **device; /* lent; NULL: another process's */
    void *base[MAX_DEVICES];
    size_t bytes[MAX_DEVICES];
    unsigned generation; /* changes whenever a base does: programs bind their addresses again */
} Arenas;

Status arenas_reserve(Arenas *a, int device, size_t bytes) CHECKED;
void arenas_close(Arenas *a);

#endif
