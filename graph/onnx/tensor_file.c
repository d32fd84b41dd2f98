/* Files that hold one value, such as the data sets of ONNX's tests: a TensorProto, a SequenceProto or an OptionalProto.
 * No package's onnx.proto defines the latter two, so their few fields that matter are read here. */
#include "graph/onnx/importer.h"
#include "graph/onnx/onnx.h"

/* Fields of SequenceProto and OptionalProto: in both, 1 is the name and 2 the kind of value held. */
enum { SEQUENCE_TENSORS = 3, OPTIONAL_TENSOR = 3, OPTIONAL_SEQUENCE = 5, WIRE_VARINT = 0, WIRE_BYTES = 2 };

typedef struct {
    const uint8_t *at, *end;
} Span;

typedef struct {
    TensorReader tensors;
    const Mapped *map;
    Arena *scratch;
} Reader;

static bool read_varint(uint64_t *out, Span *s)
{
    *out = 0;
    for (int shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        *out |= (uint64_t)(*s->at & 127) << shift;
        if (!(*s->at++ & 128))
            return true;
    }
    return false;
}

/* Finds the next field that holds bytes; `*tag` 0: there is none. */
static Status next_field(unsigned *tag, Span *bytes, Span *s)
{
    uint64_t key, n;

    *tag = 0;
    while (s->at < s->end && !*tag) {
        if (!read_varint(&key, s) || !read_varint(&n, s) || key >> 3 > 7)
            return FAIL(E_MODEL, "not a valid file of a value");
        if ((key & 7) == WIRE_VARINT)
            continue;
        if ((key & 7) != WIRE_BYTES || n > (uint64_t)(s->end - s->at))
            return FAIL(E_MODEL, "not a valid file of a value");
        *bytes = (Span){ s->at, s->at + n };
        s->at += n;
        *tag = (unsigned)(key >> 3);
    }
    return ST_OK;
}

/* Appends the TensorProto in `s` to out->item. */
static Status tensor_file_add_tensor(OnnxValue *out, Reader *r, size_t *cap, Span s)
{
    const Tensor **grown = arena_grow(r->tensors.arena, (void *)out->item, sizeof *grown, (size_t)out->n, cap);
    ProtobufCMessage *m;
    Tensor *t;

    if (!grown)
        return FAIL_NOMEM();
    out->item = grown;
    TRY(onnx_unpack(&m, r->scratch, &onnx__tensor_proto__descriptor, s.at, (size_t)(s.end - s.at), r->map));
    TRY(tensor_decode(&t, &r->tensors, (const Onnx__TensorProto *)m, text_or(((Onnx__TensorProto *)m)->name, "?")));
    grown[out->n++] = t;
    return ST_OK;
}

static Status read_sequence(OnnxValue *out, Reader *r, Span s)
{
    unsigned tag = 1;
    size_t cap = 0;
    Span bytes;

    while (tag) {
        TRY(next_field(&tag, &bytes, &s));
        if (tag > SEQUENCE_TENSORS)
            return FAIL(E_UNSUPPORTED, "a sequence of something other than tensors");
        if (tag == SEQUENCE_TENSORS)
            TRY(tensor_file_add_tensor(out, r, &cap, bytes));
    }
    return ST_OK;
}

static Status read_optional(OnnxValue *out, Reader *r, Span s)
{
    unsigned tag = 1;
    size_t cap = 0;
    Span bytes;

    out->nothing = true;
    while (tag) {
        TRY(next_field(&tag, &bytes, &s));
        if (tag > 1 && (!out->nothing || (tag != OPTIONAL_TENSOR && tag != OPTIONAL_SEQUENCE)))
            return FAIL(E_UNSUPPORTED, "an optional that holds something else than a tensor or a sequence of them");
        if (tag <= 1)
            continue;
        out->nothing = false;
        out->type.sequence = tag == OPTIONAL_SEQUENCE;
        TRY(out->type.sequence ? read_sequence(out, r, bytes) : tensor_file_add_tensor(out, r, &cap, bytes));
    }
    return ST_OK;
}

Status onnx_read_value(OnnxValue *out, Arena *arena, const char *path, const OnnxType *type)
{
    Reader r = { .tensors = { .arena = arena, .dense_left = (int64_t)1 << 30, .texts = true },
                 .scratch = arena_create() };
    Mapped map = { NULL, 0 };
    size_t cap = 0;
    Span all;
    Status st;

    if (!r.scratch)
        return FAIL_NOMEM();
    TRY_TO(done, st, mapped_open(&map, path));
    all = (Span){ map.data, map.data + map.size };
    r.map = type->optional || type->sequence ? NULL : &map;
    *out = (OnnxValue){ .type = *type };
    st = type->optional   ? read_optional(out, &r, all)
         : type->sequence ? read_sequence(out, &r, all)
                          : tensor_file_add_tensor(out, &r, &cap, all);
    st = status_prefix(st, "%s", path);
done:
    mapped_close(&map);
    arena_free(r.scratch);
    return st;
}
