/* outputs: the loss is the sum of the means of all outputs whose names contain "loss", as in mmengine's parse_losses.
 */
#include <string.h>

#include "graph/recipes/loss.h"

static bool is_loss(const void *settings, const char *output)
{
    (void)settings;
    return strstr(output, "loss") != NULL;
}

DEFINE_LOSS(
    outputs,
    .recipe = { .name = "outputs",
                .help = "the model's own: the sum of the means of all outputs whose names contain \"loss\"; every "
                        "output of floats is logged by its mean" },
    .target = TARGET_NONE, .is_loss = is_loss, .logs = true);
