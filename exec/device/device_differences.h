/* Warnings about unequal devices: the slowest sets the pace, and the smallest memory bounds the model. */
#ifndef DPX_DEVICE_DIFFERENCES_H
#define DPX_DEVICE_DIFFERENCES_H

#include "exec/device/device_set.h"

enum { UNEQUAL_TEXT = 256 };

typedef struct {
    double cores;    /* of an accelerator: multiprocessors */
    uint64_t memory; /* bytes; 0: unknown */
    int index;       /* the N of cpu:N or cuda:N */
    bool cuda;
} DeviceFacts;

/* Finds two of n devices, of which each process has `each`, that differ by more than a quarter in cores, or else in
 * memory, and writes the most unequal two to `text`.  Returns false when there are none. */
bool find_unequal_devices(const DeviceFacts *f, int n, int each, char text[UNEQUAL_TEXT]);
/* Does so for the open devices of all processes, which all call this.  "": there are no unequal devices. */
Status device_set_find_unequal(char text[UNEQUAL_TEXT], const DeviceSet *s, const DeviceList *list) CHECKED;

#endif
