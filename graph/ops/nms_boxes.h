/* Non-maximum suppression: the number and the indices of the boxes that remain in each class. */
#ifndef DPX_NMS_BOXES_H
#define DPX_NMS_BOXES_H

#include "graph/tensor/tensor.h"

typedef struct {
    const Tensor *box, *score; /* [batch, boxes, 4], [batch, classes, boxes]; both float32 or both float64 */
    int64_t most;              /* largest number of boxes for a class of an image; 0: none */
    double overlap, least;     /* intersection over union above which the lesser box is dropped; scores above `least`
                                * count */
    bool scored;               /* `least` is given */
    bool centers;              /* a box is x, y of its center, width, height; else two corners, y first */
} BoxChoice;

/* Reads the inputs of NonMaxSuppression, in[5], of which the last three may be NULL. */
BoxChoice boxes_choice(const Tensor *const *in, bool centers);
/* Returns the number of boxes that remain.  Unless `out` is NULL, it receives [count, 3]: image, class, box, by falling
 * scores.  `order` has room for twice the number of boxes. */
int64_t boxes_choose(const BoxChoice *c, int64_t *order, int64_t *out);

#endif
