/* Removes padding from outputs of padded sequences: writes all positions in a row, and where each sample begins. */
#ifndef DPX_TOOLS_TRIM_PADDING_H
#define DPX_TOOLS_TRIM_PADDING_H

#include "graph/base/outfile.h"
#include "tools/feed/feed.h"

/* The axis of output y along which the batch's samples lie: the one with the name of an input's axis of samples, or
 * else the first, or that of the inputs; -1: none of them has `samples` elements.  E_INVALID: two axes could be it. */
Status unpad_samples_axis(int *axis, const Feed *f, const dpx_tensor *y, int64_t samples) CHECKED;
/* The sequences whose positions are axis 1 of output y; NULL: axis 1 is something else, or fixed by the model.  y has
 * its samples first, where the model has them along `axis`, and holds the samples from `first` on.  E_INVALID: axis 1
 * could belong to several inputs. */
Status unpad_find(const Array **out, const Feed *f, const dpx_tensor *y, int axis, int64_t first) CHECKED;
/* The tensor of all samples without padding: [positions, rest]; without data. */
dpx_tensor unpad_all(const dpx_tensor *y, const Array *of);
/* Writes the samples of y without their padding; they are the samples from `first` on. */
void unpad_write(FILE *to, const dpx_tensor *y, const Array *of, int64_t first);
/* The file name NAME.offsets.npy, which the caller frees; and the file, with where each sample begins. */
Status unpad_offsets_name(char **out, const char *name) CHECKED;
Status unpad_offsets(OutFile **out, const char *path, const Array *of) CHECKED;

#endif
