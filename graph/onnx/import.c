/* The import of ONNX models as graphs: one body of nodes after the other, each node in topological order.
 *
 * A malformed part fails at once.  Unsupported parts are collected, so that one error lists all of them: the nodes
 * behind them are still read, on values of unknown type, to find what else is missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/traced_calls.h"
#include "graph/onnx/evaluate.h"
#include "graph/onnx/training.h"
#include "graph/ops/view.gen.h"

static const int64_t DENSE_BYTES = (int64_t)256 << 20;

/* The node's name in the graph.  Nameless nodes get "", which graph_add_node replaces; within a call, PREFIX + Conv_12.
 */
static const char *node_name_of(Importer *im, const Body *b, const Onnx__NodeProto *p, const OpDef *op)
{
    const char *made;

    if (*text_or(p->name, "") || !*b->prefix)
        return body_name(im, b, text_or(p->name, ""));
    made = arena_printf(im->scratch, "%s%s_%u", b->prefix, op->name, im->g->n_node);
    if (!made)
        graph_fail_nomem(im->g);
    return made ? made : "";
}

/* ---- nodes ---- */

/* Calls op->import, which turns the node's older spelling into the newest, and sets `out` to the values that replaced
 * the node's outputs.  The graph lists the outputs meanwhile, so that graph_replace follows them. */
static Status absorb_opset(Importer *im, Node *n, int opset, ValueId *out)
{
    Graph *g = im->g;
    int base = g->n_output, n_out = n->n_out;
    Status st;

    if (!n->op->import)
        return ST_OK;
    for (int i = 0; i < n_out; i++)
        graph_add_output(g, "", n->out[i]);
    if (g->status)
        return g->status;
    if (!(st = n->op->import(g, n, opset)))
        st = g->status;
    for (int i = 0; i < n_out; i++)
        out[i] = g->output[base + i].value;
    g->n_output = base;
    return st;
}

/* Binds the names of the node's outputs.  Outputs that only an older opset has (hints for a backward pass) may have
 * names as long as nothing reads them. */
static Status bind_outputs(Importer *im, Body *b, const Onnx__NodeProto *p, const Node *n, const ValueId *out)
{
    for (size_t i = 0; i < p->n_output; i++) {
        ScopeEntry *e = *p->output[i] ? scope_find(&b->scope, p->output[i]) : NULL;
        bool dropped = n->op && (int)i >= n->n_out && has_value(out[i]) && value(im->g, out[i])->producer == n;

        if (!e)
            continue;
        e->value = dropped ? NO_VALUE : out[i];
        if (dropped &&
            !(e->problem = arena_printf(im->scratch, "output %zu of %s is for a backward pass that is not made here", i,
                                        proto_text(im, p))))
            return FAIL_NOMEM();
    }
    return im->g->status;
}

/* Records in n->read_as the names by which the node reads constants that bear another name. */
static Status remember_names(Importer *im, const Body *b, Node *n, const Onnx__NodeProto *p)
{
    const char **names = NULL;

    for (int i = 0; i < n->n_in; i++) {
        if (!has_value(n->in[i]) || value(im->g, n->in[i])->kind != V_CONST ||
            !strcmp(value(im->g, n->in[i])->name, p->input[i]) || body_find(b, p->input[i])->computed)
            continue;
        if (!names && !(names = ARENA_NEW(im->g->arena, const char *, n->n_in)))
            return FAIL_NOMEM();
        if (!(names[i] = arena_strdup(im->g->arena, p->input[i])))
            return FAIL_NOMEM();
    }
    n->read_as = names;
    n->n_read_as = names ? n->n_in : 0;
    return ST_OK;
}

/* Does node p pass on no gradient?  So if it is an Identity that `from` traces back to detach. */
static bool is_stop(const Importer *im, const Node *from, const Onnx__NodeProto *p)
{
    if (strcmp(p->op_type, "Identity") || p->n_output != 1)
        return false;
    return call_is(from->call, "aten.detach") || call_is(from->call, "aten.detach_copy") ||
           call_is(from->call, "aten.detach_") || scope_find(&im->stopped, p->output[0]);
}

static Status add_node(Importer *im, Body *b, const Onnx__NodeProto *p, const OpDef *op, int opset)
{
    ValueId *in = ARENA_NEW(im->scratch, ValueId, p->n_input), *out = ARENA_NEW(im->scratch, ValueId, p->n_output);
    const char **names = ARENA_NEW(im->scratch, const char *, p->n_output);
    int16_t device = -1, replica = -1;
    Attr *attrs;
    Node *n;

    if (!in || !out || !names)
        return FAIL_NOMEM();
    for (size_t i = 0; i < p->n_input; i++) {
        const ScopeEntry *e = *p->input[i] ? body_find(b, p->input[i]) : NULL;

        if (e && e->problem)
            return FAIL(E_UNSUPPORTED, "%s: input '%s': %s", proto_text(im, p), p->input[i], e->problem);
        in[i] = e ? e->value : NO_VALUE;
    }
    TRY(attributes_decode(&attrs, im, b, p));
    for (size_t i = 0; i < p->n_output; i++) { /* a required output without a name gets one: kernels write it */
        bool required = op->out_max < 0 || op_requires_output(op, (int)i);

        names[i] = *p->output[i] || !required ? body_name(im, b, p->output[i]) : NULL;
    }
    n = graph_add_node(im->g, op, node_name_of(im, b, p, op), attrs, (int)p->n_input, in, (int)p->n_output, names);
    if (!n)
        return im->g->status;
    if (!b->outer) /* a subgraph reads constants by names of its inputs, which mean nothing */
        TRY(remember_names(im, b, n, p));
    TRY(node_source_decode(n, im, b, p));
    TRY(status_prefix(place_decode(&device, &replica, im, p->doc_string), "%s", proto_text(im, p)));
    if (is_stop(im, n, p))
        n->op = &op_StopGradient;
    n->device = device;
    n->replica = replica;
    for (int i = 0; i < n->n_out; i++) {
        out[i] = n->out[i];
        if (has_value(out[i])) {
            value(im->g, out[i])->device = n->device;
            value(im->g, out[i])->replica = n->replica;
        }
    }
    if (opset < 7)
        node_remove_attr(im->g, n, "consumed_inputs"); /* listed inputs that might be overwritten */
    TRY(absorb_opset(im, n, opset, out));
    if (n->op)
        TRY(import_clamp(im, p, n));
    if (n->op)
        TRY(node_normalise(im->g, n));
    return bind_outputs(im, b, p, n, out);
}

/* Makes an Identity another name of its input if that is a constant, so that weights which exporters share this way are
 * one parameter; if dpexec exported the Identity for a second name; or if the input is no tensor. */
static Status alias(bool *done, Importer *im, Body *b, const Onnx__NodeProto *p)
{
    const ScopeEntry *e;
    ScopeEntry *to;
    Node from = { 0 };

    *done = false;
    if (strcmp(p->op_type, "Identity") || p->n_input != 1 || p->n_output != 1 || !*p->input[0] || !*p->output[0])
        return ST_OK;
    e = body_find(b, p->input[0]);
    to = scope_find(&b->scope, p->output[0]);
    if (e->sequence || e->nothing) {
        entry_copy(to, e);
        *done = true;
        return ST_OK;
    }
    if (e->problem || !has_value(e->value))
        return ST_OK;
    if (value(im->g, e->value)->kind != V_CONST && !(im->marked && !strcmp(text_or(p->doc_string, ""), ALIAS_NODE)))
        return ST_OK;
    TRY(node_source_decode(&from, im, b, p));
    if (is_stop(im, &from, p))
        return ST_OK;
    to->value = e->value;
    to->computed = e->computed || from.call;
    *done = true;
    return ST_OK;
}

static Status import_operator(Importer *im, Body *b, const Onnx__NodeProto *p)
{
    int64_t opset = opset_of(b, p->domain);
    const OpDef *op;
    bool done;

    if (!opset)
        return FAIL(E_MODEL, "%s: the opset of domain '%s' is not given", proto_text(im, p),
                    text_or(p->domain, "ai.onnx"));
    if (is_default_domain(p->domain)) {
        if (opset < ONNX_OPSET_MIN || opset > ONNX_OPSET_MAX)
            return FAIL(E_UNSUPPORTED, "opset %lld, expected %d to %d", (long long)opset, ONNX_OPSET_MIN,
                        ONNX_OPSET_MAX);
        im->newest = opset > im->newest ? opset : im->newest;
        if (!strcmp(p->op_type, "Constant"))
            return import_constant(im, b, p);
        if (is_flow_operator(p->op_type))
            return import_flow(im, b, p);
        if (is_sequence_operator(p->op_type))
            return import_sequence(im, b, p);
        if (is_optional_operator(p->op_type))
            return import_optional(im, b, p);
        TRY(alias(&done, im, b, p));
        if (done)
            return ST_OK;
    }
    if (is_gradient(p))
        return import_gradient(im, b, p);
    if (is_flex_attention(p))
        return import_flex_attention(im, b, p);
    if (is_default_domain(p->domain) && !strcmp(p->op_type, "Scatter"))
        op = op_find(NULL, "ScatterElements"); /* its name since opset 11 */
    else if (!(op = op_find(p->domain, p->op_type)) && !(op = operator_find(im->own, p->domain, p->op_type)) &&
             p->domain && !strcmp(p->domain, "dpexec")) {
        op = op_find(NULL, p->op_type); /* an operator of ONNX with attributes of dpexec, in the newest spelling */
        opset = ONNX_OPSET_MAX;
    }
    if (!op)
        return FAIL(E_UNSUPPORTED, "%s%s%s", proto_text(im, p), is_default_domain(p->domain) ? "" : " of domain ",
                    is_default_domain(p->domain) ? "" : p->domain);
    return add_node(im, b, p, op, opset > 1000000 ? 1000000 : (int)opset);
}

static Status import_node(Importer *im, Body *b, const Onnx__NodeProto *p)
{
    const Onnx__FunctionProto *f;
    const Shape unknown = shape_unknown();
    bool waits;
    Status st;

    TRY(spend_nodes(im, 1));
    if (!p->op_type || !*p->op_type)
        return FAIL(E_MODEL, "%s: a node without an operator", proto_text(im, p));
    TRY(function_find(&f, im, p));
    if (f && operator_find(im->own, p->domain, p->op_type))
        f = NULL; /* the embedder's operator goes before the file's definition */
    waits = !f && im->run && evaluate_waits(im, b, p);
    if (im->run && !waits)
        TRY(evaluate_read(im, b));
    st = f ? import_call(im, b, p, f) : import_operator(im, b, p);
    if (!st && im->run)
        return waits ? ST_OK : evaluate_read(im, b);
    if (st != E_UNSUPPORTED || im->run)
        return st;
    problems_add(&im->problems, "%s", status_message());
    if (im->g->status == E_UNSUPPORTED)
        im->g->status = ST_OK;                 /* go on: the graph is thrown away at the end */
    for (size_t i = 0; i < p->n_output; i++) { /* outputs of unknown type, so that later nodes can be read */
        ScopeEntry *e = *p->output[i] ? scope_find(&b->scope, p->output[i]) : NULL;

        if (e && !has_value(e->value))
            e->value = graph_add_value(im->g, V_TEMP, "", DT_NONE, &unknown);
    }
    return im->g->status;
}

Status import_body(Importer *im, Body *b)
{
    size_t *order = ARENA_NEW(im->scratch, size_t, b->n_node);

    if (!order)
        return FAIL_NOMEM();
    TRY(body_order(im, b, order));
    for (size_t i = 0; i < b->n_node; i++)
        TRY(import_node(im, b, b->node[order[i]]));
    return ST_OK;
}

/* An initializer of a loop's or function's body becomes one value for all trips and calls.  The first reading gets an
 * empty `*shared` to fill; later ones set `e` from it, and `*done`.  `*shared` is NULL for other bodies. */
static Status take_shared(ScopeEntry **shared, bool *done, Importer *im, const Body *b, ScopeEntry *e, const void *part)
{
    *shared = NULL;
    *done = false;
    if (!body_is_shared(b))
        return ST_OK;
    if (!(*shared = shared_entry(im, SITE_EVERY, part)))
        return FAIL_NOMEM();
    e->value = (*shared)->value;
    *done = has_value(e->value);
    return ST_OK;
}

static Status add_initializer(Importer *im, ScopeEntry *e, ScopeEntry *shared, const char *name, const Tensor *t)
{
    e->value = graph_add_const_nocopy(im->g, name, t);
    TRY(im->g->status);
    value(im->g, e->value)->origin = ORIGIN_INITIALIZER;
    if (shared)
        shared->value = e->value;
    return ST_OK;
}

Status import_initializers(Importer *im, Body *b, const Onnx__GraphProto *gp)
{
    TensorReader reader = im->tensors;
    ScopeEntry *e, *shared;
    Tensor *t;
    bool done;

    reader.unpacked = gp == im->model->graph && !(im->run && im->run->again) ? im->scratch : NULL; /* read once */
    for (size_t i = 0; i < gp->n_initializer; i++) {
        const Onnx__TensorProto *p = gp->initializer[i];

        TRY(declare(&e, b, p->name, "initializer"));
        TRY(take_shared(&shared, &done, im, b, e, p));
        if (done || (e->problem = tensor_type_problem(p->data_type, im->tensors.texts)))
            continue;
        TRY(tensor_decode(&t, &reader, p, p->name));
        TRY(add_initializer(im, e, shared, p->name, t));
    }
    for (size_t i = 0; i < gp->n_sparse_initializer; i++) {
        const Onnx__SparseTensorProto *p = gp->sparse_initializer[i];
        const char *name = p->values ? p->values->name : NULL;

        TRY(declare(&e, b, name, "sparse initializer"));
        TRY(take_shared(&shared, &done, im, b, e, p));
        if (done || (e->problem = tensor_type_problem(p->values->data_type, im->tensors.texts)))
            continue;
        TRY(tensor_decode_sparse(&t, &im->tensors, p, name));
        TRY(add_initializer(im, e, shared, name, t));
    }
    return im->g->status;
}

static Status import_tensor(Importer *im, ScopeEntry *e, const Onnx__ValueInfoProto *p)
{
    const Onnx__TypeProto__Tensor *t = p->type->tensor_type;
    const char *problem = tensor_type_problem(t->elem_type, im->tensors.texts), **params = NULL;
    Shape shape = shape_unknown();

    if (problem) {
        problems_add(&im->problems, "input '%s': %s", p->name, problem);
        e->value = graph_add_value(im->g, V_TEMP, p->name, DT_NONE, &shape);
        return im->g->status;
    }
    if (has_value(graph_find(im->g, p->name)))
        return FAIL(E_MODEL, "input '%s' has the name of a member of a sequence", p->name);
    if (t->shape)
        TRY(status_prefix(type_shape_decode(&shape, &params, im->g->arena, t->shape, p->name), "input"));
    e->value = graph_add_input(im->g, p->name, (DType)t->elem_type, &shape);
    if (!has_value(e->value))
        return im->g->status;
    value(im->g, e->value)->dim_param = params;
    return ST_OK;
}

static Status import_input(Importer *im, Body *b, const Onnx__ValueInfoProto *p)
{
    const Onnx__TypeProto *type = p->type;
    ScopeEntry *e;

    if (p->name && (e = scope_find(&b->scope, p->name)) && !e->formal && (has_value(e->value) || e->problem)) {
        e->formal = true; /* an initializer that is also an input: its default, a constant to us */
        return import_given_default(im, e);
    }
    TRY(declare(&e, b, p->name, "input"));
    e->formal = true;
    if (!type || type->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET)
        return FAIL(E_MODEL, "input '%s' has no type", p->name);
    if (input_is_given(im, p->name))
        return import_given_input(im, e, p);
    if (im->run)
        return evaluate_input(im, e, p);
    TRY(type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? import_tensor(im, e, p)
                                                                : import_structured(im, e, p));
    im->n_given++;
    return ST_OK;
}

/* Gives the output added last the symbols of its declared shape.  An invalid shape is ignored, because shapes are
 * inferred.  A list without symbols means that the output is declared a scalar. */
static Status name_dims(Importer *im, const Onnx__ValueInfoProto *p)
{
    const Onnx__TypeProto *t = p->type;
    const char **params = NULL;
    Shape shape;
    Status st;

    if (!t || t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !t->tensor_type->shape || im->g->status)
        return im->g->status;
    if ((st = type_shape_decode(&shape, &params, im->g->arena, t->tensor_type->shape, p->name)) == E_NOMEM)
        return E_NOMEM;
    if (!st && !shape.rank && !(params = ARENA_NEW(im->g->arena, const char *, MAX_RANK)))
        return FAIL_NOMEM();
    im->g->output[im->g->n_output - 1].dim_param = params;
    return ST_OK;
}

/* Adds the outputs of a sequence, whose names must be new.  An unsupported sequence is noted as a problem. */
static Status add_sequence(Importer *im, Scope *seen, const char *name, const Sequence *s)
{
    const int from = im->g->n_output;
    Status st = import_sequence_output(im, name, s);

    if (st == E_UNSUPPORTED)
        problems_add(&im->problems, "output '%s': %s", name, status_message());
    for (int i = from; !st && i < im->g->n_output; i++) {
        if (scope_find(seen, im->g->output[i].name))
            return FAIL(E_MODEL, "output '%s', of the sequence '%s', has the name of another", im->g->output[i].name,
                        name);
        st = scope_add(seen, im->g->output[i].name) ? ST_OK : FAIL_NOMEM();
    }
    return st == E_UNSUPPORTED ? ST_OK : st;
}

static Status import_outputs(Importer *im, const Body *b)
{
    const Onnx__GraphProto *gp = im->model->graph;
    Scope seen = { .arena = im->scratch };
    const ScopeEntry *e = NULL;

    if (!gp->n_output)
        return FAIL(E_MODEL, "the graph has no outputs");
    for (size_t i = 0; i < gp->n_output; i++) {
        const char *name = text_or(gp->output[i]->name, "");

        if (!(e = scope_find(&b->scope, name)))
            return FAIL(E_MODEL, "output '%s' is made by no node", name);
        if (scope_find(&seen, name))
            return FAIL(E_MODEL, "output '%s' is listed twice", name);
        if (!scope_add(&seen, name))
            return FAIL_NOMEM();
        if (e->sequence)
            TRY(add_sequence(im, &seen, name, e->sequence));
        else if (e->problem && !e->nothing)
            problems_add(&im->problems, "output '%s': %s", name, e->problem);
        else if (!e->nothing) {
            graph_add_output(im->g, name, e->value);
            TRY(name_dims(im, gp->output[i]));
        }
    }
    TRY(im->g->status);
    if (!im->g->n_output && !im->problems.n) /* empty optionals and sequences alone */
        return FAIL(E_UNSUPPORTED, "output '%s': %s", e->name, e->nothing ? e->problem : "the sequence has no tensors");
    return ST_OK;
}

/* ---- the model ---- */

static Status check_model(const Onnx__ModelProto *m, int64_t opset)
{
    if (!m->graph)
        return FAIL(E_MODEL, "the model has no graph");
    if (m->has_ir_version && m->ir_version < 1)
        return FAIL(E_MODEL, "IR version %lld, expected 1 or more", (long long)m->ir_version);
    if (opset && (opset < ONNX_OPSET_MIN || opset > ONNX_OPSET_MAX))
        return FAIL(E_UNSUPPORTED, "opset %lld, expected %d to %d", (long long)opset, ONNX_OPSET_MIN, ONNX_OPSET_MAX);
    return ST_OK;
}

static Status import_graph(Importer *im)
{
    const Onnx__GraphProto *gp = im->model->graph;
    Body b = { .prefix = "",
               .constants = "",
               .scope.arena = im->scratch,
               .n_node = gp->n_node,
               .node = gp->node,
               .n_opset = im->model->n_opset_import,
               .opset = im->model->opset_import };

    TRY(functions_index(im));
    TRY(stopped_read(im));
    TRY(import_initializers(im, &b, gp));
    for (size_t i = 0; i < gp->n_input; i++)
        TRY(import_input(im, &b, gp->input[i]));
    if (im->members_unknown) /* operators that read the input would be listed for that reason alone */
        return problems_fail(&im->problems, E_UNSUPPORTED, "not supported");
    if (im->info)
        TRY(training_initialize(im, &b));
    if (im->training)
        TRY(training_bind(im, &b));
    TRY(import_body(im, &b));
    if (im->run)
        return evaluate_outputs(im, &b);
    TRY(import_outputs(im, &b));
    TRY(problems_fail(&im->problems, E_UNSUPPORTED, "not supported"));
    known_forget(im);
    TRY(model_restore(im, &b));
    TRY(parameter_evidence_read(im, &b));
    given_inputs_fix(im, &b);
    TRY(traced_program_apply(im, &b));
    if (im->training)
        TRY(training_check(im, &b));
    return graph_sort(im->g);
}

/* Imports an unpacked model.  The graph's memory is charged to the budget of `scratch`. */
static Status import_proto(Graph **out, OnnxModel **model, const Onnx__ModelProto *m, External *ext, Arena *scratch,
                           const ImportOptions *opt, struct FileRun *run)
{
    Body top = { .n_opset = m->n_opset_import, .opset = m->opset_import };
    int64_t opset = opset_of(&top, NULL);
    Importer im = { .scratch = scratch,
                    .model = m,
                    .tensors = { .external = ext, .dense_left = DENSE_BYTES, .texts = run || (opt && opt->texts) },
                    .marked = model_is_marked(m),
                    .eval = opt ? opt->eval : NULL,
                    .own = opt ? opt->own : NULL,
                    .members = opt ? opt->members : NULL,
                    .members_user = opt ? opt->members_user : NULL,
                    .input_value = opt ? opt->input_value : NULL,
                    .input_value_user = opt ? opt->input_value_user : NULL,
                    .training = opt && opt->training,
                    .seed = opt ? opt->seed : 0,
                    .max_nodes = opt && opt->max_nodes > 0 ? (size_t)opt->max_nodes : ONNX_MAX_NODES,
                    .run = run };
    OnnxModel *remembered = NULL;
    Onnx__ModelProto whole;
    Training *info = NULL;
    Status st;

    TRY(check_model(m, opset));
    if (im.training || (opt && opt->initialize))
        TRY(training_combine(&info, scratch, m, im.training, im.max_nodes));
    im.info = info;
    if (im.training) {
        whole = *m;
        whole.graph = im.info->whole;
        im.model = &whole;
    }
    if (!(im.g = graph_create_within(text_or(m->graph->name, "graph"), arena_budget(scratch))))
        return FAIL_NOMEM();
    im.tensors.arena = im.g->arena;
    st = import_graph(&im);
    probes_free(&im);
    TRY_TO(fail, st, st);
    if (model)
        TRY_TO(fail, st, model_remember(&remembered, &im, im.newest > opset ? im.newest : opset));
    if (remembered && im.training)
        TRY_TO(fail, st, training_remember(remembered, &im));
    *out = im.g;
    if (model)
        *model = remembered;
    return ST_OK;
fail:
    problems_free(&im.problems);
    onnx_model_free(remembered);
    graph_free(im.g);
    return st;
}

Status import_part(Graph **out, const Importer *im, const Onnx__ModelProto *m, struct FileRun *run)
{
    const ImportOptions opt = {
        .eval = im->eval, .own = im->own, .max_nodes = (int64_t)im->max_nodes, .seed = im->seed
    };

    return import_proto(out, NULL, m, im->tensors.external, im->scratch, &opt, run);
}

/* Imports the bytes of a model.  `map` is the mapped file `name` that holds them; NULL: the caller's memory does. */
static Status import_bytes(Graph **out, OnnxModel **model, const OnnxMemory *bytes, const Mapped *map, const char *name,
                           const ImportOptions *opt, struct FileRun *run)
{
    Arena *scratch = arena_create_within(opt ? opt->budget : NULL);
    External *ext = NULL;
    ProtobufCMessage *m;
    Status st;

    if (!scratch || ((map || bytes->external) && !(ext = external_create(scratch, name, map ? NULL : bytes))))
        TRY_TO(done, st, FAIL_NOMEM());
    TRY_TO(done, st, onnx_unpack(&m, scratch, &onnx__model_proto__descriptor, bytes->data, bytes->size, map));
    TRY_TO(done, st, import_proto(out, model, (const Onnx__ModelProto *)m, ext, scratch, opt, run));
done:
    external_close(ext);
    if (scratch)
        arena_free(scratch);
    return status_prefix(st, "%s", name);
}

Status onnx_import_memory(Graph **out, OnnxModel **model, const OnnxMemory *memory, const char *name,
                          const ImportOptions *opt)
{
    return import_bytes(out, model, memory, NULL, name, opt, NULL);
}

Status import_file(Graph **out, OnnxModel **model, const char *path, const ImportOptions *opt, struct FileRun *run)
{
    Mapped map;
    Status st;

    TRY(mapped_open(&map, path));
    st = import_bytes(out, model, &(OnnxMemory){ .data = map.data, .size = map.size }, &map, path, opt, run);
    mapped_close(&map);
    return st;
}

Status onnx_import_file(Graph **out, OnnxModel **model, const char *path, const ImportOptions *opt)
{
    return import_file(out, model, path, opt, NULL);
}
