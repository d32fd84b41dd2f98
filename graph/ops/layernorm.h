/* Inputs of LayerNormGrad. */
#ifndef DPX_OPS_LAYERNORM_H
#define DPX_OPS_LAYERNORM_H

/* Inputs 0 to 2 are x, dy and scale.  Input 3 (optional) is added to dx before rounding: the gradient along the skip
 * connection.  It has x's type and shape. */
enum { LAYER_NORM_GRAD_ADDED = 3 };

#endif
