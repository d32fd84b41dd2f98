#!/usr/bin/env python3
"""The networks of `dpexec new` against PyTorch.

    new.py make DPEXEC DIR [NAME...]    writes the networks of CASES and data for them (NumPy and onnx)
    new.py check FILE.onnx NAME         onnx.checker, opset, names, open axes, and the distribution of the values
    new.py list                         NAME, and the flags that it trains with
    new.py torch DIR [NAME...]          prints tests/cli/new/torch.txt: NAME, digest of the state_dict's names and shapes, losses of
                                        STEPS steps of SGD in float64 from the file's weights (PyTorch, torchvision, transformers)
    new.py forward DIR                  prints tests/cli/new/torch_full.txt: NAME, some of PyTorch's scores, for the networks of LARGE
    new.py scores DIR NAME              the same by ONNX Runtime, from the file

The modules are torchvision's and transformers' where these have the network, else those below, as they are usually written.
"""
import hashlib
import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

STEPS, BATCH, RATE = 2, 4, 0.01
# NAME: the network, its options, loss
CASES = {
    "mlp": ("mlp", dict(inputs=6, classes=4, width=16), "cross-entropy"),
    "regression": ("mlp", dict(inputs=6, outputs=3, width=16, layers=1), "mse"),
    "cnn": ("cnn", dict(classes=4, layers=2, width=4, size=8), "cross-entropy"),
    "resnet18": ("resnet18", dict(classes=4, size=32), "cross-entropy"),
    "resnet50": ("resnet50", dict(classes=4, size=32), "cross-entropy"),
    "mobilenet": ("mobilenet", dict(classes=4, size=32, dropout=0, width=8), "cross-entropy"),
    "vit": ("vit", dict(classes=4, size=16, patch=4, layers=2, width=32, heads=2), "cross-entropy"),
    "unet": ("unet", dict(classes=3, size=16, layers=2, width=4, channels=1), "cross-entropy"),
    "texts": ("lstm", dict(vocab=20, classes=3, width=8, layers=2), "cross-entropy"),
    "series": ("lstm", dict(inputs=3, outputs=2, width=8), "mse"),
    "gpt": ("gpt", dict(vocab=20, layers=2, width=32, heads=2, block=8), "cross-entropy"),
}
FULL = {        # of a size that people train; `new.py torch DIR NAME` prints their rows, which are not kept
    "resnet18-full": ("resnet18", dict(), "cross-entropy"),
    "resnet50-full": ("resnet50", dict(), "cross-entropy"),
    "mobilenet-full": ("mobilenet", dict(dropout=0), "cross-entropy"),
    "vit-full": ("vit", dict(), "cross-entropy"),
    "unet-full": ("unet", dict(size=64), "cross-entropy"),
    "gpt-full": ("gpt", dict(layers=12, width=768, heads=12, block=1024, vocab=50257), "cross-entropy"),
}
LARGE = ("vit-full", "gpt-full")        # compared at full size by every run of the tests
DEFAULTS = dict(classes=0, outputs=0, channels=3, layers=2, dropout=0, steps=5)


def case(name):
    network, given, loss = {**CASES, **FULL}[name]
    full = {"cnn": dict(layers=3), "vit": dict(layers=12, width=768, heads=12, patch=16, size=224, classes=1000),
            "unet": dict(layers=4, width=64, classes=2), "lstm": dict(layers=1), "resnet18": dict(size=224, classes=1000), "resnet50": dict(size=224, classes=1000),
            "mobilenet": dict(width=32, size=224, classes=1000)}
    sizes = {**DEFAULTS, **full.get(network, {}), **given}
    if given.get("outputs"):
        sizes["classes"] = 0
    return network, given, sizes, loss


# ---- data ----

def data(name):
    network, _, s, _ = case(name)
    rng = np.random.default_rng(len(name))
    n, steps = STEPS * BATCH, s["steps"]
    classes = lambda *shape: rng.integers(0, s["classes"], (n, *shape))
    if network == "gpt":
        length = min(s["block"], 16) - 2        # shorter than the block
        ids = rng.integers(0, s["vocab"], (n, length + 1))
        return {"tokens": ids[:, :-1], "target": ids[:, 1:]}
    if network == "lstm" and "vocab" in s:
        return {"tokens": rng.integers(0, s["vocab"], (n, steps)), "lengths": rng.integers(1, steps + 1, n), "target": classes()}
    if network == "lstm":
        return {"x": rng.standard_normal((n, steps, s["inputs"])), "target": rng.standard_normal((n, s["outputs"]))}
    if network == "mlp":
        x = rng.standard_normal((n, s["inputs"]))
        return {"x": x, "target": rng.standard_normal((n, s["outputs"])) if s["outputs"] else classes()}
    image = rng.standard_normal((n, s["channels"], s["size"], s["size"]))
    return {"image": image, "target": classes(s["size"], s["size"]) if network == "unet" else classes()}


def make(dpexec, folder, names):
    for name in names or CASES:
        network, given, _, _ = case(name)
        flags = [text for key, value in given.items() for text in (f"--{key}", str(value))]
        subprocess.run([dpexec, "new", network, *flags, "--seed", "3", "--quiet", "-o", f"{folder}/{name}.onnx"], check=True)
        np.savez(f"{folder}/{name}.npz", **data(name))


def large(name):
    """Values for tensors that begin as zeros, so that all others have a part in the scores; and an input."""
    (network, _, s, _), rng = case(name), np.random.default_rng(1)
    if network == "gpt":
        return {}, rng.integers(0, s["vocab"], (2, 64))
    head = rng.standard_normal((s["classes"], s["width"])).astype("f")
    return {"heads.head.weight": head}, rng.standard_normal((2, s["channels"], s["size"], s["size"])).astype("f")


def told(scores):
    """Scores of the last sample that represent all: 100 of 1000 classes, or of the last token."""
    line = scores.reshape(-1, scores.shape[-1])[-1].astype(np.float64)
    return [*line[::len(line) // 100][:100].tolist(), float(np.abs(scores).mean(dtype=np.float64))]


def scores(folder, name):
    import onnxruntime
    held, x = large(name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    given = {k: onnxruntime.OrtValue.ortvalue_from_numpy(v) for k, v in held.items()}      # lives as long as the session
    for k, v in given.items():
        options.add_initializer(k, v)
    net = onnxruntime.InferenceSession(f"{folder}/{name}.onnx", options)
    return told(net.run(None, {net.get_inputs()[0].name: x})[0])


# ---- the file ----

def weights(model):
    """The tensors that a state_dict holds, by name."""
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if not t.name.startswith("/")}


def digest(shapes):
    """Of names and shapes, {name: shape}."""
    return hashlib.sha256(json.dumps(sorted((k, list(v)) for k, v in shapes.items())).encode()).hexdigest()[:16]


def uniform(bound):
    return lambda x: np.clip((x / bound + 1) / 2, 0, 1)


def normal(deviation):
    return lambda x: np.array([math.erfc(-v / deviation / math.sqrt(2)) / 2 for v in x])


def expected(network, s, name, shape, weights_of):
    """The distribution of a tensor, by the documentation of PyTorch's modules; a number: all are that."""
    leaf, conv = name.rsplit(".", 1)[-1], len(shape) == 4
    fan_in = int(np.prod(shape[1:]))
    owner = weights_of.get(name.rsplit(".", 1)[0] + ".weight") if "." in name else None
    owner_fan = int(np.prod(owner.shape[1:])) if owner is not None else 0
    if leaf in ("running_mean", "class_token") or leaf == "in_proj_bias":
        return 0
    if leaf == "running_var":
        return 1
    if owner is not None and owner.ndim == 1:                                           # a norm
        return 1 if leaf == "weight" else 0
    if network == "lstm" and name.startswith("lstm."):
        return uniform(1 / math.sqrt(s["width"]))
    if name in ("embedding.weight",):
        return normal(1)
    if network == "gpt":
        return 0 if leaf == "bias" else normal(0.02 / math.sqrt(2 * s["layers"]) if "c_proj" in name else 0.02)
    if network == "vit":
        width = s["width"]
        return (0 if name.startswith("heads.") or (leaf == "bias" and ".mlp." not in name) else
                normal(1e-6) if leaf == "bias" else
                normal(math.sqrt(1 / fan_in)) if name == "conv_proj.weight" else
                normal(0.02) if leaf == "pos_embedding" else
                uniform(math.sqrt(6 / (4 * width))) if leaf == "in_proj_weight" else
                uniform(math.sqrt(6 / (5 * width))) if ".mlp." in name else uniform(1 / math.sqrt(fan_in)))
    if network == "mobilenet":
        return 0 if leaf == "bias" else normal(math.sqrt(2 / (shape[0] * shape[2] * shape[3] / (shape[0] if shape[1] == 1 and shape[2] == 3 else 1)))) if conv else normal(0.01)
    if network.startswith("resnet") and conv:
        return normal(math.sqrt(2 / (shape[0] * shape[2] * shape[3])))
    return uniform(1 / math.sqrt(owner_fan if leaf == "bias" else fan_in))              # PyTorch's Linear and convolutions


def check_values(name, held):
    network, _, s, _ = case(name)
    wrong = []
    for key, x in held.items():
        want, x = expected(network, s, key, x.shape, held), np.sort(x.astype(np.float64), axis=None)
        if not callable(want):
            if not (x == want).all():
                wrong.append(f"{key}: expected {want}")
            continue
        p, n = want(x), x.size
        distance = max(np.abs(p - np.arange(n) / n).max(), np.abs(p - np.arange(1, n + 1) / n).max()) * math.sqrt(n)
        if distance > 2.2 or p.min() < 0 or p.max() > 1:        # Kolmogorov and Smirnov: once in 8000 tensors
            wrong.append(f"{key} {n}: distance {distance:.2f} of the distribution")
    return wrong


def check(path, name):
    model, (network, _, s, _) = onnx.load(path), case(name)
    onnx.checker.check_model(model, full_check=True)
    g, held = model.graph, weights(model)
    symbols = [[d.dim_param for d in v.type.tensor_type.shape.dim] for v in (*g.input, *g.output)]
    wrong = check_values(name, held)
    if [o.version for o in model.opset_import] != [17] or any(o.domain for o in model.opset_import):
        wrong.append(f"opset {model.opset_import}")
    if any(v[0] != "N" for v in symbols) or (network in ("lstm", "gpt")) != (symbols[0][1] == "T"):
        wrong.append(f"open axes {symbols}")
    if len({n.name for n in g.node}) != len(g.node) or not all(n.name.startswith("/") for n in g.node):
        wrong.append("names of nodes")
    print("\n".join(wrong) or digest({k: v.shape for k, v in held.items()}))
    return bool(wrong)


# ---- PyTorch ----

def modules():
    import torch
    import torchvision
    import transformers
    from torch import nn
    models = torchvision.models

    class Mlp(nn.Module):
        def __init__(self, s):
            super().__init__()
            widths = [s["inputs"], *[s["width"]] * s["layers"], s["classes"] or s["outputs"]]
            self.n = len(widths) - 1
            for i in range(self.n):
                setattr(self, f"fc{i + 1}", nn.Linear(widths[i], widths[i + 1]))

        def forward(self, x):
            for i in range(1, self.n):
                x = torch.relu(getattr(self, f"fc{i}")(x))
            return getattr(self, f"fc{self.n}")(x)

    class Cnn(nn.Module):
        def __init__(self, s):
            super().__init__()
            layers, c = [], s["channels"]
            for level in range(s["layers"]):
                for _ in range(2):
                    layers += [nn.Conv2d(c, s["width"] << level, 3, padding=1, bias=False), nn.BatchNorm2d(s["width"] << level), nn.ReLU()]
                    c = s["width"] << level
                layers.append(nn.MaxPool2d(2))
            self.features, self.classifier = nn.Sequential(*layers), nn.Linear(c, s["classes"])

        def forward(self, x):
            return self.classifier(self.features(x).mean((2, 3)))

    class DoubleConv(nn.Module):
        def __init__(self, c, out):
            super().__init__()
            conv = lambda a: [nn.Conv2d(a, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
            self.double_conv = nn.Sequential(*conv(c), *conv(out))

        def forward(self, x):
            return self.double_conv(x)

    class Down(nn.Module):
        def __init__(self, c, out):
            super().__init__()
            self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(c, out))

        def forward(self, x):
            return self.maxpool_conv(x)

    class Up(nn.Module):
        def __init__(self, c, out):
            super().__init__()
            self.up, self.conv = nn.ConvTranspose2d(c, out, 2, 2), DoubleConv(c, out)

        def forward(self, x, skip):
            return self.conv(torch.cat([skip, self.up(x)], 1))

    class Out(nn.Module):
        def __init__(self, c, out):
            super().__init__()
            self.conv = nn.Conv2d(c, out, 1)

        def forward(self, x):
            return self.conv(x)

    class Unet(nn.Module):
        def __init__(self, s):
            super().__init__()
            w, self.n = s["width"], s["layers"]
            self.inc, self.outc = DoubleConv(s["channels"], w), Out(w, s["classes"])
            for i in range(1, self.n + 1):
                setattr(self, f"down{i}", Down(w << (i - 1), w << i))
                setattr(self, f"up{i}", Up(w << (self.n - i + 1), w << (self.n - i)))

        def forward(self, x):
            skips, x = [], self.inc(x)
            for i in range(1, self.n + 1):
                skips.append(x)
                x = getattr(self, f"down{i}")(x)
            for i in range(1, self.n + 1):
                x = getattr(self, f"up{i}")(x, skips[-i])
            return self.outc(x)

    class Lstm(nn.Module):
        def __init__(self, s):
            super().__init__()
            if "vocab" in s:
                self.embedding = nn.Embedding(s["vocab"], s["width"])
            self.lstm = nn.LSTM(s.get("inputs") or s["width"], s["width"], s["layers"], batch_first=True)
            self.fc = nn.Linear(s["width"], s["classes"] or s["outputs"])

        def forward(self, x, lengths=None):
            if lengths is None:
                return self.fc(self.lstm(x)[0][:, -1])
            return self.fc(self.lstm(self.embedding(x))[0][torch.arange(len(x)), lengths - 1])

    class Gpt(transformers.GPT2LMHeadModel):
        def __init__(self, s):
            super().__init__(transformers.GPT2Config(vocab_size=s["vocab"], n_positions=s["block"], n_embd=s["width"], n_layer=s["layers"],
                                                     n_head=s["heads"], resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                                     attn_implementation="eager"))

        def forward(self, x):
            return super().forward(input_ids=x).logits

    return {
        "mlp": Mlp, "cnn": Cnn, "unet": Unet, "lstm": Lstm, "gpt": Gpt,
        "resnet18": lambda s: models.resnet18(num_classes=s["classes"]),
        "resnet50": lambda s: models.resnet50(num_classes=s["classes"]),
        "mobilenet": lambda s: models.MobileNetV2(s["classes"], s["width"] / 32, dropout=s["dropout"]),
        "vit": lambda s: models.VisionTransformer(s["size"], s["patch"], s["layers"], s["heads"], s["width"], 4 * s["width"],
                                                  num_classes=s["classes"]),
    }


def losses(folder, name):
    import torch
    from torch.nn import functional
    network, _, s, loss = case(name)
    held = weights(onnx.load(f"{folder}/{name}.onnx"))
    net = modules()[network](s).double().train()
    state = {k: v for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked") and k != "lm_head.weight"}
    if digest({k: v.shape for k, v in state.items()}) != digest({k: v.shape for k, v in held.items()}):
        raise SystemExit(f"{name}: other names or shapes than the module's: {sorted(set(state) ^ set(held))[:8]}")
    net.load_state_dict({k: torch.tensor(v).double() for k, v in held.items()}, strict=False)
    arrays = np.load(f"{folder}/{name}.npz")
    *inputs, target = (torch.tensor(arrays[k]) for k in arrays.files)
    optimizer, out = torch.optim.SGD(net.parameters(), RATE), []
    for at in range(0, len(target), BATCH):
        y, t = net(*(x[at:at + BATCH] for x in inputs)), target[at:at + BATCH]
        value = functional.mse_loss(y, t) if loss == "mse" else functional.cross_entropy(y.movedim(-1, 1) if network == "gpt" else y, t)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        out.append(value.item())
    return digest({k: v.shape for k, v in held.items()}), out


def forward(folder, name):
    import torch
    held, x = large(name)
    network, _, s, _ = case(name)
    held = {**weights(onnx.load(f"{folder}/{name}.onnx")), **held}
    net = modules()[network](s).double().eval()
    net.load_state_dict({k: torch.tensor(v).double() for k, v in held.items()}, strict=False)
    with torch.no_grad():
        return told(net(torch.tensor(x.astype("d") if x.dtype == np.float32 else x)).numpy())


def main():
    command, *rest = sys.argv[1:]
    if command == "make":
        make(rest[0], rest[1], rest[2:])
    elif command == "check":
        return check(*rest)
    elif command == "list":
        for name in rest or CASES:
            _, _, _, loss = case(name)
            print(name, "--loss", loss, "--batch-size", BATCH, "--steps", STEPS, "--optimizer", "sgd", "--momentum", 0, "--lr", RATE)
    elif command == "forward":
        for name in LARGE:
            print(name, *map(repr, forward(rest[0], name)), flush=True)
    elif command == "scores":
        found = scores(*rest)
        want = next([*map(float, line.split()[1:])] for line in open("tests/cli/new/torch_full.txt") if line.split()[0] == rest[1])
        worst = np.abs(np.subtract(found, want)).max() / np.abs(want).max()
        print(rest[1], len(found), worst)
        return len(found) != 101 or not worst < 1e-5
    elif command == "torch":
        for name in rest[1:] or CASES:
            key, values = losses(pathlib.Path(rest[0]), name)
            print(name, key, *map(repr, values), flush=True)


if __name__ == "__main__":
    sys.exit(main())
