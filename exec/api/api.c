/* The C API around models, tensors and options: a thin cover over the library's own types. */
#include "exec/api/api.h"

#include <dlpack/dlpack.h>
#include <stdlib.h>
#include <string.h>

#include "exec/operators/operators.h"
#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "exec/train/attach.h"
#include "exec/train/options_families.h"
#include "graph/base/foreign.h"
#include "graph/base/host_memory.h"
#include "graph/tensor/strings.h"
#include "kernels/backend.h"
#include "passes/batch_axis.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "passes/options/inputs.h"
#include "passes/options/memory.h"
#include "passes/options/recipes.h"

_Static_assert((int)DPX_INTERRUPTED == (int)E_INTERRUPTED && (int)DPX_BFLOAT16 == (int)DT_BFLOAT16 &&
                   (int)DPX_MAX_RANK == (int)MAX_RANK,
               "the public numbers are the internal ones");
_Static_assert(sizeof(dpx_text) == sizeof(Text) && offsetof(dpx_text, bytes) == offsetof(Text, bytes),
               "the public strings are the internal ones");

const char *dpx_error(void) { return status_message(); }

const char *dpx_version(void) { return DPX_VERSION; }

const char *dpx_isa_at(int i) { return i < 0 ? NULL : cpu_kernels_at(i).isa; }

_Static_assert(DPX_VERSION_NUMBER == DPX_PROJECT_NUMBER, "dpexec.h and CMakeLists.txt have the same version");

int dpx_version_number(void) { return DPX_VERSION_NUMBER; }

const char *dpx_status_name(dpx_status status)
{
    static const char *const names[] = { "DPX_OK",    "DPX_NOMEM",  "DPX_INVALID", "DPX_MODEL",    "DPX_UNSUPPORTED",
                                         "DPX_SHAPE", "DPX_DEVICE", "DPX_IO",      "DPX_INTERNAL", "DPX_INTERRUPTED" };

    return (int)status <= 0 && (int)status > -(int)(sizeof names / sizeof *names) ? names[-(int)status]
                                                                                  : "unknown status";
}

/* ---- arguments ---- */

/* Length of a function's name without "_sized", which callers in C do not write. */
static int name_length(const char *function)
{
    static const char sized[] = "_sized";
    const size_t n = strlen(function), end = sizeof sized - 1;

    return (int)(n > end && !strcmp(function + n - end, sized) ? n - end : n);
}

Status api_missing(const char *function, const char *argument)
{
    return FAIL(E_INVALID, "%.*s: %s is NULL", name_length(function), function, argument);
}

Status api_check_size(const char *function, size_t size, const char *type)
{
    if (size && size <= 1 << 16)
        return ST_OK;
    return FAIL(E_INVALID, "%.*s: size is %zu, expected sizeof(%s)", name_length(function), function, size, type);
}

void api_give(void *out, size_t size, const void *made, size_t own)
{
    memcpy(out, made, size < own ? size : own);
    if (size > own)
        memset((char *)out + own, 0, size - own);
}

dpx_status dpx_set_allocator(dpx_alloc_fn *alloc, dpx_release_fn *release, void *user)
{
    NEED(alloc, "alloc");
    NEED(release, "release");
    return (dpx_status)host_set_allocator(alloc, release, user);
}

/* ---- tensors ---- */

size_t dpx_dtype_size(dpx_dtype dtype) { return dtype_size((DType)dtype); }

const char *dpx_dtype_name(dpx_dtype dtype) { return dtype_name((DType)dtype); }

Status api_tensor(Tensor *out, const dpx_tensor *t)
{
    if (t->dtype == DPX_STRING)
        return FAIL(E_INVALID, "tensor '%s': strings are for dpx_interpret", t->name ? t->name : "");
    return api_tensor_or_text(out, t);
}

Status api_tensor_or_text(Tensor *out, const dpx_tensor *t)
{
    if (!dtype_size((DType)t->dtype) || t->rank < 0 || t->rank > MAX_RANK)
        return FAIL(E_INVALID, "tensor '%s': type %d and rank %d are not valid", t->name ? t->name : "", (int)t->dtype,
                    t->rank);
    *out = (Tensor){ (DType)t->dtype, shape_of(t->rank, t->dim), t->data };
    TRY(shape_check(&out->shape, dtype_size(out->dtype)));
    if (!t->data && shape_numel(&out->shape))
        return FAIL(E_INVALID, "tensor '%s' has no data", t->name ? t->name : "");
    return ST_OK;
}

static DType dlpack_dtype(DLDataType t)
{
    static const struct {
        int code, bits;
        DType dtype;
    } known[] = {
        { kDLFloat, 32, DT_FLOAT32 },    { kDLFloat, 64, DT_FLOAT64 }, { kDLFloat, 16, DT_FLOAT16 },
        { kDLBfloat, 16, DT_BFLOAT16 },  { kDLInt, 8, DT_INT8 },       { kDLInt, 16, DT_INT16 },
        { kDLInt, 32, DT_INT32 },        { kDLInt, 64, DT_INT64 },     { kDLUInt, 8, DT_UINT8 },
        { kDLUInt, 16, DT_UINT16 },      { kDLUInt, 32, DT_UINT32 },   { kDLUInt, 64, DT_UINT64 },
        { 6 /* kDLBool */, 8, DT_BOOL },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == t.code && known[i].bits == t.bits && t.lanes == 1)
            return known[i].dtype;
    return DT_NONE;
}

/* Are the elements dense?  The size has been checked; without elements the strides mean nothing. */
static bool is_dense(const DLTensor *t)
{
    int64_t expected = 1;

    for (int i = 0; i < t->ndim; i++)
        if (!t->shape[i])
            return true;
    for (int i = t->ndim - 1; t->strides && i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != expected)
            return false;
        expected *= t->shape[i];
    }
    return true;
}

dpx_status dpx_tensor_from_dlpack(dpx_tensor *out, const char *name, const void *dl_tensor)
{
    const DLTensor *t = dl_tensor;
    dpx_tensor made = { .name = name };
    Tensor view;

    NEED(out, "out");
    NEED(name, "name");
    NEED(t, "dl_tensor");
    if (t->device.device_type != kDLCPU)
        return (dpx_status)FAIL(E_DEVICE, "tensor '%s': DLPack device type %d, expected host memory", name,
                                (int)t->device.device_type);
    if (t->ndim < 0 || t->ndim > MAX_RANK)
        return (dpx_status)FAIL(E_SHAPE, "tensor '%s': rank %d, at most %d are supported", name, t->ndim, MAX_RANK);
    if (t->ndim && !t->shape)
        return (dpx_status)FAIL(E_INVALID, "tensor '%s': DLPack shape is NULL for rank %d", name, t->ndim);
    if (!(made.dtype = (dpx_dtype)dlpack_dtype(t->dtype)))
        return (dpx_status)FAIL(E_UNSUPPORTED, "tensor '%s': DLPack type code %d of %d bits is not supported", name,
                                t->dtype.code, t->dtype.bits);
    made.rank = t->ndim;
    for (int i = 0; i < t->ndim; i++)
        made.dim[i] = t->shape[i];
    made.data = t->data ? (char *)t->data + t->byte_offset : NULL;
    if (api_tensor(&view, &made))
        return (dpx_status)status_prefix(E_INVALID, "DLPack");
    if (!is_dense(t))
        return (dpx_status)FAIL(E_SHAPE, "tensor '%s': strides are not those of a dense row-major tensor", name);
    *out = made;
    return DPX_OK;
}

/* ---- models ---- */

const dpx_model *model_keep(const dpx_model *m)
{
    ((dpx_model *)(uintptr_t)m)->users++; /* the count alone is not const: the model may be shared by threads */
    return m;
}

void model_release(const dpx_model *shared)
{
    dpx_model *m = (dpx_model *)(uintptr_t)shared;

    if (!m || --m->users > 0)
        return;
    graph_free(m->graph);
    graph_free(m->given);
    free(m->preprocess);
    free(m->augment);
    free(m->criterion);
    free(m->input_value);
    graph_free(m->states);
    onnx_model_free(m->onnx);
    for (int i = 0; i < m->n_operators; i++)
        operators_release(m->operators[i]);
    free(m->operators);
    free(m);
}

void dpx_model_free(dpx_model *m) { model_release(m); }

static void bind_open_dims(Graph *g, int64_t size)
{
    for (int i = 0; i < g->n_input; i++) {
        Shape s = *value(g, g->input[i])->shape;

        for (int k = 0; k < s.rank; k++)
            if (s.dim[k] < 0)
                s.dim[k] = size;
        value_set_shape(g, value(g, g->input[i]), &s);
    }
}

/* Lists the states of g, without their values. */
static Status note_states(dpx_model *m, const Graph *g)
{
    DType constant = DT_NONE, number = DT_NONE; /* of several elements, of one */

    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];
        DType *found = shape_numel(v->shape) > 1 ? &constant : &number;

        if (!*found && v->kind == V_CONST && dtype_is_float(v->dtype))
            *found = v->dtype;
        if (v->kind != V_STATE)
            continue;
        graph_add_value(m->states, V_STATE, v->name, v->dtype, v->shape);
        TRY(m->states->status);
        m->states->value[m->states->n_value - 1]->trainable = v->trainable;
        m->dtype = v->trainable && !m->dtype ? v->dtype : m->dtype;
    }
    m->dtype = m->dtype ? m->dtype : constant ? constant : number ? number : DT_FLOAT32;
    return ST_OK;
}

static Status prepare_copy(Graph **out, const dpx_model *m, int64_t size, int64_t plan_memory)
{
    BuildOptions opt = { .mode = BUILD_INFER };
    Graph *g;
    Status st;

    TRY(plan_copy(&g, m->graph, plan_memory));
    if (!(st = model_repair(g, &opt, interp_node, NULL))) {
        bind_open_dims(g, size);
        st = pipeline_run(g, &opt, interp_node, NULL, &(PipelineOptions){ .until = "prepare-training" });
    }
    if (st)
        graph_free(g);
    else
        *out = g;
    return st;
}

/* State is known after prepare-training: run the pipeline that far on a copy.  The set of states does not depend on the
 * sizes that the model leaves open, but shapes must be consistent: 1 and 64 fit nearly all models.  If neither fits,
 * the model's states are not listed; a trainer, which gets the sizes, knows them. */
static Status find_state(dpx_model *m, int64_t plan_memory)
{
    Graph *g = NULL;
    Status st;

    if (!(m->states = graph_create("states")))
        return FAIL_NOMEM();
    if (prepare_copy(&g, m, 1, plan_memory) && prepare_copy(&g, m, 64, plan_memory))
        return note_states(m, m->graph);
    st = note_states(m, g);
    graph_free(g);
    return st;
}

static Status hold_operators(dpx_model *m, const Options *o)
{
    if (!(m->operators = calloc((size_t)o->n_operators + 1, sizeof(dpx_operators *))))
        return FAIL_NOMEM();
    for (; m->n_operators < o->n_operators; m->n_operators++)
        operators_keep(m->operators[m->n_operators] = o->operators[m->n_operators]);
    return ST_OK;
}

static Status keep_path(char **to, const char *path) { return !path || (*to = strdup(path)) ? ST_OK : FAIL_NOMEM(); }

static Status api_attach(dpx_model *m, const Options *o, const OperatorList *own)
{
    Graph *attached;

    TRY(attach_graphs(&attached, m->graph, m->onnx, o, own));
    if (!attached)
        return ST_OK;
    if (m->given)
        graph_free(m->graph);
    else
        m->given = m->graph;
    m->graph = attached;
    TRY(keep_path(&m->preprocess, o->preprocess));
    TRY(keep_path(&m->augment, o->augment));
    return keep_path(&m->criterion, o->criterion);
}

/* NULL: none. */
static const char *given_values(const Options *o)
{
    return o && input_options(&o->build)->n_input_value ? options_get(o, "input-value") : NULL;
}

static Status check_attached(const char *flag, const char *loaded, const char *wanted)
{
    if (loaded == wanted || (loaded && wanted && !strcmp(loaded, wanted)))
        return ST_OK;
    return FAIL(E_INVALID,
                "--%s is '%s' and the model was loaded with '%s': load it with dpx_model_load_within and "
                "these options",
                flag, wanted ? wanted : "", loaded ? loaded : "");
}

Status model_check_attached(const dpx_model *m, const Options *o)
{
    TRY(check_attached("preprocess", m->preprocess, o->preprocess));
    TRY(check_attached("augment-graph", m->augment, o->augment));
    TRY(check_attached("criterion", m->criterion, o->criterion));
    return check_attached("input-value", m->input_value, given_values(o));
}

Status model_give_attached(Options *o, const dpx_model *m)
{
    if (m->preprocess)
        TRY(options_set(o, "preprocess", m->preprocess));
    if (m->augment)
        TRY(options_set(o, "augment-graph", m->augment));
    if (m->criterion)
        TRY(options_set(o, "criterion", m->criterion));
    return m->input_value ? options_set_input_values(o, m->input_value) : ST_OK;
}

/* `memory`, `o` may be NULL. */
static Status read_model(dpx_model *m, const char *path, const OnnxMemory *memory, const Options *o)
{
    const bool computes = o && follows_file(&o->build);
    Arena *a = arena_create();
    OperatorList own = { NULL, 0 };
    Status st = a ? ST_OK : FAIL_NOMEM();

    if (!st && o && !(st = hold_operators(m, o)))
        st = options_operators(&own, a, o);
    if (!st)
        st = plan_import(&m->graph, &m->onnx, path, memory, computes ? interp_any : interp_node, &own,
                         o ? &o->build : NULL);
    if (!st && o && !attaches_graphs(o)) /* their graphs may have these inputs */
        st = plan_check_members(m->onnx, &o->build);
    if (!st && computes) { /* what is exported is the model without the training step of its file */
        onnx_model_free(m->onnx);
        m->onnx = NULL;
        st = plan_import_given(&m->given, &m->onnx, path, memory, interp_any, &own, &o->build);
    }
    if (!st)
        st = api_attach(m, o, &own);
    if (!st)
        st = keep_path(&m->input_value, given_values(o));
    if (!st)
        st = model_find_batch(m->graph, o ? &o->build : &(BuildOptions){ 0 }, interp_node);
    arena_free(a);
    return st ? st : plan_explain(m->graph, find_state(m, o ? memory_options(&o->build)->plan_memory : 0));
}

static dpx_status api_load(dpx_model **out, const char *path, const OnnxMemory *memory, const Options *o)
{
    dpx_model *m;
    Status st;

    if (!(m = calloc(1, sizeof *m)))
        return (dpx_status)FAIL_NOMEM();
    m->users = 1;
    st = read_model(m, path, memory, o);
    if (st) {
        dpx_model_free(m);
        return (dpx_status)st;
    }
    *out = m;
    return DPX_OK;
}

dpx_status dpx_model_load(dpx_model **out, const char *path)
{
    NEED(out, "out");
    NEED(path, "path");
    return api_load(out, path, NULL, NULL);
}

dpx_status dpx_model_load_within(dpx_model **out, const char *path, const dpx_options *o)
{
    NEED(out, "out");
    NEED(path, "path");
    NEED(o, "options");
    return api_load(out, path, NULL, (const Options *)o);
}

/* The caller's function, and its data. */
typedef struct {
    dpx_external_fn *read;
    void *user;
} ExternalReader;

static Status read_external(void *user, const char *location, size_t offset, size_t bytes, void *to)
{
    const ExternalReader *r = user;

    return (Status)r->read(r->user, location, offset, bytes, to);
}

dpx_status dpx_model_load_memory(dpx_model **out, const void *data, size_t bytes, const char *name,
                                 const dpx_options *o, dpx_external_fn *external, void *user)
{
    ExternalReader reader = { external, user };
    const OnnxMemory memory = { data, bytes, external ? read_external : NULL, &reader };

    NEED(out, "out");
    NEED(data, "data");
    return api_load(out, name ? name : "the model in memory", &memory, (const Options *)o);
}

/* The index-th value of this kind, or NO_VALUE. */
static ValueId nth_value(const dpx_model *m, dpx_kind kind, int index, int *count)
{
    ValueId found = NO_VALUE;

    *count = 0;
    if (kind == DPX_INPUT || kind == DPX_OUTPUT) {
        *count = kind == DPX_INPUT ? m->graph->n_input : m->graph->n_output;
        if (index >= 0 && index < *count)
            found = kind == DPX_INPUT ? m->graph->input[index] : m->graph->output[index].value;
        return found;
    }
    *count = kind == DPX_STATE ? (int)m->states->n_value - 1 : 0;
    return index >= 0 && index < *count ? (ValueId){ (uint32_t)index + 1 } : found;
}

int dpx_model_is_step(const dpx_model *m) { return m && graph_is_step(m->graph); }

int dpx_model_count(const dpx_model *m, dpx_kind kind)
{
    int count = 0;

    if (m)
        nth_value(m, kind, -1, &count);
    return count;
}

static void api_info(dpx_info *out, const char *name, const Value *v)
{
    *out = (dpx_info){ .name = name, .dtype = (dpx_dtype)v->dtype, .rank = v->shape->rank, .trainable = v->trainable };
    for (int i = 0; i < v->shape->rank; i++) {
        out->dim[i] = v->shape->dim[i];
        out->dim_name[i] = v->dim_param ? v->dim_param[i] : NULL;
    }
}

/* Fills in what is not inferred of an output from its declaration in the file. */
static void add_declared(dpx_info *out, const OnnxOutput *said)
{
    if (!said || out->rank >= 0 || (out->dtype && out->dtype != (dpx_dtype)said->dtype))
        return;
    out->dtype = (dpx_dtype)said->dtype;
    out->rank = said->shape.rank;
    for (int i = 0; i < said->shape.rank; i++) {
        out->dim[i] = said->shape.dim[i];
        out->dim_name[i] = said->dim_param ? said->dim_param[i] : NULL;
    }
}

/* The rows of the smallest table that the input's elements, as they are, select from; 0: unknown. */
static int64_t rows_selected(const Graph *g, ValueId input)
{
    int64_t least = 0;

    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++) {
            const Node *from = n;
            ValueId v = n->in[i];
            int64_t rows;

            if (!has_in(n, i) || !n->op || !n->op->index_range || n->op->index_misses || n->op->tuple_range ||
                node_attr(n, "ignore_index"))
                continue;
            while (!value_eq(v, input) && (from = value(g, v)->producer) && from->op && from->op->same)
                v = from->in[0];
            rows = value_eq(v, input) ? n->op->index_range(g, n, i) : 0;
            if (rows > 0 && (!least || rows < least))
                least = rows;
        }
    return least;
}

dpx_status dpx_model_info_sized(const dpx_model *m, dpx_kind kind, int index, dpx_info *out, size_t size)
{
    dpx_info info;
    int count;
    ValueId v;

    NEED(m, "model");
    NEED(out, "out");
    NEED_SIZE(size, dpx_info);
    if (kind != DPX_INPUT && kind != DPX_OUTPUT && kind != DPX_STATE)
        return (dpx_status)FAIL(E_INVALID, "dpx_model_info: kind %d is not one of dpx_kind", (int)kind);
    if (!has_value(v = nth_value(m, kind, index, &count)))
        return (dpx_status)FAIL(E_INVALID, "index %d of %d", index, count);
    if (kind == DPX_STATE)
        api_info(&info, value(m->states, v)->name, value(m->states, v));
    else
        api_info(&info, kind == DPX_OUTPUT ? m->graph->output[index].name : value(m->graph, v)->name,
                 value(m->graph, v));
    if (kind == DPX_OUTPUT)
        add_declared(&info, onnx_model_output(m->onnx, info.name));
    if (kind == DPX_INPUT && dtype_is_int(value(m->graph, v)->dtype))
        info.rows = rows_selected(m->graph, v);
    GIVE(out, size, info);
    return DPX_OK;
}

const char *dpx_model_metadata(const dpx_model *m, const char *key)
{
    return m && key && m->onnx ? onnx_model_prop(m->onnx, key) : NULL;
}

dpx_status dpx_model_set_metadata(dpx_model *m, const char *key, const char *value)
{
    NEED(m, "model");
    NEED(key, "key");
    if (!utf8_valid(key) || (value && !utf8_valid(value)))
        return (dpx_status)FAIL(E_INVALID, "metadata '%s': expected UTF-8", key);
    return (dpx_status)onnx_model_set_prop(m->onnx, key, value);
}

int dpx_batch_axis(const dpx_model *m, const dpx_options *o, const char *name)
{
    return m && o && name ? data_batch_axis(m->graph, &((const Options *)o)->build, name) : 0;
}

/* Does --batch-input name an input of the model, not the target alone? */
static bool names_input(const Graph *g, const BuildOptions *opt)
{
    bool named = false;

    for (int i = 0; i < g->n_input; i++)
        named |= named_batch_axis(opt, value(g, g->input[i])) >= 0;
    return named;
}

int dpx_batch_role(const dpx_model *m, const dpx_options *o, const char *input)
{
    const ValueId id = m && o && input ? graph_find(m->graph, input) : NO_VALUE;
    const Value *v = has_value(id) && value(m->graph, id)->kind == V_INPUT ? value(m->graph, id) : NULL;
    const BuildOptions *opt;
    unsigned axes;
    bool named;

    if (!v)
        return DPX_ROLE_UNKNOWN;
    opt = &((const Options *)o)->build;
    named = batch_options(opt)->n_batch_input;
    if (v->ordered)
        return DPX_ROLE_ORDERED;
    if (!v->shape->rank)
        return DPX_ROLE_WHOLE;
    if ((named && !names_input(m->graph, opt)) || !known_batch_axes(&axes, m->graph, opt, v))
        return rival_batch_axis(m->graph, opt, v) >= 0 ? DPX_ROLE_UNCLEAR : DPX_ROLE_UNKNOWN;
    if (axes)
        return only_axis(axes) < 0 ? DPX_ROLE_ORDERED : DPX_ROLE_SAMPLES;
    return v->may_carry && !named ? DPX_ROLE_EITHER : DPX_ROLE_WHOLE;
}

/* ---- options ---- */

dpx_options *dpx_options_create(void) { return (dpx_options *)options_create(); }

void dpx_options_free(dpx_options *o) { options_free((Options *)o); }

dpx_status dpx_options_copy(dpx_options **out, const dpx_options *o)
{
    NEED(out, "out");
    NEED(o, "options");
    return (dpx_status)options_copy((Options **)out, (const Options *)o);
}

dpx_status dpx_options_set(dpx_options *o, const char *name, const char *text)
{
    NEED(o, "options");
    NEED(name, "name");
    NEED(text, "value");
    return (dpx_status)options_set((Options *)o, name, text);
}

dpx_status dpx_options_check(const dpx_options *o)
{
    NEED(o, "options");
    return (dpx_status)options_check((const Options *)o);
}

dpx_status dpx_options_set_operators(dpx_options *o, dpx_operators *operators)
{
    NEED(o, "options");
    NEED(operators, "operators");
    return (dpx_status)options_set_operators((Options *)o, operators);
}

void dpx_options_set_members(dpx_options *o, dpx_members_fn *members, void *user)
{
    if (o)
        options_set_members((Options *)o, members, user);
}

dpx_status dpx_options_set_class_weights(dpx_options *o, const dpx_tensor *weights)
{
    Tensor t;
    Status st;

    NEED(o, "options");
    NEED(weights, "weights");
    st = api_tensor(&t, weights);
    return (dpx_status)(st ? st : options_set_class_weights((Options *)o, &t));
}

dpx_status dpx_options_set_role(dpx_options *o, const char *input, int role)
{
    NEED(o, "options");
    NEED(input, "input");
    if (role != DPX_ROLE_SAMPLES && role != DPX_ROLE_WHOLE)
        return (dpx_status)FAIL(E_INVALID, "dpx_options_set_role: role %d of '%s', expected samples or whole", role,
                                input);
    return (dpx_status)options_set_carries((Options *)o, input, role == DPX_ROLE_SAMPLES);
}

dpx_status dpx_options_set_target_shape(dpx_options *o, const dpx_tensor *target)
{
    Shape s;

    NEED(o, "options");
    NEED(target, "target");
    if (target->rank < 0 || target->rank > MAX_RANK)
        return (dpx_status)FAIL(E_INVALID, "the target's shape: a rank of %d is not valid", target->rank);
    for (int i = 0; i < target->rank; i++)
        if (target->dim[i] < 0)
            return (dpx_status)FAIL(E_INVALID, "the target's shape: axis %d of %lld elements", i,
                                    (long long)target->dim[i]);
    s = shape_of(target->rank, target->dim);
    return (dpx_status)options_set_target_shape((Options *)o, &s);
}

dpx_choice_info dpx_choice_at(const char *option, int index)
{
    return option ? options_choice(option, index) : (dpx_choice_info){ .name = NULL };
}

const char *dpx_choice_default(const char *option, const char *choice, const char *flag)
{
    return option && choice && flag ? options_choice_default(option, choice, flag) : NULL;
}

dpx_metric_info dpx_metric_at(const dpx_options *o, int index)
{
    const RecipeOptions *r = o ? recipe_options(&((const Options *)o)->build) : NULL;
    const MetricChoice *m = r && index >= 0 && index < metric_count(r) ? &r->metric[index] : NULL;

    return m ? (dpx_metric_info){ m->name, m->def->falls, m->def->value || !m->def->table }
             : (dpx_metric_info){ .name = NULL };
}

dpx_target_kind dpx_target(const dpx_options *o)
{
    const LossDef *loss = o ? recipe_options(&((const Options *)o)->build)->loss : NULL;

    return loss ? (dpx_target_kind)loss->target : DPX_TARGET_NONE;
}

int dpx_option_count(void) { return options_count(); }

dpx_option_info dpx_option_at(int index)
{
    return index >= 0 && index < options_count() ? options_at(index) : (dpx_option_info){ .name = NULL };
}

const char *dpx_options_get(const dpx_options *o, const char *name)
{
    return o && name ? options_get((const Options *)o, name) : NULL;
}
