#!/usr/bin/env python3
"""Makes the hand-built models of this folder.  Needs numpy and onnx; the same bytes every time.

    make_models.py [--out DIR] [NAME ...]
"""
import argparse
import pathlib

import numpy as np
import onnx

from builder import INT64, Net


def mlp(width=64, hidden=(128, 64), classes=10):
    net = Net("mlp", seed=1)
    x, n = net.input("x", [width]), width
    for i, h in enumerate(hidden, 1):
        x, n = net.relu(net.gemm(x, f"fc{i}", n, h)), h
    net.gemm(x, f"fc{len(hidden) + 1}", n, classes, out="logits")
    net.output("logits", [classes])
    return net.model()


def fashion_cnn(widths=(16, 32, 64), classes=10):
    net = Net("fashion_cnn", seed=2, bn_bias=0.1)
    x, n = net.input("image", [1, 28, 28]), 1
    for i, c in enumerate(widths, 1):
        x, n = net.pool(net.relu(net.conv_bn(x, i, n, c))), c
    net.gemm(net.op("Flatten", x), "fc", n * 9, classes, out="logits")
    net.output("logits", [classes])
    return net.model()


def resnet20(widths=(16, 32, 64), blocks=3, classes=10):
    """He et al. 2015, section 4.2; the shortcuts that change the shape are 1x1 convolutions.  Residual branches start
    small (their last batch-norm's weight): near zero, as is usual, but with a gradient from the first step."""
    net = Net("resnet20", seed=3, bn_bias=0.1)
    x, n = net.relu(net.conv_bn(net.input("image", [3, 32, 32]), 1, 3, widths[0])), widths[0]
    for s, c in enumerate(widths, 1):
        for b in range(1, blocks + 1):
            stride = 2 if c != n else 1
            y = net.relu(net.conv_bn(x, f"{s}_{b}a", n, c, stride=stride))
            y = net.conv_bn(y, f"{s}_{b}b", c, c, gain=0.2)
            shortcut = net.conv_bn(x, f"{s}_{b}s", n, c, k=1, stride=stride) if c != n else x
            x, n = net.relu(net.op("Add", y, shortcut)), c
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    net.gemm(x, "fc", n, classes, out="logits")
    net.output("logits", [classes])
    return net.model()


def transformer(vocab=256, length=64, width=128, heads=4, layers=5):
    """A decoder-only transformer, pre-norm, GPT-2's initialisation; logits have the class axis 1."""
    net, std, head = Net("transformer", seed=4), 0.02, width // heads
    tokens = net.input("tokens", [length], INT64)
    embedding = net.normal("embedding.weight", (vocab, width), std)
    x = net.op("Gather", embedding, tokens, axis=0)
    x = net.op("Add", x, net.normal("position.weight", (length, width), std))
    causal = net.const(np.tril(np.ones((length, length))), bool)
    masked, scale = net.const(-1e9), net.const(head ** -0.5)
    split_heads, merge_heads = net.ints(0, 0, heads, head), net.ints(0, 0, width)

    def attention(x, name):
        qkv = net.op("MatMul", x, net.normal(f"{name}.qkv.weight", (width, 3 * width), std))
        q, k, v = [net.op("Reshape", net.op("Add", part, net.param(f"{name}.{w}.bias", np.zeros(width))), split_heads)
                   for w, part in zip("qkv", net.op("Split", qkv, net.ints(width, width, width), n_out=3, axis=2))]
        q, v = [net.op("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v)]
        scores = net.op("Mul", net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 3, 1])), scale)
        p = net.op("Softmax", net.op("Where", causal, scores, masked), axis=-1)
        y = net.op("Transpose", net.op("MatMul", p, v), perm=[0, 2, 1, 3])
        return net.linear(net.op("Reshape", y, merge_heads), f"{name}.out", width, width, std / (2 * layers) ** 0.5)

    for i in range(layers):
        x = net.op("Add", x, attention(net.layer_norm(x, f"{i}.norm1", width), f"{i}.attention"))
        y = net.gelu(net.linear(net.layer_norm(x, f"{i}.norm2", width), f"{i}.fc1", width, 4 * width, std))
        x = net.op("Add", x, net.linear(y, f"{i}.fc2", 4 * width, width, std / (2 * layers) ** 0.5))
    x = net.op("MatMul", net.layer_norm(x, "norm", width), net.op("Transpose", embedding, perm=[1, 0]))
    net.op("Transpose", x, out="logits", perm=[0, 2, 1])
    net.output("logits", [vocab, length])
    return net.model()


def unet(widths=(12, 24, 48), classes=2):
    """Convolutions keep their bias in front of batch-norm, as many published U-Nets do: its exact gradient is zero."""
    net = Net("unet", seed=5, bn_bias=0.1)
    x, n, skips = net.input("image", [3, 64, 64]), 3, []

    def double(x, name, n, c):
        for half in "ab":
            x, n = net.relu(net.conv_bn(x, f"_{name}{half}", n, c, bias=True)), c
        return x

    for i, c in enumerate(widths[:-1], 1):
        skips.append((double(x, f"down{i}", n, c), c))
        x, n = net.pool(skips[-1][0]), c
    x, n = double(x, "bottom", n, widths[-1]), widths[-1]
    for i, (skip, c) in reversed(list(enumerate(skips, 1))):
        x, n = double(net.op("Concat", skip, net.upsample2(x), axis=1), f"up{i}", n + c, c), c
    net.conv(x, "conv_out", n, classes, k=1, bias=True, out="logits")
    net.output("logits", [classes, 64, 64])
    return net.model()


def gan(noise=16, width=32):
    """Radford et al. 2015, for images of 8x8: `generator.*` makes images of noise, `discriminator.*` is called on images and on those.
    Its outputs are what each of the two makes small (`d_loss` and `g_loss`, of each sample) and the images (`made`)."""
    net = Net("gan", seed=6, bn_bias=0.1)
    shape = lambda *dims: net.ints(-1, *dims)

    def up(x, name, cin, cout, out=None):
        w = net.normal(f"{name}.weight", (cin, cout, 4, 4), (1 / (cin * 4)) ** 0.5)
        return net.op("ConvTranspose", x, w, name=name, out=out, kernel_shape=[4, 4], strides=[2, 2], pads=[1] * 4)

    def down(x, name, of):
        return net.op("Conv", x, f"{name}.weight", name=f"{name}.{of}", kernel_shape=[4, 4], strides=[2, 2], pads=[1] * 4)

    def discriminate(x, of):
        x = net.op("LeakyRelu", down(x, "discriminator.conv1", of), alpha=0.2)
        x = net.op("BatchNormalization", down(x, "discriminator.conv2", of),
                   *[f"discriminator.bn2.{what}" for what in ("weight", "bias", "running_mean", "running_var")],
                   name=f"discriminator.bn2.{of}", epsilon=1e-5, momentum=0.9)
        x = net.op("Flatten", net.op("LeakyRelu", x, alpha=0.2))
        return net.op("Gemm", x, "discriminator.fc.weight", "discriminator.fc.bias", name=f"discriminator.fc.{of}", transB=1)

    z, image = net.input("z", [noise]), net.input("image", [1, 8, 8])
    x = net.op("Reshape", net.gemm(z, "generator.fc", noise, width * 4), shape(width, 2, 2))
    x = net.relu(net.bn(x, "generator.bn0", width))
    x = net.relu(net.bn(up(x, "generator.up1", width, width // 2), "generator.bn1", width // 2))
    made = net.op("Tanh", up(x, "generator.up2", width // 2, 1), out="made")
    net.normal("discriminator.conv1.weight", (width // 2, 1, 4, 4), 0.3)
    net.normal("discriminator.conv2.weight", (width, width // 2, 4, 4), 0.08)
    for what, start in {"weight": np.ones(width), "bias": 0.1 * net.rng.standard_normal(width), "running_mean": np.zeros(width),
                        "running_var": np.ones(width)}.items():
        net.param(f"discriminator.bn2.{what}", start)
    net.normal("discriminator.fc.weight", (1, width * 4), 0.1)
    net.param("discriminator.fc.bias", np.zeros(1))
    real, false = discriminate(image, "image"), discriminate(made, "made")
    of_real, of_false = net.op("Softplus", net.op("Neg", real)), net.op("Softplus", false)      # -log D, -log (1 - D)
    net.op("Add", of_real, of_false, out="d_loss")
    net.op("Softplus", net.op("Neg", false), out="g_loss")
    net.output("d_loss", [1])
    net.output("g_loss", [1])
    net.output("made", [1, 8, 8])
    return net.model()


MODELS = {f.__name__: f for f in (mlp, fashion_cnn, resnet20, transformer, unet, gan)}


def main():
    here = pathlib.Path(__file__).resolve().parent
    ap = argparse.ArgumentParser(description="Makes the hand-built models.")
    ap.add_argument("--out", type=pathlib.Path, default=here)
    ap.add_argument("name", nargs="*", choices=[[], *MODELS], help="default: all")
    args = ap.parse_args()
    for name in args.name or MODELS:
        model = MODELS[name]()
        onnx.save(model, str(args.out / f"{name}.onnx"))
        params = sum(int(np.prod(t.dims)) for t in model.graph.initializer if "running" not in t.name)
        print(f"{name}: {params} parameters, {len(model.graph.node)} nodes")


if __name__ == "__main__":
    main()
