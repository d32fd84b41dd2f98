/* Imports, evaluates and copies models within a memory budget (--plan-memory).
 *
 * The budget covers the model as it is read, graphs, the working memory of passes, constants that folding makes and
 * tables of packing. */
#ifndef DPX_PLAN_BUDGET_H
#define DPX_PLAN_BUDGET_H

#include "graph/onnx/onnx.h"
#include "passes/pass.h"

/* Makes a budget of `bytes`; 0: half of the machine's memory or of this process's cgroup, whichever is less.  NULL when
 * out of memory. */
MemoryBudget *plan_budget(int64_t bytes);
/* Imports a model within a budget of its own: that of the file `path`, or the one in memory (NULL: none), which
 * messages call `path`.  `o` (NULL: defaults) gives the budget, the maximal number of nodes, the values of inputs and
 * the members of sequences.  `own`, the embedder's operators, must outlive the graph. */
Status plan_import(Graph **out, OnnxModel **onnx, const char *path, const OnnxMemory *memory, Evaluator eval,
                   const OperatorList *own, const BuildOptions *o) CHECKED;
/* Does the same for a file whose training_info is followed: the model without its training step, with the initial
 * values that training_info computes. */
Status plan_import_given(Graph **out, OnnxModel **onnx, const char *path, const OnnxMemory *memory, Evaluator eval,
                         const OperatorList *own, const BuildOptions *o) CHECKED;
/* Does the same with the import options `as`, whose `budget`, `max_nodes`, `training`, `seed` and values of inputs are
 * set from `o`. */
Status plan_import_as(Graph **out, OnnxModel **onnx, const char *path, const OnnxMemory *memory,
                      const ImportOptions *as, const BuildOptions *o) CHECKED;
/* Checks that each input in --input-members is a sequence or optional in this file.  E_INVALID lists those that are
 * not. */
Status plan_check_members(const OnnxModel *onnx, const BuildOptions *o) CHECKED;
/* Evaluates a file (onnx_evaluate_file) within a budget of its own.  Sets how->budget, how->max_nodes and the values of
 * inputs from `o`. */
Status plan_evaluate(OnnxNamedValue **out, int *n_out, Arena *arena, const char *path, ImportOptions *how,
                     const BuildOptions *o, OnnxInput *input, void *user) CHECKED;
/* Copies the model for planning, within a budget of its own of `bytes` (see plan_budget). */
Status plan_copy(Graph **out, const Graph *model, int64_t bytes) CHECKED;
/* Puts the flag, the limit and the request before the message if `st` is an E_NOMEM that the graph's budget caused.
 * Returns st. */
Status plan_explain(const Graph *g, Status st) CHECKED;

#endif
