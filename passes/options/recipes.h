/* Options that choose the loss, the metric and the optimizer. */
#ifndef DPX_PASSES_OPTIONS_RECIPES_H
#define DPX_PASSES_OPTIONS_RECIPES_H

#include "graph/recipes/metric.h"
#include "graph/recipes/optimizer.h"

typedef struct BuildOptions BuildOptions;

typedef struct RecipeOptions {
    const LossDef *loss;     /* NULL: none */
    const char *loss_args;   /* the text that follows the loss's name, "0.5"; NULL: none */
    const MetricDef *metric; /* NULL: none */
    const char *metric_args;
    const OptimizerDef *optimizer; /* NULL: sgd */
    const char *optimizer_args;
    const char *settings; /* flags of all three, "momentum=0.9;nesterov=true" (recipe_read) */
} RecipeOptions;

const RecipeOptions *recipe_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
