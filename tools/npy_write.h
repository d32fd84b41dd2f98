/* Results as .npy files. */
#ifndef DPX_TOOLS_NPY_WRITE_H
#define DPX_TOOLS_NPY_WRITE_H

#include "graph/base/status.h"
#include "include/dpexec.h"

/* Writes a .npy file (version 1) under a temporary name and renames it; E_IO names the path, nothing is left on
 * failure. */
Status npy_write(const char *path, const dpx_tensor *t) CHECKED;

#endif
