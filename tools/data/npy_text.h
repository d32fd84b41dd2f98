/* Strings in .npy files: numpy's '<U5', code points of 32 bits each, shorter strings filled up with zeros. */
#ifndef DPX_TOOLS_NPY_TEXT_H
#define DPX_TOOLS_NPY_TEXT_H

#include "graph/base/outfile.h"
#include "tools/data/data.h"

/* Reads the array's strings as elements of a tensor, in one block of memory that the caller frees.  Errors begin with
 * the label. */
Status npy_text_read(void **out, const Array *a, const char *label) CHECKED;
/* The number of code points of the longest of n strings.  E_UNSUPPORTED: a string ends with a 0, which numpy drops. */
Status npy_text_width(size_t *out, const dpx_text *const *text, int64_t n, const char *path) CHECKED;
void npy_text_write(FILE *to, const dpx_text *const *text, int64_t n, size_t width);

#endif
