/* Files that hold one TensorProto, as the data sets of ONNX's tests are. */
#include "graph/onnx/internal.h"
#include "graph/onnx/onnx.h"

Status onnx_read_tensor(Tensor **out, Arena *arena, const char *path)
{
    TensorReader r = { .arena = arena, .dense_left = (int64_t)1 << 30 };
    Arena *scratch = arena_create();
    Mapped map = { NULL, 0 };
    ProtobufCMessage *m;
    Status st;

    if (!scratch)
        return FAIL_NOMEM();
    TRY_TO(done, st, mapped_open(&map, path));
    if (!(st = onnx_unpack(&m, scratch, &onnx__tensor_proto__descriptor, map.data, map.size, &map)))
        st = tensor_decode(out, &r, (const Onnx__TensorProto *)m, text_or(((Onnx__TensorProto *)m)->name, "?"));
    st = status_prefix(st, "%s", path);
done:
    mapped_close(&map);
    arena_free(scratch);
    return st;
}
