/* The state of an evaluation: a file whose nodes are computed as they are read. */
#ifndef DPX_ONNX_EVALUATE_H
#define DPX_ONNX_EVALUATE_H

#include "graph/onnx/importer.h"

typedef struct FileRun {
    OnnxInput *input;
    void *user;
    OnnxCompute *compute; /* NULL: nodes are computed one by one */
    void *compute_user;
    bool file_modes; /* as ImportOptions */
    uint64_t seed;   /* of random numbers */
    bool again;      /* the message is read again later, so it keeps its tensors' data */
    Arena *arena;    /* owns the inputs and outputs */
    OnnxNamedValue *output;
    int n_output, n_given;
    uint32_t n_read; /* nodes of the graph that have been computed */
    bool *is_data;   /* by value, for those below n_data: given or computed */
    uint32_t n_data;
} FileRun;

/* Makes v the constant t, which must live as long as the graph, and marks it as data. */
Status evaluate_fix(Importer *im, ValueId v, const Tensor *t) CHECKED;
/* Computes the nodes read since the last evaluate_read, of body b, in one call of run->compute.  Does nothing if they
 * take few operations, or if run->compute does not support them. */
Status evaluate_part(Importer *im, const Body *b) CHECKED;

#endif
