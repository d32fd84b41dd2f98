/* What a file says of its own constants, for passes/parameters.c: who wrote it, which tensors a training step would update
 * (training_info), which were trained before (exports of ours), and which PyTorch's exporter knows as parameters or buffers of the
 * module, or as computed from such (metadata of the values, a field that older definitions of the format do not have). */
#include "graph/onnx/internal.h"

#include <string.h>

enum { TAG_VALUE_METADATA = 4 };
#define KEY_KIND "pkg.torch.export.graph_signature.InputSpec.kind"
#define KEY_FOLDED "pkg.onnxscript.optimizer.folded_from"

/* The constant behind a name of the file, or NULL. */
static Value *find_constant(const Importer *im, const Body *b, const char *name)
{
    const ScopeEntry *e = name ? scope_find(&b->scope, name) : NULL;
    Value *v = e && has_value(e->value) ? value(im->g, e->value) : NULL;

    return v && v->kind == V_CONST ? v : NULL;
}

/* ---- metadata of values ---- */

/* The payload of an unknown field: protobuf-c keeps the length in front of it. */
static ProtobufCBinaryData payload(const ProtobufCMessageUnknownField *f)
{
    size_t i = 0;

    while (i < f->len && f->data[i] & 128)
        i++;
    return i < f->len ? (ProtobufCBinaryData){ f->len - i - 1, f->data + i + 1 } : (ProtobufCBinaryData){ 0, NULL };
}

static Status take_entry(Importer *im, Value *v, const Onnx__StringStringEntryProto *entry)
{
    const char *key = text_or(entry->key, ""), *text = text_or(entry->value, "");

    if (!strcmp(key, KEY_KIND))
        v->said = !strcmp(text, "PARAMETER") ? SAID_PARAMETER : !strcmp(text, "BUFFER") ? SAID_BUFFER : v->said;
    else if (!strcmp(key, KEY_FOLDED) && !(v->folded_from = arena_strdup(im->g->arena, text)))
        return FAIL_NOMEM();
    return ST_OK;
}

static Status take_metadata(Importer *im, Value *v, const ProtobufCMessage *m, Arena *a)
{
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(m->descriptor, TAG_VALUE_METADATA);
    size_t n = f ? *(const size_t *)((const char *)m + f->quantifier_offset) : m->n_unknown_fields;

    for (size_t i = 0; i < n; i++) {
        const ProtobufCMessageUnknownField *unknown = f ? NULL : &m->unknown_fields[i];
        ProtobufCMessage *entry = NULL;

        if (f) {
            entry = (*(ProtobufCMessage *const *const *)((const char *)m + f->offset))[i];
        } else if (unknown->tag == TAG_VALUE_METADATA && unknown->wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED) {
            ProtobufCBinaryData s = payload(unknown);

            TRY(onnx_unpack(&entry, a, &onnx__string_string_entry_proto__descriptor, s.data, s.len));
        }
        if (entry)
            TRY(take_entry(im, v, (const Onnx__StringStringEntryProto *)entry));
    }
    return ST_OK;
}

static Status read_values(Importer *im, const Body *b, Arena *a, size_t n, Onnx__ValueInfoProto *const *list)
{
    for (size_t i = 0; i < n; i++) {
        Value *v = find_constant(im, b, list[i]->name);

        if (v)
            TRY(status_prefix(take_metadata(im, v, &list[i]->base, a), "metadata of '%s'", list[i]->name));
    }
    return ST_OK;
}

/* ---- what is trained ---- */

/* A constant that the file lists is trained, all others are not. */
static void fix_others(const Graph *g)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_CONST && g->value[i]->said != SAID_TRAINED)
            g->value[i]->said = SAID_FIXED;
}

/* The tensors that a training step of the file updates and that its inference graph has, too. */
static void read_training_info(Importer *im, const Body *b)
{
    const Onnx__ModelProto *m = im->model;
    bool any = false;

    for (size_t i = 0; i < m->n_training_info; i++)
        for (size_t k = 0; k < m->training_info[i]->n_update_binding; k++) {
            Value *v = find_constant(im, b, m->training_info[i]->update_binding[k]->key);

            if (!v || !dtype_is_float(v->dtype))
                continue;
            v->said = SAID_TRAINED;
            any = true;
        }
    if (any)
        fix_others(im->g);
}

/* Of an export of ours: each tensor for itself, so that what was added to the file since is judged as in any file. */
static void read_our_own(Importer *im, const Body *b)
{
    const Onnx__ModelProto *m = im->model;

    for (size_t i = 0; i < m->n_metadata_props; i++) {
        const char *key = text_or(m->metadata_props[i]->key, ""), *text = text_or(m->metadata_props[i]->value, "");
        Value *v = strncmp(key, PROP_PARAMETER, strlen(PROP_PARAMETER)) ? NULL : find_constant(im, b, key + strlen(PROP_PARAMETER));

        if (v)
            v->said = !strcmp(text, PARAMETER_TRAINED) ? SAID_TRAINED : !strcmp(text, PARAMETER_FIXED) ? SAID_FIXED : v->said;
    }
}

Status model_said(Importer *im, const Body *b)
{
    const Onnx__ModelProto *m = im->model;
    const Onnx__GraphProto *gp = m->graph;
    Arena *a;
    Status st;

    im->g->producer = arena_strdup(im->g->arena, text_or(m->producer_name, ""));
    im->g->producer_version = arena_strdup(im->g->arena, text_or(m->producer_version, ""));
    if (!im->g->producer || !im->g->producer_version)
        return FAIL_NOMEM();
    a = arena_create();         /* the budget of unpacking is that of an arena, and the model's own is spent */
    if (!a)
        return FAIL_NOMEM();
    st = read_values(im, b, a, gp->n_value_info, gp->value_info);
    if (!st)
        st = read_values(im, b, a, gp->n_input, gp->input);
    arena_free(a);
    TRY(st);
    read_training_info(im, b);
    read_our_own(im, b);
    return ST_OK;
}
