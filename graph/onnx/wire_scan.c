/* A scan of protobuf's wire format before it is unpacked.
 *
 * protobuf-c unpacks by recursion, without a limit on depth, count or memory: 29 KB of nested graphs overflow its
 * stack, and 4 MB of empty nodes take 300 MB.  This scan walks the same bytes with its own stack and the generated
 * descriptors. It refuses messages that nest too deep, have too many parts, run over their end, or repeat a singular
 * message (unpacking merges repetitions in time quadratic in their number).  Unpacking then allocates from an arena
 * with a budget. */
#include <string.h>

#include "graph/onnx/importer.h"

enum { MAX_DEPTH = 100, PARTS_BASE = 1000000, BYTES_PER_PART = 8 /* models have one in about 15 */ };
#define BUDGET_BASE ((size_t)256 << 20)
enum { BUDGET_PER_BYTE = 8 }; /* a packed varint of one byte becomes an int64 */

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

typedef struct {
    const uint8_t *end;
    const ProtobufCMessageDescriptor *type;
    uint64_t seen; /* bit i: singular message field i occurred */
} Frame;

typedef struct {
    const uint8_t *start, *at;
    size_t size, n_part, max_part;
    int depth;
    Frame frame[MAX_DEPTH];
} Scan;

static Status bad(const Scan *s, const char *why)
{
    return FAIL(E_MODEL, "not a valid ONNX file: %s at byte %zu", why, (size_t)(s->at - s->start));
}

static Status scan_varint(Scan *s, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;

    for (int shift = 0; shift < 70; shift += 7) {
        if (s->at == end)
            return bad(s, "the file or a part of it ends inside a number");
        v |= shift < 64 ? (uint64_t)(*s->at & 127) << shift : 0;
        if (!(*s->at++ & 128)) {
            *out = v;
            return ST_OK;
        }
    }
    return bad(s, "a number of more than 10 bytes");
}

static Status count_part(Scan *s)
{
    if (++s->n_part > s->max_part)
        return FAIL(E_MODEL, "more than %zu parts (nodes, attributes, names ...) in %zu bytes", s->max_part, s->size);
    return ST_OK;
}

/* Begins message field f, which ends at `end`. */
static Status push_message(Scan *s, const ProtobufCFieldDescriptor *f, const uint8_t *end)
{
    Frame *top = &s->frame[s->depth - 1];
    unsigned index = (unsigned)(f - top->type->fields);

    if (f->label != PROTOBUF_C_LABEL_REPEATED && index < 64) {
        if (top->seen >> index & 1)
            return FAIL(E_MODEL, "field '%s' of %s is given twice", f->name, top->type->short_name);
        top->seen |= (uint64_t)1 << index;
    }
    if (s->depth == MAX_DEPTH)
        return FAIL(E_MODEL, "nested more than %d deep", MAX_DEPTH);
    s->frame[s->depth++] = (Frame){ end, f->descriptor, 0 };
    return ST_OK;
}

/* Scans one field of the innermost message. */
static Status scan_field(Scan *s)
{
    const Frame *top = &s->frame[s->depth - 1];
    const ProtobufCFieldDescriptor *f;
    uint64_t tag, len, skipped;
    size_t fixed = 0;

    TRY(scan_varint(s, top->end, &tag));
    if (tag >> 3 == 0 || tag >> 3 > 536870911)
        return bad(s, "a field numbered out of range");
    f = protobuf_c_message_descriptor_get_field(top->type, (unsigned)(tag >> 3));
    if (!f)
        TRY(count_part(s));
    switch (tag & 7) {
    case WIRE_VARINT: return scan_varint(s, top->end, &skipped);
    case WIRE_BYTES:
        TRY(scan_varint(s, top->end, &len));
        if (len > (uint64_t)(top->end - s->at))
            return bad(s, "a part that is longer than what holds it");
        TRY(count_part(s));
        if (f && f->type == PROTOBUF_C_TYPE_MESSAGE)
            return push_message(s, f, s->at + len);
        s->at += len;
        return ST_OK;
    case WIRE_64: fixed = 8; break;
    case WIRE_32: fixed = 4; break;
    default: return bad(s, "an unknown kind of field");
    }
    if ((size_t)(top->end - s->at) < fixed)
        return bad(s, "the file or a part of it ends inside a number");
    s->at += fixed;
    return ST_OK;
}

static Status scan(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size)
{
    Scan s = { .start = data, .at = data, .size = size, .max_part = PARTS_BASE + size / BYTES_PER_PART, .depth = 1 };

    s.frame[0] = (Frame){ data + size, type, 0 };
    while (s.depth) {
        if (s.at == s.frame[s.depth - 1].end)
            s.depth--;
        else
            TRY(scan_field(&s));
    }
    return ST_OK;
}

typedef struct {
    Arena *arena;
    size_t limit;
    bool over, no_memory;
    const Mapped *map;
    size_t read; /* bytes of the map, roughly, since its pages were released */
} Budget;

static void *budget_alloc(void *user, size_t n)
{
    Budget *b = user;
    void *p;

    if (n > b->limit || arena_bytes(b->arena) > b->limit - n) {
        b->over = true;
        return NULL;
    }
    p = arena_alloc(b->arena, n);
    b->no_memory |= !p;
    b->read += n;
    if (b->map && b->read >= KEPT_OF_FILE) { /* unpacking does not go back to earlier pages */
        mapped_forget(b->map);
        b->read = 0;
    }
    return p;
}

static void budget_free(void *user, void *p)
{
    (void)user;
    (void)p;
}

Status onnx_unpack(ProtobufCMessage **out, Arena *arena, const ProtobufCMessageDescriptor *type, const uint8_t *data,
                   size_t size, const Mapped *map)
{
    Budget budget = { .arena = arena, .limit = arena_bytes(arena) + BUDGET_BASE + size * BUDGET_PER_BYTE, .map = map };
    ProtobufCAllocator allocator = { budget_alloc, budget_free, &budget };
    ProtobufCMessage *m;

    if (size > INT32_MAX)
        return FAIL(E_MODEL, "%zu bytes, an ONNX file has at most 2 GiB (large weights belong in external data)", size);
    if (size >= 4 && !memcmp(data, "PK\3\4", 4))
        return FAIL(E_MODEL,
                    "a zip archive, as torch.save and Keras write them, and not an ONNX file: export the network, "
                    "in PyTorch by torch.onnx.export");
    TRY(scan(type, data, size));
    if (!(m = protobuf_c_message_unpack(type, &allocator, size, data)))
        return budget.no_memory ? FAIL_NOMEM()
               : budget.over    ? FAIL(E_MODEL, "unpacking takes more than %zu MiB", budget.limit >> 20)
                                : FAIL(E_MODEL, "not a valid ONNX file");
    *out = m;
    return ST_OK;
}
