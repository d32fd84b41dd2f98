"""The seeded data of the oracle, one function per data/<name>.npz.

Sizes are odd on purpose: no batch size used in cases.py divides them, so every epoch ends in a smaller batch.
"""
import numpy as np

CLASSES = 10


def prototypes(seed, n, shape, noise):
    """n noisy copies of ten random patterns, smoothed over the last two axes if there are that many."""
    rng = np.random.default_rng(seed)
    protos = rng.standard_normal((CLASSES, *shape))
    for axis in (-1, -2) if len(shape) > 1 else ():
        protos = (protos + np.roll(protos, 1, axis) + np.roll(protos, 2, axis)) / 3 ** 0.5
    labels = rng.integers(0, CLASSES, n)
    return (protos[labels] + noise * rng.standard_normal((n, *shape))).astype(np.float32), labels


def digits():
    x, y = prototypes(11, 43, (64,), 1.0)
    return {"x": x, "target": y}


def digits_ignored():
    """As digits, but every fourth label is -1."""
    d = digits()
    d["target"][::4] = -1
    return d


def digits_labels():
    """As digits, for a graph that takes the labels as an input."""
    d = digits()
    return {"x": d["x"], "labels": d["target"]}


def regression():
    d, rng = digits(), np.random.default_rng(12)
    return {"x": d["x"], "target": np.tanh(d["x"] @ rng.standard_normal((64, CLASSES)) / 8).astype(np.float32)}


def multilabel():
    return {k: (v > 0).astype(np.float32) if k == "target" else v for k, v in regression().items()}


def fashion():
    x, y = prototypes(13, 46, (1, 28, 28), 1.5)
    return {"image": x, "target": y}


def images32():
    x, y = prototypes(14, 30, (3, 32, 32), 0.5)
    return {"image": x, "target": y}


def text():
    """Bytes of sentences of random words; the target is the next byte."""
    rng = np.random.default_rng(15)
    words = "the gradient of a split graph is summed over replicas and each part counts as much as it holds".split()
    line = " ".join(rng.choice(words, 600)).encode()
    rows = np.frombuffer(line[:27 * 64 + 1], np.uint8).astype(np.int64)
    return {"tokens": rows[:-1].reshape(27, 64), "target": rows[1:].reshape(27, 64)}


def masks():
    """Coloured discs over noise; class 1 is inside."""
    rng = np.random.default_rng(16)
    n, (row, col) = 10, np.mgrid[:64, :64]
    image, target = rng.standard_normal((n, 3, 64, 64)) * 0.3, np.zeros((n, 64, 64), np.int64)
    for i in range(n):
        for _ in range(3):
            y, x, r = rng.integers(8, 56), rng.integers(8, 56), rng.integers(5, 14)
            inside = (row - y) ** 2 + (col - x) ** 2 < r * r
            target[i][inside] = 1
            image[i][:, inside] += rng.uniform(-1, 1, (3, 1))
    return {"image": image.astype(np.float32), "target": target}


ALL = (digits, digits_ignored, digits_labels, regression, multilabel, fashion, images32, text, masks)
