/* Options with the storage of the parts that their `build` points to, for the readers of options. */
#ifndef DPX_OPTIONS_STORE_H
#define DPX_OPTIONS_STORE_H

#include "exec/train/options.h"

/* The parts, to be changed.  A function each, so that a file includes only the parts that it fills. */
struct BatchOptions *stored_batch(Options *o);
struct InputOptions *stored_inputs(Options *o);
struct TypeOptions *stored_types(Options *o);
struct RecipeOptions *stored_recipes(Options *o);
struct TargetOptions *stored_target(Options *o);
struct UpdateOptions *stored_update(Options *o);
struct ParameterOptions *stored_parameters(Options *o);
struct ReplicaOptions *stored_replicas(Options *o);
struct OutputOptions *stored_outputs(Options *o);
struct CollectiveOptions *stored_collectives(Options *o);
struct BackendOptions *stored_backend(Options *o);
struct MemoryOptions *stored_memory(Options *o);
struct StepOptions *stored_step(Options *o);

#endif
