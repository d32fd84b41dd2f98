"""What bench/gpu.py trains: networks as ONNX files, and batches for them.  Needs numpy alone.

A case has its sizes twice, as compared on a GPU and small for trial runs.  ResNet-50, GPT-2, ViT-B/16 and BERT-base are built here; the
others are files of models/.
"""
import pathlib

import numpy as np

from onnx_file import FLOAT, INT64, Net

ROOT = pathlib.Path(__file__).resolve().parents[1]
ADAMW = {"optimizer": "adamw", "weight-decay": "0.1", "beta2": "0.95", "lr": "0.0003"}
# Contestants that are dpexec: their options.  --tune measures algorithms, as PyTorch's cudnn.benchmark does.
OURS = {"dpexec": {}, "tuned": {"tune": "true"}, "chunked": {"tune": "true", "chunk-loss": "auto"}}
CASES = {
    "resnet50": {
        "full": {"batch": 128, "size": 224, "width": 64, "blocks": [3, 4, 6, 3], "classes": 1000},
        "trial": {"batch": 2, "size": 32, "width": 8, "blocks": [1, 1, 1, 1], "classes": 10},
        "precision": {"full": "bfloat16", "trial": "float32"},     # in the trial batch-norm sees two values a channel
        "options": {"optimizer": "sgd", "momentum": "0.9", "lr": "0.01", "loss": "cross-entropy"},
    },
    "gpt2": {
        "full": {"batch": 16, "length": 1024, "layers": 12, "width": 768, "heads": 12, "vocabulary": 50304},
        "trial": {"batch": 2, "length": 16, "layers": 1, "width": 32, "heads": 2, "vocabulary": 64},
        "precision": {"full": "bfloat16", "trial": "bfloat16"},
        "options": dict(ADAMW, loss="output:loss"),
    },
    "vit": {
        "full": {"batch": 128, "size": 224, "patch": 16, "layers": 12, "width": 768, "heads": 12, "classes": 1000},
        "trial": {"batch": 2, "size": 32, "patch": 8, "layers": 1, "width": 32, "heads": 2, "classes": 10},
        "precision": {"full": "bfloat16", "trial": "bfloat16"},
        "options": dict(ADAMW, loss="cross-entropy"),
    },
    "bert": {       # a vocabulary of 30,522, in rows of whole 16 bytes
        "full": {"batch": 64, "length": 128, "layers": 12, "width": 768, "heads": 12, "vocabulary": 30528},
        "trial": {"batch": 2, "length": 16, "layers": 1, "width": 32, "heads": 2, "vocabulary": 64},
        "precision": {"full": "bfloat16", "trial": "bfloat16"},
        "options": dict(ADAMW, loss="output:loss"),
    },
    "mlp": {"full": {"batch": 32}, "trial": {"batch": 32}, "precision": {"full": "float32", "trial": "float32"},
            "options": {"optimizer": "sgd", "momentum": "0.9", "lr": "0.001", "loss": "cross-entropy"}},
    "fashion_cnn": {"full": {"batch": 32}, "trial": {"batch": 4}, "precision": {"full": "float32", "trial": "float32"},
                    "options": {"optimizer": "sgd", "momentum": "0.9", "lr": "0.001", "loss": "cross-entropy"}},
}


def resnet50(size, width, blocks, classes, **_):
    """He et al. 2015 with the stride in the 3x3 convolution; names as in torchvision."""
    net = Net("resnet50")

    def conv_bn(x, conv, bn, cin, cout, k, stride=1):
        w = net.normal(f"{conv}.weight", (cout, cin, k, k), (2 / (cout * k * k)) ** 0.5)
        x = net.op("Conv", x, w, name=conv, kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4)
        start = {"weight": np.ones(cout), "bias": np.zeros(cout), "running_mean": np.zeros(cout), "running_var": np.ones(cout)}
        return net.op("BatchNormalization", x, *[net.param(f"{bn}.{k}", v) for k, v in start.items()], name=bn, epsilon=1e-5, momentum=0.9)

    x = net.op("Relu", conv_bn(net.input("image", FLOAT, ["batch", 3, size, size]), "conv1", "bn1", 3, width, 7, 2))
    x, n = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), width
    for i, count in enumerate(blocks):
        c = width << i
        for b in range(count):
            at, stride = f"layer{i + 1}.{b}.", 2 if b == 0 and i > 0 else 1
            y = net.op("Relu", conv_bn(x, at + "conv1", at + "bn1", n, c, 1))
            y = net.op("Relu", conv_bn(y, at + "conv2", at + "bn2", c, c, 3, stride))
            y = conv_bn(y, at + "conv3", at + "bn3", c, 4 * c, 1)
            short = conv_bn(x, at + "downsample.0", at + "downsample.1", n, 4 * c, 1, stride) if b == 0 else x
            x, n = net.op("Relu", net.op("Add", y, short)), 4 * c
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    w = net.normal("fc.weight", (classes, n), n ** -0.5)
    net.op("Gemm", x, w, net.param("fc.bias", np.zeros(classes)), name="logits", transB=1)
    net.output("logits", ["batch", classes])
    return net


class Transformer:
    """Layers of transformers in a Net.  Weights of linear layers are [in, out]; projections back into the residual stream start smaller."""

    def __init__(self, name, layers, width, heads, std=0.02):
        self.net, self.layers, self.width, self.std = Net(name), layers, width, std
        head = width // heads
        self.scale, self.masked = self.net.const(head ** -0.5), self.net.const(-1e9)
        self.split_heads, self.merge_heads, self.thirds = self.net.ints(0, 0, heads, head), self.net.ints(0, 0, width), self.net.ints(*[width] * 3)

    def norm(self, x, name, epsilon=1e-5):
        ones, zeros = np.ones(self.width), np.zeros(self.width)
        return self.net.op("LayerNormalization", x, self.net.param(f"{name}.weight", ones), self.net.param(f"{name}.bias", zeros), name=name,
                           axis=-1, epsilon=epsilon)

    def linear(self, x, name, cin, cout, std=None):
        y = self.net.op("MatMul", x, self.net.normal(f"{name}.weight", (cin, cout), std or self.std))
        return self.net.op("Add", y, self.net.param(f"{name}.bias", np.zeros(cout)), name=name)

    def attention(self, x, name, causal):
        net = self.net
        parts = net.op("Split", self.linear(x, f"{name}.c_attn", self.width, 3 * self.width), self.thirds, n_out=3, axis=2)
        q, k, v = [net.op("Reshape", p, self.split_heads) for p in parts]
        q, k, v = [net.op("Transpose", t, perm=perm) for t, perm in ((q, [0, 2, 1, 3]), (k, [0, 2, 3, 1]), (v, [0, 2, 1, 3]))]
        scores = net.op("Mul", net.op("MatMul", q, k), self.scale)
        if causal:
            scores = net.op("Where", causal, scores, self.masked)
        y = net.op("Transpose", net.op("MatMul", net.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        return self.linear(net.op("Reshape", y, self.merge_heads), f"{name}.c_proj", self.width, self.width, self.std / (2 * self.layers) ** 0.5)

    def feed(self, x, name, gelu):
        y = self.net.op("Gelu", self.linear(x, f"{name}.c_fc", self.width, 4 * self.width), approximate=gelu)
        return self.linear(y, f"{name}.c_proj", 4 * self.width, self.width, self.std / (2 * self.layers) ** 0.5)

    def blocks(self, x, causal=None, gelu="none", post=False):
        """`causal`: the mask of attention to earlier tokens alone; `post`: norms stand behind the additions, as in 2018."""
        add = lambda a, b: self.net.op("Add", a, b)
        for i in range(self.layers):
            ln_1, attn, ln_2, mlp = (f"h.{i}.{part}" for part in ("ln_1", "attn", "ln_2", "mlp"))
            if post:
                x = self.norm(add(x, self.attention(x, attn, causal)), ln_1)
                x = self.norm(add(x, self.feed(x, mlp, gelu)), ln_2)
            else:
                x = add(x, self.attention(self.norm(x, ln_1), attn, causal))
                x = add(x, self.feed(self.norm(x, ln_2), mlp, gelu))
        return x

    def token_loss(self, logits, targets, vocabulary):
        net = self.net
        net.op("SoftmaxCrossEntropyLoss", net.op("Reshape", logits, net.ints(-1, vocabulary)), net.op("Reshape", targets, net.ints(-1)),
               name="loss", ignore_index=-100)
        net.output("loss", [])
        return net


def gpt2(length, layers, width, heads, vocabulary, **_):
    """Radford et al. 2019: pre-norm, GELU by tanh, tied embedding, no dropout; computes its own loss."""
    t = Transformer("gpt2", layers, width, heads)
    net = t.net
    tokens, targets = net.input("tokens", INT64, ["batch", length]), net.input("targets", INT64, ["batch", length])
    wte = net.normal("wte.weight", (vocabulary, width), t.std)
    x = net.op("Add", net.op("Gather", wte, tokens, axis=0), net.normal("wpe.weight", (length, width), t.std))
    x = t.blocks(x, net.const(np.tril(np.ones((length, length))), np.bool_), "tanh")
    return t.token_loss(net.op("MatMul", t.norm(x, "ln_f"), net.op("Transpose", wte, perm=[1, 0])), targets, vocabulary)


def vit(size, patch, layers, width, heads, classes, **_):
    """Dosovitskiy et al. 2020: patches by a convolution, a class token in front, pre-norm, no dropout."""
    t = Transformer("vit", layers, width, heads)
    net, side = t.net, size // patch
    image = net.input("image", FLOAT, ["batch", 3, size, size])
    w = net.normal("patches.weight", (width, 3, patch, patch), (3 * patch * patch) ** -0.5)
    x = net.op("Conv", image, w, net.param("patches.bias", np.zeros(width)), name="patches", kernel_shape=[patch] * 2, strides=[patch] * 2)
    x = net.op("Transpose", net.op("Reshape", x, net.ints(0, width, side * side)), perm=[0, 2, 1])
    batch = net.op("Slice", net.op("Shape", image), net.ints(0), net.ints(1))
    token = net.op("Expand", net.normal("token", (1, 1, width), t.std), net.op("Concat", batch, net.ints(1, width), axis=0))
    x = net.op("Add", net.op("Concat", token, x, axis=1), net.normal("wpe.weight", (side * side + 1, width), t.std))
    x = net.op("Flatten", net.op("Gather", t.norm(t.blocks(x), "ln_f"), net.ints(0), axis=1))
    net.output(t.linear(x, "head", width, classes), ["batch", classes])
    return net


def bert(length, layers, width, heads, vocabulary, **_):
    """Devlin et al. 2018 as it is pre-trained, of masked tokens alone: post-norm, tied decoder, no dropout, sequences of full length;
    computes its own loss."""
    t = Transformer("bert", layers, width, heads)
    net = t.net
    tokens, segments, targets = (net.input(name, INT64, ["batch", length]) for name in ("tokens", "segments", "targets"))
    wte = net.normal("wte.weight", (vocabulary, width), t.std)
    x = net.op("Add", net.op("Gather", wte, tokens, axis=0), net.normal("wpe.weight", (length, width), t.std))
    x = net.op("Add", x, net.op("Gather", net.normal("wse.weight", (2, width), t.std), segments, axis=0))
    x = t.blocks(t.norm(x, "ln_0"), post=True)
    x = t.norm(net.op("Gelu", t.linear(x, "head", width, width)), "ln_f")
    logits = net.op("MatMul", x, net.op("Transpose", wte, perm=[1, 0]))
    return t.token_loss(net.op("Add", logits, net.param("decoder_bias", np.zeros(vocabulary))), targets, vocabulary)


BUILT = {"resnet50": resnet50, "gpt2": gpt2, "vit": vit, "bert": bert}


def model_file(case, sizes, folder):
    """The path of the ONNX file, which is written if it has to be."""
    if case not in BUILT:
        return ROOT / f"models/{case}.onnx"
    path = pathlib.Path(folder) / f"{case}.onnx"
    if not path.exists():
        BUILT[case](**sizes).save(path)
    return path


def batches(case, sizes, count=2):
    """Batches of random data: the model's input and the target, by name."""
    rng, n = np.random.default_rng(1), sizes["batch"]
    for _ in range(count):
        if case == "gpt2":
            t = rng.integers(0, sizes["vocabulary"], (n, sizes["length"] + 1))
            yield {"tokens": np.ascontiguousarray(t[:, :-1]), "targets": np.ascontiguousarray(t[:, 1:])}
        elif case == "bert":
            shape = n, sizes["length"]
            chosen = rng.random(shape) < 0.15
            yield {"tokens": rng.integers(0, sizes["vocabulary"], shape), "segments": rng.integers(0, 2, shape),
                   "targets": np.where(chosen, rng.integers(0, sizes["vocabulary"], shape), -100)}
        elif case == "mlp":
            yield {"x": rng.standard_normal((n, 64), dtype=np.float32), "target": rng.integers(0, 10, n)}
        else:
            shape, classes = ((1, 28, 28), 10) if case == "fashion_cnn" else ((3, sizes["size"], sizes["size"]), sizes["classes"])
            yield {"image": rng.standard_normal((n, *shape), dtype=np.float32), "target": rng.integers(0, classes, n)}
