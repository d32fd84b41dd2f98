/* Predicted classes of pixels, written as masks that images:DIR,masks=DIR reads. */
#ifndef DPX_TOOLS_PREDICTED_MASKS_H
#define DPX_TOOLS_PREDICTED_MASKS_H

#include "tools/data/data.h"

/* Writes for each sample of a batch, samples [from, from + samples) of the data, the class with the largest score at
 * each pixel of scores [N,C,H,W]: to FOLDER, under the image's name, a PNG file of H x W numbers with the colours of
 * PASCAL VOC.  E_UNSUPPORTED: the scores have another form, or more than 256 classes. */
Status predicted_masks_write(const char *folder, const Dataset *data, const dpx_tensor *scores, int64_t samples,
                             int64_t from) CHECKED;

#endif
