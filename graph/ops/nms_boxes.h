/* Non-maximum suppression: which boxes of each class stay.  What it gives and how much, both of which data decide,
 * comes from here. */
#ifndef DPX_NMS_BOXES_H
#define DPX_NMS_BOXES_H

#include "graph/tensor/tensor.h"

typedef struct {
    const Tensor *box, *score; /* [batch, boxes, 4], [batch, classes, boxes] of float32 or float64, both alike */
    int64_t most;              /* boxes of a class of an image; 0: none */
    double overlap, least;     /* the share above which the lesser box goes; below or at which a score does not count */
    bool scored;               /* `least` is given */
    bool centers;              /* a box is x, y of its center, width, height; else two corners, y first */
} BoxChoice;

/* Of the inputs of NonMaxSuppression, [5] of which some may be NULL. */
BoxChoice boxes_choice(const Tensor *const *in, bool centers);
/* How many.  Where `out` is not NULL [count, 3] of it are written: image, class, box, by falling scores.  `order` has
 * room for twice as many as there are boxes. */
int64_t boxes_choose(const BoxChoice *c, int64_t *order, int64_t *out);

#endif
