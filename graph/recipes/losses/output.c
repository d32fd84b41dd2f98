/* output: the model computes its loss itself. */
#include "graph/recipes/loss.h"

typedef struct {
    const char *name;
} OutputLoss;

static const char *name_of(const void *settings) { return ((const OutputLoss *)settings)->name; }

static const Setting args[] = {
    { .name = "output", .metavar = "the name of an output", .help = "the output", SETTING_OF(OutputLoss, name) },
    { .name = NULL },
};

DEFINE_LOSS(output,
            .recipe = { .name = "output",
                        .form = "output:NAME",
                        .help = "the model's own: its output NAME is the loss",
                        .args = args,
                        RECIPE_SETTINGS(OutputLoss) },
            .target = TARGET_NONE, .output = name_of);
