/* output: an output of the model is the loss. */
#include <string.h>

#include "graph/recipes/loss.h"

typedef struct {
    const char *name;
} OutputLoss;

static bool output_is_named(const void *settings, const char *output)
{
    return !strcmp(((const OutputLoss *)settings)->name, output);
}

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
            .target = TARGET_NONE, .is_loss = output_is_named);
