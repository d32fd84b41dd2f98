/* All parts of the options of a build, for those who change several of them. */
#ifndef DPX_BUILD_PARTS_H
#define DPX_BUILD_PARTS_H

#include "passes/build_options.h"
#include "passes/options/backend.h"
#include "passes/options/batch.h"
#include "passes/options/batch_norm.h"
#include "passes/options/collectives.h"
#include "passes/options/inputs.h"
#include "passes/options/memory.h"
#include "passes/options/outputs.h"
#include "passes/options/parameters.h"
#include "passes/options/recipes.h"
#include "passes/options/replicas.h"
#include "passes/options/step.h"
#include "passes/options/target.h"
#include "passes/options/tokens.h"
#include "passes/options/types.h"
#include "passes/options/update.h"

/* A copy's `build` points to the parts of the original until build_parts is called for it. */
typedef struct {
    BuildOptions build; /* the mode, and pointers to the parts below */
    BatchOptions batch;
    InputOptions inputs;
    TypeOptions types;
    RecipeOptions recipes;
    TargetOptions target;
    UpdateOptions update;
    ParameterOptions parameters;
    ReplicaOptions replicas;
    OutputOptions outputs;
    CollectiveOptions collectives;
    BatchNormOptions batch_norm;
    BackendOptions backend;
    MemoryOptions memory;
    StepOptions step;
    TokenOptions tokens;
} BuildParts;

/* Fills `to` with the mode and a copy of each part of `from`.  The copies borrow what the parts point to. */
void build_parts_copy(BuildParts *to, const BuildOptions *from);

/* Points p->build to the parts of `p` and returns it. */
const BuildOptions *build_parts(BuildParts *p);

#endif
