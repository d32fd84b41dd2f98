/* Fields that only newer definitions of the format have: read by descriptor where the definition at hand knows their
 * tag, else from the unknown fields, so that an old definition still reads new files. */
#include "graph/onnx/importer.h"

#include <string.h>

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

const char *late_string(const ProtobufCMessage *m, unsigned tag, Arena *a)
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

size_t late_count(const ProtobufCMessage *m, unsigned tag)
{
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(m->descriptor, tag);

    return f ? *(const size_t *)((const char *)m + f->quantifier_offset) : m->n_unknown_fields;
}

Status late_message(ProtobufCMessage **out, Arena *a, const ProtobufCMessage *m, unsigned tag,
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

Status late_entries(LateEntry *take, void *user, const ProtobufCMessage *m, unsigned tag)
{
    Status st = ST_OK;
    Arena *a = NULL;

    for (size_t i = 0; i < late_count(m, tag) && !st; i++) {
        ProtobufCMessage *entry;

        if (!a && !(a = arena_create()))
            return FAIL_NOMEM();
        st = late_message(&entry, a, m, tag, &onnx__string_string_entry_proto__descriptor, i);
        if (!st && entry)
            st = take(user, text_or(((Onnx__StringStringEntryProto *)entry)->key, ""),
                      text_or(((Onnx__StringStringEntryProto *)entry)->value, ""));
    }
    arena_free(a);
    return st;
}

/* ---- where a node comes from ---- */

/* What follows the Python string that begins at `s` (at its quote); `to`, if not NULL, gets it and has room.  NULL: it
 * is none. */
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

/* ['', 'encoder', 'encoder.norm', 'layer_norm_1']: paths of the modules from the outermost to the one that called the
 * operator, and the call's own name.  The last but one, at its quote, is the module; NULL when the text is something
 * else. */
static const char *innermost(const char *list)
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

typedef struct {
    Node *n;
    Arena *arena;
} Source;

static Status take_module(const Source *to, const char *text)
{
    const char *path = to->n->module ? NULL : innermost(text), *end = path ? read_quoted(NULL, path) : NULL;
    char *copy;

    if (!path || end - path > MAX_PATH)
        return ST_OK;
    if (!(copy = arena_alloc(to->arena, (size_t)(end - path))))
        return FAIL_NOMEM();
    (void)read_quoted(copy, path);
    to->n->module = copy;
    return ST_OK;
}

Status late_node_entries(LateEntry *take, void *user, const Importer *im, const Onnx__NodeProto *p)
{
    return status_prefix(late_entries(take, user, &p->base, TAG_NODE_METADATA), "%s: its metadata", proto_text(im, p));
}

static Status take_source(void *user, const char *key, const char *text)
{
    const Source *to = user;

    if (!strcmp(key, KEY_SCOPES))
        return take_module(to, text);
    if (!strcmp(key, KEY_CALL) && strlen(text) < MAX_CALL && !(to->n->call = arena_strdup(to->arena, text)))
        return FAIL_NOMEM();
    to->n->lost_detach |= !strcmp(key, KEY_CODE) && strstr(text, "detach(");
    return ST_OK;
}

Status late_source(Node *n, Importer *im, const Body *b, const Onnx__NodeProto *p)
{
    Source to = { n, im->g->arena };

    TRY(late_node_entries(take_source, &to, im, p));
    if (!n->call)
        n->call = b->call;
    return ST_OK;
}
