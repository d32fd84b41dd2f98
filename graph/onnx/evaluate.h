/* What evaluate.c and evaluate_part.c share. */
#ifndef DPX_ONNX_EVALUATE_H
#define DPX_ONNX_EVALUATE_H

#include "graph/onnx/importer.h"

typedef struct Evaluation {
    OnnxInput *input;
    void *user;
    OnnxCompute *compute; /* NULL: nodes are computed one by one */
    void *compute_user;
    bool file_modes; /* as ImportOptions */
    uint64_t seed;   /* of what draws */
    bool again;      /* the message is read again later: what is read of it stays there */
    Arena *arena;    /* of what is given and returned */
    OnnxNamedValue *output;
    int n_output, n_given;
    uint32_t n_read; /* nodes of the graph that have been computed */
    bool *is_data;   /* by value, for those below n_data: given, or computed */
    uint32_t n_data;
} Evaluation;

/* The value is this tensor from now on, which lives as long as the graph. */
Status evaluate_fix(Importer *im, ValueId v, const Tensor *t) CHECKED;
/* Computes together what was read of the body since the last evaluate_read, if that is worth it and can be. */
Status evaluate_part(Importer *im, const Body *b) CHECKED;

#endif
