"""Event files read by TensorBoard's own reader: every number of metrics.jsonl once, histograms of the exported weights and of gradients, the model's graph as
the file has it with the shapes of a step, and the images of the newest evaluation."""
import base64
import json
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = sys.argv[1]
model = onnx.load(f"{run}/model.onnx").graph
events = EventAccumulator(f"{run}/tensorboard", size_guidance={"scalars": 0, "histograms": 0, "images": 0}).Reload()
expected = {}
for line in map(json.loads, open(f"{run}/metrics.jsonl")):
    for key, value in line.items():
        if key in ("loss", "lr", "grad_norm") or key.startswith("eval_") or key.startswith("train_") and key != "train_samples":
            tag = {"loss": "step/loss"}.get(key, key.replace("_", "/", 1) if key[0] in "et" else key)
            expected.setdefault(tag, []).append((line["step"], np.float32(value)))
assert {"step/loss", "eval/accuracy", "train/accuracy", "eval/loss", "grad_norm"} <= set(expected), set(expected)
for tag, points in expected.items():
    assert [(s.step, np.float32(s.value)) for s in events.Scalars(tag)] == points, tag
weights = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in model.initializer}
for name in [t.name for t in model.initializer if t.name in ("fc1.weight", "fc2.bias", "fc3.weight")] or list(weights)[:1]:
    steps = [h.step for h in events.Histograms(f"weights/{name}")]
    assert sorted(set(steps)) == steps, steps
    h = events.Histograms(f"weights/{name}")[-1].histogram_value
    w = weights[name].reshape(-1)
    count, edge = np.histogram(w, bins=64, range=(w.min(), w.max()))
    assert h.num == w.size and np.isclose(h.min, w.min(), rtol=1e-12) and np.isclose(h.max, w.max(), rtol=1e-12)
    assert np.isclose(h.sum, w.sum()) and np.isclose(h.sum_squares, (w * w).sum())
    assert np.allclose(h.bucket_limit, edge[1:]) and np.abs(np.array(h.bucket) - count).sum() <= 2, (h.bucket, count)

# Gradients of each evaluation since the run began or went on; their norm is the one that is logged.
lines = [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
evals, norms = [m["step"] for m in lines if "eval_loss" in m], {m["step"]: m["grad_norm"] for m in lines if "grad_norm" in m}
trained = [t for t in events.Tags()["histograms"] if t.startswith("gradients/")]
squares = {}
for tag in trained:
    points = events.Histograms(tag)
    assert [h.step for h in points] == evals[-len(points):] and points[-1].step == evals[-1], (tag, evals)
    for h in points:
        squares[h.step] = squares.get(h.step, 0) + h.histogram_value.sum_squares
assert trained and all(np.isclose(x ** .5, norms[step], rtol=1e-5) for step, x in squares.items()), (squares, norms)

# Edges of the graph: the operator, and where its inputs come from, in place of the names of values.
graph = events.Graph()
written = {n.name: n for n in graph.node}
assert len(written) == len(graph.node)
source = {name: (name, 0) for name in [i.name for i in model.input] + list(weights)}
names = iter([n for n in graph.node if n.op not in ("Placeholder", "Const")])
for node in model.node:
    found = next(names)
    assert found.op == node.op_type, (found, node)
    edges = [(e.partition(":")[0], int(e.partition(":")[2] or 0)) for e in found.input]
    assert edges == [source[i] for i in node.input if i], (edges, node)
    source.update({name: (found.name, k) for k, name in enumerate(node.output)})
assert next(names, None) is None
for i in model.input:
    assert written[i.name].op == "Placeholder"

# Shapes of all edges, as the package onnx infers them for a batch of the run.
sized = onnx.load(f"{run}/model.onnx")
for i in sized.graph.input:
    i.type.tensor_type.shape.dim[0].dim_value = int(json.load(open(f"{run}/args.json"))["flags"]["batch-size"])
inferred = onnx.shape_inference.infer_shapes(sized, strict_mode=True, data_prop=True).graph
shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*inferred.value_info, *inferred.input, *inferred.output)}
shapes.update({name: list(x.shape) for name, x in weights.items()})
for value, (node, k) in source.items():
    found = written[node].attr["_output_shapes"].list.shape[k]
    assert not found.unknown_rank and [d.size for d in found.dim] == shapes[value], (value, found, shapes[value])

newest = json.load(open(f"{run}/evaluation.json"))
images = [s["png"] for s in newest["worst"] if "png" in s]
for k, png in enumerate(images):
    point = events.Images(f"worst samples/{k + 1}")[-1]
    file = base64.b64decode(png)
    assert point.step == newest["step"] and point.encoded_image_string == file
    assert (point.width, point.height) == (int.from_bytes(file[16:20], "big"), int.from_bytes(file[20:24], "big"))
assert len(events.Tags()["images"]) == len(images), events.Tags()["images"]
print(f"{len(images)} images")
