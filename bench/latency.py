"""Latency of one sample: dpx_predict of a predictor beside onnxruntime's InferenceSession.run, one thread each, in one run.

    bench/latency.py [build/libdpexec.so] [models/mlp.onnx models/resnet20.onnx]

Rounds of both alternate.  Prints the median and the 99th percentile in microseconds, and the largest difference between the
outputs of the two."""
import ctypes
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime

ROOT = Path(__file__).resolve().parent.parent
ROUNDS, CALLS = 20, 50


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("dim", ctypes.c_int64 * 8),
                ("data", ctypes.c_void_p)]


class Predictor:
    def __init__(self, library, path):
        self.lib = ctypes.CDLL(str(library))
        self.lib.dpx_error.restype = ctypes.c_char_p
        self.lib.dpx_data_at.restype = ctypes.c_void_p
        model, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.dpx_model_load(ctypes.byref(model), str(path).encode()))
        self.check(self.lib.dpx_predictor_create(ctypes.byref(self.handle), model, None, None))
        self.lib.dpx_model_free(model)

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.dpx_error().decode())

    def run(self, x):
        shape = (ctypes.c_int64 * 8)(*x.shape)
        given = Tensor(None, 1, x.ndim, shape, x.ctypes.data)
        out, view = ctypes.c_void_p(), Tensor()
        self.check(self.lib.dpx_predict(self.handle, ctypes.byref(given), 1, ctypes.byref(out)))
        self.check(self.lib.dpx_data_view(ctypes.c_void_p(self.lib.dpx_data_at(out, 0)), ctypes.byref(view)))
        shape = [view.dim[i] for i in range(view.rank)]
        floats = ctypes.cast(view.data, ctypes.POINTER(ctypes.c_float))
        y = np.ctypeslib.as_array(floats, shape).copy()
        self.lib.dpx_data_free(out)
        return y


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def measure(call):
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - begin))
    return times


def compare(library, path):
    theirs, ours = session(path), Predictor(library, path)
    given = theirs.get_inputs()[0]
    x = np.random.default_rng(0).random([d if isinstance(d, int) else 1 for d in given.shape], np.float32)
    difference = np.abs(ours.run(x) - theirs.run(None, {given.name: x})[0]).max()
    times = {"dpexec": [], "onnxruntime": []}
    for _ in range(ROUNDS):
        times["dpexec"] += measure(lambda: ours.run(x))
        times["onnxruntime"] += measure(lambda: theirs.run(None, {given.name: x}))
    for name, all_times in times.items():
        all_times.sort()
        print(f"{path.stem:10} {name:12} median {statistics.median(all_times):8.1f} us   "
              f"99 % {all_times[int(0.99 * len(all_times))]:8.1f} us")
    print(f"{path.stem:10} largest difference {difference:.2g}")


if __name__ == "__main__":
    library = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/libdpexec.so"
    for path in sys.argv[2:] or [ROOT / "models/mlp.onnx", ROOT / "models/resnet20.onnx"]:
        compare(library, Path(path))
