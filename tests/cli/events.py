"""Event files read by TensorBoard's own reader: every number of metrics.jsonl once, and histograms of the exported weights."""
import json
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = sys.argv[1]
events = EventAccumulator(f"{run}/tensorboard", size_guidance={"scalars": 0, "histograms": 0}).Reload()
expected = {}
for line in map(json.loads, open(f"{run}/metrics.jsonl")):
    for key, value in line.items():
        if key in ("loss", "lr", "grad_norm") or key.startswith("eval_") or key.startswith("train_") and key != "train_samples":
            tag = {"loss": "step/loss"}.get(key, key.replace("_", "/", 1) if key[0] in "et" else key)
            expected.setdefault(tag, []).append((line["step"], np.float32(value)))
assert {"step/loss", "eval/accuracy", "train/accuracy", "eval/loss", "grad_norm"} <= set(expected), set(expected)
for tag, points in expected.items():
    assert [(s.step, np.float32(s.value)) for s in events.Scalars(tag)] == points, tag
weights = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in onnx.load(f"{run}/model.onnx").graph.initializer}
for name in ("fc1.weight", "fc2.bias", "fc3.weight"):
    h = events.Histograms(f"weights/{name}")[-1].histogram_value
    w = weights[name].reshape(-1)
    count, edge = np.histogram(w, bins=64, range=(w.min(), w.max()))
    assert h.num == w.size and np.isclose(h.min, w.min(), rtol=1e-12) and np.isclose(h.max, w.max(), rtol=1e-12)
    assert np.isclose(h.sum, w.sum()) and np.isclose(h.sum_squares, (w * w).sum())
    assert np.allclose(h.bucket_limit, edge[1:]) and np.abs(np.array(h.bucket) - count).sum() <= 2, (h.bucket, count)
