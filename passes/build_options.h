/* The options of a build, for those who fill them in: the mode, and a pointer to each part. */
#ifndef DPX_BUILD_OPTIONS_H
#define DPX_BUILD_OPTIONS_H

#include "passes/pass.h"

/* A part that is NULL is all zeros, which are its defaults.  Parts are borrowed. */
struct BuildOptions {
    BuildMode mode;
    const struct BatchOptions *batch;
    const struct InputOptions *inputs;
    const struct TypeOptions *types;
    const struct RecipeOptions *recipes;
    const struct TargetOptions *target;
    const struct UpdateOptions *update;
    const struct ParameterOptions *parameters;
    const struct ReplicaOptions *replicas;
    const struct OutputOptions *outputs;
    const struct CollectiveOptions *collectives;
    const struct BatchNormOptions *batch_norm;
    const struct BackendOptions *backend;
    const struct MemoryOptions *memory;
    const struct StepOptions *step;
    const struct TokenOptions *tokens;
};

#endif
