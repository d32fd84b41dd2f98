/* Memory of a device: pages that the device's own thread touches first, so that they lie near it. */
#ifndef DPX_MEMORY_H
#define DPX_MEMORY_H

#include "exec/device.h"

/* Zeroed, page aligned, huge pages where the system has them. */
Status memory_open(void **out, Device *d, size_t bytes) CHECKED;
void memory_close(void *p, size_t bytes);       /* NULL is legal */

/* One arena per device, shared by the programs of a session, which run one at a time and keep nothing there between steps. */
typedef struct {
    int n_device;
    Device **device;            /* lent */
    void *base[MAX_DEVICES];
    size_t bytes[MAX_DEVICES];
    unsigned generation;        /* changes whenever a base does: programs bind their addresses again */
} Arenas;

Status arenas_reserve(Arenas *a, int device, size_t bytes) CHECKED;
void arenas_close(Arenas *a);

#endif
