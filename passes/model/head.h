/* The layer that --head gives other outputs: what it consists of, and whether the nodes behind it follow. */
#ifndef DPX_HEAD_H
#define DPX_HEAD_H

#include "passes/pass.h"

/* A constant of the layer, its weight or its bias. */
typedef struct {
    Node
        *reader; /* the node that reads it, perhaps through Transpose, Cast and Identity; NULL: there is no such part */
    int in;      /* the input at which it does */
    ValueId v;
    int axis; /* of the constant: counts the outputs of the layer */
} HeadPart;

/* A Gemm, a MatMul, perhaps with an Add behind it, or a convolution with a kernel of 1. */
typedef struct {
    Node *n;
    HeadPart weight, bias;
    int64_t outputs; /* as the file has it */
    int64_t fan_in;
} Head;

/* Compares the shapes behind the layer, whose constants have `n` outputs now, for the file's number of outputs, for n
 * and for one more than the file's.  E_UNSUPPORTED names a node that holds the file's number.  `scores` (NULL: none):
 * an output that has to follow.  Sets the new size of the model's outputs (Output.resized).  g is sorted. */
Status head_follow(Graph *g, PassCtx *ctx, const Head *h, int64_t n, const Output *scores) CHECKED;

#endif
