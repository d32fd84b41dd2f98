/* First values of tensors, drawn by a seed and the tensor's name. */
#ifndef DPX_TENSOR_DRAW_H
#define DPX_TENSOR_DRAW_H

#include "graph/base/philox.h"
#include "graph/tensor/tensor.h"

typedef enum { DRAW_CONSTANT, DRAW_UNIFORM, DRAW_NORMAL, DRAW_TRUNCATED_NORMAL } DrawKind;

/* DRAW_CONSTANT: `mean` itself.  DRAW_UNIFORM: in (mean - spread, mean + spread).  DRAW_NORMAL: with deviation
 * `spread`. DRAW_TRUNCATED_NORMAL: a number further than `bound` from the mean is drawn again. */
typedef struct {
    DrawKind kind;
    double mean, spread, bound;
} Distribution;

/* Fills a tensor of floats.  Element i depends on seed, name and i alone, so that a tensor of another size begins
 * alike.
 */
void tensor_draw(Tensor *t, const Distribution *d, uint64_t seed, const char *name);

/* Element `i` of standard normal numbers, of which the block holds i's four (Box and Muller): words 0, 1 make normals 0
 * and 1, words 2, 3 make normals 2 and 3. */
double draw_normal(const PhiloxBlock *block, int64_t i);

#endif
