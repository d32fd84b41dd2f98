"""The networks that bench/cpu.py trains: sizes, targets, ONNX files, random batches, and the modules of PyTorch.

torch is imported by the functions that need it, so that a Python without torch can read the sizes."""
import dataclasses
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
IMAGE = (3, 224, 224)
DATA_BYTES = 32 << 20       # most bytes of the batches, which an epoch repeats


@dataclasses.dataclass(frozen=True)
class Case:
    """A network and the targets of its speed and memory against PyTorch's.

    steps: how many are timed, behind `warm` others.  sample: shape of one float input, or the number of tokens.
    speed: {"best": x} wants a step to be x times as fast as in PyTorch's fastest setting; "eager" and "compiled" name
    the setting.  first: seconds by which the end of the first step may come after the time of a step.  layout: order
    of a GPT's logits.  dense: a class for each position of an image."""
    batch: int
    steps: int
    classes: int
    sample: tuple | int
    speed: dict = dataclasses.field(default_factory=dict)
    memory: float = 0.6
    first: float | None = None
    layout: str | None = None
    warm: int = 2
    dense: bool = False

    @property
    def images(self):
        return isinstance(self.sample, tuple) and len(self.sample) == 3


CASES = {
    "mlp": Case(32, 3000, 10, (64,), {"best": 2}),
    "fashion_cnn": Case(32, 200, 10, (1, 28, 28), {"best": 2}),
    "resnet20": Case(32, 40, 10, (3, 32, 32), {"best": 2}),
    "lstm": Case(32, 8, 10, (100, 64), {"best": 1.2}),
    "gpt_ntv": Case(16, 6, 256, 128, {"best": 1.2}, layout="ntv"),
    "gpt_nvt": Case(16, 6, 256, 128, {"best": 1.2}, layout="nvt"),
    "resnet18": Case(16, 3, 1000, IMAGE, {"best": 1.1}),
    "resnet50": Case(16, 2, 1000, IMAGE, {"best": 1.12}, first=1, warm=1),
    "mobilenet_v2": Case(16, 4, 1000, IMAGE, {"compiled": 1.0, "eager": 1.3}),
    "unet128": Case(8, 2, 2, (3, 128, 128), {"best": 1.4}, dense=True, warm=1),
    "vgg11_bn": Case(8, 2, 1000, IMAGE, {"best": 1.6}, memory=0.75, warm=1),
    "convnext_tiny": Case(4, 3, 1000, IMAGE, {"best": 1.15}, warm=1),
    "vit_b_16": Case(4, 2, 1000, IMAGE, {"best": 1.15}, warm=1),
    "gpt2": Case(4, 2, 50257, 256, {"best": 1.3}, memory=0.75, first=2, layout="ntv", warm=1),
    "transformer": Case(16, 10, 256, 64),
    "unet": Case(8, 12, 2, (3, 64, 64), dense=True),
}
OWN = ("mlp", "fashion_cnn", "resnet20", "transformer", "unet")     # files of models/; the others are exported
WITHOUT_DROPOUT = {"vgg11_bn": {"dropout": 0.0}, "mobilenet_v2": {"dropout": 0.0},
                   "convnext_tiny": {"stochastic_depth_prob": 0.0}}


def unet(classes, width=64):
    """The U-Net of Ronneberger et al. 2015 with padding and batch-norm: 31 million parameters."""
    import torch
    from torch import nn

    def twice(cin, cout):
        return nn.Sequential(*(layer for c in (cin, cout) for layer in
                               (nn.Conv2d(c, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(True))))

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [width << i for i in range(5)]
            self.down = nn.ModuleList(twice(a, b) for a, b in zip([3, *widths], widths))
            self.up = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, 2) for c in widths[-2::-1])
            self.merge = nn.ModuleList(twice(2 * c, c) for c in widths[-2::-1])
            self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(width, classes, 1)

        def forward(self, x):
            skips = []
            for i, block in enumerate(self.down):
                x = block(self.pool(x) if i else x)
                skips.append(x)
            for up, merge, skip in zip(self.up, self.merge, skips[-2::-1]):
                x = merge(torch.cat([skip, up(x)], 1))
            return self.head(x)

    return Unet()


def lstm_classifier(width, hidden, layers, classes):
    from torch import nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.out = nn.LSTM(width, hidden, layers, batch_first=True), nn.Linear(hidden, classes)

        def forward(self, x):
            return self.out(self.lstm(x)[0][:, -1])

    return Classifier()


def gpt(case, layers, width, heads):
    """The GPT-2 of gpu_torch.py with logits [N, T, V] or [N, V, T]."""
    import gpu_torch

    class Scores(gpu_torch.Gpt2):
        def forward(self, tokens):
            scores = super().forward(tokens).unflatten(0, tokens.shape)
            return scores if case.layout == "ntv" else scores.transpose(1, 2)

    return Scores(case.sample, layers, width, heads, case.classes)


def make_net(model):
    """The module in float32; a file of models/ gives its weights, a seed those of the others."""
    import torch

    case = CASES[model]
    torch.manual_seed(0)
    if model in OWN:
        sys.path.insert(0, str(ROOT / "tests/oracle"))
        import nets

        return nets.load(f"models/{model}.onnx", torch.float32)[0]
    if model == "gpt2":
        return gpt(case, 12, 768, 12)
    if case.layout:
        return gpt(case, 6, 256, 8)
    if model == "lstm":
        return lstm_classifier(case.sample[1], 256, 2, case.classes)
    if model == "unet128":
        return unet(case.classes)
    import torchvision

    return getattr(torchvision.models, model)(num_classes=case.classes, **WITHOUT_DROPOUT.get(model, {}))


def export(model, path):
    """Writes the ONNX file of make_net(), with the legacy exporter in training mode."""
    import torch

    case = CASES[model]
    x = torch.zeros(case.batch, case.sample, dtype=torch.int64) if isinstance(case.sample, int) else torch.zeros(
        case.batch, *case.sample)
    torch.onnx.export(make_net(model).train(), (x,), path, dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, opset_version=17, input_names=["input"],
                      dynamic_axes={"input": {0: "N"}})


def path_of(model, folder):
    return ROOT / f"models/{model}.onnx" if model in OWN else pathlib.Path(folder) / f"{model}.onnx"


def input_name(model):
    if model not in OWN:
        return "input"
    import onnx

    graph = onnx.load(str(ROOT / f"models/{model}.onnx")).graph
    return next(i.name for i in graph.input if i.name not in {t.name for t in graph.initializer})


def random_samples(model, n):
    """n samples and their targets, by name of the array."""
    import numpy as np

    case, rng = CASES[model], np.random.default_rng(1)
    if isinstance(case.sample, int):
        x, target = rng.integers(0, case.classes, (n, case.sample)), rng.integers(0, case.classes, (n, case.sample))
    else:
        x = rng.standard_normal((n, *case.sample), dtype=np.float32)
        target = rng.integers(0, case.classes, (n, *case.sample[1:]) if case.dense else n)
    return {input_name(model): x, "target": target}


def make_data(model, path, steps):
    """A batch for each step, as many as DATA_BYTES hold, but two at least."""
    import numpy as np

    batch = CASES[model].batch
    each = sum(a.nbytes for a in random_samples(model, batch).values())
    np.savez(path, **random_samples(model, batch * min(steps, max(2, DATA_BYTES // each))))
