#!/usr/bin/env python3
"""Writes tests/cli/metrics/: a model whose scores are its input, data, and what scikit-learn says of the whole set (expected.txt: set,
loss, metric, flags, value).  Mean IoU, perplexity and ties are closed forms, and so is what a class that is ignored has no part in.

    pip install scikit-learn onnx numpy
    tests/cli/metrics.py
"""
import json
import os
import warnings

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh
from sklearn import metrics as m

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "metrics")
SAMPLES, CLASSES, PLACES = 23, 5, 4
rng = np.random.default_rng(13)
lines = []
warnings.simplefilter("ignore")


def save_model(name, shape, op, scale):
    value = lambda n: h.make_tensor_value_info(n, T.DOUBLE, shape)
    graph = h.make_graph([h.make_node(op, ["x", "scale"], ["scores"])], name, [value("x")], [value("scores")],
                         [nh.from_array(scale, "scale")])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(HERE, name + ".onnx"))


def expect(data, loss, metric, flags, value):
    lines.append(f"{data} {loss} {metric} {flags or '-'} {json.dumps(value, separators=(',', ':'))}")


def closed(t, p, skip):
    """Mean IoU: of what is target or prediction of a class, the share that is both."""
    of = [np.sum((t == c) & (p == c)) / np.sum((t == c) | (p == c)) for c in range(CLASSES)
          if c != skip and np.any((t == c) | (p == c))]
    return float(np.mean(of))


def classes(data, scores, target, ignored=None, ties=False):
    np.savez(os.path.join(HERE, data + ".npz"), x=scores, target=target)
    flags = "" if ignored is None else f"--ignore-index={ignored}"
    rows, t = np.moveaxis(scores, 1, -1).reshape(-1, CLASSES), target.reshape(-1)
    rows, t = (rows, t) if ignored is None else (rows[t != ignored], t[t != ignored])
    p = rows.argmax(1)
    put = lambda metric, value: expect(data, "cross-entropy", metric, flags, value)
    put("accuracy", float(m.accuracy_score(t, p)))
    put("confusion-matrix", m.confusion_matrix(t, p, labels=range(CLASSES)).tolist())
    put("mean-iou", closed(t, p, ignored))
    best = np.argsort(-rows, axis=1, kind="stable")
    for k in (1, 2, 5):
        said = float(np.mean(np.any(best[:, :k] == t[:, None], axis=1)))
        if not ties:
            assert said == m.top_k_accuracy_score(t, rows, k=k, labels=range(CLASSES))
        put(f"top-k:{k}" if k < 5 else "top-k", said)
    labels = [c for c in range(CLASSES) if c != ignored and c in set(t) | set(p)]
    assert abs(closed(t, p, ignored) - m.jaccard_score(t, p, labels=labels, average="macro")) < 1e-12
    for name, score in ("precision", m.precision_score), ("recall", m.recall_score), ("f1", m.f1_score):
        for average in ("macro", "micro", "weighted"):
            put(name if average == "macro" else f"{name}:{average}",
                float(score(t, p, labels=labels, average=average, zero_division=0)))
        for c in (3, 4):
            put(f"{name}:{c}", float(score(t, p, labels=[c], average="macro", zero_division=0)))
    top = rows.max(1, keepdims=True)
    logp = rows - top - np.log(np.exp(rows - top).sum(1, keepdims=True))
    put("perplexity", float(np.exp(-logp[np.arange(len(t)), t].mean())))


shape = (SAMPLES, CLASSES, PLACES)
save_model("scores", ["batch", CLASSES, PLACES], "Mul", np.ones((CLASSES, 1)))
classes("plain", rng.standard_normal(shape), rng.integers(0, CLASSES, (SAMPLES, PLACES)))
classes("ties", rng.integers(0, 3, shape).astype(float), rng.integers(0, CLASSES, (SAMPLES, PLACES)), ties=True)
# Class 4 is nowhere, class 3 is never predicted; whole samples are ignored, and so a whole part of a batch.
scores, target = rng.standard_normal(shape), rng.integers(0, 4, (SAMPLES, PLACES))
scores[:, 3:] -= 50
target[rng.random(target.shape) < 0.3] = -1
target[6:9] = -1
classes("absent", scores, target, -1)
classes("class_ignored", rng.standard_normal(shape), rng.integers(0, CLASSES, (SAMPLES, PLACES)), 2)

np.savez(os.path.join(HERE, "none.npz"), x=np.zeros((3,) + shape[1:]), target=np.full((3, PLACES), -1))

save_model("values", ["batch", 3], "MatMul", np.eye(3))
y, t = rng.standard_normal((2, SAMPLES, 3))
np.savez(os.path.join(HERE, "numbers.npz"), x=y, target=t)
expect("numbers", "mse", "mae", "", float(m.mean_absolute_error(t.ravel(), y.ravel())))
expect("numbers", "l1", "rmse", "", float(m.root_mean_squared_error(t.ravel(), y.ravel())))
with open(os.path.join(HERE, "expected.txt"), "w") as f:
    f.write("\n".join(lines) + "\n")
