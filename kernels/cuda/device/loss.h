/* The parameters of losses (loss.cu): the same text for the engine (C) and for the device. */
#ifndef DPX_CUDA_LOSS_H
#define DPX_CUDA_LOSS_H

/* Scores [outer, classes, inner], targets [outer, inner]. */
typedef struct {
    long long samples, classes, inner;
    long long ignore; /* this target does not count */
    double smoothing; /* the share of the target that is spread evenly over all classes */
    int wide;         /* targets are int64, else int32 */
    int lanes;        /* of a warp that share a sample */
} NllBox;

typedef enum { LOSS_MSE, LOSS_L1, LOSS_BCE, LOSS_BCE_LOGITS } LossKind;

enum { LOSS_THREADS = 256, LOSS_BLOCKS = 1024 }; /* a sum's parts: one of each block, two numbers */

#endif
