"""BUILD [NETWORK...]: the gradients that graph-transform --gradient-of writes, by ONNX Runtime, against PyTorch's autograd.

Networks of torchvision, with random weights and statistics, in evaluation mode: the gradients of the outputs, weighed by random
numbers, by the image and by a few parameters, relative by norm to PyTorch's in float64; the distance of PyTorch's float32 stands
behind.  The files are for batches of any size, and used at three.  Where rounding turns over a decision of Relu, in one or the other, a whole path more or less counts: each is the median of
three draws of weights and images, one for each size."""
import copy
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
import torch
import torchvision.models as models

TOLERANCE, SIZES = 1e-5, (2, 1, 5)
NETWORKS = {
    "resnet18": (lambda: models.resnet18(weights=None), 64, ["conv1.weight", "bn1.weight", "layer3.0.conv1.weight", "fc.bias"]),
    "mobilenet_v3": (lambda: models.mobilenet_v3_small(weights=None), 64, ["features.0.0.weight", "classifier.3.weight"]),
    "shufflenet": (lambda: models.shufflenet_v2_x0_5(weights=None), 64, ["conv1.0.weight", "fc.weight"]),
    "convnext": (lambda: models.convnext_tiny(weights=None), 64, ["features.0.0.weight", "classifier.2.weight"]),
    "vit": (lambda: models.VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=10), 32, ["conv_proj.weight", "heads.head.weight"]),
    "unet": (lambda: UNet(), 32, ["down.0.weight", "up.1.weight"]),
    "fcn": (lambda: FCN(), 64, ["net.classifier.0.weight", "net.backbone.conv1.weight"]),
}


class UNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        conv, norm, relu = torch.nn.Conv2d, torch.nn.BatchNorm2d, torch.nn.ReLU
        self.down = torch.nn.Sequential(conv(3, 8, 3, padding=1), norm(8), relu())
        self.up = torch.nn.Sequential(torch.nn.MaxPool2d(2), conv(8, 16, 3, padding=1), norm(16), relu(),
                                      torch.nn.Upsample(scale_factor=2, mode="bilinear"))
        self.out = conv(24, 2, 3, padding=1)

    def forward(self, x):
        x = self.down(x)
        return self.out(torch.cat([x, self.up(x)], 1))


class FCN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = models.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=4)

    def forward(self, x):
        return self.net(x)["out"]


def randomise(module):
    for p in module.parameters():
        torch.nn.init.kaiming_normal_(p) if p.dim() > 1 else p.data.add_(0.2 * torch.randn_like(p))
    for b in module.buffers():
        if b.dtype.is_floating_point:
            b.data.add_(0.3 * torch.rand_like(b))


def autograd(module, x, seed, parameters):
    x = x.clone().requires_grad_()
    (module(x) * seed).sum().backward()
    return {"x": x.grad.numpy()} | {n: p.grad.numpy() for n, p in module.named_parameters() if n in parameters}


def distance(found, expected):
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def distances(build, name, draw):
    """-> by name: of ONNX Runtime, of PyTorch."""
    make, size, parameters = NETWORKS[name]
    torch.manual_seed(draw)
    module = make().eval()
    randomise(module)
    x = torch.randn(SIZES[draw], 3, size, size)
    seed = torch.randn_like(module(x))
    expected = autograd(copy.deepcopy(module).double(), x.double(), seed.double(), parameters)
    theirs = autograd(copy.deepcopy(module), x, seed, parameters)
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(module, (torch.randn(2, 3, size, size),), f"{folder}/model.onnx", input_names=["x"], output_names=["y"],
                          dynamo=True, optimize=False, verbose=False)
        subprocess.run([f"{build}/graph-transform", f"{folder}/model.onnx", "--gradient-of", "y", "--with-respect-to", ",".join(expected),
                        "-o", f"{folder}/gradients.onnx"], check=True)
        session = onnxruntime.InferenceSession(f"{folder}/gradients.onnx", providers=["CPUExecutionProvider"])
        found = session.run([f"{n}.grad" for n in expected], {"x": x.numpy(), "seed": seed.numpy()})
    return {n: (distance(f, expected[n]), distance(theirs[n], expected[n])) for n, f in zip(expected, found, strict=True)}


def check(build, name):
    draws = [distances(build, name, d) for d in range(len(SIZES))]
    apart = {n: np.median([d[n] for d in draws], axis=0) for n in draws[0]}
    print(f"{name}:", ", ".join(f"{n} {ours:.1e} ({theirs:.1e})" for n, (ours, theirs) in apart.items()), flush=True)
    return any(ours > TOLERANCE for ours, _ in apart.values())


onnxruntime.set_default_logger_severity(3)
wrong = [n for n in sys.argv[2:] or NETWORKS if check(sys.argv[1], n)]
sys.exit(f"differ by more than {TOLERANCE}: {', '.join(wrong)}" if wrong else 0)
