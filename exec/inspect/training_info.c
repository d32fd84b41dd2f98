/* graph-transform --training-info: writes a training step as the training_info of its model.  The step is the graph
 * after add-optimizer, which no device's operators are in yet.
 *
 * The file must stand for itself: the learning rate becomes a constant, and Decided nodes check that inputs have the
 * sizes for which the step was built. */
#include <string.h>

#include "exec/inspect/transform.h"
#include "exec/inspect/transform_build.h"
#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "exec/train/options_groups.h"
#include "graph/ir/emit.h"
#include "graph/ops/decided.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/view.gen.h"
#include "passes/model/inference.h"
#include "passes/model/integer_weights.h"
#include "passes/train/next_outputs.h"

extern const Pass pass_dce;

/* Makes the learning rate of parameter group k a constant: that of the first step. */
static Status fix_rate(Graph *g, const Options *o, int k)
{
    const ValueId id = graph_find(g, k ? o->group[k - 1].rate_name : IN_LR);
    Value *v = has_value(id) ? value(g, id) : NULL;
    Tensor *t;
    int kept = 0;

    if (!v || v->kind != V_INPUT)
        return ST_OK;
    if (!(t = tensor_create(g->arena, v->dtype, v->shape)))
        return FAIL_NOMEM();
    tensor_set_float(t, 0, options_group_rate(o, k, 0, NULL));
    v->kind = V_CONST;
    v->init = t;
    for (int i = 0; i < g->n_input; i++)
        if (!value_eq(g->input[i], id))
            g->input[kept++] = g->input[i];
    g->n_input = kept;
    return ST_OK;
}

/* Checks, by Decided nodes, that inputs have the sizes for which the step was built, where the model leaves them open.
 */
static Status hold_sizes(Graph *g, const Graph *model)
{
    for (int i = 0; i < model->n_input; i++) {
        const Value *open = value(model, model->input[i]);
        const ValueId id = graph_find(g, open->name);

        for (int64_t d = 0; has_value(id) && d < value(g, id)->shape->rank; d++) {
            const int64_t is = value(g, id)->shape->dim[d];
            const char *what = arena_printf(g->arena, "the training_info: axis %d of '%.100s'", (int)d, open->name);
            ValueId size = EMIT(g, Shape, NULL, id);

            if (!what)
                return FAIL_NOMEM();
            size = EMIT(g, Gather, ATTRS(INT("axis", 0)), size, emit_ints(g, 1, &d));
            size = EMIT(g, Squeeze, NULL, size);
            (void)EMIT(g, Decided, ATTRS(INT("value", is), STRING("what", what)), size);
        }
    }
    return g->status;
}

/* Turns g, a copy of the model, into the step.  Its outputs are the loss and the next value of each state; a standard
 * step (passes/train/standard.c) has these alone. */
static Status make_step(Graph *g, const Graph *model, const OnnxModel *onnx, const TransformBuild *b, const Options *o)
{
    PassCtx ctx = { .opt = &b->parts.build, .eval = interp_node };
    Status st;

    for (int i = 0; onnx && i < onnx->n_first; i++) { /* a value that the file's own graph computes is no constant */
        const ValueId id = graph_find(g, onnx->first[i].key);

        if (has_value(id) && value(g, id)->kind == V_CONST && !value(g, id)->next)
            value(g, id)->kind = V_STATE;
    }
    TRY(pipeline_run(g, &b->parts.build, interp_node, NULL,
                     &(PipelineOptions){ .until = b->parts.step.standard ? "standard" : "add-optimizer" }));
    for (int k = 0; k <= o->n_group; k++)
        TRY(fix_rate(g, o, k));
    if (!b->parts.step.standard)
        next_outputs_drop_others(g);
    TRY(b->parts.step.standard ? next_outputs_to_updates(g) : next_outputs_add(g));
    TRY(hold_sizes(g, model));
    if (!(ctx.scratch = arena_create_beside(g->arena)))
        return FAIL_NOMEM();
    st = pass_dce.run(g, &ctx);
    arena_free(ctx.scratch);
    return st ? st : graph_sort(g);
}

Status transform_write_training(const Graph *model, const Graph *given, const OnnxModel *onnx, const Options *o,
                                bool standard, const char *path)
{
    TransformBuild b;
    Graph *trained = NULL, *plain = NULL, *step = NULL;
    Status st;

    TRY(transform_check_model(model));
    TRY(transform_options(&b, o, BUILD_TRAIN));
    if (!b.parts.recipes.loss)
        return FAIL(E_INVALID, "--training-info needs a loss: give --loss");
    if (b.parts.replicas.replicas > 1)
        return FAIL(E_INVALID, "--training-info: the file has one step, of one replica, found %d",
                    b.parts.replicas.replicas);
    if (strcmp(options_get(o, "lr-schedule"), "constant") || o->warmup_steps)
        return FAIL(
            E_UNSUPPORTED,
            "--training-info: the learning rate changes, expected --lr-schedule constant without --warmup-steps");
    b.parts.step.standard = standard;
    TRY(plan_copy(&trained, model, b.parts.memory.plan_memory));
    TRY_TO(done, st, plan_explain(trained, model_repair(trained, &b.parts.build, interp_node, NULL)));
    TRY_TO(done, st, graph_clone(&step, trained));
    TRY_TO(done, st, plan_explain(step, make_step(step, trained, onnx, &b, o)));
    TRY_TO(done, st, plan_copy(&plain, given ? given : trained, b.parts.memory.plan_memory));
    if (given)
        TRY_TO(done, st, plan_explain(plain, model_repair(plain, &b.parts.build, interp_node, NULL)));
    TRY_TO(done, st, inference_make(plain));
    TRY_TO(done, st, integer_weights_standard(plain));
    st = onnx_export_training(plain, step, &(ExportOptions){ .model = onnx }, path);
done:
    graph_free(step);
    graph_free(plain);
    graph_free(trained);
    return st;
}
