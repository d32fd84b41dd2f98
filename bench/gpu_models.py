"""What bench/gpu.py trains: networks as ONNX files, and batches for them.  Needs numpy alone.

A case has its sizes twice, as compared on a GPU and small for trial runs.  ResNet-50 and GPT-2 are built here; the others are files
of models/.
"""
import pathlib

import numpy as np

from onnx_file import FLOAT, INT64, Net

ROOT = pathlib.Path(__file__).resolve().parents[1]
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
        "options": {"optimizer": "adamw", "weight-decay": "0.1", "beta2": "0.95", "lr": "0.0003", "loss": "output:loss"},
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


def gpt2(length, layers, width, heads, vocabulary, **_):
    """Radford et al. 2019: pre-norm, GELU by tanh, tied embedding, no dropout; computes its own loss.  Weights of linear layers
    are [in, out]."""
    net, std, head = Net("gpt2"), 0.02, width // heads
    tokens, targets = net.input("tokens", INT64, ["batch", length]), net.input("targets", INT64, ["batch", length])
    wte = net.normal("wte.weight", (vocabulary, width), std)
    x = net.op("Add", net.op("Gather", wte, tokens, axis=0), net.normal("wpe.weight", (length, width), std))
    causal, masked, scale = net.const(np.tril(np.ones((length, length))), np.bool_), net.const(-1e9), net.const(head ** -0.5)
    split_heads, merge_heads, thirds = net.ints(0, 0, heads, head), net.ints(0, 0, width), net.ints(width, width, width)

    def norm(x, name):
        return net.op("LayerNormalization", x, net.param(f"{name}.weight", np.ones(width)), net.param(f"{name}.bias", np.zeros(width)),
                      name=name, axis=-1, epsilon=1e-5)

    def linear(x, name, cin, cout, std=std):
        y = net.op("MatMul", x, net.normal(f"{name}.weight", (cin, cout), std))
        return net.op("Add", y, net.param(f"{name}.bias", np.zeros(cout)), name=name)

    def attention(x, name):
        parts = net.op("Split", linear(x, f"{name}.c_attn", width, 3 * width), thirds, n_out=3, axis=2)
        q, k, v = [net.op("Reshape", p, split_heads) for p in parts]
        q, k, v = [net.op("Transpose", t, perm=perm) for t, perm in ((q, [0, 2, 1, 3]), (k, [0, 2, 3, 1]), (v, [0, 2, 1, 3]))]
        scores = net.op("Where", causal, net.op("Mul", net.op("MatMul", q, k), scale), masked)
        y = net.op("Transpose", net.op("MatMul", net.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        return linear(net.op("Reshape", y, merge_heads), f"{name}.c_proj", width, width, std / (2 * layers) ** 0.5)

    for i in range(layers):
        x = net.op("Add", x, attention(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn"))
        y = net.op("Gelu", linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc", width, 4 * width), approximate="tanh")
        x = net.op("Add", x, linear(y, f"h.{i}.mlp.c_proj", 4 * width, width, std / (2 * layers) ** 0.5))
    logits = net.op("MatMul", norm(x, "ln_f"), net.op("Transpose", wte, perm=[1, 0]))
    net.op("SoftmaxCrossEntropyLoss", net.op("Reshape", logits, net.ints(-1, vocabulary)), net.op("Reshape", targets, net.ints(-1)), name="loss")
    net.output("loss", [])
    return net


def model_file(case, sizes, folder):
    """The path of the ONNX file, which is written if it has to be."""
    if case not in ("resnet50", "gpt2"):
        return ROOT / f"models/{case}.onnx"
    path = pathlib.Path(folder) / f"{case}.onnx"
    if not path.exists():
        {"resnet50": resnet50, "gpt2": gpt2}[case](**sizes).save(path)
    return path


def batches(case, sizes, count=2):
    """Batches of random data: the model's input and the target, by name."""
    rng, n = np.random.default_rng(1), sizes["batch"]
    for _ in range(count):
        if case == "gpt2":
            t = rng.integers(0, sizes["vocabulary"], (n, sizes["length"] + 1))
            yield {"tokens": np.ascontiguousarray(t[:, :-1]), "targets": np.ascontiguousarray(t[:, 1:])}
        elif case == "mlp":
            yield {"x": rng.standard_normal((n, 64), dtype=np.float32), "target": rng.integers(0, 10, n)}
        else:
            shape, classes = ((1, 28, 28), 10) if case == "fashion_cnn" else ((3, sizes["size"], sizes["size"]), sizes["classes"])
            yield {"image": rng.standard_normal((n, *shape), dtype=np.float32), "target": rng.integers(0, classes, n)}
