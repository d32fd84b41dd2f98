#!/usr/bin/env python3
"""Writes tests/cli/structure/: models whose inputs and outputs are sequences, optional, or come from lists and maps; data for them; and
what PyTorch computes of them in float64 (torch.txt, a line a case: its name, the losses of five steps; after.npz, the parameters at the
end and outputs for all samples).

    sequences.onnx  a sequence of any number of inputs `xs`, an optional factor `m`; a loop over the sequence, whose length decides the
                    trips; outputs are the scores, a sequence `all` of what each trip gave, and an optional `gate`
    open.onnx       the same, whose file says no shapes of the tensors
    scaled.onnx     scores = xs[0] xs[1] + how many tensors `more` has; for tensors without axes, and sequences without tensors
    counted.onnx    scores = the sum of the first k of xs, where data say k: for the interpreter
    criterion.onnx  the mean of (all[0] + all[-1] - target)^2, of the sequence `all` that the models give
    scripted.onnx   as torch.jit.script and PyTorch's older exporter write a module of List[Tensor], of 6 samples
    exported.onnx   as its default exporter writes one that takes a list and a map and returns a map

    pip install torch onnx onnxscript numpy
    tests/cli/structure.py
"""
import os
from typing import List

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "structure")
SAMPLES, BATCH, WIDE, OUT, LR = 11, 4, 3, 4, 0.1
torch.set_num_threads(1)
rng = np.random.default_rng(21)
start = {"w": rng.standard_normal((WIDE, OUT)), "b": rng.standard_normal(OUT), "v": rng.standard_normal((WIDE, OUT))}
xs = [rng.standard_normal((SAMPLES, WIDE)) for _ in range(3)]
m, target = rng.standard_normal((SAMPLES, OUT)), rng.standard_normal((SAMPLES, OUT))


def optional(name, shape):
    return h.make_value_info(name, h.make_optional_type_proto(h.make_tensor_type_proto(T.DOUBLE, shape)))


def sequences(name, batch):
    """scores = tanh(xs[0] v) + sum of tanh(x w + b), times m where there is one; gate is m, or nothing."""
    wide, out = ([batch, WIDE], [batch, OUT]) if batch else (None, None)
    body = h.make_graph(
        [h.make_node("Identity", ["going"], ["on"]), h.make_node("SequenceAt", ["xs", "trip"], ["x"]),
         h.make_node("MatMul", ["x", "w"], ["xw"]), h.make_node("Add", ["xw", "b"], ["xwb"]), h.make_node("Tanh", ["xwb"], ["part"]),
         h.make_node("Add", ["sum", "part"], ["next"]), h.make_node("SequenceInsert", ["list", "part"], ["longer"])],
        "trip", [h.make_tensor_value_info("trip", T.INT64, []), h.make_tensor_value_info("going", T.BOOL, []),
                 h.make_tensor_value_info("sum", T.DOUBLE, None), h.make_tensor_sequence_value_info("list", T.DOUBLE, None)],
        [h.make_tensor_value_info("on", T.BOOL, []), h.make_tensor_value_info("next", T.DOUBLE, None),
         h.make_tensor_sequence_value_info("longer", T.DOUBLE, None)])
    has = h.make_graph([h.make_node("OptionalGetElement", ["m"], ["factor"]), h.make_node("Mul", ["added", "factor"], ["with"])], "has", [],
                       [h.make_tensor_value_info("with", T.DOUBLE, None)])
    lacks = h.make_graph([h.make_node("Identity", ["added"], ["without"])], "lacks", [], [h.make_tensor_value_info("without", T.DOUBLE, None)])
    nodes = [h.make_node("SequenceAt", ["xs", "zero"], ["first"]), h.make_node("MatMul", ["first", "v"], ["fv"]), h.make_node("Tanh", ["fv"], ["f"]),
             h.make_node("SequenceEmpty", [], ["none"], dtype=T.DOUBLE), h.make_node("SequenceLength", ["xs"], ["n"]),
             h.make_node("Loop", ["n", "", "f", "none"], ["added", "all"], body=body),
             h.make_node("OptionalHasElement", ["m"], ["there"]), h.make_node("If", ["there"], ["scores"], then_branch=has, else_branch=lacks),
             h.make_node("Identity", ["m"], ["gate"])]
    graph = h.make_graph(nodes, name, [h.make_tensor_sequence_value_info("xs", T.DOUBLE, wide), optional("m", out)],
                         [h.make_tensor_value_info("scores", T.DOUBLE, [batch, OUT]), h.make_tensor_sequence_value_info("all", T.DOUBLE, out),
                          optional("gate", out)],
                         [nh.from_array(a, n) for n, a in start.items()] + [nh.from_array(np.array(0), "zero")])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, os.path.join(HERE, name + ".onnx"))


def scaled():
    nodes = [h.make_node("SequenceAt", ["xs", "zero"], ["x"]), h.make_node("SequenceAt", ["xs", "one"], ["scale"]),
             h.make_node("Mul", ["x", "scale"], ["product"]), h.make_node("SequenceLength", ["more"], ["n"]),
             h.make_node("Cast", ["n"], ["count"], to=T.DOUBLE), h.make_node("Add", ["product", "count"], ["scores"])]
    graph = h.make_graph(nodes, "scaled", [h.make_tensor_sequence_value_info(n, T.DOUBLE, None) for n in ("xs", "more")],
                         [h.make_tensor_value_info("scores", T.DOUBLE, [None, 2])],
                         [nh.from_array(np.array(i), n) for i, n in enumerate(("zero", "one"))])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, os.path.join(HERE, "scaled.onnx"))


def counted():
    body = h.make_graph([h.make_node("Identity", ["going"], ["on"]), h.make_node("SequenceAt", ["xs", "trip"], ["x"]),
                         h.make_node("Add", ["sum", "x"], ["next"])], "trip",
                        [h.make_tensor_value_info("trip", T.INT64, []), h.make_tensor_value_info("going", T.BOOL, []),
                         h.make_tensor_value_info("sum", T.DOUBLE, None)],
                        [h.make_tensor_value_info("on", T.BOOL, []), h.make_tensor_value_info("next", T.DOUBLE, None)])
    graph = h.make_graph([h.make_node("Loop", ["k", "", "none"], ["scores"], body=body)], "counted",
                         [h.make_tensor_sequence_value_info("xs", T.DOUBLE, ["N", WIDE]), h.make_tensor_value_info("k", T.INT64, [])],
                         [h.make_tensor_value_info("scores", T.DOUBLE, ["N", WIDE])], [nh.from_array(np.array(0.0), "none")])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, os.path.join(HERE, "counted.onnx"))


def criterion():
    nodes = [h.make_node("SequenceAt", ["all", "zero"], ["first"]), h.make_node("SequenceAt", ["all", "minus"], ["last"]),
             h.make_node("Add", ["first", "last"], ["both"]), h.make_node("Sub", ["both", "target"], ["error"]),
             h.make_node("Mul", ["error", "error"], ["square"]), h.make_node("ReduceMean", ["square"], ["loss"], keepdims=0)]
    graph = h.make_graph(nodes, "criterion", [h.make_tensor_sequence_value_info("all", T.DOUBLE, ["N", OUT]),
                                              h.make_tensor_value_info("target", T.DOUBLE, ["N", OUT])],
                         [h.make_tensor_value_info("loss", T.DOUBLE, [])],
                         [nh.from_array(np.array(0), "zero"), nh.from_array(np.array(-1), "minus")])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, os.path.join(HERE, "criterion.onnx"))


def of_sequences(p, inputs, factor):
    parts = [torch.tanh(x @ p["w"] + p["b"]) for x in inputs]
    added = torch.tanh(inputs[0] @ p["v"]) + sum(parts)
    return {"scores": added, **{f"all.{i}": part for i, part in enumerate(parts)}} if factor is None else {
        "scores": added * factor, **{f"all.{i}": part for i, part in enumerate(parts)}, "gate": factor}


class Listed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.tensor(start["w"])), torch.nn.Parameter(torch.tensor(start["b"]))

    def forward(self, xs: List[torch.Tensor]):
        y = torch.tanh(torch.matmul(xs[0], self.weight))
        for x in xs:
            y = y + torch.tanh(torch.matmul(x, self.weight) + self.bias)
        return y


class Mapped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.tensor(start["w"])), torch.nn.Parameter(torch.tensor(start["b"]))

    def forward(self, pair, more):
        y = torch.matmul(pair[0] * pair[1], self.weight) + more["shift"]
        return {"scores": torch.tanh(y) + self.bias, "again": [y, y * 2]}


def train(outputs, parameters, inputs):
    """In the order of the samples, the last batch of an epoch smaller; outputs of all samples at the start."""
    before = {n: y.detach().numpy() for n, y in outputs(*inputs(slice(None))).items()}
    optimizer, losses = torch.optim.SGD(parameters.values(), LR), []
    while len(losses) < 5:
        at = len(losses) * BATCH % (BATCH * -(-SAMPLES // BATCH))
        batch = slice(at, min(at + BATCH, SAMPLES))
        optimizer.zero_grad()
        loss = F.mse_loss(outputs(*inputs(batch))["scores"], torch.tensor(target[batch]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {n: t.detach().numpy() for n, t in parameters.items()}, before


if __name__ == "__main__":
    os.makedirs(HERE, exist_ok=True)
    sequences("sequences", "N")
    sequences("open", None)
    scaled()
    counted()
    criterion()
    example = [torch.tensor(x[:6]) for x in xs]
    torch.onnx.export(torch.jit.script(Listed()), (example[:2],), os.path.join(HERE, "scripted.onnx"), dynamo=False, input_names=["xs"],
                      output_names=["scores"])
    axes = {0: "batch"}
    torch.onnx.export(Mapped(), (example[:2], {"shift": torch.tensor(m[:6])}, {}), os.path.join(HERE, "exported.onnx"), dynamo=True,
                      dynamic_shapes=([axes, axes], {"shift": axes}), external_data=False, output_names=["scores", "again_0", "again_1"])
    exported = [i.name for i in onnx.load(os.path.join(HERE, "exported.onnx")).graph.input]
    assert exported == ["pair_0", "pair_1", "more_shift"], exported
    for n in (1, 2, 3):
        given = {f"xs.{i}": x for i, x in enumerate(xs[:n])}
        np.savez(os.path.join(HERE, f"data{n}.npz"), target=target, **given)
        np.savez(os.path.join(HERE, f"data{n}m.npz"), target=target, m=m, **given)
    np.savez(os.path.join(HERE, "mapped.npz"), target=target, pair_0=xs[0], pair_1=xs[1], more_shift=m)
    ends = {}
    with open(os.path.join(HERE, "torch.txt"), "w") as f:
        def case(name, found):
            losses, after, before = found
            print(name, "|", " ".join(map(repr, losses)), file=f)
            ends.update({f"{name}/after/{n}": a for n, a in after.items()})
            ends.update({f"{name}/before/{n}": a for n, a in before.items()})

        for n in (1, 2, 3):
            for there in (False, True):
                p = {k: torch.tensor(a, requires_grad=True) for k, a in start.items()}
                case(f"data{n}{'m' * there}", train(lambda inputs, factor: of_sequences(p, inputs, factor), p, lambda batch: (
                    [torch.tensor(x[batch]) for x in xs[:n]], torch.tensor(m[batch]) if there else None)))
        p = {k: torch.tensor(a, requires_grad=True) for k, a in start.items()}
        case("criterion", train(lambda inputs: {"scores": sum(torch.tanh(x @ p["w"] + p["b"]) for x in inputs)}, {k: p[k] for k in "wb"},
                                lambda batch: ([torch.tensor(x[batch]) for x in xs[:2]],)))
        net = Listed()
        case("scripted", train(lambda inputs: {"scores": net(inputs)}, dict(net.named_parameters()),
                               lambda batch: ([torch.tensor(x[batch]) for x in xs],)))
        whole = Mapped()
        case("exported", train(lambda pair, more: {"scores": whole(pair, more)["scores"]}, dict(whole.named_parameters()), lambda batch: (
            [torch.tensor(xs[0][batch]), torch.tensor(xs[1][batch])], {"shift": torch.tensor(m[batch])})))
    np.savez_compressed(os.path.join(HERE, "after.npz"), **ends)
