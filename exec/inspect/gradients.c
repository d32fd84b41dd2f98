/* graph-transform --gradient-of: a model with gradients of one of its outputs, in operators of ai.onnx alone.  The
 * inference graph is differentiated and written as passes/train/standard.c writes a step. */
#include <string.h>

#include "exec/inspect/any_batch.h"
#include "exec/inspect/transform.h"
#include "exec/inspect/transform_build.h"
#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "graph/ir/autodiff.h"
#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "passes/batch_axis.h"

#define GRADIENT_SUFFIX ".grad"
#define SEED_NAME "seed"

/* A request for gradients; a copy of it also holds one build. */
typedef struct {
    const char *of;    /* the output that is differentiated */
    const char *names; /* "x,fc1.weight": inputs and parameters */
    Graph *g;
    Arena *scratch;
    const char **name;  /* [n] of them */
    ValueId *by, *grad; /* [n] their values, and the gradients */
    int n;
} Gradients;

/* Splits r->names: fills name, by and n. */
static Status find_names(Gradients *r)
{
    char *at = arena_strdup(r->scratch, r->names), *comma;
    const size_t most = strlen(r->names) + 1;
    PROBLEMS(wrong);

    r->name = ARENA_NEW(r->scratch, const char *, most);
    r->by = ARENA_NEW(r->scratch, ValueId, most);
    r->grad = ARENA_NEW(r->scratch, ValueId, most);
    if (!at || !r->name || !r->by || !r->grad)
        return FAIL_NOMEM();
    for (; at; at = comma, r->n++) {
        const Value *v;

        if ((comma = strchr(at, ',')))
            *comma++ = '\0';
        r->name[r->n] = at;
        r->by[r->n] = graph_find(r->g, at);
        v = has_value(r->by[r->n]) ? value(r->g, r->by[r->n]) : NULL;
        if (!v || (v->kind != V_INPUT && v->kind != V_STATE && v->kind != V_CONST))
            problems_add(&wrong, "'%.100s' is neither an input nor a parameter", at);
        else if (!dtype_is_float(v->dtype))
            problems_add(&wrong, "'%s' is %s", v->name, dtype_name(v->dtype));
    }
    return problems_fail(&wrong, E_INVALID, "--with-respect-to: expected inputs or parameters of floats");
}

/* The scalar that is differentiated: the output, or, where it has several elements, the sum of the output times a new
 * input "seed" of its shape. */
static Status add_scalar(Gradients *r, ValueId *out)
{
    Graph *g = r->g;
    const ValueId y = graph_output(g, r->of);
    const Shape scalar = shape_scalar();
    int64_t axes[MAX_RANK];

    if (!has_value(y))
        return FAIL(E_INVALID, "--gradient-of %s: the model has no output of that name", r->of);
    if (!dtype_is_float(value(g, y)->dtype))
        return FAIL(E_INVALID, "--gradient-of %s: expected an output of floats, found %s", r->of,
                    dtype_name(value(g, y)->dtype));
    if (shape_numel(value(g, y)->shape) == 1) {
        *out = emit_reshape(g, y, &scalar);
        return g->status;
    }
    for (int i = 0; i < value(g, y)->shape->rank; i++)
        axes[i] = i;
    *out = graph_add_input(g, graph_unique_name(g, SEED_NAME), value(g, y)->dtype, value(g, y)->shape);
    *out = EMIT(g, Mul, NULL, y, *out);
    *out = emit_reduce_sum(g, *out, value(g, y)->shape->rank, axes, false);
    return g->status;
}

/* Adds an output "NAME.grad" for each of r->names. */
static Status add_gradients(Gradients *r)
{
    PROBLEMS(unreached);
    ValueId scalar;

    TRY(find_names(r));
    TRY(add_scalar(r, &scalar));
    TRY(autodiff(r->g, r->scratch, scalar, r->n, r->by, r->grad));
    for (int i = 0; i < r->n; i++) {
        const char *name = arena_printf(r->g->arena, "%s" GRADIENT_SUFFIX, r->name[i]);

        if (!name)
            return FAIL_NOMEM();
        if (has_value(r->grad[i]))
            graph_add_output(r->g, name, r->grad[i]);
        else
            problems_add(&unreached, "'%s'", r->name[i]);
    }
    TRY(problems_fail(&unreached, E_INVALID, "--gradient-of %s: the output does not depend on", r->of));
    return graph_sort(r->g);
}

/* A BuildAtBatch; `user` is the Gradients that are asked for. */
static Status build_at(Graph **out, const Graph *model, const BuildParts *parts, const void *user, Report *report)
{
    const BuildOptions *b = &parts->build;
    Gradients r = *(const Gradients *)user;
    Status st;

    (void)report;
    if (!(r.scratch = arena_create()))
        return FAIL_NOMEM();
    TRY_TO(done, st, plan_copy(&r.g, model, parts->memory.plan_memory));
    TRY_TO(done, st, plan_explain(r.g, model_repair(r.g, b, interp_node, NULL)));
    TRY_TO(done, st, plan_explain(r.g, pipeline_run(r.g, b, interp_node, NULL, &(PipelineOptions){ .until = "dce" })));
    TRY_TO(done, st, add_gradients(&r));
    TRY_TO(done, st,
           plan_explain(r.g, pipeline_run(r.g, b, interp_node, NULL, &(PipelineOptions){ .after = "add-optimizer" })));
    *out = r.g;
    r.g = NULL;
done:
    graph_free(r.g);
    arena_free(r.scratch);
    return st;
}

Status transform_gradients(Graph **out, const Graph *model, const Options *o, const char *of, const char *names)
{
    TransformBuild b;
    const Gradients asked = { .of = of, .names = names };

    TRY(transform_check_model(model));
    TRY(transform_options(&b, o, BUILD_INFER));
    b.parts.step.standard = true;
    if (replica_count(&b.parts.build) > 1)
        return FAIL(E_INVALID, "--gradient-of writes the graph of one replica, found %d",
                    replica_count(&b.parts.build));
    if (transform_one_size(model, &b.parts.build))
        return build_at(out, model, &b.parts, &asked, NULL);
    return any_batch(out, build_at, model, &b.parts, &asked, find_batch_dim(model, &b.parts.build).symbol, NULL);
}
