/* The import of a model's training_info. */
#ifndef DPX_ONNX_TRAINING_H
#define DPX_ONNX_TRAINING_H

#include "graph/onnx/importer.h"

/* An initializer (key), and the output whose value it gets (value). */
typedef struct {
    const char *key, *value;
    bool of_model; /* for an initialization: the initializer belongs to the model, not to an algorithm */
} TrainingBinding;

typedef struct Training {
    Arena *arena;
    Onnx__GraphProto *whole;   /* the model's graph, followed by all algorithms */
    Onnx__GraphProto *initial; /* all initializations */
    TrainingBinding *update;   /* by names of `whole` */
    size_t n_update;
    TrainingBinding *first; /* keys by names of `whole`, each once; values by names of `initial` */
    size_t n_first;
    const char **own; /* initializers of algorithms */
    size_t n_own;
    Scope model, input, firsts; /* initializers of the model; inputs of algorithms so far; keys of `first` */
    size_t left;                /* nodes that may still be added */
} Training;

/* Joins all training_info of a model.  `steps`: with the algorithms; false: the initializations alone. */
Status training_combine(Training **out, Arena *scratch, const Onnx__ModelProto *m, bool steps,
                        size_t max_nodes) CHECKED;
/* Computes the first values of the model's initializers, and with `steps` of the algorithms'. */
Status training_initialize(Importer *im, const Body *b) CHECKED;
/* Keeps the initializations for a later export: as a graph, or as the reason why there is none. */
Status training_remember(OnnxModel *out, Importer *im) CHECKED;
/* Sets Value.next of initializers that a step updates, before anything may take them for constants. */
Status training_bind(Importer *im, const Body *b) CHECKED;
/* After all nodes were read: marks the algorithms' own initializers as fixed, and checks that next values are outputs.
 */
Status training_check(Importer *im, const Body *b) CHECKED;

#endif
