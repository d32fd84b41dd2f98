/* The inputs of Conv and ConvRelu, for their kernels and for the pass that makes the one of the other. */
#ifndef DPX_OPS_CONV_H
#define DPX_OPS_CONV_H

enum {
    CONV_IN_X,
    CONV_IN_W,
    CONV_IN_BIAS,
    CONV_IN_ADDED,
    CONV_INPUTS
}; /* the last of ConvRelu alone; it has Y's shape */

#endif
