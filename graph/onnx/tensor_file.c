/* Files that hold one value, such as the data sets of ONNX's tests: a TensorProto, a SequenceProto or an OptionalProto.
 * No package's onnx.proto defines the latter two, so their few fields that matter are read here. */
#include "graph/onnx/importer.h"
#include "graph/onnx/onnx.h"

/* Fields of SequenceProto and OptionalProto: in both, 1 is the name and 2 the kind of value held. */
enum { SEQUENCE_TENSORS = 3, OPTIONAL_TENSOR = 3, OPTIONAL_SEQUENCE = 5, WIRE_VARINT = 0, WIRE_BYTES = 2 };

/* Reads a number from the front of `s`, which moves on; false: there is none. */
static bool read_varint(uint64_t *out, ProtobufCBinaryData *s)
{
    *out = 0;
    for (int shift = 0; shift < 64 && s->len; shift += 7) {
        const uint8_t byte = *s->data++;

        s->len--;
        *out |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128))
            return true;
    }
    return false;
}

/* Finds the next field that holds bytes; `*tag` 0: there is none. */
static Status next_field(unsigned *tag, ProtobufCBinaryData *bytes, ProtobufCBinaryData *s)
{
    uint64_t key, n;

    *tag = 0;
    while (s->len && !*tag) {
        if (!read_varint(&key, s) || !read_varint(&n, s) || key >> 3 > 7)
            return FAIL(E_MODEL, "not a valid file of a value");
        if ((key & 7) == WIRE_VARINT)
            continue;
        if ((key & 7) != WIRE_BYTES || n > s->len)
            return FAIL(E_MODEL, "not a valid file of a value");
        *bytes = (ProtobufCBinaryData){ (size_t)n, s->data };
        s->data += n;
        s->len -= (size_t)n;
        *tag = (unsigned)(key >> 3);
    }
    return ST_OK;
}

/* Appends the TensorProto in `s` to out->item.  `map`, or NULL, is the file if it is nothing else. */
static Status tensor_file_add_tensor(OnnxValue *out, size_t *cap, TensorReader *r, Arena *scratch,
                                     ProtobufCBinaryData s, const Mapped *map)
{
    const Tensor **grown = arena_grow(r->arena, (void *)out->item, sizeof *grown, (size_t)out->n, cap);
    ProtobufCMessage *m;
    Tensor *t;

    if (!grown)
        return FAIL_NOMEM();
    out->item = grown;
    TRY(onnx_unpack(&m, scratch, &onnx__tensor_proto__descriptor, s.data, s.len, map));
    TRY(tensor_decode(&t, r, (const Onnx__TensorProto *)m, text_or(((Onnx__TensorProto *)m)->name, "?")));
    grown[out->n++] = t;
    return ST_OK;
}

static Status read_sequence(OnnxValue *out, TensorReader *r, Arena *scratch, ProtobufCBinaryData s)
{
    unsigned tag = 1;
    size_t cap = 0;
    ProtobufCBinaryData bytes;

    while (tag) {
        TRY(next_field(&tag, &bytes, &s));
        if (tag > SEQUENCE_TENSORS)
            return FAIL(E_UNSUPPORTED, "a sequence of something other than tensors");
        if (tag == SEQUENCE_TENSORS)
            TRY(tensor_file_add_tensor(out, &cap, r, scratch, bytes, NULL));
    }
    return ST_OK;
}

static Status read_optional(OnnxValue *out, TensorReader *r, Arena *scratch, ProtobufCBinaryData s)
{
    unsigned tag = 1;
    size_t cap = 0;
    ProtobufCBinaryData bytes;

    out->nothing = true;
    while (tag) {
        TRY(next_field(&tag, &bytes, &s));
        if (tag > 1 && (!out->nothing || (tag != OPTIONAL_TENSOR && tag != OPTIONAL_SEQUENCE)))
            return FAIL(E_UNSUPPORTED, "an optional that holds something else than a tensor or a sequence of them");
        if (tag <= 1)
            continue;
        out->nothing = false;
        out->type.sequence = tag == OPTIONAL_SEQUENCE;
        TRY(out->type.sequence ? read_sequence(out, r, scratch, bytes)
                               : tensor_file_add_tensor(out, &cap, r, scratch, bytes, NULL));
    }
    return ST_OK;
}

Status onnx_read_value(OnnxValue *out, Arena *arena, const char *path, const OnnxType *type)
{
    TensorReader r = { .arena = arena, .dense_left = (int64_t)1 << 30, .texts = true };
    Arena *scratch = arena_create();
    Mapped map = { NULL, 0 };
    ProtobufCBinaryData all;
    size_t cap = 0;
    Status st;

    if (!scratch)
        return FAIL_NOMEM();
    TRY_TO(done, st, mapped_open(&map, path));
    all = (ProtobufCBinaryData){ map.size, (uint8_t *)(uintptr_t)map.data };
    *out = (OnnxValue){ .type = *type };
    st = type->optional   ? read_optional(out, &r, scratch, all)
         : type->sequence ? read_sequence(out, &r, scratch, all)
                          : tensor_file_add_tensor(out, &cap, &r, scratch, all, &map);
    st = status_prefix(st, "%s", path);
done:
    mapped_close(&map);
    arena_free(scratch);
    return st;
}
