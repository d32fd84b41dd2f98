"""ONNX's graphs of known networks (onnx/backend/test/data/light), as they are and trained: light.py BUILD WORK [--full] [NAME...]

They come with ConstantOfShape in place of weights.  As they are, `dpexec check` runs them on the input and against the output that ONNX's
tests use.  For training they get numbers drawn from a seed, in the file and in PyTorch, which runs the graph node by node; layers are
made narrower, Dropout is taken out, batches are of 4, and the loss is a criterion of its own, because they end in probabilities.  Twenty
steps in float64, on 1 replica and on 3, against PyTorch's.  A line for each; the exit status is 1 if any differs.  --full: they are trained
as wide as they are, which takes minutes and up to 6 GB each, and nothing else is done.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import zlib

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper

import judge

DATA = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
TRAINED = ("bvlc_alexnet", "zfnet512", "inception_v1", "inception_v2", "squeezenet", "vgg19")
NAMES = (*TRAINED, "shufflenet", "densenet121", "resnet50")
STEPS, BATCH, SAMPLES, RATE, MOMENTUM = 20, 4, 12, 1e-3, 0.9
FULL = "--full" in sys.argv
NARROWER, CLASSES, COLOURS = 1 if FULL else 4, 1000, 3


def file_of(name):
    return DATA / f"light_{name}.onnx"


def fed(model):
    held = {t.name for t in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in held]


def dims(value):
    return [d.dim_value for d in value.type.tensor_type.shape.dim]


# ---- as they are ----

def forward(build, work, name):
    """What ONNX's runner does: numbers that rise from 0 to 1, and the output that lies beside the model."""
    model, folder = onnx.load(str(file_of(name))), work / "forward" / name
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    shutil.copy(file_of(name), folder / "model.onnx")
    shutil.copy(DATA / f"light_{name}_output_0.pb", data / "output_0.pb")
    for i, value in enumerate(fed(model)):
        n = int(np.prod(dims(value)))
        x = (np.arange(n) / n).reshape(dims(value)).astype(np.float32)
        (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    p = subprocess.run([build / "dpexec", "check", folder, "--timeout", "600"], capture_output=True, text=True, check=False)
    return p.returncode == 0, (p.stdout + p.stderr).strip().splitlines()[-1]


# ---- with numbers ----

def narrower(shape):
    """Of a layer, or of what is reshaped to its input: channels and features, but for colours and classes."""
    if list(shape[:2]) == [1, 1]:     # a matrix
        return [1, 1, *narrower(shape[2:])]
    return [n if n in (1, COLOURS, CLASSES) or i > 1 else n // NARROWER for i, n in enumerate(shape)]


def drawn(name, model):
    """{name: array}: weights that keep the size of what passes, scales near 1, variances near 1, the rest small."""
    graph, rng = model.graph, np.random.default_rng(zlib.crc32(name.encode()))
    shapes = {t.name: narrower(numpy_helper.to_array(t).tolist()) for t in graph.initializer if t.data_type == TensorProto.INT64}
    filled = {n.output[0]: shapes[n.input[0]] for n in graph.node if n.op_type == "ConstantOfShape"}
    filled |= {t.name: narrower(t.dims) for t in graph.initializer if t.data_type == TensorProto.FLOAT}     # small ones are there
    scales, variances = [{n.input[k] for n in graph.node if n.op_type == "BatchNormalization"} for k in (1, 4)]
    out = {}
    for key, shape in filled.items():
        if len(shape) > 1:
            out[key] = rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[1:]))
        elif key in scales | variances:
            out[key] = rng.uniform(0.75, 1.25, shape)
        else:
            out[key] = 0.1 * rng.normal(size=shape)
    return {k: v.astype(np.float32) for k, v in out.items()}


def with_numbers(name, path):
    """Writes the model with initializers in place of ConstantOfShape, and without Dropout. -> the model"""
    model = onnx.load(str(file_of(name)))
    graph, numbers = model.graph, drawn(name, model)
    outputs = {o.name for o in graph.output}
    gone = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "Dropout"}
    assert not outputs & set(gone)
    nodes = [n for n in graph.node if n.op_type not in ("ConstantOfShape", "Dropout")]
    for n in nodes:
        for i, x in enumerate(n.input):
            n.input[i] = gone.get(x, x)
    read = {x for n in nodes for x in n.input}
    kept = [numpy_helper.from_array(np.array(narrower(numpy_helper.to_array(t).tolist())), t.name) for t in graph.initializer if t.name in read and t.name not in numbers]
    inputs = [i for i in fed(model) if i.name in read]
    initializers = kept + [numpy_helper.from_array(v, k) for k, v in numbers.items() if k in read]
    model = helper.make_model(helper.make_graph(nodes, name, inputs, list(graph.output), initializers),
                              opset_imports=model.opset_import, ir_version=8, producer_name=model.producer_name)
    onnx.save(model, str(path))
    return model


def criterion(model, path):
    """Writes -log of the right class's probability, the mean over the batch."""
    p = model.graph.output[0].name
    nodes = [helper.make_node("Flatten", [p], ["rows"]), helper.make_node("Log", ["rows"], ["logs"]),
             helper.make_node("NegativeLogLikelihoodLoss", ["logs", "target"], ["loss"])]
    graph = helper.make_graph(nodes, "criterion", [helper.make_tensor_value_info(p, TensorProto.FLOAT, ["n", *dims(model.graph.output[0])[1:]]),
                                                  helper.make_tensor_value_info("target", TensorProto.INT64, ["n"])],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))


# ---- the graph in PyTorch ----

def padded(x, a, fill):
    """Both sides of both axes, as ONNX orders them, to what torch's windows begin with."""
    top, left, bottom, right = a.get("pads", [0, 0, 0, 0])
    return F.pad(x, (left, right, top, bottom), value=fill)


def average(x, a):
    """Padding does not count."""
    size, stride = a["kernel_shape"], a["strides"]
    total, there = [F.avg_pool2d(padded(t, a, 0.0), size, stride) for t in (x, torch.ones_like(x[:1, :1]))]
    return total / there


def batch_norm(a, x, scale, bias, mean, var):
    return F.batch_norm(x, mean, var, scale, bias, True, 1 - float(np.float32(a.get("momentum", 0.9))), float(np.float32(a.get("epsilon", 1e-5))))


def reshape(a, x, shape):
    """The files are of one sample; batches go along."""
    return x.reshape(-1, *shape[1:])


OPERATORS = {
    "Conv": lambda a, x, w, b=None: F.conv2d(padded(x, a, 0.0), w, b, a.get("strides", 1), 0, a.get("dilations", 1), a.get("group", 1)),
    "Relu": lambda a, x: F.relu(x),
    "LRN": lambda a, x: F.local_response_norm(x, a["size"], float(np.float32(a.get("alpha", 1e-4))), float(np.float32(a.get("beta", 0.75))), float(np.float32(a.get("bias", 1.0)))),
    "MaxPool": lambda a, x: F.max_pool2d(padded(x, a, -np.inf), a["kernel_shape"], a["strides"]),
    "AveragePool": lambda a, x: average(x, a),
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "Sum": lambda a, *x: sum(x[1:], x[0]),
    "Add": lambda a, x, y: x + y,
    "Mul": lambda a, x, y: x * y,
    "Unsqueeze": lambda a, x: x[(...,) + (None,) * len(a["axes"])],
    "Transpose": lambda a, x: x.permute(a["perm"]),
    "Reshape": reshape,
    "Gemm": lambda a, x, w, b: F.linear(x, w if a.get("transB") else w.T, b),
    "Softmax": lambda a, x: torch.softmax(x.flatten(1), 1).reshape(x.shape),
    "BatchNormalization": batch_norm,
}


class Graph:
    """Runs a model's nodes one after the other."""

    def __init__(self, model):
        self.graph = model.graph
        self.input, self.output = model.graph.input[0].name, model.graph.output[0].name
        held = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self.shapes = {k: v.tolist() for k, v in held.items() if v.dtype.kind == "i"}
        self.tensors = {k: torch.tensor(v, dtype=torch.float64) for k, v in held.items() if v.dtype.kind == "f"}
        followed = {x for n in self.graph.node if n.op_type == "BatchNormalization" for x in n.input[3:5]}
        self.parameters = {k: v.requires_grad_() for k, v in self.tensors.items() if k not in followed}

    def __call__(self, x):
        known = {**self.shapes, **self.tensors, self.input: x}
        for n in self.graph.node:
            a = {t.name: helper.get_attribute_value(t) for t in n.attribute}
            known[n.output[0]] = OPERATORS[n.op_type](a, *[known[i] for i in n.input])
        return known[self.output]


def by_torch(model, image, target):
    """-> losses, {parameter: value at the end}"""
    net, losses = Graph(model), []
    sgd = torch.optim.SGD(net.parameters.values(), RATE, MOMENTUM)
    for step in range(STEPS):
        at = slice(step * BATCH % SAMPLES, step * BATCH % SAMPLES + BATCH)
        p = net(torch.tensor(image[at], dtype=torch.float64))
        loss = F.nll_loss(torch.log(p).flatten(1), torch.tensor(target[at]))
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return losses, {k: v.detach().numpy() for k, v in net.parameters.items()}


# ---- and in dpexec ----

def by_dpexec(build, folder, replicas):
    """-> losses, checkpoint; or what was said"""
    out = folder / f"run-{replicas}"
    shutil.rmtree(out, ignore_errors=True)
    words = [build / "dpexec", "train", folder / "model.onnx", "--data", folder / "data.npz", "--criterion", folder / "criterion.onnx",
             "--optimizer", "sgd", "--lr", RATE, "--momentum", MOMENTUM, "--bn-variance", "unbiased", "--batch-size", BATCH, "--steps", STEPS,
             "--no-shuffle", "--dtype", "float64", "--replicas", replicas, "--out", out]
    p = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    if p.returncode:
        return p.stdout + p.stderr
    losses = [m["loss"] for m in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in m]
    return losses, judge.state(next((out / "checkpoints").glob("step-*/state.safetensors")))


def train(build, work, name):
    folder = work / "train" / name
    folder.mkdir(parents=True, exist_ok=True)
    model = with_numbers(name, folder / "model.onnx")
    criterion(model, folder / "criterion.onnx")
    image, (_, channels, h, w) = model.graph.input[0].name, dims(model.graph.input[0])
    rng = np.random.default_rng(3)
    x, t = rng.normal(size=(SAMPLES, channels, h, w)).astype(np.float32), rng.integers(0, 1000, SAMPLES)
    np.savez(folder / "data.npz", **{image: x, "target": t})
    wanted, final = by_torch(model, x, t)
    first = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    line, good = f"{len(final)} parameters, loss {wanted[0]:.4f} to {wanted[-1]:.4f}", True
    for replicas in (1, 3):
        run = by_dpexec(build, folder, replicas)
        if isinstance(run, str):
            return False, run.strip().splitlines()[-1]
        losses, state = run
        apart = max(judge.apart(losses, wanted))
        trained = {k[:-len(".momentum")] for k in state if k.endswith(".momentum")}
        moved = max(judge.distance(state[k], final[k], first[k]) for k in final) if trained == set(final) else np.inf
        good &= apart <= 1e-9 and moved <= 1e-4
        line += f"; {replicas} replica{'s' * (replicas > 1)}: losses {apart:.0e}, weights {moved:.0e}"
    return good, line


def main():
    build, work, *names = (a for a in sys.argv[1:] if a != "--full")
    build, work = pathlib.Path(build).resolve(), pathlib.Path(work) / ("full" if FULL else "light")
    torch.set_num_threads(1)
    bad = 0
    for name in names or NAMES:
        for what in [*([] if FULL else ["forward"]), *(["trained"] if name in TRAINED else [])]:
            good, said = (forward if what == "forward" else train)(build, work, name)
            print(f"{name:14} {what}  {'agrees ' if good else 'DIFFERS'}  {said}", flush=True)
            bad += not good
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
