/* A model with gradients of one of its outputs, in operators of ai.onnx alone: the graph of inference, differentiated
 * there and written as passes/train/standard.c writes a step. */
#include <string.h>

#include "exec/inspect/any_batch.h"
#include "graph/ops/binary.gen.h"
#include "exec/inspect/transform.h"
#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "graph/ir/emit.h"
#include "graph/ir/autodiff.h"
#include "passes/batch_axis.h"

#define GRADIENT_SUFFIX ".grad"
#define SEED_NAME "seed"

typedef struct {
    Graph *g;
    Arena *scratch;
    const char *of;
    const char **name; /* [n] */
    ValueId *by, *grad;
    int n;
} Gradients;

/* "x,fc1.weight" */
static Status gradients_read_names(Gradients *r, const char *list)
{
    char *at = arena_strdup(r->scratch, list), *comma;
    const size_t most = strlen(list) + 1;

    r->name = ARENA_NEW(r->scratch, const char *, most);
    r->by = ARENA_NEW(r->scratch, ValueId, most);
    r->grad = ARENA_NEW(r->scratch, ValueId, most);
    if (!at || !r->name || !r->by || !r->grad)
        return FAIL_NOMEM();
    for (; at; at = comma) {
        if ((comma = strchr(at, ',')))
            *comma++ = '\0';
        r->name[r->n++] = at;
    }
    return ST_OK;
}

static Status find_names(Gradients *r)
{
    Problems wrong = { 0 };

    for (int i = 0; i < r->n; i++) {
        const Value *v;

        r->by[i] = graph_find(r->g, r->name[i]);
        v = has_value(r->by[i]) ? value(r->g, r->by[i]) : NULL;
        if (!v || (v->kind != V_INPUT && v->kind != V_STATE && v->kind != V_CONST))
            problems_add(&wrong, "'%.100s' is neither", r->name[i]);
        else if (!dtype_is_float(v->dtype))
            problems_add(&wrong, "'%s' is %s", v->name, dtype_name(v->dtype));
    }
    return problems_fail(&wrong, E_INVALID, "--with-respect-to: expected inputs or parameters of floats");
}

/* The number that is differentiated: the output, or its sum weighed by an input of its shape. */
static Status make_number(Gradients *r, ValueId *out)
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

static Status add_gradients(Gradients *r)
{
    Problems unreached = { 0 };
    ValueId number;

    TRY(find_names(r));
    TRY(make_number(r, &number));
    TRY(autodiff(r->g, r->scratch, number, r->n, r->by, r->grad));
    for (int i = 0; i < r->n; i++) {
        const char *name = arena_printf(r->g->arena, "%s" GRADIENT_SUFFIX, r->name[i]);

        if (!name)
            return FAIL_NOMEM();
        if (has_value(r->grad[i]))
            graph_add_output(r->g, name, r->grad[i]);
        else
            problems_add(&unreached, "'%s'", r->name[i]);
    }
    TRY(problems_fail(&unreached, E_INVALID, "--gradient-of %s: it does not depend on", r->of));
    return graph_sort(r->g);
}

static Status gradients_make(Gradients *r, const char *names, const Graph *model, const BuildOptions *b)
{
    TRY(gradients_read_names(r, names));
    TRY(plan_copy(&r->g, model, b->plan_memory));
    TRY(plan_explain(r->g, model_repair(r->g, b, interp_node, NULL)));
    TRY(plan_explain(r->g, pipeline_run(r->g, b, interp_node, NULL, &(PipelineOptions){ .until = "dce" })));
    TRY(add_gradients(r));
    return plan_explain(r->g, pipeline_run(r->g, b, interp_node, NULL, &(PipelineOptions){ .after = "add-optimizer" }));
}

typedef struct {
    const Graph *model;
    const char *of, *names;
    BuildOptions *build;
} Asked;

static Status build_at(Graph **out, void *user, int64_t batch, Report *report)
{
    const Asked *a = user;
    Gradients r = { .of = a->of, .scratch = arena_create() };
    Status st;

    (void)report;
    if (!r.scratch)
        return FAIL_NOMEM();
    a->build->batch = batch;
    if (!(st = gradients_make(&r, a->names, a->model, a->build)))
        *out = r.g;
    else
        graph_free(r.g);
    arena_free(r.scratch);
    return st;
}

Status transform_gradients(Graph **out, const Graph *model, const Options *o, const char *of, const char *names)
{
    TransformBuild b;
    Asked asked = { model, of, names, &b.build };

    TRY(transform_check_model(model));
    TRY(transform_options(&b, o, BUILD_INFER));
    b.build.standard = true;
    if (replica_count(&b.build) > 1)
        return FAIL(E_INVALID, "--gradient-of writes the graph of one replica, found %d", replica_count(&b.build));
    if (transform_one_size(model, &b.build))
        return build_at(out, &asked, b.build.batch, NULL);
    return any_batch(out, build_at, &asked, find_batch_dim(model, &b.build).symbol, NULL);
}
