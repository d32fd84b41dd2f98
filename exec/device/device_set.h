/* The devices of a run, open: those of this process, and how many there are in all processes; the memory and the
 * streams that its programs share on them. */
#ifndef DPX_DEVICE_SET_H
#define DPX_DEVICE_SET_H

#include "exec/device/memory.h"

typedef struct {
    struct World *world;         /* lent; NULL: this process alone */
    int n;                       /* of the world, each process having n_local of them */
    int first, n_local;          /* those of this process */
    Device *device[MAX_DEVICES]; /* NULL: not of this process */
    bool spin;                   /* threads wait for each other without sleeping: there is a core for each */
    Arenas arenas;               /* refers to `device`: the set does not move */
    struct GpuGroup *group;      /* of accelerators, else NULL */
} DeviceSet;

/* Of a set that is all zero; all processes of the list's world call it.  Also after a failure it is to be closed. */
Status device_set_open(DeviceSet *s, const DeviceList *list) CHECKED;
void device_set_close(DeviceSet *s);

#endif
