#!/usr/bin/env python3
"""Writes tests/api/attached_*.onnx, a model and graphs that are put around it, and attached.h: data, and what PyTorch computes of them
in float64, all of it in one place.

    net          x to scores and box, with a batch-norm, opset 17
    fixed        the same, exported for batches of one
    both_old     criterion: cross-entropy with weights and an ignored class, and a mixture of squares and distances; by PyTorch's
    both_new     older exporter at opset 13 and by its newer one at opset 20
    several      criterion of two losses, loss_class and loss_box, by the older exporter
    learned      criterion with a parameter of its own, a scale, by the newer exporter
    trained      the same by ONNX's helper: dpexec's metadata mark the scale as trained, and nothing marks the zeros 'shift.bias'
    squares      criterion of inputs that are called otherwise, for a model with one output (by position)
    image        preprocessing: bytes, scaled and normalised, to x

    pip install torch onnx onnxscript numpy
    tests/api/attached.py
"""
import os
import warnings

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES, WIDTH, HIDDEN, CLASSES, SIDES, BATCH, STEPS, LR, MOMENTUM = 13, 6, 5, 4, 2, 5, 10, 0.2, 0.5
IGNORED, EPSILON = 3, float(np.float32(1e-5))
warnings.simplefilter("ignore")
rng = np.random.default_rng(20)
start = {"w": rng.standard_normal((WIDTH, HIDDEN)) * 0.5, "gamma": rng.uniform(0.5, 1.5, HIDDEN), "beta": rng.standard_normal(HIDDEN) * 0.2,
         "v": rng.standard_normal((HIDDEN, CLASSES)) * 0.6, "u": rng.standard_normal((HIDDEN, SIDES)) * 0.6}
running = {"mean": np.zeros(HIDDEN), "var": np.ones(HIDDEN)}
class_weights = torch.tensor(rng.uniform(0.5, 2, CLASSES))
image = rng.integers(0, 256, (SAMPLES, WIDTH)).astype(np.uint8)
shift, deviation = torch.tensor(rng.uniform(0.4, 0.6, WIDTH)), torch.tensor(rng.uniform(0.2, 0.4, WIDTH))
label, place = rng.integers(0, CLASSES, SAMPLES), rng.standard_normal((SAMPLES, SIDES))
label[5:8] = IGNORED  # a part, or several, in which no sample counts


class Both(torch.nn.Module):
    def forward(self, box, scores, label, place):
        return F.cross_entropy(scores, label, weight=class_weights, ignore_index=IGNORED) + \
            0.75 * F.mse_loss(box, place) + 0.25 * (box - place).abs().mean()


class Several(torch.nn.Module):
    def forward(self, scores, box, label, place):
        return F.cross_entropy(scores, label), F.mse_loss(box, place)


class Learned(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([[0.4, -0.3]], dtype=torch.float64))

    def forward(self, box, place):
        return F.mse_loss(box * self.scale, place)


class Squares(torch.nn.Module):
    def forward(self, output, target):
        return F.mse_loss(output, target)


class Image(torch.nn.Module):
    def forward(self, image):
        return (image.to(torch.float64) / 255 - shift) / deviation


def at(rows, *dims, dtype=torch.float64):
    return torch.zeros(rows, *dims, dtype=dtype) if dtype != torch.float64 else torch.randn(rows, *dims, dtype=dtype)


SAMPLE = {"box": at(4, SIDES), "scores": at(4, CLASSES), "label": at(4, dtype=torch.int64), "place": at(4, SIDES),
          "image": at(4, WIDTH, dtype=torch.uint8), "output": at(4, SIDES), "target": at(4, SIDES)}


def export(module, name, inputs, outputs, new=False, opset=13, batch="batch"):
    path, args = os.path.join(HERE, f"attached_{name}.onnx"), tuple(SAMPLE[i] for i in inputs)
    if new:
        sizes = {i: {0: torch.export.Dim(batch, min=2)} for i in inputs}
        torch.onnx.export(module, args, path, input_names=inputs, output_names=outputs, dynamic_shapes=sizes, opset_version=opset, dynamo=True,
                          external_data=False, verbose=False)
    else:
        axes = {i: {0: batch} for i in inputs}
        torch.onnx.export(module, args, path, input_names=inputs, output_names=outputs, dynamic_axes=axes, opset_version=opset, dynamo=False)
    m = onnx.load(path)
    for n in [*m.graph.node, *m.graph.value_info, *m.graph.input, *m.graph.output]:   # paths of the machine, sources
        n.doc_string = ""
        keep = [p for p in n.metadata_props if p.key.endswith("InputSpec.kind")]
        del n.metadata_props[:]
        n.metadata_props.extend(keep)
    del m.metadata_props[:], m.graph.metadata_props[:]
    onnx.save(m, path)


def write_net():
    real = lambda name, *shape: h.make_tensor_value_info(name, T.DOUBLE, shape)
    constants = [nh.from_array(a, n) for n, a in {**start, **running}.items()]
    constants.append(nh.from_array(np.array([1, HIDDEN]), "row"))
    for name, outputs, batch in (("net", ["scores", "box"], "batch"), ("fixed", ["scores", "box"], 1), ("one", ["box"], "batch")):
        nodes = [h.make_node("MatMul", ["x", "w"], ["h"]), h.make_node("BatchNormalization", ["h", "gamma", "beta", "mean", "var"], ["b"]),
                 h.make_node("Relu", ["b"], ["r"]), h.make_node("MatMul", ["r", "v"], ["scores"]), h.make_node("MatMul", ["r", "u"], ["box"])]
        nodes = [n for n in nodes if n.output[0] in outputs or n.output[0] not in ("scores", "box")]
        if name == "fixed":
            nodes[2:3] = [h.make_node("Reshape", ["b", "row"], ["f"]), h.make_node("Relu", ["f"], ["r"])]
        given, read = [real("scores", batch, CLASSES), real("box", batch, SIDES)], {i for n in nodes for i in n.input}
        graph = h.make_graph(nodes, name, [real("x", batch, WIDTH)], [g for g in given if g.name in outputs],
                             [c for c in constants if c.name in read])
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, os.path.join(HERE, f"attached_{name}.onnx"))


def write_trained():
    real = lambda name, *shape: h.make_tensor_value_info(name, T.DOUBLE, shape)
    nodes = [h.make_node("Mul", ["box", "scale"], ["scaled"]), h.make_node("Add", ["scaled", "shift.bias"], ["moved"]),
             h.make_node("Sub", ["moved", "place"], ["away"]), h.make_node("Mul", ["away", "away"], ["squares"]),
             h.make_node("ReduceMean", ["squares"], ["nll"], keepdims=0)]
    constants = [nh.from_array(np.array(a), n) for n, a in (("scale", [[0.4, -0.3]]), ("shift.bias", [[0.0, 0.0]]))]
    graph = h.make_graph(nodes, "trained", [real("box", "batch", SIDES), real("place", "batch", SIDES)], [real("nll")], constants)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    h.set_model_props(model, {"dpexec.parameter:scale": "trained"})
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(HERE, "attached_trained.onnx"))


def scores_and_box(p, x, mean=None, var=None):
    hidden = x @ p["w"]
    mean, var = (hidden.mean(0), hidden.var(0, unbiased=False)) if mean is None else (mean, var)
    r = torch.relu((hidden - mean) * (var + EPSILON) ** -0.5 * p["gamma"] + p["beta"])
    return r @ p["v"], r @ p["u"]


def train(criterion, needs):
    """The losses of the steps, then the parameters at the end in the order of `start`, without those that it does not reach."""
    p = {n: torch.tensor(a, requires_grad=True) for n, a in start.items()}
    own = list(criterion.parameters())
    optimizer = torch.optim.SGD([*p.values(), *own], LR, momentum=MOMENTUM)
    x, all_of = Image()(torch.tensor(image)), {"label": torch.tensor(label), "place": torch.tensor(place)}
    losses, first = [], 0
    while len(losses) < STEPS:
        rows = range(first, min(first + BATCH, SAMPLES))
        first = rows[-1] + 1 if rows[-1] + 1 < SAMPLES else 0
        scores, box = scores_and_box(p, x[list(rows)])
        have = {"scores": scores, "box": box, **{n: t[list(rows)] for n, t in all_of.items()}}
        parts = criterion(*(have[n] for n in needs))
        loss = sum(parts) if isinstance(parts, tuple) else parts
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    left = [t.detach().numpy().reshape(-1) for t in [*p.values(), *own] if t.grad is not None]
    return losses, np.concatenate(left)


def table(name, rows, kind="double"):
    text = [repr(float(a)) if kind == "double" else str(int(a)) for a in np.asarray(rows).reshape(-1)]
    lines, line = [], "   "
    for word in text:
        if len(line) + len(word) > 110:
            lines, line = lines + [line], "   "
        line += f" {word},"
    return f"static const {kind} {name}[] = {{\n" + "\n".join(lines + [line.rstrip(",")]) + "\n};\n"


CASES = {"both": (Both(), ["box", "scores", "label", "place"]), "several": (Several(), ["scores", "box", "label", "place"]),
         "learned": (Learned(), ["box", "place"]), "squares": (Squares(), ["box", "place"])}
if __name__ == "__main__":
    write_net()
    write_trained()
    export(Both(), "both_old", CASES["both"][1], ["total"], batch="n")
    export(Both(), "both_new", CASES["both"][1], ["sum"], new=True, opset=20, batch="rows")
    export(Several(), "several", CASES["several"][1], ["loss_class", "loss_box"], opset=17)
    export(Learned(), "learned", CASES["learned"][1], ["nll"], new=True, opset=18)
    export(Squares(), "squares", ["output", "target"], ["loss"], opset=11)
    export(Image(), "image", ["image"], ["x"], opset=17, batch="images")
    with open(os.path.join(HERE, "attached.h"), "w") as f:
        f.write("/* Made by attached.py. */\n")
        f.write(f"enum {{ ATTACHED_SAMPLES = {SAMPLES}, ATTACHED_BATCH = {BATCH}, ATTACHED_STEPS = {STEPS} }};\n")
        f.write(table("attached_image", image, "unsigned char") + table("attached_x", Image()(torch.tensor(image)).numpy()))
        f.write(table("attached_label", label, "long long") + table("attached_place", place))
        for name, (criterion, needs) in CASES.items():
            losses, left = train(criterion, needs)
            f.write(table(f"attached_{name}_losses", losses) + table(f"attached_{name}_left", left))
