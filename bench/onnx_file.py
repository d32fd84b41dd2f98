"""ONNX files without the onnx package: just enough of the format (protobuf messages of onnx.proto, by field number) to write the
networks that bench/gpu.py compares, with their weights in a file beside, and to read the weights of such a model."""
import pathlib
import struct

import numpy as np

FLOAT, INT64, BOOL = 1, 7, 9
TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64, np.dtype(np.bool_): BOOL}
ARRAYS = {number: dtype for dtype, number in TYPES.items()}


# ---- the wire format ----

def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def number(field, n):
    return varint(field << 3) + varint(n)


def message(field, *parts):
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def text(field, s):
    return message(field, s.encode())


def fields(data):
    """(field number, value) of a message: bytes of what has a length, else an integer."""
    at = 0

    def read():
        nonlocal at
        n = shift = 0
        while True:
            n, shift, at = n | (data[at] & 127) << shift, shift + 7, at + 1
            if not data[at - 1] & 128:
                return n

    while at < len(data):
        key = read()
        kind = key & 7
        if kind == 0:
            yield key >> 3, read()
            continue
        size = read() if kind == 2 else 4 if kind == 5 else 8
        yield key >> 3, data[at:at + size]
        at += size


# ---- messages ----

def tensor(array, name=""):
    array = np.asarray(array, order="C")
    return b"".join([number(1, d) for d in array.shape] + [number(2, TYPES[array.dtype]), text(8, name), message(9, array.tobytes())])


def attribute(name, value):
    if isinstance(value, float):
        return text(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return text(1, name) + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return text(1, name) + text(4, value) + number(20, 3)
    if isinstance(value, np.ndarray):
        return text(1, name) + message(5, tensor(value)) + number(20, 4)
    return text(1, name) + b"".join(number(8, v) for v in value) + number(20, 7)


def value_info(name, dtype, shape):
    dims = [message(1, text(2, d) if isinstance(d, str) else number(1, d)) for d in shape]
    return text(1, name) + message(2, message(1, number(1, dtype), message(2, *dims)))


class Net:
    """A graph in the making.  `op` returns the name of a node's output, or the list of names if n_out > 1."""

    def __init__(self, name, seed=0):
        self.name, self.rng = name, np.random.default_rng(seed)
        self.parts, self.weights, self.count = [], {}, 0

    def input(self, name, dtype, shape):
        self.parts.append(message(11, value_info(name, dtype, shape)))
        return name

    def output(self, name, shape, dtype=FLOAT):
        self.parts.append(message(12, value_info(name, dtype, shape)))

    def op(self, kind, *inputs, name=None, n_out=1, **attrs):
        self.count += 1
        name = name or f"{kind.lower()}_{self.count}"
        outs = [name] if n_out == 1 else [f"{name}.{i}" for i in range(n_out)]
        self.parts.append(message(1, *[text(1, i) for i in inputs], *[text(2, o) for o in outs], text(3, name), text(4, kind),
                                  *[message(5, attribute(k, v)) for k, v in attrs.items()]))
        return outs[0] if n_out == 1 else outs

    def const(self, value, dtype=np.float32):
        return self.op("Constant", value=np.array(value, dtype))

    def ints(self, *values):
        return self.const(values, np.int64)

    def param(self, name, array):
        self.weights[name] = np.ascontiguousarray(array, np.float32)
        return name

    def normal(self, name, shape, std):
        return self.param(name, self.rng.standard_normal(shape, dtype=np.float32) * np.float32(std))

    def save(self, path, opset=20, ir_version=9):
        """Writes `path` and beside it the weights, `path`.data."""
        path = pathlib.Path(path)
        data, parts, at = path.with_name(path.name + ".data"), list(self.parts), 0
        with data.open("wb") as f:
            for name, w in self.weights.items():
                where = {"location": data.name, "offset": str(at), "length": str(w.nbytes)}
                parts.append(message(5, *[number(1, d) for d in w.shape], number(2, FLOAT), text(8, name),
                                     *[message(13, text(1, k), text(2, v)) for k, v in where.items()], number(14, 1)))
                f.write(w.tobytes())
                at += w.nbytes
        graph = text(2, self.name) + b"".join(parts)
        path.write_bytes(number(1, ir_version) + text(2, "dpexec-bench") + message(7, graph) + message(8, text(1, ""), number(2, opset)))
        return path


# ---- reading ----

def read_tensor(data, folder):
    shape, dtype, name, raw, where = [], FLOAT, "", b"", {}
    for field, v in fields(data):
        if field == 1:
            shape.append(v)
        elif field == 2:
            dtype = v
        elif field == 8:
            name = bytes(v).decode()
        elif field == 9:
            raw = v
        elif field == 13:
            pair = dict(fields(v))
            where[bytes(pair[1]).decode()] = bytes(pair[2]).decode()
    if where:
        array = np.fromfile(folder / where["location"], ARRAYS[dtype], int(np.prod(shape)), offset=int(where["offset"]))
    else:
        array = np.frombuffer(raw, ARRAYS[dtype])
    return name, array.reshape(shape)


def read_weights(path):
    """The initializers of a model by name."""
    path = pathlib.Path(path)
    graph = next(v for f, v in fields(memoryview(path.read_bytes())) if f == 7)
    return dict(read_tensor(v, path.parent) for f, v in fields(graph) if f == 5)
