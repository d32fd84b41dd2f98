#!/usr/bin/env python3
"""Makes the cases loop_*: EmbeddingBag, which exporters write as a loop over a batch whose size the file leaves open.

    make_loops.py [CASE...]       needs the packages of tests/networks/requirements.txt
"""
import copy
import json
import pathlib
import sys

import numpy as np
import onnx
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
BATCH, STEPS, LR = 4, 6, 0.5
OPEN = "follows from a size that the file leaves open, such as the batch, expected "
LAST = "if 'offsets' ends with the number of all rows (EmbeddingBag with include_last_offset=True), export with include_last_offset=False"


class Bag(nn.Module):
    def __init__(self, mode, **how):
        super().__init__()
        self.bag, self.out = nn.EmbeddingBag(10, 4, mode=mode, **how), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.bag(x))


class Weighted(Bag):
    def forward(self, x, w):
        return self.out(self.bag(x, per_sample_weights=w))


class Offsets(Bag):
    def forward(self, x, offsets):
        return self.out(self.bag(x, offsets))


def forget_metadata(graph):
    """Of bodies and branches, too: most of such a file."""
    graph.ClearField("value_info")
    for node in graph.node:
        node.ClearField("metadata_props")
        for attribute in node.attribute:
            forget_metadata(attribute.g)


def export(net, inputs, dims, how, file):
    names = {"input_names": list(inputs), "output_names": ["y"]}
    args = tuple(torch.as_tensor(v) for v in inputs.values())
    if how == "legacy":
        axes = {**dict(zip(inputs, dims)), "y": {0: "batch"}}
        torch.onnx.export(net, args, file, dynamo=False, dynamic_axes=axes, **names)
    else:
        dim = {name: torch.export.Dim(name) for d in dims for name in d.values()}
        shapes = tuple({axis: dim[name] for axis, name in d.items()} for d in dims)
        torch.onnx.export(net, args, file, dynamo=True, optimize=how == "optimized", dynamic_shapes=shapes, external_data=False,
                          verbose=False, **names)
    model = onnx.load(file)
    forget_metadata(model.graph)
    onnx.save(model, file)


def losses(net, inputs, target, batch):
    """Of plain SGD in float64, through the batches of all samples in turn."""
    net, result = copy.deepcopy(net).double(), []
    optimizer = torch.optim.SGD(net.parameters(), LR)
    for step in range(STEPS):
        at = step % -(-len(target) // batch) * batch
        part = slice(at, at + batch)
        values = [v if len(v) != len(target) else v[part] for v in inputs.values()]
        values = [torch.as_tensor(v).double() if v.dtype == np.float32 else torch.as_tensor(v) for v in values]
        loss = nn.functional.cross_entropy(net(*values), torch.as_tensor(target[part]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def make(name, net, inputs, dims, how, samples=10, batch=BATCH, **more):
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    target = np.random.default_rng(2).integers(0, 3, samples)
    export(net, inputs, dims, how, folder / "model.onnx")
    np.savez(folder / "data.npz", target=target, **inputs)
    expected = {"model": "model.onnx", "data": "data.npz",
                "flags": ["--loss", "cross-entropy", "--batch-size", str(batch), "--steps", str(STEPS), "--lr", str(LR)]}
    if "refused" not in more:
        expected |= {"losses": losses(net, inputs, target, batch), "replicas": [1, 2, 3],
                     "source": f"PyTorch {torch.__version__.split('+')[0]} in float64 (make_loops.py)"}
    (folder / "expected.json").write_text(json.dumps(expected | more, indent=1) + "\n")


def nodes(graph):
    """Those of bodies and branches, too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes(attribute.g)


def weighted_twice(graph):
    """rows * w becomes (rows * w) * w."""
    body = next(a.g for n in graph.node for a in n.attribute if n.op_type == "Loop")
    at = next(i for i, n in enumerate(body.node) if n.op_type == "Mul")
    again = copy.deepcopy(body.node[at])
    body.node[at].output[0] = again.input[0] = "once"
    body.node.insert(at + 1, again)


def sums_but_last(graph):
    """All bags but the last are summed, not averaged."""
    next(n for n in nodes(graph) if n.op_type == "ReduceMean").op_type = "ReduceSum"


def before(graph):
    """Bag i lies between elements i - 1 and i of the bounds."""
    body = next(a.g for n in graph.node for a in n.attribute if n.op_type == "Loop")
    first, end = [n for n in body.node if n.op_type == "Gather"][:2]
    first.input[1], end.input[0], end.input[1] = "earlier", first.input[0], body.input[0].name
    body.node.insert(0, onnx.helper.make_node("Constant", [], ["minus_one"], value_int=-1))
    body.node.insert(1, onnx.helper.make_node("Add", [body.input[0].name, "minus_one"], ["earlier"]))


def make_other(name, of, change):
    """Another loop than an exporter writes for EmbeddingBag: case `of`, changed."""
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    model = onnx.load(HERE / of / "model.onnx")
    change(model.graph)
    onnx.save(model, folder / "model.onnx")
    expected = json.loads((HERE / of / "expected.json").read_text())
    (folder / "data.npz").write_bytes((HERE / of / "data.npz").read_bytes())
    expected = {key: expected[key] for key in ("model", "data", "flags")} | {"refused": OPEN}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    torch.manual_seed(4)
    rng = np.random.default_rng(3)
    x, w = rng.integers(0, 10, (10, 6)), rng.random((10, 6), np.float32)
    batch, both = ({0: "batch"},), ({0: "batch"}, {0: "batch"})
    open_length = ({0: "batch", 1: "length"},)
    make("loop_over_batch", Bag("sum"), {"x": x}, batch, "legacy")
    make("loop_over_batch_dynamo", Bag("mean"), {"x": x}, batch, "optimized")
    make("loop_bags_max", Bag("max"), {"x": x}, batch, "legacy")
    make("loop_bags_mean_plain", Bag("mean"), {"x": x}, open_length, "plain")
    make("loop_bags_max_optimized", Bag("max"), {"x": x}, batch, "optimized")
    make("loop_bags_weighted", Weighted("sum"), {"x": x, "w": w}, both, "legacy")
    make("loop_bags_padded_sum", Weighted("sum", padding_idx=3), {"x": x, "w": w}, both, "plain")
    make("loop_bags_padded_mean", Bag("mean", padding_idx=3), {"x": x}, batch, "optimized")
    make("loop_bags_padded_max", Bag("max", padding_idx=-7), {"x": x}, batch, "optimized")
    make("loop_bags_open_length", Bag("sum"), {"x": x}, open_length, "legacy")
    rows, offsets = rng.integers(0, 10, 23), np.array([0, 3, 3, 9, 12, 18])
    ends = ({0: "total"}, {0: "bags"})
    for how, mode, more in [("legacy", "sum", {}), ("plain", "mean", {}), ("optimized", "max", {}), ("optimized", "mean", {"padding_idx": 3})]:
        name = f"loop_offsets_{mode}_{how}" + ("_padded" if more else "")
        make(name, Offsets(mode, **more), {"x": rows, "offsets": offsets}, ends, how, samples=6, batch=6)
    make("loop_offsets_parts", Offsets("sum"), {"x": rows, "offsets": offsets}, ends, "legacy", samples=6, refused="input 'x' refers to samples by position")
    make("loop_offsets_falling", Offsets("sum"), {"x": rows, "offsets": np.array([0, 9, 3, 3, 12, 18])}, ends, "legacy", samples=6, batch=6,
         refused="index 25 (element 2) is outside of an axis of 24 elements")
    last = np.append(offsets, 23)
    make("loop_offsets_last", Offsets("sum", include_last_offset=True), {"x": rows, "offsets": last}, ends, "legacy", samples=6, batch=6,
         refused=LAST)
    make("loop_offsets_last_max", Offsets("max", include_last_offset=True), {"x": rows, "offsets": last}, ends, "optimized", samples=6, batch=6,
         refused=LAST)
    make("loop_other", Offsets("mean", include_last_offset=True), {"x": rows, "offsets": last}, ends, "optimized", samples=6, batch=6,
         refused=OPEN + "a constant condition or at most 64 trips: export the model with that size fixed, or without the loop (an EmbeddingBag with "
         "include_last_offset=False")
    make_other("loop_other_weights", "loop_bags_weighted", weighted_twice)
    make_other("loop_other_last", "loop_offsets_mean_plain", sums_but_last)
    make_other("loop_other_bounds", "loop_bags_weighted", before)
