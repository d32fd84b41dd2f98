/* Attaching: the files' nodes join the model's, so that they are inferred, differentiated, divided and executed as it
 * is.  Both kinds are bound by names, by what the files declare of types and shapes; where one result meets one input
 * of another name, by that.  Their constants stay as they are, but for those that a criterion's file itself says are
 * parameters.  Exports contain the model as it was given. */
#include "exec/train/attach.h"

#include <stdio.h>
#include <string.h>

#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "graph/ir/emit.h"
#include "graph/ir/inline_graph.h"
#include "graph/ir/op.h"
#include "graph/ops/in_training.gen.h"
#include "passes/options/inputs.h"
#include "passes/options/memory.h"
#include "passes/options/recipes.h"
#include "passes/options/types.h"

#define CRITERION_LOSS "loss" /* as options_presets.c has it */

typedef struct {
    Graph *g;              /* the model, and what is attached already */
    const OnnxModel *onnx; /* of the model */
    bool any_float;        /* all floats are converted in the same way */
    bool texts;            /* strings are taken: the graph is only exported */
    const Options *o;
    const OperatorList *own;
    /* Fields of the file that is being attached: */
    const char *prefix; /* of names that the model has, too */
    Graph *part;
    ValueId *is;             /* by value id of `part`: in the model */
    OnnxModel *part_onnx[3]; /* [n_part] of all files, this one last */
    int n_part;
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
static Status take_symbols(const Attach *a, const OnnxOutput *of_part, const OnnxOutput *of_model)
{
    const int rank = of_part->dim_param && of_model->dtype ? of_part->shape.rank : 0;

    for (int d = 0; d < rank && d < of_model->shape.rank; d++) {
        const char *symbol = of_model->dim_param ? of_model->dim_param[d] : NULL;
        const int64_t size = of_model->shape.dim[d];

        for (int i = 0; of_part->dim_param[d] && (symbol || size >= 0) && i < a->part->n_input; i++)
            TRY(rename_symbol(a->part, value(a->part, a->part->input[i]), of_part->dim_param[d], symbol, size));
    }
    return ST_OK;
}

/* ---- a file ---- */

/* A layer that keeps statistics would have to be part of what is trained and exported. */
static Status check_part(const Attach *a)
{
    PROBLEMS(kept);

    if (graph_is_step(a->part))
        return FAIL(E_MODEL, "the file is a step that graph-transform exported, expected a model");
    FOR_NODES(a->part, n)
        if (n->op->running_in)
            problems_add(&kept, "%s", node_text(a->part, n));
    TRY(problems_fail(&kept, E_UNSUPPORTED, "layers that keep running statistics belong in the model"));
    return a->part->n_output ? ST_OK : FAIL(E_MODEL, "the graph has no output");
}

/* No rule about models' constants holds for the part's. */
static void fix_constants(const Attach *a, bool may_train)
{
    for (uint32_t i = 1; i < a->part->n_value; i++) {
        Value *v = a->part->value[i];

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
static Status share_input(Attach *a, ValueId in)
{
    Graph *g = a->g;
    const Value *x = value(a->part, in);
    const int same = input_named(g, x->name);
    const ValueId taken = graph_find(g, x->name);
    const OnnxOutput mine = declared_input(a->part, in);

    if (same >= 0) {
        const OnnxOutput model = declared_input(g, g->input[same]);

        a->is[in.i] = g->input[same];
        return check_fit(a, &mine, &model, "input");
    }
    if (has_value(taken) && value(g, taken)->kind != V_TEMP)
        return FAIL(E_INVALID, "input '%s' has the name of a constant of the model", x->name);
    if (has_value(taken)) /* a result on the way, whose name nobody relies on */
        graph_rename(g, taken, arena_printf(g->arena, "%s.result", x->name));
    a->is[in.i] = graph_add_input(g, x->name, x->dtype, x->shape);
    graph_rename(g, a->is[in.i], x->name); /* which the model may have given back */
    if (g->status)
        return g->status;
    value(g, a->is[in.i])->dim_param = graph_copy_symbols(g, x->dim_param);
    value(g, a->is[in.i])->member = x->member;
    return g->status;
}

/* ---- behind the model ---- */

static Status bind_scores(Attach *a, int input, int output)
{
    const ValueId in = a->part->input[input];
    const OnnxOutput to = declared_input(a->part, in), from = declared_output(a->onnx, a->g->output[output].name);

    TRY(check_fit(a, &to, &from, "the model's output"));
    TRY(take_symbols(a, &to, &from));
    a->is[in.i] = a->g->output[output].value;
    return ST_OK;
}

static Status bind_criterion(Attach *a)
{
    char inputs[LIST_TEXT], outputs[LIST_TEXT];
    bool any = false;

    for (int i = 0; i < a->part->n_input; i++) {
        const int o = output_named(a->g, value(a->part, a->part->input[i])->name);

        if (o >= 0)
            TRY(bind_scores(a, i, o));
        any |= o >= 0;
    }
    if (!any && (a->g->n_output != 1 || !a->part->n_input))
        return FAIL(E_INVALID, "no input has the name of an output of the model: its inputs are %s, the outputs %s",
                    list_names(inputs, a->part, true), list_names(outputs, a->g, false));
    if (!any)
        TRY(bind_scores(a, 0, 0));
    for (int i = 0; i < a->part->n_input; i++)
        if (!has_value(a->is[a->part->input[i].i]))
            TRY(share_input(a, a->part->input[i]));
    return ST_OK;
}

/* The only output is the loss; of several the one that is called so, unless --loss says otherwise. */
static Status add_losses(Attach *a)
{
    const Graph *from = a->part;
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
        graph_add_output(a->g, name, a->is[from->output[i].value.i]);
    }
    return a->g->status;
}

static Status add_criterion(Attach *a)
{
    const LossDef *loss = recipe_options(&a->o->build)->loss;

    if (loss && loss->target != TARGET_NONE)
        return FAIL(E_INVALID, "it has the loss: --loss %s does not go with it", loss->recipe.name);
    fix_constants(a, true);
    TRY(bind_criterion(a));
    TRY(graph_join(a->g, a->part, a->is, a->prefix, PHASE_CRITERION));
    return add_losses(a);
}

/* ---- in front of the model ---- */

/* Finds the input of the model that each output of the part becomes. */
static Status match_outputs(int *input, const Attach *a)
{
    const Graph *from = a->part;
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
static Status take_inputs(ValueId *given, Attach *a, const int *input)
{
    Graph *g = a->g;
    int kept = 0;

    for (int i = 0; i < a->part->n_output; i++) {
        const OnnxOutput to = declared_input(g, g->input[input[i]]),
                         from = declared_output(a->part_onnx[a->n_part - 1], a->part->output[i].name);

        TRY(check_fit(a, &to, &from, "its output"));
        TRY(take_symbols(a, &from, &to));
        given[i] = g->input[input[i]];
    }
    for (int i = 0; i < a->part->n_output; i++) {
        graph_rename(g, given[i], arena_printf(g->arena, "%s.given", value(g, given[i])->name));
        value_make_temp(value(g, given[i]));
    }
    for (int i = 0; i < g->n_input; i++)
        if (value(g, g->input[i])->kind == V_INPUT)
            g->input[kept++] = g->input[i];
    g->n_input = kept;
    return g->status;
}

/* The part's inputs first, in their order. */
static Status order_inputs(Attach *a)
{
    Graph *g = a->g;
    const int n = g->n_input;
    ValueId *order = ARENA_NEW(g->arena, ValueId, n);
    int at = 0;

    if (!order)
        return FAIL_NOMEM();
    for (int i = 0; i < a->part->n_input; i++)
        order[at++] = a->is[a->part->input[i].i];
    for (int i = 0; i < n; i++) {
        bool first = false;

        for (int k = 0; k < a->part->n_input; k++)
            first |= value_eq(order[k], g->input[i]);
        if (!first)
            order[at++] = g->input[i];
    }
    memcpy(g->input, order, (size_t)n * sizeof *order);
    return ST_OK;
}

static Status add_preprocess(Attach *a)
{
    int *input = ARENA_NEW(a->g->arena, int, a->part->n_output);
    ValueId *given = ARENA_NEW(a->g->arena, ValueId, a->part->n_output);

    if (!input || !given)
        return FAIL_NOMEM();
    fix_constants(a, false);
    TRY(match_outputs(input, a));
    TRY(take_inputs(given, a, input));
    for (int i = 0; i < a->part->n_input; i++)
        TRY(share_input(a, a->part->input[i]));
    TRY(graph_join(a->g, a->part, a->is, a->prefix, PHASE_NONE));
    for (int i = 0; i < a->part->n_output; i++)
        graph_replace(a->g, given[i], a->is[a->part->output[i].value.i]);
    TRY(a->g->status);
    TRY(order_inputs(a));
    return graph_sort(a->g);
}

/* ---- between the data and the model, in training ---- */

/* An input of the part is the model's of its name, or its only one; or another array of the data. */
static Status bind_augmented(Attach *a, ValueId in, int only)
{
    const OnnxOutput mine = declared_input(a->part, in);
    OnnxOutput model;

    if (only < 0 || input_named(a->g, mine.name) >= 0)
        return share_input(a, in);
    model = declared_input(a->g, a->g->input[only]);
    TRY(check_fit(a, &mine, &model, "the model's input"));
    TRY(take_symbols(a, &mine, &model));
    a->is[in.i] = a->g->input[only];
    return ST_OK;
}

/* The first `n_node` nodes, which are the model's, read `by` in place of `old`. */
static void replace_in_model(Graph *g, uint32_t n_node, ValueId old, ValueId by)
{
    for (uint32_t k = 0; k < n_node; k++)
        for (int i = 0; i < g->node[k]->n_in; i++)
            if (value_eq(g->node[k]->in[i], old))
                node_set_input(g, g->node[k], i, by);
}

static Status add_augment(Attach *a)
{
    Graph *g = a->g;
    const uint32_t n_node = g->n_node;
    int *input = ARENA_NEW(g->arena, int, a->part->n_output);
    const bool one = a->part->n_input == 1 && a->part->n_output == 1;

    if (!input)
        return FAIL_NOMEM();
    fix_constants(a, false);
    TRY(match_outputs(input, a));
    for (int i = 0; i < a->part->n_input; i++)
        TRY(bind_augmented(a, a->part->input[i], one ? input[0] : -1));
    TRY(graph_join(g, a->part, a->is, a->prefix, PHASE_NONE));
    for (int i = 0; i < a->part->n_output; i++) {
        const ValueId plain = g->input[input[i]], changed = a->is[a->part->output[i].value.i];
        const OnnxOutput to = declared_input(g, plain),
                         from = declared_output(a->part_onnx[a->n_part - 1], a->part->output[i].name);

        TRY(check_fit(a, &to, &from, "its output"));
        replace_in_model(g, n_node, plain, EMIT(g, InTraining, NULL, plain, changed));
        TRY(g->status);
    }
    return graph_sort(g);
}

/* ---- all of it ---- */

static Status add_part(Attach *a, Status (*add)(Attach *a))
{
    TRY(check_part(a));
    a->is = ARENA_NEW(a->part->arena, ValueId, a->part->n_value);
    return a->is ? add(a) : FAIL_NOMEM();
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

/* Joins the graph of a file, which a flag gave, to the model; `path` NULL: there is none.  `prefix`: of its names. */
static Status join_graph(Attach *a, const char *flag, const char *path, const char *prefix, Status (*add)(Attach *a))
{
    InputOptions inputs = *input_options(&a->o->build);
    BuildOptions build = a->o->build;
    Status st;

    if (!path)
        return ST_OK;
    inputs.texts = a->texts;
    inputs.members = attach_count_members;
    inputs.members_user = a;
    build.inputs = &inputs;
    a->prefix = prefix;
    TRY(status_prefix(plan_import(&a->part, &a->part_onnx[a->n_part], path, NULL, interp_node, a->own, &build), "--%s",
                      flag));
    a->n_part++;
    st = add_part(a, add);
    graph_free(a->part);
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
    PROBLEMS(none);
    char text[LIST_TEXT];

    for (int i = 0; i < inputs->n_input_value; i++) {
        const char *name = inputs->input_value[i].name;
        bool found = is_given(a->onnx, name);

        for (int k = 0; k < a->n_part && !found; k++)
            found = is_given(a->part_onnx[k], name);
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
    if (!attaches_graphs(o))
        return check_given(&a, model);
    if (graph_is_step(model))
        return FAIL(
            E_INVALID,
            "the model is a step that was exported: --preprocess, --augment-graph and --criterion do not go with it");
    TRY(plan_copy(&a.g, model, memory_options(&o->build)->plan_memory));
    st = join_graph(&a, "augment-graph", o->augment, "augment.", add_augment);
    if (!st)
        st = join_graph(&a, "preprocess", o->preprocess, "preprocess.", add_preprocess);
    if (!st)
        st = join_graph(&a, "criterion", o->criterion, "criterion.", add_criterion);
    st = st ? st : check_given(&a, model);
    for (int i = 0; i < a.n_part; i++)
        onnx_model_free(a.part_onnx[i]);
    if (st)
        graph_free(a.g);
    else
        *out = a.g;
    return st;
}

Status attach_preprocess(Graph **out, int *opset, const Graph *model, const OnnxModel *onnx, const Options *o,
                         const OperatorList *own, const char *path)
{
    Attach a = { .onnx = onnx, .o = o, .own = own, .texts = true };
    Status st;

    TRY(plan_copy(&a.g, model, memory_options(&o->build)->plan_memory));
    st = join_graph(&a, "export-preprocess", path, "preprocess.", add_preprocess);
    for (uint32_t i = 1; !st && i < a.g->n_value; i++)
        if (a.g->value[i]->evidence == EVIDENCE_JOINED) /* as the file is to say, too */
            a.g->value[i]->evidence = EVIDENCE_FIXED;
    if (st) {
        graph_free(a.g);
    } else {
        *out = a.g;
        *opset = (int)a.part_onnx[0]->opset;
    }
    for (int i = 0; i < a.n_part; i++)
        onnx_model_free(a.part_onnx[i]);
    return st;
}
