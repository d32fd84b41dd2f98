/* A model's training_info, as import.c reads it. */
#ifndef DPX_ONNX_TRAINING_H
#define DPX_ONNX_TRAINING_H

#include "graph/onnx/importer.h"

/* An initializer, and the output that it takes the value of. */
typedef struct {
    const char *key, *value;
    bool of_model; /* of an initialization: the initializer is the model's, no algorithm's */
} TrainingBinding;

typedef struct Training {
    Arena *arena;
    Onnx__GraphProto *whole;   /* the model's graph, and all algorithms behind it */
    Onnx__GraphProto *initial; /* all initializations */
    TrainingBinding *update;   /* by names of `whole` */
    size_t n_update;
    TrainingBinding *first; /* keys by names of `whole`, each once; values by those of `initial` */
    size_t n_first;
    const char **own; /* initializers of algorithms */
    size_t n_own;
    Scope model, input, firsts; /* initializers of the model; inputs of algorithms so far; keys of `first` */
    size_t left;                /* nodes that may still be added */
} Training;

/* `steps`: with the algorithms; else the initializations alone. */
Status training_combine(Training **out, Arena *scratch, const Onnx__ModelProto *m, bool steps,
                        size_t max_nodes) CHECKED;
/* The initializers get their first values: those of the model, and with `steps` the algorithms'. */
Status training_initialize(Importer *im, const Body *b) CHECKED;
/* For a later export: the initializations as a graph, or why they are none. */
Status training_remember(OnnxModel *out, Importer *im) CHECKED;
/* What initializers become after a step, before anything may take them for constants. */
Status training_bind(Importer *im, const Body *b) CHECKED;
/* When all else is there: the algorithms' own initializers are no parameters. */
Status training_check(Importer *im, const Body *b) CHECKED;

#endif
