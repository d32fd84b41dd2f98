/* Options of the update: clipping, means of parameters (EMA), groups of parameters. */
#ifndef DPX_PASSES_OPTIONS_UPDATE_H
#define DPX_PASSES_OPTIONS_UPDATE_H

#include "graph/recipes/optimizer.h"

typedef struct BuildOptions BuildOptions;

/* Bounds of the gradients. */
typedef struct {
    double norm;  /* largest norm of all gradients together; 0: unbounded */
    double power; /* the norm's: 0 means 2; INFINITY: the largest element */
    double value; /* largest absolute value of an element; 0: unbounded */
} Clip;

/* Parameters that are updated in a way of their own (passes/update_groups.c). */
typedef struct {
    const char *pattern; /* fnmatch, on parameter names */
    const OptimizerDef *optimizer;
    const char *optimizer_args, *settings; /* as in RecipeOptions */
    const Clip *clip;                      /* NULL: clipped with all groups that have no clip of their own */
    const char *loss;                      /* the logged output whose gradient it takes; NULL: the loss */
} UpdateGroup;

/* Kinds of parameters, as a bit mask. */
enum { KIND_NORM = 1, KIND_BIAS = 2 };

typedef struct UpdateOptions {
    Clip clip;
    double ema;      /* decay of the mean of each parameter; 0: none */
    bool eval_means; /* outside of training, parameters that have a mean are read as their mean */
    bool (*has_mean)(const void *states, const char *param); /* NULL: no parameter has a mean */
    const void *states;
    const UpdateGroup *group; /* [n_group] a parameter belongs to the first whose pattern matches */
    int n_group;
    unsigned undecayed; /* KIND_: parameters without weight decay */
    bool turns;         /* groups are updated one after another (passes/train/take_turns.c) */
} UpdateOptions;

const UpdateOptions *update_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
