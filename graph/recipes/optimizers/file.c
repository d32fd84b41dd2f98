/* file: the updates of the model's training_info (graph/onnx/training.c, passes/train/follow_file.c).  Nothing is
 * differentiated, and there is no formula. */
#include "graph/recipes/optimizer.h"

DEFINE_OPTIMIZER(file, .recipe = { .name = "file", .help = "as the model's training_info says, at its learning rate" },
                 .of_file = true);
