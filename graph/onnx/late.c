/* Fields that only newer definitions of the format have: read by descriptor where the definition at hand knows them, else
 * from the unknown fields, so that an old definition still reads new files. */
#include "graph/onnx/internal.h"

#include <string.h>

enum { TAG_NODE_METADATA = 9, MAX_SCOPES_TEXT = 1 << 16 };
#define KEY_SCOPES "pkg.torch.onnx.name_scopes"

bool late_is(const ProtobufCMessageUnknownField *f, unsigned tag)
{
    return f->tag == tag && f->wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
}

ProtobufCBinaryData late_payload(const ProtobufCMessageUnknownField *f)
{
    size_t i = 0;

    while (i < f->len && f->data[i] & 128)
        i++;
    return i < f->len ? (ProtobufCBinaryData){ f->len - i - 1, f->data + i + 1 } : (ProtobufCBinaryData){ 0, NULL };
}

const char *late_string(const ProtobufCMessage *m, const char *field, unsigned tag, Arena *a)
{
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(m->descriptor, field);

    if (f)
        return text_or(*(char *const *)((const char *)m + f->offset), "");
    for (unsigned i = 0; i < m->n_unknown_fields; i++)
        if (late_is(&m->unknown_fields[i], tag)) {
            ProtobufCBinaryData s = late_payload(&m->unknown_fields[i]);
            char *text = arena_alloc(a, s.len + 1);

            return text && s.len ? memcpy(text, s.data, s.len) : "";
        }
    return "";
}

/* ---- where a node comes from ---- */

/* Copies the Python string that begins at `s` (at its quote) to `to`, which has room; returns what follows, NULL: it is none. */
static const char *read_quoted(char *to, const char *s)
{
    char quote = *s++;

    if (quote != '\'' && quote != '"')
        return NULL;
    while (*s && *s != quote) {
        if (*s == '\\' && s[1])
            s++;
        *to++ = *s++;
    }
    *to = '\0';
    return *s ? s + 1 : NULL;
}

/* ['', 'encoder', 'encoder.norm', 'layer_norm_1']: paths of the modules from the outermost to the one that called the operator,
 * and the call's own name.  The last but one is the module; NULL when the text is something else. */
static const char *innermost(Arena *a, const char *list)
{
    size_t len = strlen(list);
    char *word[2] = { arena_alloc(a, len + 1), arena_alloc(a, len + 1) };
    const char *s = list + 1;
    int n = 0;

    if (!word[0] || !word[1] || *list != '[' || len > MAX_SCOPES_TEXT)
        return NULL;
    for (; *s && *s != ']'; n++) {
        if (!(s = read_quoted(word[n & 1], s)))
            return NULL;
        while (*s == ',' || *s == ' ')
            s++;
    }
    return *s == ']' && n > 1 ? word[n & 1] : NULL;
}

static Status nth_entry(const Onnx__StringStringEntryProto **out, Importer *im, const ProtobufCMessage *m,
                        const ProtobufCFieldDescriptor *f, size_t i)
{
    ProtobufCMessage *entry = NULL;

    *out = NULL;
    if (f)
        entry = (*(ProtobufCMessage *const *const *)((const char *)m + f->offset))[i];
    else if (late_is(&m->unknown_fields[i], TAG_NODE_METADATA)) {
        ProtobufCBinaryData s = late_payload(&m->unknown_fields[i]);

        TRY(onnx_unpack(&entry, im->scratch, &onnx__string_string_entry_proto__descriptor, s.data, s.len));
    }
    *out = (const Onnx__StringStringEntryProto *)entry;
    return ST_OK;
}

Status late_module(const char **out, Importer *im, const Onnx__NodeProto *p)
{
    const ProtobufCMessage *m = &p->base;
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(m->descriptor, "metadata_props");
    size_t n = f ? *(const size_t *)((const char *)m + f->quantifier_offset) : m->n_unknown_fields;
    const Onnx__StringStringEntryProto *entry;
    const char *path;

    *out = NULL;
    for (size_t i = 0; i < n && !*out; i++) {
        TRY(status_prefix(nth_entry(&entry, im, m, f, i), "%s: its metadata", proto_text(im, p)));
        if (!entry || strcmp(text_or(entry->key, ""), KEY_SCOPES))
            continue;
        if ((path = innermost(im->scratch, text_or(entry->value, ""))) && !(*out = arena_strdup(im->g->arena, path)))
            return FAIL_NOMEM();
    }
    return ST_OK;
}
