/* Results as .npy files. */
#ifndef DPX_TOOLS_NPY_WRITE_H
#define DPX_TOOLS_NPY_WRITE_H

#include "graph/base/outfile.h"
#include "include/dpexec.h"

/* Writes a .npy file (version 1) under a temporary name and renames it; E_IO names the path, nothing is left on
 * failure. */
Status npy_write(const char *path, const dpx_tensor *t) CHECKED;

/* The file with its header, for elements of the tensor that are yet to come: row-major, written to its stream. */
Status npy_begin(OutFile **out, const char *path, const dpx_tensor *like) CHECKED;
/* "NAME.npy", to be freed; names of values may be paths. */
Status npy_file_name(char **out, const char *name) CHECKED;

#endif
