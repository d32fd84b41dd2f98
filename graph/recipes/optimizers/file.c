/* file: the model's training_info says how its tensors follow from a step (graph/onnx/training.c,
 * passes/train/follow_file.c): nothing is differentiated, and no formula is asked for. */
#include "graph/recipes/optimizer.h"

DEFINE_OPTIMIZER(file, .recipe = { .name = "file", .help = "as the model's training_info says, at its learning rate" },
                 .of_file = true);
