/* Writes .npy files. */
#ifndef DPX_TOOLS_NPY_WRITE_H
#define DPX_TOOLS_NPY_WRITE_H

#include "graph/base/outfile.h"
#include "include/dpexec.h"

/* Writes a .npy file (version 1), which appears whole or not at all.  E_IO names the path. */
Status npy_write(const char *path, const dpx_tensor *t) CHECKED;

enum { NPY_HEADER_MOST = 512 };

/* The header of an array of elements `type`, such as "<f4": magic, version, length and dictionary, padded with spaces
 * to a multiple of 64 bytes, of which the result is the number. */
size_t npy_header(char out[NPY_HEADER_MOST], const char *type, const int64_t *dim, int rank);
/* Begins a file with the header of tensor `like`; the caller writes the elements, row-major, to its stream. */
Status npy_begin(OutFile **out, const char *path, const dpx_tensor *like) CHECKED;
/* "NAME.npy", which the caller frees; "/" becomes "_", because names of values may be paths. */
Status npy_file_name(char **out, const char *name) CHECKED;

#endif
