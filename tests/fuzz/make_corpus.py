#!/usr/bin/env python3
"""Writes the seeds of the fuzzing harnesses: make_corpus.py [FOLDER, else the corpus folder beside this file].

Needs numpy and onnx (of PyPI, or Debian's python3-numpy and python3-onnx).  What the fuzzer found is kept there too, as found-*, and is
left alone.
"""
import base64
import ctypes
import gzip
import io
import json
import pathlib
import struct
import sys
import tarfile
import zipfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus"
rng = np.random.default_rng(0)
F, I64 = TensorProto.FLOAT, TensorProto.INT64


def put(harness, name, data):
    path = ROOT / harness / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


# ---- models ----

def tensor(name, *shape, values=None, dtype=np.float32):
    array = np.asarray(values, dtype) if values is not None else rng.standard_normal(shape).astype(dtype)
    return numpy_helper.from_array(array, name)


def info(name, *shape, dtype=F):
    return helper.make_tensor_value_info(name, dtype, shape or None)


def model(name, nodes, inputs, inits=(), outputs=("y",), opset=17, sparse=(), functions=(), metadata=None, late=False, ir=8, **more):
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(o, F, None) for o in outputs], list(inits))
    graph.sparse_initializer.extend(sparse)
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in {f.domain for f in functions}]
    m = helper.make_model(graph, opset_imports=imports, ir_version=ir, functions=list(functions), **more)
    helper.set_model_props(m, metadata or {})
    put("import", f"{name}.onnx", m.SerializeToString(deterministic=True))


N = helper.make_node
x = info("x", "N", 4)
image = info("x", "N", 2, 6, 6)


def networks():
    model("mlp", [N("Gemm", ["x", "w", "b"], ["h"], transB=1), N("Relu", ["h"], ["r"]), N("MatMul", ["r", "v"], ["m"]),
                  N("Add", ["m", "c"], ["y"])], [x], [tensor("w", 3, 4), tensor("b", 3), tensor("v", 3, 2), tensor("c", 2)])
    model("conv", [N("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 1], group=2, kernel_shape=[3, 3]),
                   N("BatchNormalization", ["c", "s", "o", "mean", "var"], ["n", "rm", "rv"], training_mode=1, momentum=0.8),
                   N("Relu", ["n"], ["r"]), N("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
                   N("GlobalAveragePool", ["p"], ["g"]), N("Flatten", ["g"], ["y"])],
          [image], [tensor("w", 2, 1, 3, 3), tensor("b", 2), tensor("s", 2), tensor("o", 2), tensor("mean", 2), tensor("var", 2)])
    model("attention", [N("Transpose", ["x"], ["t"], perm=[0, 2, 1]), N("MatMul", ["x", "t"], ["a"]), N("Softmax", ["a"], ["s"], axis=-1),
                        N("MatMul", ["s", "x"], ["o"]), N("LayerNormalization", ["o", "w", "b"], ["n"], axis=-1),
                        N("Reshape", ["n", "to"], ["y"])],
          [info("x", "N", 3, 4)], [tensor("w", 4), tensor("b", 4), tensor("to", values=[0, -1], dtype=np.int64)])
    model("embedding", [N("Gather", ["table", "x"], ["e"], axis=0), N("ReduceMean", ["e"], ["m"], axes=[1], keepdims=0),
                        N("Dropout", ["m", "ratio", "mode"], ["y"])], [info("x", "N", 3, dtype=I64)],
          [tensor("table", 5, 4), tensor("ratio", values=0.5), tensor("mode", values=True, dtype=np.bool_)])
    model("transposed", [N("ConvTranspose", ["x", "w"], ["c"], strides=[2, 2], output_padding=[1, 0]),
                         N("InstanceNormalization", ["c", "s", "o"], ["i"]), N("AveragePool", ["i"], ["p"], kernel_shape=[3, 3],
                         auto_pad="SAME_UPPER"), N("LeakyRelu", ["p"], ["y"], alpha=0.1)],
          [image], [tensor("w", 2, 2, 2, 2), tensor("s", 2), tensor("o", 2)])
    model("loss", [N("Gemm", ["x", "w"], ["z"]), N("SoftmaxCrossEntropyLoss", ["z", "t"], ["y", "lp"], reduction="mean", ignore_index=-1)],
          [x, info("t", "N", dtype=I64)], [tensor("w", 4, 3)])


def layout():
    model("shapes", [N("Shape", ["x"], ["s"]), N("Gather", ["s", "zero"], ["n"]), N("Unsqueeze", ["n", "axes"], ["n1"]),
                     N("Concat", ["n1", "rest"], ["to"], axis=0), N("Reshape", ["x", "to"], ["y"])],
          [info("x", "N", 2, 6)], [tensor("zero", values=0, dtype=np.int64), tensor("axes", values=[0], dtype=np.int64),
                                  tensor("rest", values=[3, 4], dtype=np.int64)])
    model("slices", [N("Slice", ["x", "from", "to", "axes", "steps"], ["s"]), N("Pad", ["s", "pads"], ["p"], mode="constant"),
                     N("Split", ["p", "parts"], ["a", "b"], axis=1), N("Concat", ["b", "a"], ["c"], axis=-1), N("Tile", ["c", "times"], ["y"])],
          [x], [tensor(n, values=v, dtype=np.int64) for n, v in
                [("from", [-1]), ("to", [-9]), ("axes", [1]), ("steps", [-1]), ("pads", [0, 1, 0, 1]), ("parts", [2, 4]), ("times", [1, 2])]])
    model("where", [N("ConstantOfShape", ["shape"], ["c"], value=tensor("v", values=[2.0])), N("Less", ["x", "c"], ["l"]),
                    N("Where", ["l", "x", "c"], ["w"]), N("Expand", ["w", "to"], ["e"]), N("Squeeze", ["e", "axes"], ["y"])],
          [x], [tensor("shape", values=[1, 4], dtype=np.int64), tensor("to", values=[1, 2, 4], dtype=np.int64),
                tensor("axes", values=[0], dtype=np.int64)])
    model("folded", [N("Range", ["a", "b", "d"], ["r"]), N("Cast", ["r"], ["f"], to=F), N("Mul", ["f", "f"], ["q"]), N("Add", ["x", "q"], ["y"])],
          [x], [tensor("a", values=0, dtype=np.int64), tensor("b", values=4, dtype=np.int64), tensor("d", values=1, dtype=np.int64)])
    model("scatter", [N("ScatterND", ["x", "i", "u"], ["s"]), N("TopK", ["s", "k"], ["v", "j"], axis=-1), N("ArgMax", ["v"], ["am"], axis=1),
                      N("Cast", ["am"], ["y"], to=F)], [info("x", 3, 4)],
          [tensor("i", values=[[0], [2]], dtype=np.int64), tensor("u", 2, 4), tensor("k", values=[2], dtype=np.int64)])
    model("sums", [N("Sum", ["x", "x", "x"], ["s"]), N("Max", ["s", "x"], ["m"]), N("Clip", ["m", "", "hi"], ["c"]), N("Pow", ["c", "two"], ["p"]),
                   N("ReduceSum", ["p", "axes"], ["y"], keepdims=0)], [x],
          [tensor("hi", values=3.0), tensor("two", values=2.0), tensor("axes", values=[1], dtype=np.int64)])


def older():
    model("opset6", [N("Reshape", ["x", "to"], ["r"]), N("Softmax", ["r"], ["s"]), N("Sum", ["s", "s"], ["y"])], [info("x", 2, 4)],
          [tensor("to", values=[2, 4], dtype=np.int64)], opset=6, ir=3)
    model("opset1", [N("Reshape", ["x"], ["r"], shape=[2, 4]), N("Add", ["r", "b"], ["a"], broadcast=1, axis=1),
                     N("Dropout", ["a"], ["d"], is_test=1), N("Cast", ["d"], ["y"], to="FLOAT")], [info("x", 2, 4)], [tensor("b", 4)],
          opset=1, ir=3)
    model("opset9", [N("BatchNormalization", ["x", "s", "o", "mean", "var"], ["n", "a", "b", "c", "d"]),
                     N("Upsample", ["n", "scales"], ["y"], mode="nearest")], [image],
          [tensor(k, 2) for k in ("s", "o", "mean", "var")] + [tensor("scales", values=[1, 1, 2, 2])], opset=9, ir=4)
    model("castlike", [N("CastLike", ["x", "w"], ["c"]), N("Identity", ["c"], ["i"]), N("Dropout", ["i"], ["y", "mask"])], [x],
          [tensor("w", 1, dtype=np.float64)], opset=21, ir=10)


def structure():
    def branch(name, scale):
        return helper.make_graph([N("Mul", ["x", scale], [name])], name, [], [info(name)])
    model("if", [N("If", ["cond"], ["y"], then_branch=branch("a", "two"), else_branch=branch("b", "half"))], [x],
          [tensor("cond", values=True, dtype=np.bool_), tensor("two", values=2.0), tensor("half", values=0.5)])
    body = helper.make_graph([N("Add", ["v", "one"], ["w"]), N("Identity", ["c"], ["d"]), N("Identity", ["w"], ["s"])], "body",
                             [info("i", dtype=I64), info("c", dtype=TensorProto.BOOL), info("v")],
                             [info("d", dtype=TensorProto.BOOL), info("w"), info("s")])
    model("loop", [N("Loop", ["trips", "cond", "x"], ["y", "scan"], body=body)], [x],
          [tensor("trips", values=3, dtype=np.int64), tensor("cond", values=True, dtype=np.bool_), tensor("one", values=1.0)])
    step = helper.make_graph([N("Add", ["h", "e"], ["h2"]), N("Relu", ["h2"], ["o"])], "step", [info("h", 4), info("e", 4)],
                             [info("h2", 4), info("o", 4)])
    model("scan", [N("Scan", ["h0", "x"], ["last", "y"], body=step, num_scan_inputs=1)], [info("x", 3, 4)], [tensor("h0", 4)])
    model("sequence", [N("SplitToSequence", ["x", "parts"], ["s"], axis=1), N("SequenceAt", ["s", "one"], ["a"]),
                       N("ConcatFromSequence", ["s"], ["c"], axis=1), N("Add", ["a", "a"], ["y"])], [x],
          [tensor("parts", values=[2, 2], dtype=np.int64), tensor("one", values=1, dtype=np.int64)])
    act = helper.make_function("local", "Act", ["u"], ["v"], [N("LeakyRelu", ["u"], ["l"]), N("Add", ["l", "u"], ["v"])],
                               [helper.make_opsetid("", 17)], attributes=["alpha"])
    act.node[0].attribute.add(name="alpha", ref_attr_name="alpha", type=1)
    twice = helper.make_function("local", "Twice", ["u"], ["v"], [N("Act", ["u"], ["t"], domain="local", alpha=0.2),
                                                                N("Act", ["t"], ["v"], domain="local", alpha=0.3)],
                                 [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)])
    model("functions", [N("Twice", ["x"], ["t"], domain="local"), N("Act", ["t"], ["y"], domain="local", alpha=0.5)], [x],
          functions=[act, twice])


def tensors():
    sparse = helper.make_sparse_tensor(tensor("w", values=[1.0, 2.0]), tensor("w_i", values=[1, 6], dtype=np.int64), [4, 2])
    model("sparse", [N("MatMul", ["x", "w"], ["y"])], [x], sparse=[sparse])
    outside = TensorProto(name="w", data_type=F, dims=[4, 2], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", "w.bin"), ("offset", "0"), ("length", "32")):
        outside.external_data.add(key=key, value=text)
    model("external", [N("MatMul", ["x", "w"], ["y"])], [x], [outside])
    model("constants", [N("Constant", [], ["a"], value_floats=[1.0, 2.0]), N("Constant", [], ["b"], value_int=3),
                        N("Constant", [], ["c"], value=tensor("t", 1, 2)), N("Cast", ["b"], ["d"], to=F),
                        N("Constant", [], ["s"], sparse_value=sparse), N("Mul", ["a", "d"], ["e"]), N("Add", ["e", "c"], ["f"]),
                        N("MatMul", ["x", "s"], ["m"]), N("Add", ["m", "f"], ["y"])], [x])
    typed = [helper.make_tensor("w", F, [2, 2], [1, 2, 3, 4]), helper.make_tensor("i", TensorProto.INT32, [2], [1, 2]),
             helper.make_tensor("d", TensorProto.DOUBLE, [1], [1]), helper.make_tensor("h", TensorProto.FLOAT16, [2], [1.0, 2.0]),
             helper.make_tensor("u", TensorProto.UINT64, [1], [7]), helper.make_tensor("z", TensorProto.BOOL, [2], [True, False])]
    model("typed", [N("MatMul", ["x", "w"], ["y"]), N("Identity", ["h"], ["k"])], [info("x", "N", 2)], typed, outputs=("y", "k"))
    step = [N("Add", ["x", "w"], ["y"]), N("Mul", ["w", "x"], ["w_next"])]
    model("step", step, [info("x", 2)], [tensor("w", 2)], metadata={"dpexec.marks": "1", "dpexec.state:w": "trainable",
                                                                    "dpexec.update:w": "w_next", "dpexec.parameter:w": "trained"})


def torch_like():
    nodes = [N("Gemm", ["x", "fc.weight", "fc.bias"], ["val_0"], name="node_linear", transB=1), N("Gelu", ["val_0"], ["y"])]
    scopes = b"\x0a\x1apkg.torch.onnx.name_scopes\x12\x0d['', 'fc', 1]"
    nodes[0].MergeFromString(b"\x4a" + bytes([len(scopes)]) + scopes)       # NodeProto.metadata_props
    model("torch", nodes, [info("x", "batch", 4)], [tensor("fc.weight", 2, 4), tensor("fc.bias", 2)], opset=20, ir=10, producer_name="pytorch",
          producer_version="2.9")


# ---- data ----

def npy(array, version=(1, 0)):
    f = io.BytesIO()
    np.lib.format.write_array(f, array, version=version)
    return f.getvalue()


def idx(array, code):
    return bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(array.dtype.newbyteorder(">")).tobytes()


def npz(name, arrays, how):
    with zipfile.ZipFile(ROOT / "data" / f"{name}.npz", "w", how) as z:
        for key, array in arrays.items():
            member = zipfile.ZipInfo(f"{key}.npy")
            member.compress_type = how
            z.writestr(member, npy(array))


def tar(name, members, form):
    f = io.BytesIO()
    with tarfile.open(fileobj=f, mode="w", format=form) as t:
        for key, content in members:
            m = tarfile.TarInfo(key)
            m.size = len(content)
            t.addfile(m, io.BytesIO(content))
    put("data", f"{name}.tar", f.getvalue().rstrip(b"\0").ljust(2048, b"\0"))     # the fuzzer takes 2048 bytes


def data():
    arrays = {"f4": rng.standard_normal((3, 2)).astype("f4"), "f8": rng.standard_normal((2, 2, 2)), "f2": np.ones((3, 1), "f2"),
              "i8": np.arange(4), "big": np.arange(6, dtype=">i4").reshape(3, 2), "bool": np.array([True, False]),
              "u8": np.array([2**64 - 1, 0], "u8"), "u1": np.zeros((2, 3), "u1"), "column": np.asfortranarray(np.arange(12.0).reshape(3, 2, 2)),
              "empty": np.zeros((0, 4), "f4"), "scalar": np.array(1.0), "whole": np.array([1.0, -2.0, 3e9])}
    for name, array in arrays.items():
        put("data", f"{name}.npy", npy(array))
    put("data", "version2.npy", npy(arrays["i8"], (2, 0)))
    for name, how in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        npz(name, {key: arrays[key][:2] for key in ("f4", "big", "u1")}, how)
    sequences = np.arange(12, dtype="i4").reshape(4, 3)
    npz("offsets", {"x": sequences, "x.offsets": np.array([0, 3, 3, 4]), "y": np.arange(3)}, zipfile.ZIP_STORED)
    npz("lengths", {"x": sequences, "x.lengths": np.array([0, 3, 1, 2], "u1")}, zipfile.ZIP_STORED)
    images, labels = rng.integers(0, 255, (2, 3, 3)).astype("u1"), np.array([1, 2, 3], "u1")
    put("data", "images.idx", idx(images, 8))
    put("data", "labels.idx", idx(labels, 8))
    put("data", "floats.idx", idx(np.ones((2, 2), "f4"), 13))
    put("data", "llmc.bin", struct.pack("<256i", 20240520, 1, 9, *[0] * 253) + np.arange(9, dtype="<u2").tobytes())
    tar("array", [("0.x.npy", npy(arrays["f4"]))], tarfile.USTAR_FORMAT)
    tar("labels", [("0.cls", b"1\n"), ("1.cls", b"-7")], tarfile.GNU_FORMAT)
    tar("json", [("a/0.json", b'{"a": [1, 2.5]}')], tarfile.PAX_FORMAT)
    put("data", "images.gz", gzip.compress(idx(images, 8), mtime=0))
    put("data", "labels.gz", gzip.compress(idx(labels, 8), mtime=0))


def tables():
    """Files of CSV behind a byte of options (tests/fuzz/table.c)."""
    seeds = {"plain": (0, "a,b,target\n1,x,2.5\n-3e2,y,\"1\"\n,z,3\n"), "quotes": (1, '\ufeff"a"" b",b\r\n"1\n2",NA\r\n"x, y" , ?\r\n'),
             "semicolons": (4, "a;b;target\n1,5;x;0\n2,25;y;1\n"), "classes": (8, "a\tb\ttarget\n1\tx\t10\n2\ty\t9\n3\tx\t10.0\n"),
             "no_header": (66, "1|2|3\n4|5|6\n"), "numeric": (16, "a,b\n1,2\n3,4\n"), "category": (32, "a,b\n1,2\n3,4\n"),
             "unnamed": (0, ",a\n0,1\n1,2\n"), "blanks": (0, " a , b \n 1 ,\t2\n\n3,4")}
    for name, (options, text) in seeds.items():
        put("table", name, bytes([options]) + text.encode())
    put("data", "table.csv", "a,b,target\n1,x,2.5\n,y,1\n")


def safetensors(tensors, metadata=None):
    header, blob = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, array) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(blob), len(blob) + array.nbytes]}
        blob += array.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + blob


def checkpoints():
    put("checkpoint", "two.safetensors", safetensors({"w": ("F32", np.ones((2, 3), "f4")), "n": ("I64", np.array(3))}))
    put("checkpoint", "types.safetensors", safetensors({t: (t, np.zeros((2, 2), d)) for t, d in
                        [("F64", "f8"), ("F16", "f2"), ("BF16", "u2"), ("BOOL", "?"), ("I8", "i1"), ("U16", "u2"), ("U64", "u8")]}))
    put("checkpoint", "metadata.safetensors", safetensors({"a.b": ("F32", np.zeros(0, "f4"))}, {"format": "pt"}))
    put("checkpoint", "none.safetensors", safetensors({}))
    put("checkpoint", "unicode.safetensors", safetensors({"\u00e9\n": ("U8", np.zeros(1, "u1"))}))
    put("checkpoint", "hole.safetensors", struct.pack("<Q", 64) + b'{"a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}}'.ljust(64) + b"\0\0")


# The state that tests/fuzz/checkpoint.c writes, and its XXH3 by libxxhash.
STATE = (b"\x78\0\0\0\0\0\0\0" + b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"n":{"dtype":"I64","shape":[],"data_offsets":[8,16]}}'
         .ljust(120) + struct.pack("<ffq", 1, 2, 3))


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def xxh3_128(data, seed=0):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_128bits_withSeed.restype = Hash128
    library.XXH3_128bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    h = library.XXH3_128bits_withSeed(data, len(data), seed)
    return f"{h.high:016x}{h.low:016x}"


def xxh3_64(data):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits.restype = ctypes.c_uint64
    library.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return struct.pack(">Q", library.XXH3_64bits(data, len(data)))


def manifests():
    note = '{"epoch":1,"batch":2,"samples":100,"batch_size":8,"run":{}}'
    whole = {"format": 1, "step": 7, "note": note, "note_xxh3_128": xxh3_128(note.encode(), 7),
             "files": {"state.safetensors": {"bytes": len(STATE), "xxh3_128": xxh3_128(STATE)}}}
    put("checkpoint", "whole.json", json.dumps(whole))
    put("checkpoint", "old.json", json.dumps({k: v for k, v in whole.items() if k != "note_xxh3_128"}, indent=2))
    digests = b"".join(xxh3_64(piece) for piece in (STATE[:128], STATE[128:136], STATE[136:]))
    blocks = {"state.digests": {"bytes": len(digests), "xxh3_128": xxh3_128(digests), "block": 16384}}
    put("checkpoint", "blocks.json", json.dumps(whole | {"files": whole["files"] | blocks}))
    put("checkpoint", "other_format.json", json.dumps(whole | {"format": 2, "step": -1}))
    manifest = json.dumps(whole | {"files": whole["files"] | blocks}).encode()
    stream = b""
    for name, content in ("state.safetensors", STATE), ("state.digests", digests), ("manifest.json", manifest):
        file = tarfile.TarInfo("step-000000007/" + name)
        file.size = len(content)
        stream += file.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % 512)
    put("checkpoint", "whole.stream", stream + bytes(512))
    put("checkpoint", "cut.stream", stream[:1536])


# ---- text ----

GRAPHS = {
    "mlp": '''graph "mlp" {
  input %x: float32[N,2]
  state %w trainable: float32[2,2] = [1, -2.5, 0x1p-3, 1e-3]
  const %b: float32[2] = [0, nan]
  %h = Gemm(%x, %w, %b) {alpha=1.0, transB=1} "fc"
  %y: float32[N,2] = Relu(%h)
  output "y" = %y
}
''',
    "types": '''graph "types \\"quoted\\" \\n" {
  const %i: int64[2] = [1, -1]
  const %s: int64[] = [3]
  const %t: bool[2] = [1, 0]
  const %e: float64[0] = []
  const %big: uint64[1] = [18446744073709551615]
  const %h: float16[2] = [1.5, inf]
  input %"a b": ?[?,n]
  %c, _ = Split(%"a b", %i) {axis=-1}
  output "c" = %c
}
''',
    "step": '''graph "step" {
  input %x: float32[4] of "x" @r0 d0
  state %w trainable: float32[4] @d0 = [1, 2, 3, 4]
  state %m transient partial: float32[4] = [0, 0, 0, 0]
  %s@r0: float32[4] = Add(%x, %w) @r0 d0
  %t: float32[4] of none @none = Mul(%s@r0, _) "name" @none
  update %w := %s@r0
  update %m := %t
  output "loss" = %s@r0
}
''',
    "attributes": '''graph "attributes" {
  input %x: float32[1,3,8,8] channels_last
  const %w: float32[2,3,3,3] = [1...]
  %c = Conv(%x, %w) {kernel_shape=[3,3], pads=[1,1,1,1], auto_pad="NOTSET", group=1}
  %r = Reshape(%c, %w) {allowzero=0}
  %k = ConstantOfShape(%r) {value=float32[1] [2.0]}
  %z = dpexec.Fused(%x) {empty=floats [], names=["a","b"], f=[1.5,-inf], none=string}
  output "k" = %k
}
''',
}


def texts():
    for name, text in GRAPHS.items():
        put("text", name, text)


def images():
    """The small files that Pillow wrote for the tests of images (tests/tools/make_images.py)."""
    for f in sorted((pathlib.Path(__file__).parents[1] / "tools" / "images").iterdir()):
        if f.suffix in (".jpg", ".png", ".webp") and f.stat().st_size < 2048:
            put("image", f.name, f.read_bytes())


def options():
    put("options", "plain", "model.onnx\n--data=x.npz\n--loss=cross-entropy\n--lr=1e-2\n--momentum=.9\n--nesterov\n--batch-size=8\n--epochs=3\n")
    put("options", "apart", "--lr\n0.5\n--loss\nmse\n--optimizer\nadamw\n--beta1\n0.8\n--eps\n1e-6\nm.onnx\n--\n--x\n")
    put("options", "lists", "m.onnx\n--freeze=a.*\n--freeze=b\n--train=head.?\n--input-shape=x=2,3,4\n--batch-input=t:1\n--untie=w*\n")
    put("options", "sources", "m.onnx\n--data=images:a\\,b,size=48x64,fit=stretch,cache=ram\n--val=csv:t.csv,target=y,numeric=a|b\n"
        "--augment=crop,flip,rotate:15,color:0.4,erase,g.onnx\n--mean=text:a.txt,block=64,tokens=bytes\n--map=x=tokens:t.bin,limit=9\n")
    put("options", "devices", "m.onnx\n--devices=cpu:0,cpu:1,cpu*2\n--replicas=4\n--threads=1\n--split=chunk\n--bn=local\n--bn-variance=unbiased\n")
    put("options", "cuda", "m.onnx\n--devices=cuda:0,1,cuda*2@h100.json\n--precision=bf16\n--loss-scale=dynamic\n--tune\n--no-capture=false\n")
    put("options", "schedule", "m.onnx\n--lr-schedule=step:10:0.5\n--warmup-steps=5\n--total-steps=100\n--clip-norm=1\n--accumulate=2\n")
    put("options", "cosine", "m.onnx\n--lr-schedule=cosine:0.1\n--total-steps=100\n--plan-memory=8G\n--label-smoothing=.1\n--ignore-index=-100\n")
    put("options", "output", "m.onnx\n--loss=output:total\n--dtype=float64\n--seed=9007199254740992\n--mean=0.5\n--std=0.25\n")
    note = {"epoch": 1, "batch": 2, "samples": 100, "batch_size": 8, "run": {"lr": "1e-1", "loss": "mse", "momentum": "0", "seed": "0"}}
    put("options", "note.json", json.dumps(note))
    put("options", "note_differs.json", json.dumps(note | {"samples": 3, "run": {"lr": "0.2", "loss": "l1", "split": "chunk"}}))
    h100 = json.loads((pathlib.Path(__file__).parents[1] / "devices" / "h100.json").read_text())
    put("options", "device.json", json.dumps(h100))
    put("options", "metrics.json", '{"step":1,"epoch":0,"loss":1.5}\n{"step":20,"eval_loss":1.0}\n{"step":21,"loss":null}\n{"step":2')


def calls():
    """Bytes that calls.c reads: functions by their place in its list, handles, settings and models by theirs."""
    ready = [0, 0, 0, 0, 6, 0, 1, 0, 0, 3, 0, 0, 0]           # cross-entropy, two samples, mlp, a trainer
    x, target = [16, 1, 2, 4, 0, 1, 2, 3], [9, 3, 2, 1, 0]
    step = lambda which: [4, 0, which, 2, *x, *target]
    put("calls", "steps", bytes(ready + step(0) + step(0) + step(1) + step(2) + [6, 0, 5, 6, 0, 6, 6, 0, 8]))
    put("calls", "kept", bytes(ready + step(0) + [8, 0, 0] + step(0) + [8, 0, 1, 8, 0, 2, 8, 0, 3]))
    put("calls", "state", bytes(ready + [7, 0, 0, 0, 0, 1, 7, 0, 1, 0, 0, 1] + step(0) + [7, 0, 0, 16, 5, 1, 1, 0, 0, 5]))
    put("calls", "outlives", bytes(ready + [11, 0, 0, 11, 0, 1] + step(0) + [6, 0, 3, 11, 0, 2] + step(0)))
    put("calls", "run", bytes([0, 6, 0, 1, 0, 0, 3, 0, 0, 0, 5, 0, 1, *x, 1, 4, 0, 5, 0, 1, *x, 2, 4, 8]))
    put("calls", "accumulated", bytes([0, 12, 0, 0, 7, 0] + ready + step(0) + [6, 0, 2] + step(0) + step(0) + [6, 0, 0, 6, 0, 1]))
    put("calls", "data", bytes([9, 0, 0, 0, *x, 4, 9, 1, 0, 0, 1, 3, 16, 1, 1, 1, 0, 1, 1, 10, 1, 0, 1, 0, 0, 0, 9, 2, 0, 0, 1, 1, 0, 2, 2]))
    put("calls", "stream", bytes(ready + [3, 1, 0, 0] + step(0) + [12, 0, 1, 0, 12, 0, 1, 1, 2, 0]))
    put("calls", "predict", bytes(ready + step(0) + [13, 0, 0, 0, 0, 2, 1, *x, 1, 13, 0, 0, 0, 0, 1, 1, *x, 2]))
    put("calls", "wrong", bytes([3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 1, 1, 7, 1, 3, 0, 1, 0, 4, 0, 0, 4, 255, 1, 0, 0, 254, 1, 253, 1, 37, 9, 1]))


def tokenizers():
    vocab = {c: i for i, c in enumerate(["a", "b", "c", "Ġ", "Ã", "©", "Ì", "ģ", "Ċ", "e", "'", "s", "1"])}
    merges = [["a", "b"], ["ab", "c"], ["Ġ", "a"], ["Ã", "©"]]
    for pair in merges:
        vocab["".join(pair)] = len(vocab)
    token = {"id": len(vocab), "content": "<e>", "single_word": False, "lstrip": True, "rstrip": True, "normalized": False, "special": True}
    text = "abc aéb e\u0301 ab 'S 111\n\n  <e> a <e>".encode() + b"\xe9 \xf0\x9f"
    pattern = r"(?i:'s)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    bytes_alone = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    for name, normalizer, pre, more in (
            ("gpt2", None, {"type": "ByteLevel", "add_prefix_space": True}, {"merges": [" ".join(m) for m in merges]}),
            ("llama3", None, {"type": "Sequence", "pretokenizers": [split, bytes_alone]}, {"merges": merges, "ignore_merges": True}),
            ("qwen2", {"type": "NFC"}, {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, bytes_alone]},
             {"merges": merges}),
            ("removed", {"type": "Sequence", "normalizers": []}, {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False}, bytes_alone]}, {"merges": merges})):
        added = [token] if name != "qwen2" else [{**token, "normalized": True, "content": "e\u0301"}]
        put("tokenizer", name, json.dumps({"normalizer": normalizer, "pre_tokenizer": pre, "added_tokens": added,
                                           "model": {"type": "BPE", "vocab": vocab, **more}}).encode() + b"\0" + text)


def charsmap():
    """A map of a tab to a space and of a with an accent to nothing, by hand (tools/text/charsmap.c has the form)."""
    units = [0] * 114
    unit = lambda label, offset, leaf: label | leaf << 8 | offset << 10
    units[0] = unit(0, 16, 0)
    units[16 ^ 0x09], units[24] = unit(0x09, 1, 1), 1 << 31 | 0
    units[16 ^ 0x61], units[40], units[41], units[42] = unit(0x61, 0x95, 0), unit(0xcc, 0x80, 0), unit(0x81, 3, 1), 1 << 31 | 1
    return base64.b64encode(struct.pack("<115I", 4 * 114, *units) + b" \0\0").decode()


def unigrams():
    vocab = [["<unk>", 0], ["\u2581", -2], ["a", -3.5], ["b", -4], ["\u2581ab", -1e-3], ["ab", -5.25], ["\u00e9", -6], ["<0xC3>", -9], ["<0xA9>", -9]]
    token = {"id": len(vocab), "content": "<e>", "single_word": False, "lstrip": True, "rstrip": True, "normalized": True, "special": True}
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    text = "ab\ta\u0301b \u00e9\u00e9 \ufb01  <e> BA ab\r\n\u0130 ".encode() + b"\xf0\x9f"
    for name, steps, pre, more in (
            ("t5", [{"type": "Precompiled", "precompiled_charsmap": charsmap()}, {"type": "Strip", "strip_left": False, "strip_right": True},
                    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}], {**space, "prepend_scheme": "first", "split": False}, {}),
            ("xlmr", [{"type": "NFKC"}, {"type": "Prepend", "prepend": "a"}], {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]},
             {"byte_fallback": True}),
            ("albert", [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Replace", "pattern": {"String": "b"}, "content": ""}], space, {})):
        put("tokenizer", name, json.dumps({"normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": pre, "added_tokens": [token],
                                           "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab, **more}}).encode() + b"\0" + text)


for part in (networks, layout, older, structure, tensors, torch_like, data, tables, checkpoints, manifests, texts, images, options, calls, tokenizers, unigrams):
    part()
