#!/usr/bin/env python3
"""Writes tests/cli/metrics/: a model whose scores are its input, data, and what scikit-learn says of the whole set (expected.txt: set,
loss, metric, flags, value).  Mean IoU, perplexity and ties are closed forms, and so is what a class that is ignored has no part in.

    pip install scikit-learn onnx numpy
    tests/cli/metrics.py
"""
import json
import os
import warnings
from fractions import Fraction as F

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
# Closed forms of scikit-learn 1.4: the mean of |y - t| / max(|t|, eps), R^2 of each output and their mean.
expect("numbers", "mse", "mape", "", float(m.mean_absolute_percentage_error(t.ravel(), y.ravel())))
expect("numbers", "huber", "r2", "", float(m.r2_score(t, y)))
# Targets far from zero, whose squares have no digits left of the variance: R^2 in exact rational arithmetic.
t = (2.0 ** 27 + rng.integers(-3, 4, (SAMPLES, 3)) / 4)
y = t + rng.integers(-2, 3, (SAMPLES, 3)) / 8
t[:, 2] = 0.1                            # does not vary: 0 where there is an error, as in scikit-learn
np.savez(os.path.join(HERE, "far.npz"), x=y, target=t)
exact = [(1 - sum((F(a) - F(b)) ** 2 for a, b in zip(t[:, k], y[:, k])) / sum((F(a) - sum(map(F, t[:, k])) / SAMPLES) ** 2 for a in t[:, k]))
         for k in range(2)]
assert abs(m.r2_score(t[:, :2], y[:, :2]) - float(sum(exact)) / 2) < 1e-9
expect("far", "mse", "r2", "", float(sum(exact) / 3))


def binary(data, loss, y, t, flags=""):
    """Scores of one class, above `at` positive."""
    np.savez(os.path.join(HERE, data + ".npz"), x=y, target=t.astype(float))
    y, t = y.ravel(), t.ravel()
    p = 1 / (1 + np.exp(-y)) if loss == "bce-logits" else y
    for threshold in (0.5, 0.3):
        found, given = p > threshold, flags or "" if threshold == 0.5 else f"--threshold={threshold}"
        put = lambda metric, value: expect(data, loss, metric, given, value)
        put("accuracy", float(m.accuracy_score(t, found)))
        put("confusion-matrix", m.confusion_matrix(t, found, labels=[0, 1]).tolist())
        put("mean-iou", float(m.jaccard_score(t, found, average="macro")))
        for name, score in ("precision", m.precision_score), ("recall", m.recall_score), ("f1", m.f1_score):
            put(name, float(score(t, found, zero_division=0)))
            put(name + ":0", float(score(t, found, pos_label=0, zero_division=0)))
            put(name + ":macro", float(score(t, found, average="macro", zero_division=0)))
    expect(data, loss, "auc", "", float(m.roc_auc_score(t, y)))
    expect(data, loss, "average-precision", "", float(m.average_precision_score(t, y)))


save_model("single", ["batch", 1], "MatMul", np.eye(1))
t = rng.integers(0, 2, (SAMPLES, 1))
binary("logits", "bce-logits", 3 * rng.standard_normal((SAMPLES, 1)) + t, t)
binary("equal", "bce-logits", rng.integers(-1, 2, (SAMPLES, 1)).astype(float), rng.integers(0, 2, (SAMPLES, 1)))
y = rng.random((SAMPLES, 1))
y[:2] = [[0], [1]]
t = rng.integers(0, 2, (SAMPLES, 1))
t[:2] = [[0], [1]]                       # where the loss is finite
binary("probabilities", "bce", y, t)
save_model("pair", ["batch", 2], "MatMul", np.eye(2))
y, t = rng.standard_normal((SAMPLES, 2)), rng.integers(0, 2, SAMPLES)
t[5:8] = -1
np.savez(os.path.join(HERE, "pairs.npz"), x=y, target=t)
y, t = y[t >= 0], t[t >= 0]
p = np.exp(y[:, 1]) / np.exp(y).sum(1)
expect("pairs", "cross-entropy", "auc", "--ignore-index=-1", float(m.roc_auc_score(t, p)))
expect("pairs", "cross-entropy", "average-precision", "--ignore-index=-1", float(m.average_precision_score(t, p)))
expect("pairs", "cross-entropy", "f1:1", "--ignore-index=-1", float(m.f1_score(t, y.argmax(1))))
binary("labels", "bce-logits", rng.standard_normal((SAMPLES, 3)), rng.integers(0, 2, (SAMPLES, 3)))   # several labels of a sample

with open(os.path.join(HERE, "expected.txt"), "w") as f:
    f.write("\n".join(lines) + "\n")
