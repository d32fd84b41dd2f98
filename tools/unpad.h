/* Outputs of sequences, written as data sets have them: the positions that samples have, one behind the other, and
 * where each begins. */
#ifndef DPX_TOOLS_UNPAD_H
#define DPX_TOOLS_UNPAD_H

#include "graph/base/outfile.h"
#include "tools/feed.h"

/* The sequences along whose positions the output's axis 1 lies, in a batch of the samples from `first` on in the order
 * of the data; NULL: its axis 1 is of something else, or fixed by the model.  E_INVALID: it could be those of several
 * inputs. */
Status unpad_find(const Array **out, const Feed *f, const dpx_tensor *y, int64_t first) CHECKED;
/* Of all samples together: [positions, rest]. */
dpx_tensor unpad_all(const dpx_tensor *y, const Array *of);
/* Of the output's samples, which the sequences have from `first` on, what there is. */
void unpad_write(FILE *to, const dpx_tensor *y, const Array *of, int64_t first);
/* NAME.offsets.npy, to be freed, which stands beside NAME.npy; and the file. */
Status unpad_offsets_name(char **out, const char *name) CHECKED;
Status unpad_offsets(OutFile **out, const char *path, const Array *of) CHECKED;

#endif
