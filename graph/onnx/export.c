/* The export of graphs as ONNX models.
 *
 * Constants and states become initializers with their names.  Symbolic dimensions of inputs get their names back, and
 * so do outputs, even if a pass has replaced their value; where one value needs two names, an Identity is added. Unless
 * the export is plain, properties for which ONNX has no field become metadata, states and their updates, or doc_strings
 * (doc_string.c), so that importing the file gives the graph back. */
#include "graph/onnx/export.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/stop_gradient.h"

/* ---- messages in the arena ---- */

void *export_alloc(Exporter *x, size_t size, size_t n)
{
    void *p = x->no_memory ? NULL : arena_array(x->arena, size, n);

    x->no_memory |= !p;
    return p;
}

char *export_text(Exporter *x, const char *s)
{
    char *copy = x->no_memory ? NULL : arena_strdup(x->arena, s);

    x->no_memory |= !copy;
    return copy ? copy : "";
}

void *export_message(Exporter *x, size_t size, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m = export_alloc(x, size, 1);

    if (m)
        protobuf_c_message_init(type, m);
    return m;
}

/* ---- names ---- */

/* Does another graph of the file declare the value? */
static bool is_elsewhere(const Exporter *x, uint32_t i) { return x->elsewhere && x->elsewhere[i]; }

static bool is_initializer(const Exporter *x, uint32_t i)
{
    const Value *v = x->g->value[i];

    return (v->kind == V_CONST || v->kind == V_STATE) && (x->uses[i] || v->idle || !x->opt->plain) &&
           !is_elsewhere(x, i);
}

/* Gives value i the name unless another value has it; false: it has. */
static bool take_name(Exporter *x, const char *name, uint32_t i)
{
    ScopeEntry *e = scope_find(&x->names, name);

    if (e)
        return e->value.i == i;
    if (!(e = scope_add(&x->names, name))) {
        x->no_memory = true;
        return false;
    }
    e->value.i = i;
    return true;
}

char *export_free_name(Exporter *x, const char *base)
{
    char *name = export_text(x, base ? base : "");

    x->no_memory |= !base;
    for (int k = 1; !x->no_memory && scope_find(&x->names, name); k++)
        if (!(name = arena_printf(x->arena, "%s_%d", base, k)))
            x->no_memory = true;
    (void)take_name(x, name, UINT32_MAX - 1);
    return name;
}

/* Chooses the names of values in the file.  Inputs keep their names, outputs get theirs, and other values keep theirs
 * if they are free. */
static Status choose_names(Exporter *x)
{
    const Graph *g = x->g;

    for (int i = 0; i < g->n_input; i++) {
        const char *name = value(g, g->input[i])->name;

        if (is_elsewhere(x, g->input[i].i))
            continue;
        x->name[g->input[i].i] = export_text(x, name);
        take_name(x, x->name[g->input[i].i], g->input[i].i);
    }
    for (int i = 0; i < g->n_output; i++) {
        uint32_t v = g->output[i].value.i;
        char *name = export_text(x, g->output[i].name);
        bool free_to_rename = !x->name[v] && (g->value[v]->kind == V_TEMP || !strcmp(g->value[v]->name, name));

        if (!take_name(x, name,
                       free_to_rename                            ? v
                       : x->name[v] && !strcmp(x->name[v], name) ? v
                                                                 : UINT32_MAX) &&
            !x->no_memory)
            return FAIL(E_INVALID, "output '%s' has the name of another input or output", name);
        if (free_to_rename)
            x->name[v] = name;
        if (!x->no_memory)
            scope_find(&x->names, name)->formal = true;
    }
    for (uint32_t i = 1; i < g->n_value && !x->no_memory; i++) {
        if (x->name[i])
            continue;
        x->name[i] = export_text(x, g->value[i]->name);
        for (int k = 1; !take_name(x, x->name[i], i) && !x->no_memory; k++)
            if (!(x->name[i] = arena_printf(x->arena, "%s_%d", g->value[i]->name, k)))
                x->no_memory = true;
    }
    return x->no_memory ? FAIL_NOMEM() : ST_OK;
}

/* ---- types ---- */

/* The name of the symbolic dimension of an input that has this size, preferably on this axis; NULL: there is none. */
static const char *symbol_of(const Graph *g, int64_t size, int axis)
{
    const char *found = NULL;

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);

        for (int k = 0; v->dim_param && k < v->shape->rank; k++)
            if (v->dim_param[k] && v->shape->dim[k] == size && (!found || k == axis))
                found = v->dim_param[k];
    }
    return found;
}

/* Sets a declared dimension.  A size that follows from those of the inputs (`computed`) and equals a symbolic dimension
 * of an input is not declared fixed: on axis 0, the batch, it gets the symbol's name, elsewhere it is left open. */
static void set_dim(Exporter *x, Onnx__TensorShapeProto__Dimension *d, const Value *v, int axis, bool computed)
{
    int64_t size = v->shape->dim[axis];
    const char *symbol = v->dim_param ? v->dim_param[axis] : NULL;
    bool open = size < 0;

    if (!symbol && computed) {
        symbol = symbol_of(x->g, size, axis);
        open |= symbol != NULL;
        symbol = axis ? NULL : symbol;
    }
    if (symbol) {
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        d->dim_param = export_text(x, symbol);
    } else if (!open) {
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        d->dim_value = size;
    }
}

/* Declares type and shape of v, which in the file has that name. */
static Onnx__ValueInfoProto *export_info(Exporter *x, const Value *v, const char *name, bool computed)
{
    Onnx__ValueInfoProto *p = NEW_MESSAGE(x, Onnx__ValueInfoProto, onnx__value_info_proto);
    Onnx__TensorShapeProto *s;

    if (!p)
        return NULL;
    p->name = export_text(x, name);
    if (v->dtype == DT_NONE)
        return p; /* the type is not known yet */
    if (!(p->type = NEW_MESSAGE(x, Onnx__TypeProto, onnx__type_proto)))
        return NULL;
    p->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    if (!(p->type->tensor_type = NEW_MESSAGE(x, Onnx__TypeProto__Tensor, onnx__type_proto__tensor)))
        return NULL;
    p->type->tensor_type->has_elem_type = true;
    p->type->tensor_type->elem_type = (int32_t)v->dtype;
    if (v->shape->rank < 0)
        return p;
    p->type->tensor_type->shape = s = NEW_MESSAGE(x, Onnx__TensorShapeProto, onnx__tensor_shape_proto);
    if (!s || !(s->dim = export_alloc(x, sizeof *s->dim, (size_t)v->shape->rank)))
        return NULL;
    for (int i = 0; i < v->shape->rank; i++) {
        if (!(s->dim[i] = NEW_MESSAGE(x, Onnx__TensorShapeProto__Dimension, onnx__tensor_shape_proto__dimension)))
            return NULL;
        set_dim(x, s->dim[i], v, i, computed);
    }
    s->n_dim = (size_t)v->shape->rank;
    return p;
}

Onnx__ValueInfoProto *export_value(Exporter *x, uint32_t i)
{
    const Value *v = x->g->value[i];
    Onnx__ValueInfoProto *p = export_info(x, v, x->name[i], v->kind != V_INPUT);

    if (p && !x->opt->plain)
        p->doc_string = export_mark(x, i);
    return p;
}

/* Declares an output as inferred; a missing type or shape, and names of dimensions, come from the model that was read.
 */
static Onnx__ValueInfoProto *export_output(Exporter *x, const Output *o)
{
    const Value *v = value(x->g, o->value);
    const OnnxOutput *old = onnx_model_output(x->opt->model, o->name);
    Value d = { .dtype = v->dtype, .shape = v->shape, .dim_param = v->dim_param };
    Onnx__ValueInfoProto *p;
    Shape declared;

    if (old && (d.dtype == DT_NONE || d.dtype == old->dtype)) {
        d.dtype = old->dtype;
        if (d.shape->rank < 0) {
            declared = old->shape;
            if (o->resized > 0 && o->resized <= declared.rank && declared.dim[o->resized - 1] >= 0)
                declared.dim[o->resized - 1] = o->new_size;
            d.shape = &declared;
        }
        if (d.shape->rank == old->shape.rank && !d.dim_param)
            d.dim_param = old->dim_param;
    }
    p = export_info(x, &d, o->name, !v->dim_param);
    if (p && !x->opt->plain && v->kind == V_TEMP && !strcmp(x->name[o->value.i], o->name))
        p->doc_string = export_mark(x, o->value.i);
    return p;
}

/* ---- the graph ---- */

void export_identity(Exporter *x, Onnx__GraphProto *gp, uint32_t from, const char *to)
{
    Onnx__NodeProto *p = NEW_MESSAGE(x, Onnx__NodeProto, onnx__node_proto);
    char **ends = export_alloc(x, sizeof *ends, 2);

    if (!p || !ends)
        return;
    ends[0] = x->name[from];
    ends[1] = export_text(x, to);
    p->op_type = "Identity";
    p->name = ends[1];
    p->doc_string = x->opt->plain ? NULL : ALIAS_NODE;
    p->n_input = p->n_output = 1;
    p->input = &ends[0];
    p->output = &ends[1];
    gp->node[gp->n_node++] = p;
}

static Status add_initializers(Exporter *x, Onnx__GraphProto *gp)
{
    const Graph *g = x->g;

    if (!(gp->initializer = export_alloc(x, sizeof *gp->initializer, g->n_value)))
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value && !x->no_memory; i++) {
        Onnx__TensorProto *t;

        if (!is_initializer(x, i))
            continue;
        if (!g->value[i]->init)
            return FAIL(E_INTERNAL, "'%s' has no value", g->value[i]->name);
        if ((t = export_tensor(x, g->value[i]->init, x->name[i])) && !x->opt->plain)
            t->doc_string = export_mark(x, i);
        gp->initializer[gp->n_initializer++] = t;
    }
    return x->no_memory ? FAIL_NOMEM() : ST_OK;
}

/* Declares inputs, outputs and inner values. */
static void add_infos(Exporter *x, Onnx__GraphProto *gp)
{
    const Graph *g = x->g;

    gp->input = export_alloc(x, sizeof *gp->input, g->n_value);
    gp->output = export_alloc(x, sizeof *gp->output, (size_t)g->n_output);
    gp->value_info = export_alloc(x, sizeof *gp->value_info, g->n_value);
    for (int i = 0; i < g->n_input && !x->no_memory; i++)
        if (!is_elsewhere(x, g->input[i].i))
            gp->input[gp->n_input++] = export_value(x, g->input[i].i);
    for (uint32_t i = 1; i < g->n_value && x->opt->defaults && !x->no_memory; i++)
        if (g->value[i]->kind == V_STATE && is_initializer(x, i))
            gp->input[gp->n_input++] = export_value(x, i);
    for (int i = 0; i < g->n_output && !x->no_memory; i++)
        gp->output[gp->n_output++] = export_output(x, &g->output[i]);
    for (uint32_t i = 1; i < g->n_value && !x->opt->plain && !x->no_memory; i++) {
        const Value *v = g->value[i];
        bool known = v->dtype != DT_NONE && shape_known(v->shape);

        if (v->producer && v->producer->op && (known || export_mark(x, i)) &&
            !scope_find(&x->names, x->name[i])->formal)
            gp->value_info[gp->n_value_info++] = export_value(x, i);
    }
}

/* ---- the model ---- */

/* Adds a metadata property, for which there is room. */
static void add_prop(Exporter *x, Onnx__ModelProto *m, const char *prefix, const char *key, const char *text)
{
    Onnx__StringStringEntryProto *p = NEW_MESSAGE(x, Onnx__StringStringEntryProto, onnx__string_string_entry_proto);

    if (!p)
        return;
    if (!(p->key = arena_printf(x->arena, "%s%s", prefix, key)))
        x->no_memory = true;
    p->value = export_text(x, text);
    m->metadata_props[m->n_metadata_props++] = p;
}

/* The value of PROP_STATE for a copy that holds a piece (importer.h). */
static const char *shard_words(Exporter *x, const Shard *s)
{
    const char *text = arena_printf(x->arena, "plain from %" PRId64 " of", s->from);

    for (int i = 0; text && i < s->whole.rank; i++)
        text = arena_printf(x->arena, "%s%s%" PRId64, text, i ? "," : " ", s->whole.dim[i]);
    x->no_memory |= !text;
    return text;
}

/* Records which constants are trained, so that training goes on with the same parameters (parameter_evidence.c), and
 * the updates of buffers, which are constants of a model. */
static void add_parameters(Exporter *x, Onnx__ModelProto *m)
{
    const Graph *g = x->g;

    for (uint32_t i = 1; i < g->n_value && !x->no_memory; i++) {
        const Value *v = g->value[i];

        if (v->kind == V_CONST && x->uses[i] &&
            (v->evidence == EVIDENCE_TRAINED || v->evidence == EVIDENCE_FIXED ||
             (v->evidence == EVIDENCE_GIVEN && dtype_is_float(v->dtype))))
            add_prop(x, m, PROP_PARAMETER, x->name[i],
                     v->evidence == EVIDENCE_TRAINED ? PARAMETER_TRAINED : PARAMETER_FIXED);
    }
    for (int i = 0; i < g->n_update && !x->no_memory; i++)
        if (value(g, g->update[i].state)->kind == V_CONST)
            add_prop(x, m, PROP_NEXT, x->name[g->update[i].state.i], x->name[g->update[i].next.i]);
}

/* Records the Decided and StopGradient nodes of a plain export, which ONNX does not have. */
static void add_plain_nodes(Exporter *x, Onnx__ModelProto *m)
{
    FOR_NODES(x->g, n)
        if (n->op->check_sizes && !x->no_memory) {
            const char *text =
                arena_printf(x->arena, "%lld %s", (long long)node_int(n, "value"), node_string(n, "what"));

            add_prop(x, m, PROP_DECIDED, x->name[n->out[0].i], text ? text : "");
            x->no_memory |= !text;
        }
    FOR_NODES(x->g, n)
        if (op_stops(n->op) && !x->no_memory)
            add_prop(x, m, PROP_STOP, x->name[n->out[0].i], "");
}

static void add_props(Exporter *x, Onnx__ModelProto *m)
{
    const Graph *g = x->g;
    const OnnxModel *old = x->opt->model;

    m->metadata_props =
        export_alloc(x, sizeof *m->metadata_props,
                     2 * (size_t)g->n_value + 2 * (size_t)g->n_update + (size_t)(old ? old->n_prop : 0) + 1);
    for (int i = 0; old && i < old->n_prop && !x->no_memory; i++)
        add_prop(x, m, "", old->prop[i].key, old->prop[i].value);
    add_parameters(x, m);
    if (x->opt->plain) {
        add_plain_nodes(x, m);
        return;
    }
    add_prop(x, m, PROP_MARKS, "", MARKS_VERSION);
    for (uint32_t i = 1; i < g->n_value && !x->no_memory; i++) {
        const Value *v = g->value[i];

        if (v->kind == V_STATE)
            add_prop(x, m, PROP_STATE, x->name[i],
                     v->shard       ? shard_words(x, v->shard)
                     : v->trainable ? "trainable"
                     : v->transient ? v->partial ? "transient partial" : "transient"
                     : v->partial   ? "partial"
                                    : "plain");
    }
    for (int i = 0; i < g->n_update && !x->no_memory; i++)
        if (value(g, g->update[i].state)->kind == V_STATE)
            add_prop(x, m, PROP_UPDATE, x->name[g->update[i].state.i], x->name[g->update[i].next.i]);
}

/* The IR version that introduced the opset. */
static int64_t ir_version(int64_t opset)
{
    static const struct {
        int8_t opset, ir;
    } table[] = { { 25, 13 }, { 24, 12 }, { 23, 11 }, { 21, 10 }, { 19, 9 }, { 15, 8 } };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (opset >= table[i].opset)
            return table[i].ir;
    return 7;
}

Status export_rest(Exporter *x, Onnx__ModelProto *m)
{
    const OnnxModel *old = x->opt->model;

    m->opset_import = export_alloc(x, sizeof *m->opset_import, x->n_domain + 1);
    if (!m->opset_import ||
        !(m->opset_import[0] = NEW_MESSAGE(x, Onnx__OperatorSetIdProto, onnx__operator_set_id_proto)))
        return FAIL_NOMEM();
    m->opset_import[0]->domain = "";
    m->opset_import[0]->has_version = true;
    m->opset_import[0]->version = x->opset;
    if (x->n_domain)
        memcpy(m->opset_import + 1, x->domain, x->n_domain * sizeof *x->domain);
    m->n_opset_import = x->n_domain + 1;
    m->has_ir_version = true;
    m->ir_version = ir_version(x->opset);
    m->producer_name = "dpexec";
    m->doc_string = old && old->doc ? export_text(x, old->doc) : NULL;
    add_props(x, m);
    return x->no_memory ? FAIL_NOMEM() : ST_OK;
}

Status export_begin(Exporter *x)
{
    x->uses = graph_count_uses(x->g, x->arena);
    x->name = export_alloc(x, sizeof *x->name, x->g->n_value);
    return x->uses && x->name ? ST_OK : FAIL_NOMEM();
}

Status export_graph(Exporter *x, Onnx__GraphProto *gp)
{
    const Graph *g = x->g;

    TRY(choose_names(x));
    if (x->opt->plain)
        TRY(export_plan_branches(x));
    gp->name = export_text(x, *g->name ? g->name : "graph");
    export_nodes(x, gp, 0, (size_t)g->n_output);
    for (int i = 0; i < g->n_output && !x->no_memory; i++)
        if (strcmp(x->name[g->output[i].value.i], g->output[i].name))
            export_identity(x, gp, g->output[i].value.i, g->output[i].name);
    TRY(problems_fail(&x->problems, E_UNSUPPORTED, "ONNX does not have these operators"));
    TRY(add_initializers(x, gp));
    add_infos(x, gp);
    return x->no_memory ? FAIL_NOMEM() : ST_OK;
}

/* Writes to the stream `to`, or with NULL to a file at `path`. */
static Status export_to(FILE *to, const Graph *g, const ExportOptions *opt, const char *path)
{
    Graph view = *g;
    Exporter x = { .g = &view, .opt = opt ? opt : &(ExportOptions){ 0 }, .arena = arena_create() };
    Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
    Status st = g->status;

    if (!x.arena)
        return FAIL_NOMEM();
    x.names.arena = view.arena = x.arena;
    x.opset = x.opt->model ? x.opt->model->opset : OPSET_AT_LEAST;
    if (!x.opt->plain && x.opset < OPSET_AT_LEAST)
        x.opset = OPSET_AT_LEAST;
    if (x.opset < x.opt->opset)
        x.opset = x.opt->opset;
    if (!st && x.opt->plain)
        st = export_respell(&view, &x.opset);
    if (st)
        goto done;
    TRY_TO(done, st, export_begin(&x));
    m.graph = NEW_MESSAGE(&x, Onnx__GraphProto, onnx__graph_proto);
    TRY_TO(done, st, m.graph ? export_graph(&x, m.graph) : FAIL_NOMEM());
    TRY_TO(done, st, export_rest(&x, &m));
    st = to ? model_print(to, &m, x.opt->most_bytes) : model_write(&m, path, x.arena, x.opt->most_bytes);
done:
    problems_free(&x.problems);
    arena_free(x.arena);
    return st;
}

Status onnx_export_file(const Graph *g, const ExportOptions *opt, const char *path)
{
    return export_to(NULL, g, opt, path);
}

Status onnx_export_stream(FILE *to, const Graph *g, const ExportOptions *opt) { return export_to(to, g, opt, NULL); }
