/* Descriptions of GPUs: JSON files (docs/reference/devices.md) for devices that need not exist. */
#ifndef DPX_DESCRIBE_H
#define DPX_DESCRIBE_H

#include "kernels/runtime.h"

/* Reads a description.  E_INVALID lists everything that is wrong or missing.  `text`, which may be NULL, receives the
 * file's text; the caller frees it. */
Status describe_read(GpuInfo *out, char **text, const char *path) CHECKED;

#endif
