"""The networks of the suite: small ones of the usual kinds, as users write them, drop rates 0.

Those of torchvision are torchvision's own code; where a width cannot be asked for, `narrow` divides the channels of every layer
while the network is built, so that the graph is the real one and a step is cheap.  A Net says how to build it, what it is fed, and
how dpexec is told about it.
"""
import contextlib
import dataclasses
import functools
from typing import Callable

import torch
import torchvision.models as tv
from torch import nn

import blocks
import variety
import vision

SAMPLES = 80    # 20 batches of 4
CLASSES = 10
SIZES = ("in_channels", "out_channels", "in_features", "out_features")      # what `narrow` divides


@dataclasses.dataclass
class Net:
    name: str
    build: Callable[[], nn.Module]
    data: Callable[[torch.Generator], dict]     # the model's inputs in order, samples first; "target" where the loss is not inside
    loss: str = "cross-entropy"
    flags: tuple = ()                           # dpexec's further flags
    axes: dict = dataclasses.field(default_factory=dict)    # batch axis of an input, where it is not 0
    symbol: dict = dataclasses.field(default_factory=dict)  # further symbolic dimensions of inputs
    lr: float = 1e-3
    opset: int = 17                             # of the legacy exporter
    exports: dict = dataclasses.field(default_factory=dict) # further flags for one exporter's file, such as those its warnings name


NETS = {}


def net(data, name=None, **more):
    """Registers a function that builds a module under its own name."""
    def add(build):
        key = name or build.__name__
        NETS[key] = Net(key, build, data, **more)
        return build
    return add


# ---- data ----

def images(size=64, channels=3, samples=SAMPLES):
    def make(g):
        return {"image": torch.randn(samples, channels, size, size, generator=g),
                "target": torch.randint(CLASSES, (samples,), generator=g)}
    return make


def masks(size=32, classes=4):
    """Images, and a class for every pixel."""
    def make(g):
        return {"image": torch.randn(SAMPLES, 3, size, size, generator=g),
                "target": torch.randint(classes, (SAMPLES, size, size), generator=g)}
    return make


def boxed(g):
    """Images, a box in each and a class."""
    data = images(32)(g)
    corner, size = 20 * torch.rand(SAMPLES, 2, generator=g), 4 + 10 * torch.rand(SAMPLES, 2, generator=g)
    return {"image": data["image"], "boxes": torch.cat([corner, corner + size], 1), "target": data["target"]}


def tokens(length, vocabulary):
    """Token numbers, and the token that follows each."""
    def make(g):
        ids = torch.randint(vocabulary, (SAMPLES, length + 1), generator=g)
        return {"ids": ids[:, :-1].contiguous(), "target": ids[:, 1:].contiguous()}
    return make


def padded(g, length=12, vocabulary=30):
    """Sentences of unequal length with a mask of what is there, and a class."""
    n = torch.randint(3, length + 1, (SAMPLES, 1), generator=g)
    mask = (torch.arange(length)[None] < n).long()
    ids = torch.randint(1, vocabulary, (SAMPLES, length), generator=g) * mask
    return {"ids": ids, "mask": mask, "target": torch.randint(CLASSES, (SAMPLES,), generator=g)}


def pairs(g):
    return {"image": torch.randn(SAMPLES, 3, 16, 16, generator=g), "text": torch.randn(SAMPLES, 24, generator=g)}


def dice_data(g):
    return {"image": torch.randn(SAMPLES, 3, 16, 16, generator=g),
            "wanted": (torch.rand(SAMPLES, 1, 16, 16, generator=g) < 0.3).float()}


def rows(g):
    return {"x": torch.randn(SAMPLES, 12, generator=g), "target": torch.randn(SAMPLES, 3, generator=g)}


def series(name="x", length=12, width=16):
    def make(g):
        return {name: torch.randn(SAMPLES, length, width, generator=g), "target": torch.randint(CLASSES, (SAMPLES,), generator=g)}
    return make


def itself(g, height=16, width=16):
    x = torch.rand(SAMPLES, 1, height, width, generator=g)
    return {"image": x, "target": x.clone()}


def odd(*shape):
    """Images, or volumes, of this shape, and a class."""
    def make(g):
        return {"image": torch.randn(SAMPLES, *shape, generator=g), "target": torch.randint(CLASSES, (SAMPLES,), generator=g)}
    return make


def found(g):
    """Images, a box in each, and its class."""
    data = boxed(g)
    return {"image": data["image"], "boxes": data["boxes"], "kind": data["target"] % 5}


def noised(g):
    """Noised images, how far the noise has come, and the noise."""
    noise, step = torch.randn(SAMPLES, 3, 16, 16, generator=g), torch.randint(1000, (SAMPLES,), generator=g)
    kept = (step / 1000)[:, None, None, None]
    return {"image": torch.randn(SAMPLES, 3, 16, 16, generator=g) * kept.sqrt() + noise * (1 - kept).sqrt(), "step": step, "target": noise}


def moved(g):
    """Images, and the same a little to the side."""
    x = torch.rand(SAMPLES, 1, 15, 18, generator=g)
    return {"image": x, "target": x.roll((1, -1), (2, 3))}


def translated(g):
    """Sentences of unequal length with a mask, what was said of them so far, and the words that follow."""
    source, words = padded(g), torch.randint(20, (SAMPLES, 9), generator=g)
    return {"ids": source["ids"], "mask": source["mask"], "said": words[:, :-1].contiguous(), "target": words[:, 1:].contiguous()}


def molecules(g, atoms=7, edges=9):
    """Kinds of atoms, edges between them, and a class."""
    draw = lambda below, *shape: torch.randint(below, (SAMPLES, *shape), generator=g)
    return {"kinds": draw(6, atoms), "sources": draw(atoms, edges), "targets": draw(atoms, edges), "target": draw(CLASSES)}


def waves(g):
    return {"wave": torch.randn(SAMPLES, 70, generator=g), "target": torch.randint(CLASSES, (SAMPLES,), generator=g)}


# ---- torchvision ----

@contextlib.contextmanager
def narrow(by):
    """While it lasts, layers are built with their channels divided by `by` (those of images and classes stay)."""
    def less(c):
        return c if not isinstance(c, int) or c < 16 else max(c // by, 4)

    def divided(init, n_sizes):
        @functools.wraps(init)
        def make(self, *args, **kw):
            each = kw.get("groups") in (kw.get("in_channels", args[0] if args else None), None)     # a channel each, or no groups
            kw = {k: less(v) if k in SIZES or k == "groups" and each else v for k, v in kw.items()}
            return init(self, *map(less, args[:n_sizes]), *args[n_sizes:], **kw)
        return make

    kept = [(c, c.__init__) for c in (nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.Linear, nn.Conv3d, nn.BatchNorm3d)]
    for cls, init in kept:
        cls.__init__ = divided(init, 1 if cls in (nn.BatchNorm2d, nn.BatchNorm3d) else 2)
    try:
        yield
    finally:
        for cls, init in kept:
            cls.__init__ = init


@net(images())
def resnet18():
    with narrow(4):
        return tv.resnet18(num_classes=CLASSES)


@net(images())
def resnet50():
    with narrow(8):
        return tv.resnet50(num_classes=CLASSES)


@net(images())
def mobilenet_v2():
    return tv.mobilenet_v2(num_classes=CLASSES, width_mult=0.25, dropout=0.0)


@net(images())
def mobilenet_v3():
    with narrow(4):
        return tv.mobilenet_v3_small(num_classes=CLASSES, dropout=0.0)


@net(images())
def efficientnet_b0():
    with narrow(4):
        return tv.efficientnet_b0(num_classes=CLASSES, dropout=0.0, stochastic_depth_prob=0.0)


@net(images())
def densenet121():
    return tv.DenseNet(growth_rate=6, block_config=(6, 12, 24, 16), num_init_features=12, num_classes=CLASSES, drop_rate=0)


@net(images())
def googlenet():
    with narrow(4):
        return tv.GoogLeNet(num_classes=CLASSES, aux_logits=False, init_weights=False, dropout=0.0)


@net(images())
def shufflenet_v2():
    return tv.ShuffleNetV2([4, 8, 4], [12, 16, 32, 64, 64], num_classes=CLASSES)


@net(images())
def squeezenet():
    with narrow(4):
        return tv.squeezenet1_1(num_classes=CLASSES, dropout=0.0)


@net(images())
def vgg11_bn():
    with narrow(8):
        features = tv.vgg.make_layers([64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"], batch_norm=True)
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


@net(images())
def regnet():
    with narrow(4):
        return tv.regnet_y_400mf(num_classes=CLASSES)


@net(images())
def convnext():
    setting = tv.convnext.CNBlockConfig
    return tv.ConvNeXt([setting(16, 32, 2), setting(32, 64, 2), setting(64, None, 1)], num_classes=CLASSES,
                       stochastic_depth_prob=0.0, layer_scale=0.5)


@net(images(32))
def vit():
    return tv.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64,
                                num_classes=CLASSES)


@net(images(32))
def swin():
    return tv.SwinTransformer(patch_size=[2, 2], embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4],
                              num_classes=CLASSES, stochastic_depth_prob=0.0)


class First(nn.Module):
    """torchvision's segmentation models answer with a dictionary; what is trained is its first entry."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        return self.model(image)["out"]


@net(masks(64))
def fcn():
    with narrow(8):
        return First(tv.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=4)).apply(blocks.no_dropout)


@net(masks(64))
def deeplab():
    with narrow(8):
        return First(tv.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=4)).apply(blocks.no_dropout)


# ---- written here, as users do (blocks.py, vision.py, variety.py) ----

NETS.update({n.name: n for n in [
    Net("unet", lambda: blocks.UNet(False), masks()),
    Net("unet_bilinear", lambda: blocks.UNet(True), masks()),
    Net("regions", blocks.RegionHead, boxed),
    Net("gpt_ntv", lambda: blocks.Gpt(16, 16, last=True), tokens(16, 16), flags=("--class-axis", "2")),
    Net("gpt_nvt", lambda: blocks.Gpt(20, 12, last=False), tokens(12, 20)),
    Net("llama", lambda: blocks.Llama(20, 12), tokens(12, 20)),
    Net("bert", lambda: blocks.Bert(30, 12), padded),
    Net("encoder", blocks.TorchEncoder, series(length=10, width=32)),
    Net("sequence_first", blocks.SequenceFirst, series(length=10, width=32), axes={"x": 1}, flags=("--batch-input", "x:1")),
    Net("mixer", blocks.Mixer, images(32)),
    Net("groupnorm", blocks.group_norm_net, images(32)),
    Net("instancenorm", blocks.instance_norm_net, images(32)),
    Net("memory", blocks.Memory, series()),
    Net("tcn", blocks.temporal_net, series()),
    Net("lstm", lambda: blocks.Words(nn.LSTM, 2), tokens(12, 20)),
    Net("lstm_both", lambda: blocks.Words(nn.LSTM, 1, True), tokens(12, 20)),
    Net("gru", lambda: blocks.Words(nn.GRU, 2), tokens(12, 20)),
    Net("gru_both", lambda: blocks.Words(nn.GRU, 1, True), tokens(12, 20)),
    Net("rnn", lambda: blocks.Words(nn.RNN, 2), tokens(12, 20)),
    Net("tabular", blocks.tabular_net, rows, loss="mse"),
    Net("autoencoder", blocks.autoencoder, itself, loss="mse"),
    Net("contrastive", blocks.Contrastive, pairs, loss="output:loss"),
    Net("dice", blocks.Dice, dice_data, loss="output:loss"),
    Net("yolo", vision.Yolo, found, loss="output:loss"),
    Net("deformable", vision.Deformable, odd(3, 21, 18), opset=19),
    Net("diffusion", vision.Diffusion, noised, loss="mse"),
    Net("transformer", lambda: vision.Transformer("bilinear", "zeros", False), odd(3, 16, 32), opset=20),
    Net("transformer_border", lambda: vision.Transformer("bilinear", "border", True, (21, 18)), odd(3, 21, 18), opset=20),
    Net("transformer_cubic", lambda: vision.Transformer("bicubic", "reflection", False), odd(3, 16, 32), opset=20),
    Net("flow", lambda: vision.Flow("bilinear", "reflection", True), moved, loss="mse"),
    Net("flow_cubic", lambda: vision.Flow("bicubic", "zeros", True), moved, loss="mse"),
    Net("einsum", variety.EinsumAttention, series(length=12, width=16)),
    Net("edges", variety.edges, odd(3, 19, 16)),
    Net("sizes", variety.Sizes, odd(3, 9, 8), opset=18),
    Net("sizes_old", variety.SizesOld, odd(3, 9, 8)),
    Net("pools", variety.pools, odd(3, 21, 18)),
    Net("transposed", variety.transposed, functools.partial(itself, height=13, width=14), loss="mse"),
    Net("volumes", variety.volumes, odd(1, 7, 13, 10)),
    Net("shuffle", variety.Shuffle, itself, loss="mse"),
    Net("windows", variety.Windows, odd(3, 9, 10), opset=18),
    Net("spectrum", variety.Spectrum, waves),
    Net("fourier", variety.Fourier, series(length=18, width=4)),
    Net("translator", variety.Translator, translated),
    Net("experts", variety.Experts, rows, loss="mse"),
    Net("messages", variety.Messages, molecules),
    Net("functions", variety.Functions, series(length=12, width=16)),
]})
