/* Inputs of LayerNormGrad. */
#ifndef DPX_OPS_LAYERNORM_H
#define DPX_OPS_LAYERNORM_H

/* x, dy and scale come first.  ADDED, which may be absent, has x's type and shape. */
enum { LAYER_NORM_GRAD_ADDED = 3 };

#endif
