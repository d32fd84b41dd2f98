/* A model of a few bytes can ask for any amount of memory: shapes are numbers, and constants are made of them.  So
 * planning is charged to a budget. */
#include "exec/plan/plan_budget.h"

#include <string.h>

#include "graph/base/arena.h"
#include "graph/base/machine.h"
#include "passes/build_options.h"
#include "passes/options/inputs.h"
#include "passes/options/memory.h"
#include "passes/options/recipes.h"
#include "passes/options/step.h"

MemoryBudget *plan_budget(int64_t bytes)
{
    if (bytes > 0)
        return memory_budget_create((size_t)bytes, "--plan-memory");
    return memory_budget_create((size_t)(machine_memory() / 2),
                                "--plan-memory (half of the memory there is, unless given)");
}

/* An OnnxMembers: asks the callback of the options; --input-members takes precedence. */
static Status find_members(void *user, int *n, int i, const char *name, const OnnxType *type)
{
    const InputOptions *o = input_options(user);

    (void)i;
    *n = o->members ? o->members(o->members_user, name, type->sequence, type->optional) : ONNX_UNKNOWN;
    for (int k = 0; k < o->n_input_members; k++)
        if (!strcmp(o->input_members[k].name, name))
            *n = o->input_members[k].n;
    return ST_OK;
}

/* An OnnxInputValue. */
static const char *find_input_value(void *user, const char *name)
{
    const InputOptions *o = input_options(user);

    for (int k = 0; k < o->n_input_value; k++)
        if (!strcmp(o->input_value[k].name, name))
            return o->input_value[k].text;
    return NULL;
}

static void plan_budget_give_inputs(ImportOptions *how, const BuildOptions *o)
{
    if (!o || !input_options(o)->n_input_value)
        return;
    how->input_value = find_input_value;
    how->input_value_user = (void *)(uintptr_t)o;
}

Status plan_import(Graph **out, OnnxModel **onnx, const char *path, const OnnxMemory *memory, Evaluator eval,
                   const OperatorList *own, const BuildOptions *o)
{
    return plan_import_as(out, onnx, path, memory,
                          &(ImportOptions){ .eval = eval,
                                            .own = own,
                                            .members = o ? find_members : NULL,
                                            .members_user = (void *)(uintptr_t)o,
                                            .texts = o && input_options(o)->texts },
                          o);
}

Status plan_import_given(Graph **out, OnnxModel **onnx, const char *path, const OnnxMemory *memory, Evaluator eval,
                         const OperatorList *own, const BuildOptions *o)
{
    RecipeOptions recipes = *recipe_options(o);
    BuildOptions alone = *o;

    recipes.optimizer = NULL;
    alone.recipes = &recipes;
    return plan_import_as(out, onnx, path, memory,
                          &(ImportOptions){ .eval = eval,
                                            .own = own,
                                            .members = find_members,
                                            .members_user = (void *)(uintptr_t)o,
                                            .initialize = true },
                          &alone);
}

Status plan_import_as(Graph **out, OnnxModel **onnx, const char *path, const OnnxMemory *memory,
                      const ImportOptions *as, const BuildOptions *o)
{
    const MemoryOptions *limits = o ? memory_options(o) : NULL;
    MemoryBudget *b = plan_budget(limits ? limits->plan_memory : 0);
    ImportOptions how = *as;
    Status st;

    how.budget = b;
    how.max_nodes = limits ? limits->max_nodes : 0;
    how.training = o && follows_file(o);
    how.seed = o ? step_options(o)->seed : 0;
    plan_budget_give_inputs(&how, o);
    st = !b       ? FAIL_NOMEM()
         : memory ? onnx_import_memory(out, onnx, memory, path, &how)
                  : onnx_import_file(out, onnx, path, &how);
    st = memory_budget_explain(b, st);
    memory_budget_free(b); /* the graph holds it */
    return st;
}

Status plan_check_members(const OnnxModel *onnx, const BuildOptions *o)
{
    const InputOptions *inputs = input_options(o);
    PROBLEMS(none);

    for (int k = 0; k < inputs->n_input_members; k++) {
        const char *name = inputs->input_members[k].name;
        bool found = false;

        for (int i = 0; i < onnx->n_structured && !found; i++)
            found = !strcmp(onnx->structured[i], name);
        if (!found)
            problems_add(&none, "the model has no input '%s' that is a sequence or optional", name);
    }
    return problems_fail(&none, E_INVALID, "--input-members");
}

Status plan_evaluate(OnnxNamedValue **out, int *n_out, Arena *arena, const char *path, ImportOptions *how,
                     const BuildOptions *o, OnnxInput *input, void *user)
{
    const MemoryOptions *memory = memory_options(o);
    MemoryBudget *b = plan_budget(memory->plan_memory);
    Status st;

    how->budget = b;
    how->max_nodes = memory->max_nodes;
    plan_budget_give_inputs(how, o);
    st = b ? onnx_evaluate_file(out, n_out, arena, path, how, input, user) : FAIL_NOMEM();
    st = memory_budget_explain(b, st);
    memory_budget_free(b);
    return st;
}

Status plan_copy(Graph **out, const Graph *model, int64_t bytes)
{
    MemoryBudget *b = plan_budget(bytes);
    Status st = b ? graph_clone_within(out, model, b) : FAIL_NOMEM();

    st = memory_budget_explain(b, st);
    memory_budget_free(b); /* the graph holds it */
    return st;
}

Status plan_explain(const Graph *g, Status st) { return memory_budget_explain(arena_budget(g->arena), st); }
