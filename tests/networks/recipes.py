#!/usr/bin/env python3
"""Does what docs/guide/export.md tells to do, and checks each of its claims: recipes.py torch|keras|sklearn|paddle BUILD_DIR OUT_DIR

Each runs in an environment of its own (recipes.sh).  A recipe exports a network, trains the file with dpexec, and where it is said to
hold the same network, compares with the framework's own training.  Prints `ok` or `FAILED` for every claim.
"""
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx

import judge

failed = []


def claim(text, holds):
    print("ok     " if holds else "FAILED ", text, flush=True)
    if not holds:
        failed.append(text)


class Run:
    """dpexec train of a model on arrays by name: its losses, what it said, the names it trained."""

    def __init__(self, model, arrays, *flags):
        np.savez(OUT / "data.npz", **arrays)
        out = OUT / "run"
        shutil.rmtree(out, ignore_errors=True)
        words = [BUILD / "dpexec", "train", model, "--data", OUT / "data.npz", "--no-shuffle", "--threads", 1, "--out", out, *flags]
        p = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
        self.ok, self.said = p.returncode == 0, p.stdout + p.stderr
        self.trained, self.losses, self.state = set(), [], {}
        if self.ok:
            self.losses = [m["loss"] for m in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in m]
            self.state = judge.state(next((out / "checkpoints").glob("step-*/state.safetensors")))
            self.trained = {k[:-len(".momentum")] for k in self.state if k.endswith(".momentum")}

    def warned(self, *words):
        return any(all(w in line for w in words) for line in judge.warnings_in(self.said))


SGD = ("--optimizer", "sgd", "--momentum", "0.9", "--batch-size", "8")


def close(a, b, limit):
    return len(a) == len(b) and max(abs(x - y) / abs(y) for x, y in zip(a, b)) < limit


def operators(path):
    return {n.op_type for n in onnx.load(str(path)).graph.node}


def batch_is_free(path):
    return not onnx.load(str(path)).graph.input[0].type.tensor_type.shape.dim[0].dim_value


# ---- PyTorch ----

def torch_net(torch):
    from torch import nn

    def conv(a, b):
        return [nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    torch.manual_seed(0)
    return nn.Sequential(*conv(3, 8), *conv(8, 16), *conv(16, 16), nn.Flatten(), nn.Linear(64, 32), nn.LayerNorm(32), nn.GELU(),
                         nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 10))


def torch_losses(torch, x, t):
    net = torch_net(torch).train()
    sgd, losses = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9), []
    for i in range(0, len(x), 8):
        loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(x[i:i + 8])), torch.from_numpy(t[i:i + 8]))
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return losses


def recipe_torch():
    import torch

    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(40, 3, 16, 16)).astype(np.float32), rng.integers(0, 10, 40)
    expected, example = torch_losses(torch, x, t), torch.zeros(2, 3, 16, 16)
    parameters = {k for k, _ in torch_net(torch).named_parameters()}
    named = {"input_names": ["image"], "output_names": ["logits"]}

    def export(file, train, **more):
        path = OUT / file
        torch.onnx.export(torch_net(torch).train(train), (example,), str(path), **named, **more)
        return path, Run(path, {"image": x, "target": t}, "--loss", "cross-entropy", "--lr", "0.01", *SGD)

    axes = {"image": {0: "batch"}, "logits": {0: "batch"}}
    shapes = ({0: torch.export.Dim("batch")},)
    path, run = export("legacy.onnx", True, dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                       dynamic_axes=axes)
    claim("legacy, TRAINING: BatchNormalization is kept", "BatchNormalization" in operators(path))
    claim("legacy, TRAINING: every parameter is trained, by its name", run.trained == parameters)
    claim("legacy, TRAINING: the batch is free", batch_is_free(path))
    claim("legacy, TRAINING: trained as by PyTorch", close(run.losses, expected, 1e-4))
    path, run = export("legacy_eval.onnx", False, dynamo=False, dynamic_axes=axes)
    claim("legacy, evaluation: BatchNormalization is folded, and the run says so",
          "BatchNormalization" not in operators(path) and run.warned("BatchNormalization"))
    path, run = export("noopt.onnx", True, dynamo=True, optimize=False, dynamic_shapes=shapes)
    claim("default, optimize=False: BatchNormalization is kept", "BatchNormalization" in operators(path))
    claim("default, optimize=False: every parameter is trained, by its name", run.trained == parameters)
    claim("default, optimize=False: the batch is free", batch_is_free(path))
    claim("default, optimize=False: trained as by PyTorch", close(run.losses, expected, 1e-4))
    path, run = export("default_train.onnx", True, dynamo=True, dynamic_shapes=shapes)
    claim("default: BatchNormalization is folded in training mode too, and the run says so",
          "BatchNormalization" not in operators(path) and run.warned("BatchNormalization"))
    path, run = export("fixed.onnx", True, dynamo=True, optimize=False)
    claim("without dynamic_shapes the example's batch is fixed, and another size works", not batch_is_free(path) and run.ok)
    pages_of_torch(torch, x, t, expected, parameters)


def pages_of_torch(torch, x, t, expected, parameters):
    """The exports that docs/guide/from-*.md show, as they stand there; each writes net.onnx."""
    docs = pathlib.Path(__file__).resolve().parents[2] / "docs/guide"
    line = (docs / "from-pytorch.md").read_text().split("```python\n")[1].split("np.savez")[0]     # every page begins with it
    block = next(b for b in (docs / "from-mmengine.md").read_text().split("```python\n")[1:] if "class Graph" in b).split("```")[0]
    for page, text in (("from-pytorch", line), ("from-mmengine", block)):
        names = {"torch": torch, "F": torch.nn.functional, "Dim": torch.export.Dim, "net": torch_net(torch), "x": torch.zeros(2, 3, 16, 16),
                 "y": torch.zeros(2, dtype=torch.int64), "accuracy": lambda scores, y: (scores.argmax(1) == y).float().mean()}
        with contextlib.chdir(OUT):
            exec(text, names)
        data, loss = ({"x": x, "target": t}, "cross-entropy") if page == "from-pytorch" else ({"x": x, "y": t}, "outputs")
        run = Run(OUT / "net.onnx", data, "--loss", loss, "--lr", "0.01", *SGD)
        claim(f"docs/guide/{page}.md: the batch is free", batch_is_free(OUT / "net.onnx"))
        claim(f"docs/guide/{page}.md: trained as by PyTorch", close(run.losses, expected, 1e-4))
        claim(f"docs/guide/{page}.md: every parameter is trained", len(run.trained) == len(parameters))


# ---- Keras ----

def keras_net(keras, norm):
    layers = keras.layers
    image = keras.Input((16, 16, 3), name="image")
    x = image
    for width in (8, 16, 16):
        x = layers.Conv2D(width, 3, strides=2, padding="same")(x)
        x = layers.ReLU()(norm()(x))
    x = layers.Dense(10, name="logits")(layers.Flatten()(x))
    net = keras.Model(image, x)
    rng = np.random.default_rng(1)
    for v in net.trainable_variables:       # as after some training: zeros and ones are dropped
        v.assign(np.asarray(v) + 0.05 * rng.normal(size=v.shape).astype(np.float32))
    net(np.zeros((1, 16, 16, 3), np.float32))
    return net


def recipe_keras():
    import os
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import keras

    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(40, 16, 16, 3)).astype(np.float32), rng.integers(0, 10, 40)
    backend = keras.backend.backend()
    for norm in (keras.layers.LayerNormalization, keras.layers.BatchNormalization):
        net = keras_net(keras, norm)
        path = OUT / f"{backend}_{norm.__name__}.onnx"
        net.export(str(path), format="onnx", verbose=False)
        run = Run(path, {"image": x, "target": t}, "--loss", "cross-entropy", "--lr", "0.01", *SGD)
        net.compile(keras.optimizers.SGD(0.01, momentum=0.9), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        losses = [float(net.train_on_batch(x[i:i + 8], t[i:i + 8])) for i in range(0, 40, 8)]
        what = f"Keras, {backend}, {norm.__name__}"
        claim(f"{what}: the batch is free, images are [N, H, W, C]", batch_is_free(path))
        if norm is keras.layers.LayerNormalization:
            claim(f"{what}: as many numbers are trained as in Keras",
                  sum(run.state[k].size for k in run.trained) == sum(int(np.prod(v.shape)) for v in net.trainable_variables))
            claim(f"{what}: trained as by Keras", close(run.losses, losses, 1e-3))
        else:
            claim(f"{what}: batch-norm is not kept, and the run says so",
                  "BatchNormalization" not in operators(path) and run.warned("ormali"))


# ---- scikit-learn ----

def recipe_sklearn():
    import warnings

    from skl2onnx import to_onnx
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(8, 12)).astype(np.float32), rng.integers(0, 3, 8)
    options = {"hidden_layer_sizes": (16, 8), "solver": "sgd", "learning_rate_init": 0.1, "momentum": 0.9, "nesterovs_momentum": False,
               "alpha": 0.0, "shuffle": False, "batch_size": 8, "random_state": 0}

    def steps(net, y, n=5):
        """Losses of n more steps; the file is written before them."""
        losses = []
        for _ in range(n):
            net.partial_fit(x, y)
            losses.append(net.loss_)
        return losses

    net = MLPClassifier(**options).partial_fit(x, t, classes=[0, 1, 2])
    net._optimizer.velocities = [0 * v for v in net._optimizer.velocities]
    whole, path = OUT / "classifier.onnx", OUT / "classifier_logits.onnx"
    whole.write_bytes(to_onnx(net, x[:1], options={"zipmap": False}).SerializeToString())
    run = Run(whole, {"X": x, "target": t}, "--loss", "cross-entropy", "--steps", 5, "--lr", 0.1, *SGD)
    claim("MLPClassifier: the file as it is is refused by name", not run.ok and "ArrayFeatureExtractor" in run.said)
    softmax = next(n for n in onnx.load(str(whole)).graph.node if n.op_type == "Softmax")
    onnx.utils.extract_model(str(whole), str(path), ["X"], [softmax.input[0]])
    run = Run(path, {"X": x, "target": t}, "--loss", "cross-entropy", "--steps", 5, "--lr", 0.1, *SGD)
    claim("MLPClassifier, cut before its Softmax: all coefficients and intercepts are trained", len(run.trained) == 6)
    claim("MLPClassifier, cut before its Softmax: trained as by scikit-learn", close(run.losses, steps(net, t), 1e-4))
    y = x[:, 0] * x[:, 1]
    net = MLPRegressor(**options).partial_fit(x, y)
    net._optimizer.velocities = [0 * v for v in net._optimizer.velocities]
    path = OUT / "regressor.onnx"
    path.write_bytes(to_onnx(net, x[:1]).SerializeToString())
    run = Run(path, {"X": x, "target": y[:, None]}, "--loss", "mse", "--steps", 5, "--lr", 0.05, *SGD)
    claim("MLPRegressor: trained as by scikit-learn, whose loss is half of mse: half the rate, twice the loss",
          close([v / 2 for v in run.losses], steps(net, y), 1e-4))


# ---- PaddlePaddle ----

def paddle_net(paddle):
    from paddle import nn

    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            def conv(a, b):
                return [nn.Conv2D(a, b, 3, 2, 1), nn.BatchNorm2D(b), nn.ReLU()]
            self.body = nn.Sequential(*conv(3, 8), *conv(8, 16), *conv(16, 16), nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(16, 10))

        def forward(self, image):
            return self.body(image)
    paddle.seed(0)
    return Net()


def recipe_paddle():
    import paddle

    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(40, 3, 16, 16)).astype(np.float32), rng.integers(0, 10, 40)
    net = paddle_net(paddle)
    paddle.onnx.export(net, str(OUT / "paddle"), input_spec=[paddle.static.InputSpec([-1, 3, 16, 16], "float32", "image")],
                       opset_version=17, optimize_tool="None")
    path = OUT / "paddle.onnx"
    run = Run(path, {"image": x, "target": t}, "--loss", "cross-entropy", "--lr", "0.01", *SGD)
    net.train()
    sgd, losses = paddle.optimizer.Momentum(0.01, 0.9, net.parameters()), []
    for i in range(0, 40, 8):
        loss = paddle.nn.functional.cross_entropy(net(paddle.to_tensor(x[i:i + 8])), paddle.to_tensor(t[i:i + 8]))
        loss.backward()
        sgd.step()
        sgd.clear_grad()
        losses.append(float(loss))
    claim("Paddle: BatchNormalization is kept", "BatchNormalization" in operators(path))
    claim("Paddle: the batch is free", batch_is_free(path))
    trainable = [p for p in net.parameters() if not p.stop_gradient]
    claim("Paddle: as many tensors are trained as the network has", len(run.trained) == len(trainable))
    claim("Paddle: trained as by Paddle", close(run.losses, losses, 1e-4))

if __name__ == "__main__":
    BUILD, OUT = pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3])
    OUT.mkdir(parents=True, exist_ok=True)
    {"torch": recipe_torch, "keras": recipe_keras, "sklearn": recipe_sklearn, "paddle": recipe_paddle}[sys.argv[1]]()
    sys.exit(bool(failed))
