/* The parts of a model that its graph does not hold: kept for a later export (OnnxModel), and dpexec's own metadata,
 * which restore the states and updates of a graph that was exported between passes. */
#include <stdlib.h>
#include <string.h>

#include "graph/onnx/importer.h"

static bool has_prefix(const char *s, const char *prefix) { return !strncmp(s, prefix, strlen(prefix)); }

/* A copy in the arena; NULL for an empty text.  Without memory *ok becomes false. */
static const char *copy_text(Arena *a, const char *s, bool *ok)
{
    const char *copy = s && *s ? arena_strdup(a, s) : NULL;

    *ok &= copy || !s || !*s;
    return copy;
}

/* Copies the declarations of outputs.  An invalid shape is dropped.  false: no memory. */
static bool remember_outputs(OnnxModel *r, Arena *a, const Onnx__GraphProto *g)
{
    OnnxOutput *list = ARENA_NEW(a, OnnxOutput, g->n_output);
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < g->n_output; i++) {
        const Onnx__TypeProto *t = g->output[i]->type;
        const char **params = NULL;
        Status st = ST_OK;

        list[i].name = arena_strdup(a, text_or(g->output[i]->name, ""));
        list[i].shape = shape_unknown();
        ok = list[i].name != NULL;
        list[i].optional = t && t->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
        t = list[i].optional ? t->optional_type->elem_type : t;
        list[i].sequence = t && t->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
        t = list[i].sequence ? t->sequence_type->elem_type : t;
        if (!t || t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
            tensor_type_problem(t->tensor_type->elem_type, false))
            continue;
        list[i].dtype = (DType)t->tensor_type->elem_type;
        if (t->tensor_type->shape)
            st = type_shape_decode(&list[i].shape, &params, a, t->tensor_type->shape, list[i].name);
        if (st)
            list[i].shape = shape_unknown();
        list[i].dim_param = st ? NULL : params;
        ok &= st != E_NOMEM;
    }
    r->output = list;
    r->n_output = (int)g->n_output;
    return ok;
}

/* Does `name` name the declared output, or NAME.0, NAME.1, ... of a declared sequence? */
static bool is_declared_by(const OnnxOutput *declared, const char *name)
{
    const size_t n = strlen(declared->name);

    if (!declared->sequence)
        return !strcmp(declared->name, name);
    return !strncmp(declared->name, name, n) && name[n] == '.' && name[n + 1] &&
           !name[n + 1 + strspn(name + n + 1, "0123456789")];
}

const OnnxOutput *onnx_model_output(const OnnxModel *m, const char *name)
{
    for (int i = 0; m && i < m->n_output; i++)
        if (is_declared_by(&m->output[i], name))
            return &m->output[i];
    return NULL;
}

/* Copies the names of inputs that are no tensors, and of those that the options gave a value.  false: no memory. */
static bool remember_inputs(OnnxModel *r, Arena *a, const Importer *im)
{
    const Onnx__GraphProto *g = im->model->graph;
    const char **structured = ARENA_NEW(a, const char *, g->n_input), **given = ARENA_NEW(a, const char *, g->n_input);
    bool ok = structured && given;

    for (size_t i = 0; ok && i < g->n_input; i++) {
        const Onnx__TypeProto *t = g->input[i]->type;
        const char *name = text_or(g->input[i]->name, "");

        if (t && (t->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE ||
                  t->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE))
            ok &= (structured[r->n_structured++] = arena_strdup(a, name)) != NULL;
        if (input_is_given(im, name))
            ok &= (given[r->n_given++] = arena_strdup(a, name)) != NULL;
    }
    r->structured = structured;
    r->given = given;
    return ok;
}

const char *onnx_model_prop(const OnnxModel *m, const char *key)
{
    for (int i = 0; i < m->n_prop; i++)
        if (!strcmp(m->prop[i].key, key))
            return m->prop[i].value;
    return NULL;
}

Status onnx_model_set_prop(OnnxModel *m, const char *key, const char *value)
{
    OnnxProp *props = ARENA_NEW(m->arena, OnnxProp, (size_t)m->n_prop + 1);
    int n = 0;

    if (has_prefix(key, PROP_PREFIX))
        return FAIL(E_INVALID, "metadata '%s': keys that begin with " PROP_PREFIX " are dpexec's marks", key);
    if (!props)
        return FAIL_NOMEM();
    for (int i = 0; i < m->n_prop; i++)
        if (strcmp(m->prop[i].key, key) != 0)
            props[n++] = m->prop[i];
    if (value) {
        props[n].key = arena_strdup(m->arena, key);
        props[n].value = arena_strdup(m->arena, value);
        if (!props[n].key || !props[n].value)
            return FAIL_NOMEM();
        n++;
    }
    m->prop = props;
    m->n_prop = n;
    return ST_OK;
}

Status model_remember(OnnxModel **out, const Importer *im, int64_t opset)
{
    const Onnx__ModelProto *m = im->model;
    Arena *a = arena_create();
    OnnxModel *r = a ? ARENA_NEW(a, OnnxModel, 1) : NULL;
    OnnxProp *props = r ? ARENA_NEW(a, OnnxProp, m->n_metadata_props) : NULL;
    const char **call = r ? ARENA_NEW(a, const char *, im->n_call) : NULL;
    bool ok = props && call;

    for (size_t i = 0; ok && i < m->n_metadata_props; i++) {
        const char *key = text_or(m->metadata_props[i]->key, "");

        if (has_prefix(key, PROP_PREFIX))
            continue;
        props[r->n_prop].key = arena_strdup(a, key);
        props[r->n_prop].value = arena_strdup(a, text_or(m->metadata_props[i]->value, ""));
        ok &= props[r->n_prop].key && props[r->n_prop].value;
        r->n_prop++;
    }
    if (ok) {
        r->arena = a;
        r->ir_version = m->ir_version;
        r->opset = opset;
        r->prop = props;
        r->producer_name = copy_text(a, m->producer_name, &ok);
        r->doc = copy_text(a, m->doc_string, &ok);
        ok &= remember_outputs(r, a, m->graph) && remember_inputs(r, a, im);
        for (size_t i = 0; ok && i < im->n_call; i++)
            ok = (call[i] = arena_strdup(a, im->call[i])) != NULL;
        r->call = call;
        r->n_call = (int)im->n_call;
    }
    if (!ok) {
        arena_free(a);
        return FAIL_NOMEM();
    }
    *out = r;
    return ST_OK;
}

void onnx_model_free(OnnxModel *m)
{
    if (!m)
        return;
    graph_free(m->initial);
    arena_free(m->arena);
}

/* Parses "4096 of 80,60": v holds elements 4096, 4097, ... of a state with shape 80x60. */
static Status restore_shard(Importer *im, Value *v, const char *name, const char *text)
{
    Shard *s = ARENA_NEW(im->g->arena, Shard, 1);
    char *end;
    int64_t numel = shape_known(v->shape) ? shape_numel(v->shape) : -1;

    if (!s)
        return FAIL_NOMEM();
    s->from = strtoll(text, &end, 10);
    text = strncmp(end, " of ", 4) ? NULL : end + 4;
    while (text && *text && s->whole.rank < MAX_RANK) {
        s->whole.dim[s->whole.rank++] = strtoll(text, &end, 10);
        text = end == text || (*end && *end != ',') ? NULL : *end ? end + 1 : end;
    }
    if (!text || *text || shape_check(&s->whole, dtype_size(v->dtype)) || s->from < 0 || v->shape->rank != 1 ||
        numel > shape_numel(&s->whole) || s->from > shape_numel(&s->whole) - numel)
        return FAIL(E_MODEL, "metadata: state '%s' does not fit into the tensor that it is declared a piece of", name);
    v->shard = s;
    return ST_OK;
}

/* Makes an initializer a state; `how` is the value of its PROP_STATE. */
static Status restore_state(Importer *im, const Body *b, const char *name, const char *how)
{
    const ScopeEntry *e = scope_find(&b->scope, name);
    Value *v = e && has_value(e->value) ? value(im->g, e->value) : NULL;

    if (!v || (v->kind != V_CONST && v->kind != V_STATE))
        return FAIL(E_MODEL, "metadata: state '%s' is not an initializer", name);
    v->kind = V_STATE;
    v->trainable = !strcmp(how, "trainable");
    v->transient = strstr(how, "transient") != NULL;
    v->partial = strstr(how, "partial") != NULL;
    return !strncmp(how, "plain from ", 11) ? restore_shard(im, v, name, how + 11) : ST_OK;
}

static Status restore_update(Importer *im, const Body *b, const char *name, const char *next)
{
    const ScopeEntry *state = scope_find(&b->scope, name), *by = scope_find(&b->scope, next);

    if (!state || !has_value(state->value) || value(im->g, state->value)->kind != V_STATE)
        return FAIL(E_MODEL, "metadata: '%s' is updated but not a state", name);
    if (!by || !has_value(by->value))
        return FAIL(E_MODEL, "metadata: '%s', the next value of '%s', is defined nowhere", next, name);
    for (int i = 0; i < im->g->n_update; i++)
        if (value_eq(im->g->update[i].state, state->value))
            return FAIL(E_MODEL, "metadata: '%s' is updated twice", name);
    graph_add_update(im->g, state->value, by->value);
    return im->g->status;
}

static Status restore_mark(Importer *im, const Body *b, const char *name, const char *doc)
{
    const ScopeEntry *e = name ? scope_find(&b->scope, name) : NULL;

    return e ? status_prefix(mark_decode(im, e->value, doc), "'%s'", name) : ST_OK;
}

static Status restore_states(Importer *im, const Body *b)
{
    const Onnx__ModelProto *m = im->model;

    for (size_t i = 0; i < m->n_metadata_props; i++) {
        const char *key = text_or(m->metadata_props[i]->key, "");

        if (has_prefix(key, PROP_STATE))
            TRY(restore_state(im, b, key + strlen(PROP_STATE), text_or(m->metadata_props[i]->value, "")));
    }
    for (size_t i = 0; i < m->n_metadata_props; i++) {
        const char *key = text_or(m->metadata_props[i]->key, "");

        if (has_prefix(key, PROP_UPDATE))
            TRY(restore_update(im, b, key + strlen(PROP_UPDATE), text_or(m->metadata_props[i]->value, "")));
    }
    return ST_OK;
}

bool model_is_marked(const Onnx__ModelProto *m)
{
    for (size_t i = 0; i < m->n_metadata_props; i++)
        if (!strcmp(text_or(m->metadata_props[i]->key, ""), PROP_MARKS))
            return !strcmp(text_or(m->metadata_props[i]->value, ""), MARKS_VERSION);
    return false;
}

Status model_restore(Importer *im, const Body *b)
{
    const Onnx__GraphProto *g = im->model->graph;

    if (im->marked)
        TRY(restore_states(im, b));
    /* Outputs first: a value renamed by its mark frees the output's name, which another value may then take. */
    for (size_t i = 0; i < g->n_output; i++)
        TRY(restore_mark(im, b, g->output[i]->name, g->output[i]->doc_string));
    for (size_t i = 0; i < g->n_input; i++)
        TRY(restore_mark(im, b, g->input[i]->name, g->input[i]->doc_string));
    for (size_t i = 0; i < g->n_initializer; i++)
        TRY(restore_mark(im, b, g->initializer[i]->name, g->initializer[i]->doc_string));
    for (size_t i = 0; i < g->n_value_info; i++)
        TRY(restore_mark(im, b, g->value_info[i]->name, g->value_info[i]->doc_string));
    return ST_OK;
}
