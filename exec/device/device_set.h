/* The open devices of a run: those of this process, and how many all processes have; the memory and the streams that
 * the run's programs share on them. */
#ifndef DPX_DEVICE_SET_H
#define DPX_DEVICE_SET_H

#include "exec/device/memory.h"

typedef struct {
    struct World *world;         /* lent; NULL: this process alone */
    int n;                       /* devices of all processes, each of which has n_local */
    int first, n_local;          /* the devices of this process */
    Device *device[MAX_DEVICES]; /* NULL: of another process */
    bool spin;                   /* threads wait without sleeping, because each has a core of its own */
    Arenas arenas;               /* points to `device`, so the set must not move */
    struct GpuGroup *group;      /* of accelerators; NULL: CPU devices */
} DeviceSet;

/* Opens the devices of `list` into a set that is all zero.  All processes of the list's world call this.  After a
 * failure, too, the caller closes the set. */
Status device_set_open(DeviceSet *s, const DeviceList *list) CHECKED;
void device_set_close(DeviceSet *s);

#endif
