/* Warnings about devices that differ: the slowest sets the pace, and the smallest memory bounds what fits. */
#ifndef DPX_DEVICE_DIFFERENCES_H
#define DPX_DEVICE_DIFFERENCES_H

#include "exec/device/device_set.h"

enum { UNEQUAL_TEXT = 256 };

typedef struct {
    double cores;    /* that it computes with; of an accelerator its multiprocessors */
    uint64_t memory; /* bytes; 0: not known */
    int index;       /* the N of cpu:N or cuda:N */
    bool cuda;
} DeviceFacts;

/* Names the two of n devices, `each` of a process, that differ most: in cores, or else in memory, by more than a
 * quarter. false: there are none. */
bool device_facts_unequal(const DeviceFacts *f, int n, int each, char text[UNEQUAL_TEXT]);
/* Of the open devices of all processes, which all come here; "": they are alike. */
Status device_set_compare(char text[UNEQUAL_TEXT], const DeviceSet *s, const DeviceList *list) CHECKED;

#endif
