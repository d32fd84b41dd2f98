/* A message to a file, piece by piece as protobuf-c packs it. */
#include "graph/onnx/export.h"

#include "graph/base/outfile.h"

typedef struct {
    ProtobufCBuffer base;
    FILE *f;
} Sink;

static void append(ProtobufCBuffer *base, size_t n, const uint8_t *data) { fwrite(data, 1, n, ((Sink *)base)->f); }

Status message_write(const ProtobufCMessage *m, const char *path)
{
    size_t size = protobuf_c_message_get_packed_size(m);
    Sink s = { .base.append = append };
    OutFile *file;

    if (size > INT32_MAX)
        return FAIL(E_UNSUPPORTED, "%s: the model has %zu bytes, an ONNX file has at most 2 GiB", path, size);
    TRY(outfile_open(&file, path));
    s.f = outfile_stream(file);
    protobuf_c_message_pack_to_buffer(m, &s.base);
    return outfile_close(file, ST_OK);
}
