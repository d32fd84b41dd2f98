/* The memory that planning may take: the model as it is read, graphs, what passes work with, constants that folding
 * makes, tables of packing. */
#ifndef DPX_PLAN_BUDGET_H
#define DPX_PLAN_BUDGET_H

#include "graph/onnx/onnx.h"
#include "passes/pass.h"

/* A budget of `bytes`; 0: half of the machine's memory or of this process's cgroup, whichever is less.  NULL when out
 * of memory. */
MemoryBudget *plan_budget(int64_t bytes);
/* The model of a file, within a budget of its own and as many nodes as the options allow (NULL: the defaults'); `own`
 * outlives it. */
Status plan_import(Graph **out, OnnxModel **onnx, const char *path, Evaluator eval, const OperatorList *own,
                   const BuildOptions *o) CHECKED;
/* Where the file's training_info is followed: the model without it, with the first values that it gives. */
Status plan_import_given(Graph **out, OnnxModel **onnx, const char *path, Evaluator eval, const OperatorList *own,
                         const BuildOptions *o) CHECKED;
/* The same with these options but for `budget`, `max_nodes`, `training` and `seed`, which are set. */
Status plan_import_as(Graph **out, OnnxModel **onnx, const char *path, const ImportOptions *as,
                      const BuildOptions *o) CHECKED;
/* E_INVALID: the options say what inputs have that are no sequences, nor optional, in this file. */
Status plan_check_members(const OnnxModel *onnx, const BuildOptions *o) CHECKED;
/* onnx_evaluate_file within the same, with these options but for `budget` and `max_nodes`, which are set. */
Status plan_evaluate(OnnxNamedValue **out, int *n_out, Arena *arena, const char *path, ImportOptions *how,
                     const BuildOptions *o, OnnxInput *input, void *user) CHECKED;
/* A copy of the model to be planned, within a budget of its own. */
Status plan_copy(Graph **out, const Graph *model, int64_t bytes) CHECKED;
/* memory_budget_explain of the budget that the graph is within. */
Status plan_explain(const Graph *g, Status st) CHECKED;

#endif
