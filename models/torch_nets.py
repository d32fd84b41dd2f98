"""The PyTorch modules behind the exported_*.onnx models; tests/oracle trains the same modules."""
import torch
from torch import nn


def conv_bn(cin, cout, k=3, stride=1, groups=1):
    return [nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(cout)]


class Block(nn.Module):
    """ResNet's basic block."""

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.body = nn.Sequential(*conv_bn(cin, cout, stride=stride), nn.ReLU(), *conv_bn(cout, cout))
        self.shortcut = nn.Sequential(*conv_bn(cin, cout, 1, stride)) if stride > 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


class Inverted(nn.Module):
    """MobileNetV2's inverted residual: expand, depthwise, project."""

    def __init__(self, cin, cout, stride, expand=3):
        super().__init__()
        c = cin * expand
        self.body = nn.Sequential(*conv_bn(cin, c, 1), nn.ReLU6(), *conv_bn(c, c, 3, stride, c), nn.ReLU6(),
                                  *conv_bn(c, cout, 1))
        self.residual = stride == 1 and cin == cout

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class EncoderLayer(nn.Module):
    """A post-norm transformer encoder layer, written as users write it: sizes are read from x."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = [nn.Linear(width, width) for _ in range(4)]
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = [f(x).view(b, t, self.heads, c // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v)]
        p = torch.softmax(q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5, dim=-1)
        x = self.norm1(x + self.out((p @ v).transpose(1, 2).reshape(b, t, c)))
        return self.norm2(x + self.ff(x))


class Encoder(nn.Module):
    """A classifier of images cut in 4x4 patches (a small ViT, mean pooled)."""

    def __init__(self, width=64, heads=4, layers=2, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.position = nn.Parameter(torch.randn(1, 64, width) * 0.02)
        self.layers = nn.Sequential(*[EncoderLayer(width, heads) for _ in range(layers)])
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.position
        return self.fc(self.layers(x).mean(1))


def resnet(dropout=0.2):
    return nn.Sequential(*conv_bn(3, 16), nn.ReLU(), Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(64, 10))


def mobilenet():
    return nn.Sequential(*conv_bn(3, 16, 3, 2), nn.ReLU6(), Inverted(16, 16, 1), Inverted(16, 24, 2),
                         Inverted(24, 24, 1), Inverted(24, 32, 2), *conv_bn(32, 64, 1), nn.ReLU6(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def folded():
    """As a user's trained network is: batch-norm has seen data, so that the exporter folds it into the convolutions."""
    net = nn.Sequential(*conv_bn(3, 16), nn.ReLU(), nn.MaxPool2d(2), Block(16, 32, 2), Block(32, 32, 1),
                        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10))
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.normal_(m.running_mean, 0, 0.3)
            nn.init.uniform_(m.running_var, 0.5, 2)
            nn.init.uniform_(m.weight, 0.5, 1.5)
            nn.init.normal_(m.bias, 0, 0.2)
    return net


def encoder():
    return Encoder()


def make(build):
    """The module with its initial weights.  Biases of batch-norm start small, not zero (builder.py says why)."""
    torch.manual_seed(len(build.__name__))
    net = build()
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d) and not m.bias.any():
            nn.init.normal_(m.bias, 0, 0.1)
    return net
