/* Descriptions of GPUs: JSON files (docs/devices.md) for devices that need not be there. */
#ifndef DPX_DESCRIBE_H
#define DPX_DESCRIBE_H

#include "kernels/runtime.h"

/* Reads the file; all that is wrong or missing is named at once.  `text`, when not NULL, receives the file's text to
 * free(). */
Status describe_read(GpuInfo *out, char **text, const char *path) CHECKED;

#endif
