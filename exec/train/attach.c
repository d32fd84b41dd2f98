/* Attaching: the files' nodes join the model's, so that they are inferred, differentiated, divided and executed as it
 * is.  Both kinds are bound by names, by what the files declare of types and shapes; where one result meets one input
 * of another name, by that.  Their constants stay as they are, but for those that a criterion's file itself says are
 * parameters.  Exports contain the model as it was given. */
#include "exec/train/attach.h"

#include <stdio.h>
#include <string.h>

#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "graph/ir/inline_graph.h"
#include "graph/ir/op.h"
#include "passes/options/inputs.h"
#include "passes/options/memory.h"
#include "passes/options/recipes.h"
#include "passes/options/types.h"

#define CRITERION_LOSS "loss" /* as options_presets.c has it */

/* A file beside the model. */
typedef struct {
    const char *prefix; /* of names that the model has, too */
    Graph *graph;
    OnnxModel *onnx;
    ValueId *is; /* by value id of `graph`: in the model */
} Part;

typedef struct {
    Graph *g;              /* the model, and what is attached already */
    const OnnxModel *onnx; /* of the model */
    OnnxModel *part[2];    /* [n_part] of what is attached already */
    int n_part;
    bool any_float; /* all floats are converted in the same way */
    const Options *o;
    const OperatorList *own;
} Attach;

/* ---- what is declared of two that meet ---- */

static OnnxOutput declared_input(const Graph *g, ValueId v)
{
    const Value *x = value(g, v);

    return (OnnxOutput){ .name = x->name, .dtype = x->dtype, .shape = *x->shape, .dim_param = x->dim_param };
}

/* The model's declaration of an output; DT_NONE: it has none. */
static OnnxOutput declared_output(const OnnxModel *m, const char *name)
{
    for (int i = 0; i < m->n_output; i++)
        if (!strcmp(m->output[i].name, name))
            return m->output[i];
    return (OnnxOutput){ .name = name };
}

static bool attach_fits(const Attach *a, const OnnxOutput *to, const OnnxOutput *from)
{
    if (!to->dtype || !from->dtype)
        return true;
    if (to->dtype != from->dtype && !(a->any_float && dtype_is_float(to->dtype) && dtype_is_float(from->dtype)))
        return false;
    if (to->shape.rank < 0 || from->shape.rank < 0)
        return true;
    for (int i = 0; i < to->shape.rank && i < from->shape.rank; i++)
        if (to->shape.dim[i] >= 0 && from->shape.dim[i] >= 0 && to->shape.dim[i] != from->shape.dim[i])
            return false;
    return to->shape.rank == from->shape.rank;
}

/* `whose`: what `from` is of. */
static Status check_fit(const Attach *a, const OnnxOutput *to, const OnnxOutput *from, const char *whose)
{
    char expected[SHAPE_TEXT], found[SHAPE_TEXT];

    return attach_fits(a, to, from) ? ST_OK
                                    : FAIL(E_SHAPE, "input '%s' is %s %s, %s '%s' is %s %s", to->name,
                                           dtype_name(to->dtype), shape_text(&to->shape, expected), whose, from->name,
                                           dtype_name(from->dtype), shape_text(&from->shape, found));
}

/* An input's dimension of the one name gets the other; without one (NULL) it is of this size. */
static Status rename_symbol(Graph *g, Value *in, const char *from, const char *to, int64_t size)
{
    const char **names;
    Shape s = *in->shape;
    int axis = -1;

    for (int i = 0; in->dim_param && i < in->shape->rank; i++)
        if (in->dim_param[i] && !strcmp(in->dim_param[i], from))
            axis = i;
    if (axis < 0)
        return ST_OK;
    if (!(names = arena_memdup(g->arena, in->dim_param, MAX_RANK * sizeof *names)) ||
        (to && !(to = arena_strdup(g->arena, to))))
        return FAIL_NOMEM();
    names[axis] = to;
    in->dim_param = names;
    if (!to) {
        s.dim[axis] = size;
        value_set_shape(g, in, &s);
    }
    return g->status;
}

/* Where both have a name for one dimension, the part's inputs take the model's; where the model was exported at one
 * size of it, such as its batch, they take that, and go along when it is taken to another. */
static Status take_symbols(const Part *p, const OnnxOutput *of_part, const OnnxOutput *of_model)
{
    const int rank = of_part->dim_param && of_model->dtype ? of_part->shape.rank : 0;

    for (int d = 0; d < rank && d < of_model->shape.rank; d++) {
        const char *symbol = of_model->dim_param ? of_model->dim_param[d] : NULL;
        const int64_t size = of_model->shape.dim[d];

        for (int i = 0; of_part->dim_param[d] && (symbol || size >= 0) && i < p->graph->n_input; i++)
            TRY(rename_symbol(p->graph, value(p->graph, p->graph->input[i]), of_part->dim_param[d], symbol, size));
    }
    return ST_OK;
}

/* ---- a file ---- */

/* A layer that keeps statistics would have to be part of what is trained and exported. */
static Status check_part(const Part *p)
{
    Problems kept = { 0 };

    if (graph_is_step(p->graph))
        return FAIL(E_MODEL, "the file is a step that graph-transform exported, expected a model");
    FOR_NODES(p->graph, n)
        if (n->op->running_in)
            problems_add(&kept, "%s", node_text(p->graph, n));
    TRY(problems_fail(&kept, E_UNSUPPORTED, "layers that keep running statistics belong in the model"));
    return p->graph->n_output ? ST_OK : FAIL(E_MODEL, "the graph has no output");
}

/* No rule about models' constants holds for the part's. */
static void fix_constants(const Part *p, bool may_train)
{
    for (uint32_t i = 1; i < p->graph->n_value; i++) {
        Value *v = p->graph->value[i];

        if (v->kind == V_CONST &&
            !(may_train && (v->evidence == EVIDENCE_PARAMETER || v->evidence == EVIDENCE_TRAINED)))
            v->evidence = EVIDENCE_JOINED;
    }
}

/* "'a', 'b'" of the inputs or outputs, as many as there is room for. */
enum { LIST_TEXT = 400 };

static const char *list_names(char text[LIST_TEXT], const Graph *g, bool inputs)
{
    const int n = inputs ? g->n_input : g->n_output;
    size_t len = 0;

    *text = '\0';
    for (int i = 0; i < n && len < LIST_TEXT - 100; i++)
        len += (size_t)snprintf(text + len, LIST_TEXT - len, "%s'%.80s'", i ? ", " : "",
                                inputs ? value(g, g->input[i])->name : g->output[i].name);
    return *text ? text : "none";
}

static int input_named(const Graph *g, const char *name)
{
    for (int i = 0; i < g->n_input; i++)
        if (!strcmp(value(g, g->input[i])->name, name))
            return i;
    return -1;
}

static int output_named(const Graph *g, const char *name)
{
    for (int i = 0; i < g->n_output; i++)
        if (!strcmp(g->output[i].name, name))
            return i;
    return -1;
}

/* An input of the part that is an input of the whole: the model's, where it has one of that name. */
static Status share_input(Attach *a, const Part *p, ValueId in)
{
    Graph *g = a->g;
    const Value *x = value(p->graph, in);
    const int same = input_named(g, x->name);
    const ValueId taken = graph_find(g, x->name);
    const OnnxOutput mine = declared_input(p->graph, in);

    if (same >= 0) {
        const OnnxOutput model = declared_input(g, g->input[same]);

        p->is[in.i] = g->input[same];
        return check_fit(a, &mine, &model, "input");
    }
    if (has_value(taken) && value(g, taken)->kind != V_TEMP)
        return FAIL(E_INVALID, "input '%s' has the name of a constant of the model", x->name);
    if (has_value(taken)) /* a result on the way, whose name nobody relies on */
        graph_rename(g, taken, arena_printf(g->arena, "%s.result", x->name));
    p->is[in.i] = graph_add_input(g, x->name, x->dtype, x->shape);
    graph_rename(g, p->is[in.i], x->name); /* which the model may have given back */
    if (g->status)
        return g->status;
    value(g, p->is[in.i])->dim_param = graph_copy_symbols(g, x->dim_param);
    value(g, p->is[in.i])->member = x->member;
    return g->status;
}

/* ---- behind the model ---- */

static Status bind_scores(Attach *a, const Part *p, int input, int output)
{
    const ValueId in = p->graph->input[input];
    const OnnxOutput to = declared_input(p->graph, in), from = declared_output(a->onnx, a->g->output[output].name);

    TRY(check_fit(a, &to, &from, "the model's output"));
    TRY(take_symbols(p, &to, &from));
    p->is[in.i] = a->g->output[output].value;
    return ST_OK;
}

static Status bind_criterion(Attach *a, const Part *p)
{
    char inputs[LIST_TEXT], outputs[LIST_TEXT];
    bool any = false;

    for (int i = 0; i < p->graph->n_input; i++) {
        const int o = output_named(a->g, value(p->graph, p->graph->input[i])->name);

        if (o >= 0)
            TRY(bind_scores(a, p, i, o));
        any |= o >= 0;
    }
    if (!any && (a->g->n_output != 1 || !p->graph->n_input))
        return FAIL(E_INVALID, "no input has the name of an output of the model: its inputs are %s, the outputs %s",
                    list_names(inputs, p->graph, true), list_names(outputs, a->g, false));
    if (!any)
        TRY(bind_scores(a, p, 0, 0));
    for (int i = 0; i < p->graph->n_input; i++)
        if (!has_value(p->is[p->graph->input[i].i]))
            TRY(share_input(a, p, p->graph->input[i]));
    return ST_OK;
}

/* The only output is the loss; of several the one that is called so, unless --loss says otherwise. */
static Status add_losses(Attach *a, const Part *p)
{
    const Graph *from = p->graph;
    char text[LIST_TEXT];

    if (from->n_output > 1 && output_named(from, CRITERION_LOSS) < 0 && !options_given(a->o, "loss"))
        return FAIL(E_INVALID,
                    "none of its outputs %s is called " CRITERION_LOSS ": give --loss output:NAME or --loss "
                    "outputs",
                    list_names(text, from, false));
    for (int i = 0; i < from->n_output; i++) {
        const char *name = from->n_output > 1 ? from->output[i].name : CRITERION_LOSS;

        if (output_named(a->g, name) >= 0)
            return FAIL(E_INVALID, "output '%s': the model has an output of that name", name);
        graph_add_output(a->g, name, p->is[from->output[i].value.i]);
    }
    return a->g->status;
}

static Status add_criterion(Attach *a, const Part *p)
{
    const LossDef *loss = recipe_options(&a->o->build)->loss;

    if (loss && loss->target != TARGET_NONE)
        return FAIL(E_INVALID, "it has the loss: --loss %s does not go with it", loss->recipe.name);
    fix_constants(p, true);
    TRY(bind_criterion(a, p));
    TRY(graph_join(a->g, p->graph, p->is, p->prefix, PHASE_CRITERION));
    return add_losses(a, p);
}

/* ---- in front of the model ---- */

/* Finds the input of the model that each output of the part becomes. */
static Status match_outputs(int *input, const Attach *a, const Part *p)
{
    const Graph *from = p->graph;
    char inputs[LIST_TEXT];

    for (int i = 0; i < from->n_output; i++) {
        input[i] = input_named(a->g, from->output[i].name);
        if (input[i] < 0 && from->n_output == 1 && a->g->n_input == 1)
            input[i] = 0;
        if (input[i] < 0)
            return FAIL(E_INVALID, "its output '%s' is no input of the model, whose inputs are %s",
                        from->output[i].name, list_names(inputs, a->g, true));
    }
    return ST_OK;
}

/* Inputs of the model that the part computes give their names and places back. */
static Status take_inputs(ValueId *given, Attach *a, const Part *p, const int *input)
{
    Graph *g = a->g;
    int kept = 0;

    for (int i = 0; i < p->graph->n_output; i++) {
        const OnnxOutput to = declared_input(g, g->input[input[i]]),
                         from = declared_output(p->onnx, p->graph->output[i].name);

        TRY(check_fit(a, &to, &from, "its output"));
        TRY(take_symbols(p, &from, &to));
        given[i] = g->input[input[i]];
    }
    for (int i = 0; i < p->graph->n_output; i++) {
        graph_rename(g, given[i], arena_printf(g->arena, "%s.given", value(g, given[i])->name));
        value(g, given[i])->kind = V_TEMP;
    }
    for (int i = 0; i < g->n_input; i++)
        if (value(g, g->input[i])->kind == V_INPUT)
            g->input[kept++] = g->input[i];
    g->n_input = kept;
    return g->status;
}

/* The part's inputs first, in their order. */
static Status order_inputs(Graph *g, const Part *p)
{
    const int n = g->n_input;
    ValueId *order = ARENA_NEW(g->arena, ValueId, n);
    int at = 0;

    if (!order)
        return FAIL_NOMEM();
    for (int i = 0; i < p->graph->n_input; i++)
        order[at++] = p->is[p->graph->input[i].i];
    for (int i = 0; i < n; i++) {
        bool first = false;

        for (int k = 0; k < p->graph->n_input; k++)
            first |= value_eq(order[k], g->input[i]);
        if (!first)
            order[at++] = g->input[i];
    }
    memcpy(g->input, order, (size_t)n * sizeof *order);
    return ST_OK;
}

static Status add_preprocess(Attach *a, const Part *p)
{
    int *input = ARENA_NEW(a->g->arena, int, p->graph->n_output);
    ValueId *given = ARENA_NEW(a->g->arena, ValueId, p->graph->n_output);

    if (!input || !given)
        return FAIL_NOMEM();
    fix_constants(p, false);
    TRY(match_outputs(input, a, p));
    TRY(take_inputs(given, a, p, input));
    for (int i = 0; i < p->graph->n_input; i++)
        TRY(share_input(a, p, p->graph->input[i]));
    TRY(graph_join(a->g, p->graph, p->is, p->prefix, PHASE_NONE));
    for (int i = 0; i < p->graph->n_output; i++)
        graph_replace(a->g, given[i], p->is[p->graph->output[i].value.i]);
    TRY(a->g->status);
    TRY(order_inputs(a->g, p));
    return graph_sort(a->g);
}

/* ---- all of it ---- */

static Status add_part(Attach *a, Part *p, Status (*add)(Attach *, const Part *))
{
    TRY(check_part(p));
    p->is = ARENA_NEW(p->graph->arena, ValueId, p->graph->n_value);
    return p->is ? add(a, p) : FAIL_NOMEM();
}

/* BuildOptions.members: what the model has of that name, NAME.0, NAME.1, ... of a sequence; else what the data have. */
static int attach_count_members(void *user, const char *input, int sequence, int optional)
{
    const Attach *a = user;
    const InputOptions *inputs = input_options(&a->o->build);
    char name[512];
    int n = 0;

    for (;; n++) {
        snprintf(name, sizeof name, sequence ? "%s.%d" : "%s", input, n);
        if ((output_named(a->g, name) < 0 && input_named(a->g, name) < 0) || (!sequence && n))
            break;
    }
    if (n || !inputs->members)
        return n ? n : ONNX_UNKNOWN;
    return inputs->members(inputs->members_user, input, sequence, optional);
}

static Status attach_attach(Attach *a, const char *flag, const char *path, const char *prefix,
                            Status (*add)(Attach *, const Part *))
{
    Part p = { .prefix = prefix };
    InputOptions inputs = *input_options(&a->o->build);
    BuildOptions build = a->o->build;
    Status st;

    if (!path)
        return ST_OK;
    inputs.members = attach_count_members;
    inputs.members_user = a;
    build.inputs = &inputs;
    TRY(status_prefix(plan_import(&p.graph, &p.onnx, path, interp_node, a->own, &build), "--%s", flag));
    st = add_part(a, &p, add);
    graph_free(p.graph);
    a->part[a->n_part++] = p.onnx;
    return status_prefix(st, "--%s %s", flag, path);
}

/* ---- inputs that the options give ---- */

static bool is_given(const OnnxModel *m, const char *name)
{
    for (int i = 0; i < m->n_given; i++)
        if (!strcmp(m->given[i], name))
            return true;
    return false;
}

/* Each is an input of the model or of a part. */
static Status check_given(const Attach *a, const Graph *model)
{
    const InputOptions *inputs = input_options(&a->o->build);
    Problems none = { 0 };
    char text[LIST_TEXT];

    for (int i = 0; i < inputs->n_input_value; i++) {
        const char *name = inputs->input_value[i].name;
        bool found = is_given(a->onnx, name);

        for (int k = 0; k < a->n_part && !found; k++)
            found = is_given(a->part[k], name);
        if (!found)
            problems_add(&none, "the model has no input '%s' (inputs: %s)", name, list_names(text, model, true));
    }
    return problems_fail(&none, E_INVALID, "--input-value");
}

Status attach_graphs(Graph **out, const Graph *model, const OnnxModel *onnx, const Options *o, const OperatorList *own)
{
    Attach a = { .onnx = onnx, .any_float = o && type_options(&o->build)->dtype != DT_NONE, .o = o, .own = own };
    Status st;

    *out = NULL;
    if (!o)
        return ST_OK;
    if (!o->preprocess && !o->criterion)
        return check_given(&a, model);
    if (graph_is_step(model))
        return FAIL(E_INVALID, "the model is a step that was exported: --preprocess and --criterion do not go with it");
    TRY(plan_copy(&a.g, model, memory_options(&o->build)->plan_memory));
    if (!(st = attach_attach(&a, "preprocess", o->preprocess, "preprocess.", add_preprocess)))
        st = attach_attach(&a, "criterion", o->criterion, "criterion.", add_criterion);
    st = st ? st : check_given(&a, model);
    for (int i = 0; i < a.n_part; i++)
        onnx_model_free(a.part[i]);
    if (st)
        graph_free(a.g);
    else
        *out = a.g;
    return st;
}
