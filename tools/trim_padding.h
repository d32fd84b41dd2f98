/* Writes outputs of padded sequences without the padding: all positions in a row, and where each sample begins. */
#ifndef DPX_TOOLS_TRIM_PADDING_H
#define DPX_TOOLS_TRIM_PADDING_H

#include "graph/base/outfile.h"
#include "tools/feed.h"

/* The axis of the output along which the batch's samples lie, as the names of the model's dimensions say, else the
 * first or that of the inputs; -1: none does.  E_INVALID: it could be either. */
Status unpad_samples_axis(int *axis, const Feed *f, const dpx_tensor *y, int64_t samples) CHECKED;
/* The sequences along whose positions axis 1 of the output lies, which has the samples first and had them along `axis`,
 * in a batch of the samples from `first` on in the order of the data; NULL: its axis 1 is of something else, or fixed
 * by the model.  E_INVALID: it could be those of several inputs. */
Status unpad_find(const Array **out, const Feed *f, const dpx_tensor *y, int axis, int64_t first) CHECKED;
/* Of all samples together: [positions, rest]. */
dpx_tensor unpad_all(const dpx_tensor *y, const Array *of);
/* Of the output's samples, which the sequences have from `first` on, what there is. */
void unpad_write(FILE *to, const dpx_tensor *y, const Array *of, int64_t first);
/* NAME.offsets.npy, to be freed, which stands beside NAME.npy; and the file. */
Status unpad_offsets_name(char **out, const char *name) CHECKED;
Status unpad_offsets(OutFile **out, const char *path, const Array *of) CHECKED;

#endif
