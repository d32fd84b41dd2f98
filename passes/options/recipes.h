/* Options that choose the loss, the metric and the optimizer. */
#ifndef DPX_PASSES_OPTIONS_RECIPES_H
#define DPX_PASSES_OPTIONS_RECIPES_H

#include "graph/recipes/metric.h"
#include "graph/recipes/optimizer.h"

typedef struct BuildOptions BuildOptions;

enum { MAX_METRICS = 16 };

typedef struct {
    const MetricDef *def; /* NULL: none */
    const char *name;     /* as given, "f1:micro" */
    const char *args;     /* the text that follows the metric's name, "micro"; NULL: none */
} MetricChoice;

typedef struct RecipeOptions {
    const LossDef *loss;                  /* NULL: none */
    const char *loss_args;                /* the text that follows the loss's name, "0.5"; NULL: none */
    MetricChoice metric[MAX_METRICS + 1]; /* the last of them has no `def` */
    bool exact;                           /* evaluations keep scores where a metric needs them all */
    const OptimizerDef *optimizer;        /* NULL: sgd */
    const char *optimizer_args;
    const char *settings; /* flags of all of them, "momentum=0.9;nesterov=true" (recipe_read) */
} RecipeOptions;

static inline int metric_count(const RecipeOptions *o)
{
    int n = 0;

    while (n < MAX_METRICS && o->metric[n].def)
        n++;
    return n;
}

const RecipeOptions *recipe_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
