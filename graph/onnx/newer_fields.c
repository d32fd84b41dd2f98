/* Fields that only newer versions of onnx.proto define, and the exporters' metadata in them.  They are read by their
 * descriptor if the onnx.proto of this build defines them, otherwise from protobuf-c's unknown fields, so that a build
 * with an old onnx.proto reads new files. */
#include <string.h>

#include "graph/onnx/importer.h"

enum { TAG_NODE_METADATA = 9, MAX_PATH = 4096 };
enum { MAX_CALL = 1 << 16 };
#define KEY_SCOPES "pkg.torch.onnx.name_scopes"
#define KEY_CALL "pkg.torch.onnx.fx_node"
#define KEY_CODE "pkg.torch.onnx.stack_trace"

/* ---- fields by their tag ---- */

static bool holds_bytes(const ProtobufCMessageUnknownField *f, unsigned tag)
{
    return f->tag == tag && f->wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
}

/* protobuf-c keeps the length in front of the bytes. */
static ProtobufCBinaryData payload(const ProtobufCMessageUnknownField *f)
{
    size_t i = 0;

    while (i < f->len && f->data[i] & 128)
        i++;
    return i < f->len ? (ProtobufCBinaryData){ f->len - i - 1, f->data + i + 1 } : (ProtobufCBinaryData){ 0, NULL };
}

const char *newer_string(const ProtobufCMessage *m, unsigned tag, Arena *a)
{
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(m->descriptor, tag);

    if (f)
        return text_or(*(char *const *)((const char *)m + f->offset), "");
    for (unsigned i = 0; i < m->n_unknown_fields; i++)
        if (holds_bytes(&m->unknown_fields[i], tag)) {
            ProtobufCBinaryData s = payload(&m->unknown_fields[i]);
            char *text = arena_alloc(a, s.len + 1);

            return text && s.len ? memcpy(text, s.data, s.len) : "";
        }
    return "";
}

size_t newer_count(const ProtobufCMessage *m, unsigned tag)
{
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(m->descriptor, tag);

    return f ? *(const size_t *)((const char *)m + f->quantifier_offset) : m->n_unknown_fields;
}

Status newer_message(ProtobufCMessage **out, Arena *a, const ProtobufCMessage *m, unsigned tag,
                     const ProtobufCMessageDescriptor *type, size_t i)
{
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(m->descriptor, tag);

    *out = NULL;
    if (f)
        *out = (*(ProtobufCMessage *const *const *)((const char *)m + f->offset))[i];
    else if (holds_bytes(&m->unknown_fields[i], tag)) {
        ProtobufCBinaryData s = payload(&m->unknown_fields[i]);

        return onnx_unpack(out, a, type, s.data, s.len, NULL);
    }
    return ST_OK;
}

Status metadata_entries(MetadataEntry *take, void *user, const Importer *im, const ProtobufCMessage *m, unsigned tag)
{
    Status st = ST_OK;
    Arena *a = NULL;

    for (size_t i = 0; i < newer_count(m, tag) && !st; i++) {
        ProtobufCMessage *entry;

        if (!a && !(a = arena_create()))
            return FAIL_NOMEM();
        st = newer_message(&entry, a, m, tag, &onnx__string_string_entry_proto__descriptor, i);
        if (!st && entry)
            st = take(user, im->g->arena, text_or(((Onnx__StringStringEntryProto *)entry)->key, ""),
                      text_or(((Onnx__StringStringEntryProto *)entry)->value, ""));
    }
    arena_free(a);
    return st;
}

/* ---- a node's origin in the traced program ---- */

/* Reads the Python string whose quote is at `s`, unescaped, into `to` (NULL: nowhere), which has room.  Returns the
 * text after it; NULL: it is no string. */
static const char *read_quoted(char *to, const char *s)
{
    char quote = *s++;

    if (quote != '\'' && quote != '"')
        return NULL;
    while (*s && *s != quote) {
        if (*s == '\\' && s[1])
            s++;
        if (to)
            *to++ = *s;
        s++;
    }
    return *s ? s + 1 : NULL;
}

/* Finds the module that called the operator, 'encoder.norm' in ['', 'encoder', 'encoder.norm', 'layer_norm_1']: paths
 * of modules from the outermost on, then the name of the call.  Returns the last but one, at its quote; NULL: the text
 * is something else. */
static const char *innermost_module(const char *list)
{
    const char *word[2] = { NULL, NULL }, *s = list + 1;
    int n = 0;

    if (*list != '[')
        return NULL;
    for (; *s && *s != ']'; n++) {
        word[n & 1] = s;
        if (!(s = read_quoted(NULL, s)))
            return NULL;
        while (*s == ',' || *s == ' ')
            s++;
    }
    return *s == ']' && n > 1 ? word[n & 1] : NULL;
}

Status node_metadata_entries(MetadataEntry *take, void *user, const Importer *im, const Onnx__NodeProto *p)
{
    return status_prefix(metadata_entries(take, user, im, &p->base, TAG_NODE_METADATA), "%s: its metadata",
                         proto_text(im, p));
}

static Status take_source(void *user, Arena *keep, const char *key, const char *text)
{
    Node *n = user;
    const char *path, *end;
    char *copy;

    if (!strcmp(key, KEY_SCOPES) && !n->module && (path = innermost_module(text))) {
        end = read_quoted(NULL, path);
        if (end - path > MAX_PATH)
            return ST_OK;
        if (!(copy = arena_alloc(keep, (size_t)(end - path))))
            return FAIL_NOMEM();
        (void)read_quoted(copy, path);
        n->module = copy;
    }
    if (!strcmp(key, KEY_CALL) && strlen(text) < MAX_CALL && !(n->call = arena_strdup(keep, text)))
        return FAIL_NOMEM();
    n->lost_detach |= !strcmp(key, KEY_CODE) && strstr(text, "detach(");
    return ST_OK;
}

Status node_source_decode(Node *n, Importer *im, const Body *b, const Onnx__NodeProto *p)
{
    TRY(node_metadata_entries(take_source, n, im, p));
    if (!n->call)
        n->call = b->call;
    return ST_OK;
}
