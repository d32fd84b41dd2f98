/* Devices whose jobs run in the thread that starts them: no thread has to wake up, which takes longer than a small
 * step, and far longer on a busy machine. */
#ifndef DPX_DIRECT_H
#define DPX_DIRECT_H

#include "exec/device/device.h"

/* From here on device_start runs jobs itself, where the device is a CPU's with one thread; else without effect. */
void device_run_directly(Device *d);

#endif
