"""One contestant of bench/gpu.py, a process of its own: dpexec through its library, or PyTorch.

    gpu_worker.py SPEC      SPEC: a JSON object; see gpu.py

Trains the first step, says {"loss": ...}, and then obeys lines of standard input, answering each with a line of JSON:
"run N": N steps, {"seconds": ...}; "memory": {...} in bytes; "trace N": N steps timed node by node, {"events": [...]}; "rest": gives
back the device's memory that is not needed between steps.  With "waits" in SPEC it loads PyTorch, says so, and waits for a line
before it takes anything of the device.
"""
import ctypes
import json
import sys
import tempfile
import time

import numpy as np

import gpu_models

RANK = 8
TYPES = {"float32": 1, "int64": 7}


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("dim", ctypes.c_int64 * RANK),
                ("data", ctypes.c_void_p)]


class Result(ctypes.Structure):
    """dpx_result; room behind it for what is added there."""
    _fields_ = [("step", ctypes.c_int64), ("samples", ctypes.c_int64), ("loss", ctypes.c_double), ("loss_sum", ctypes.c_double),
                ("loss_weight", ctypes.c_double), ("correct", ctypes.c_int64), ("counted", ctypes.c_int64), ("lr", ctypes.c_double),
                ("grad_norm", ctypes.c_double), ("updated", ctypes.c_int), ("more", ctypes.c_int64 * 64)]


class Dpexec:
    def __init__(self, spec, case, batches):
        self.lib = ctypes.CDLL(spec["library"])
        self.lib.dpx_error.restype = ctypes.c_char_p
        self.lib.dpx_options_create.restype = ctypes.c_void_p
        self.cudart = load_cudart()
        self.before = self.free_memory()
        model, options, self.trainer = ctypes.c_void_p(), ctypes.c_void_p(self.lib.dpx_options_create()), ctypes.c_void_p()
        self.check(self.lib.dpx_model_load(ctypes.byref(model), spec["model"].encode()))
        given = dict(case["options"], devices=spec["device"], **{"batch-size": str(spec["sizes"]["batch"]), "precision": spec["precision"]})
        given.update(gpu_models.OURS[spec["how"]])
        for name, value in given.items():
            self.check(self.lib.dpx_options_set(options, name.encode(), str(value).encode()))
        self.batches = [self.tensors(b) for b in batches]
        self.turn, self.begun, self.result = 0, 0, Result()
        self.check(self.lib.dpx_trainer_create(ctypes.byref(self.trainer), model, options, None, None))

    def check(self, status):
        if status:
            raise SystemExit(f"dpexec: {self.lib.dpx_error().decode()}")

    @staticmethod
    def tensors(batch):
        out = (Tensor * len(batch))()
        for t, (name, a) in zip(out, batch.items()):
            t.name, t.dtype, t.rank, t.data = name.encode(), TYPES[str(a.dtype)], a.ndim, a.ctypes.data
            t.dim[:a.ndim] = a.shape
        out.arrays = batch          # lent
        return out

    def step(self):
        """Begins a step; takes the result of the one before it."""
        b = self.batches[self.turn % len(self.batches)]
        self.turn += 1
        self.check(self.lib.dpx_train_step(self.trainer, b, len(b), None))
        self.begun += 1
        if self.begun > 1:
            self.take()

    def take(self):
        self.check(self.lib.dpx_train_result(self.trainer, ctypes.byref(self.result)))
        self.begun -= 1

    def loss(self):
        return self.result.loss

    def wait(self):
        while self.begun:
            self.take()

    def free_memory(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        if self.cudart is None or self.cudart.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)):
            return None
        return free.value

    def memory(self):
        """What the driver has given since the context was made: states, arena, inputs, workspaces, code."""
        return {"driver": None if self.before is None else self.before - self.free_memory()}

    def trace(self, steps):
        self.check(self.lib.dpx_trainer_trace(self.trainer, 1 << 18))
        for _ in range(steps):
            self.step()
        self.wait()
        with tempfile.NamedTemporaryFile(suffix=".json") as f:
            self.check(self.lib.dpx_trainer_write_trace(self.trainer, f.name.encode()))
            events = json.load(open(f.name))["traceEvents"]
        self.check(self.lib.dpx_trainer_trace(self.trainer, 0))
        return {"events": [{"op": e["cat"], "name": e["name"], "us": e["dur"], **e.get("args", {})} for e in events]}


def load_cudart():
    """The runtime of the plug-in, with a context: what that takes is not a model's."""
    try:
        lib = ctypes.CDLL("libcudart.so.13")
    except OSError:
        return None
    return None if lib.cudaFree(None) else lib


class Torch:
    def __init__(self, spec, case, batches):
        import gpu_torch

        self.torch = gpu_torch.torch
        if spec.get("threads"):
            self.torch.set_num_threads(spec["threads"])
        self.one = gpu_torch.Step(spec["case"], spec["sizes"], spec["model"], case["options"], batches, spec["how"], spec["precision"])
        self.last = None

    def step(self):
        self.last = self.one()

    def loss(self):
        return float(self.last.detach())

    def wait(self):
        self.one.wait()

    def rest(self):
        if self.torch.cuda.is_available():
            self.torch.cuda.empty_cache()
        return {}

    def memory(self):
        if not self.torch.cuda.is_available():
            return {"reserved": None}
        return {"reserved": self.torch.cuda.max_memory_reserved(), "allocated": self.torch.cuda.max_memory_allocated()}


def main():
    spec = json.loads(sys.argv[1])
    case = gpu_models.CASES[spec["case"]]
    batches = list(gpu_models.batches(spec["case"], spec["sizes"]))
    if spec.get("waits"):
        import gpu_torch  # noqa: F401

        print(json.dumps({"prepared": True}), flush=True)
        sys.stdin.readline()
    one = (Dpexec if spec["how"] in gpu_models.OURS else Torch)(spec, case, batches)
    one.step()
    one.wait()
    print(json.dumps({"loss": one.loss()}), flush=True)
    for line in sys.stdin:
        what, *n = line.split()
        if what == "run":
            start = time.perf_counter()
            for _ in range(int(n[0])):
                one.step()
            one.wait()
            answer = {"seconds": time.perf_counter() - start, "loss": one.loss()}
        elif what == "trace":
            answer = one.trace(int(n[0]))
        elif what == "rest":
            answer = one.rest()
        else:
            answer = one.memory()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
