/* Writes .npy files. */
#ifndef DPX_TOOLS_NPY_WRITE_H
#define DPX_TOOLS_NPY_WRITE_H

#include "graph/base/outfile.h"
#include "include/dpexec.h"

/* Writes a .npy file (version 1), which appears whole or not at all.  E_IO names the path. */
Status npy_write(const char *path, const dpx_tensor *t) CHECKED;

/* Begins a file with the header of tensor `like`; the caller writes the elements, row-major, to its stream. */
Status npy_begin(OutFile **out, const char *path, const dpx_tensor *like) CHECKED;
/* "NAME.npy", which the caller frees; "/" becomes "_", because names of values may be paths. */
Status npy_file_name(char **out, const char *name) CHECKED;

#endif
