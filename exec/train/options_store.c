/* Options with the parts that they consist of. */
#include "exec/train/stored_options.h"

BatchOptions *stored_batch(Options *o) { return &((StoredOptions *)o)->parts.batch; }
InputOptions *stored_inputs(Options *o) { return &((StoredOptions *)o)->parts.inputs; }
TypeOptions *stored_types(Options *o) { return &((StoredOptions *)o)->parts.types; }
RecipeOptions *stored_recipes(Options *o) { return &((StoredOptions *)o)->parts.recipes; }
TargetOptions *stored_target(Options *o) { return &((StoredOptions *)o)->parts.target; }
UpdateOptions *stored_update(Options *o) { return &((StoredOptions *)o)->parts.update; }
ParameterOptions *stored_parameters(Options *o) { return &((StoredOptions *)o)->parts.parameters; }
ReplicaOptions *stored_replicas(Options *o) { return &((StoredOptions *)o)->parts.replicas; }
OutputOptions *stored_outputs(Options *o) { return &((StoredOptions *)o)->parts.outputs; }
CollectiveOptions *stored_collectives(Options *o) { return &((StoredOptions *)o)->parts.collectives; }
BackendOptions *stored_backend(Options *o) { return &((StoredOptions *)o)->parts.backend; }
MemoryOptions *stored_memory(Options *o) { return &((StoredOptions *)o)->parts.memory; }
StepOptions *stored_step(Options *o) { return &((StoredOptions *)o)->parts.step; }
