"""Networks of images that answer with more than a class: detection, diffusion, warping, sampling where the network says.

Written the way users write them, small, with odd sizes where a network takes any.
"""
import math

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

import blocks


# ---- detection ----

class Yolo(nn.Module):
    """YOLO's parts: C2f blocks, SPPF, two scales joined upwards, distances to a box's sides as distributions over bins; ends in its
    loss: one box an image, found by the points inside it, by IoU with centre distance and aspect (CIoU), and the class."""

    class Conv(nn.Sequential):
        def __init__(self, cin, cout, k=1, stride=1):
            super().__init__(nn.Conv2d(cin, cout, k, stride, k // 2, bias=False), nn.BatchNorm2d(cout, eps=1e-3, momentum=0.03), nn.SiLU())

    class C2f(nn.Module):
        def __init__(self, cin, cout, shortcut=True):
            super().__init__()
            w = cout // 2
            self.shortcut = shortcut
            self.first, self.last = Yolo.Conv(cin, cout), Yolo.Conv(3 * w, cout)
            self.block = nn.Sequential(Yolo.Conv(w, w, 3), Yolo.Conv(w, w, 3))

        def forward(self, x):
            a, b = self.first(x).chunk(2, 1)
            c = self.block(b)
            return self.last(torch.cat([a, b, b + c if self.shortcut else c], 1))

    class Sppf(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.first, self.last = Yolo.Conv(c, c // 2), Yolo.Conv(2 * c, c)
            self.pool = nn.MaxPool2d(5, 1, 2)

        def forward(self, x):
            x = [self.first(x)]
            x.extend(self.pool(x[-1]) for _ in range(3))
            return self.last(torch.cat(x, 1))

    def __init__(self, classes=5, bins=4, size=32, w=8):
        super().__init__()
        self.bins, self.classes = bins, classes
        self.stem = nn.Sequential(Yolo.Conv(3, w, 3, 2), Yolo.Conv(w, w, 3, 2), Yolo.C2f(w, w))
        self.deep = nn.Sequential(Yolo.Conv(w, 2 * w, 3, 2), Yolo.C2f(2 * w, 2 * w), Yolo.Sppf(2 * w))
        self.up, self.join = nn.Upsample(scale_factor=2, mode="nearest"), Yolo.C2f(3 * w, w, False)
        self.down, self.join_deep = Yolo.Conv(w, w, 3, 2), Yolo.C2f(3 * w, 2 * w, False)
        self.heads = nn.ModuleList([nn.Conv2d(c, 4 * bins + classes, 1) for c in (w, 2 * w)])
        points, strides = [], []
        for stride in (4, 8):
            at = (torch.arange(size // stride) + 0.5) * stride
            points.append(torch.stack(torch.meshgrid(at, at, indexing="xy"), -1).reshape(-1, 2))
            strides.append(torch.full((len(points[-1]),), float(stride)))
        self.register_buffer("points", torch.cat(points))
        self.register_buffer("strides", torch.cat(strides)[:, None])
        self.register_buffer("distances", torch.arange(float(bins)))

    def ciou(self, a, b):
        (ax, ay), (bx, by) = [(t[..., 2:] - t[..., :2]).unbind(-1) for t in (a, b)]
        shared = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
        iou = shared / (ax * ay + bx * by - shared + 2.0 ** -20)
        around = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).pow(2).sum(-1)
        apart = ((a[..., 2:] + a[..., :2] - b[..., 2:] - b[..., :2]) / 2).pow(2).sum(-1)
        v = 0.40625 * (torch.atan(bx / by) - torch.atan(ax / ay)).pow(2)
        return iou - apart / around - v * v / (v - iou + 1 + 2.0 ** -10)

    def forward(self, image, boxes, kind):
        fine = self.stem(image)
        deep = self.deep(fine)
        fine = self.join(torch.cat([self.up(deep), fine], 1))
        deep = self.join_deep(torch.cat([self.down(fine), deep], 1))
        out = torch.cat([h(x).flatten(2) for h, x in zip(self.heads, (fine, deep))], 2).transpose(1, 2)
        sides, scores = out.split([4 * self.bins, self.classes], 2)
        sides = (sides.unflatten(2, (4, self.bins)).softmax(-1) @ self.distances + 0.5) * self.strides
        found = torch.cat([self.points - sides[..., :2], self.points + sides[..., 2:]], -1)
        wanted = boxes[:, None]
        inside = ((self.points > wanted[..., :2]) & (self.points < wanted[..., 2:])).all(-1).to(image.dtype)
        n = inside.sum().clamp(min=1)
        box = ((1 - self.ciou(found, wanted)) * inside).sum() / n
        labels = F.one_hot(kind, self.classes).to(image.dtype)[:, None] * inside[..., None]
        return box + F.binary_cross_entropy_with_logits(scores, labels, reduction="sum") / n


class Deformable(nn.Module):
    """Convolutions that sample where a layer says, with and without weights for the samples."""

    def __init__(self):
        super().__init__()
        conv = torchvision.ops.DeformConv2d
        self.stem = blocks.conv_bn_relu(3, 8, stride=2)
        self.offset, self.mask = nn.Conv2d(8, 2 * 2 * 9, 3, 2, 1), nn.Conv2d(8, 2 * 9, 3, 2, 1)
        self.first = conv(8, 16, 3, 2, 1, groups=2)
        self.offset2, self.second = nn.Conv2d(16, 2 * 6, 1), conv(16, 12, (3, 2), padding=(2, 1), dilation=(2, 2), bias=False)
        self.out = nn.Linear(12, 10)

    def forward(self, image):
        x = self.stem(image)
        x = F.relu(self.first(x, self.offset(x), torch.sigmoid(self.mask(x))))
        return self.out(self.second(x, self.offset2(x)).relu().mean((2, 3)))


# ---- diffusion ----

class Diffusion(nn.Module):
    """The U-Net of a diffusion model: predicts the noise of an image at a time step."""

    class Block(nn.Module):
        def __init__(self, cin, cout, time):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(4, cin), nn.Conv2d(cin, cout, 3, 1, 1)
            self.time = nn.Linear(time, 2 * cout)
            self.norm2, self.conv2 = nn.GroupNorm(4, cout), nn.Conv2d(cout, cout, 3, 1, 1)
            self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

        def forward(self, x, t):
            y = self.conv1(F.silu(self.norm1(x)))
            scale, shift = self.time(F.silu(t))[:, :, None, None].chunk(2, 1)
            return self.skip(x) + self.conv2(F.silu(self.norm2(y) * (1 + scale) + shift))

    class Attention(nn.Module):
        def __init__(self, c, heads=2):
            super().__init__()
            self.heads = heads
            self.norm, self.qkv, self.out = nn.GroupNorm(4, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

        def forward(self, x):
            n, c, h, w = x.shape
            q, k, v = self.qkv(self.norm(x)).reshape(n, 3, self.heads, c // self.heads, h * w).transpose(3, 4).unbind(1)
            y = F.scaled_dot_product_attention(q, k, v)
            return x + self.out(y.transpose(2, 3).reshape(n, c, h, w))

    def __init__(self, w=16):
        super().__init__()
        self.register_buffer("rates", torch.exp(-math.log(1000.0) * torch.arange(w // 2) / (w // 2)))
        self.time = nn.Sequential(nn.Linear(w, 2 * w), nn.SiLU(), nn.Linear(2 * w, 2 * w))
        self.first = nn.Conv2d(3, w, 3, 1, 1)
        self.down = nn.ModuleList([self.Block(w, w, 2 * w), self.Block(w, 2 * w, 2 * w)])
        self.less = nn.ModuleList([nn.Conv2d(c, c, 3, 2, 1) for c in (w, 2 * w)])
        self.middle, self.attention = self.Block(2 * w, 2 * w, 2 * w), self.Attention(2 * w)
        self.more = nn.ModuleList([nn.Conv2d(2 * w, 2 * w, 3, 1, 1) for _ in range(2)])
        self.up = nn.ModuleList([self.Block(4 * w, 2 * w, 2 * w), self.Block(3 * w, w, 2 * w)])
        self.norm, self.last = nn.GroupNorm(4, w), nn.Conv2d(w, 3, 3, 1, 1)

    def forward(self, image, step):
        angle = step[:, None].to(image.dtype) * self.rates
        t = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        x, kept = self.first(image), []
        for block, less in zip(self.down, self.less):
            x = block(x, t)
            kept.append(x)
            x = less(x)
        x = self.attention(self.middle(x, t))
        for block, more in zip(self.up, self.more):
            x = more(F.interpolate(x, scale_factor=2.0, mode="nearest"))
            x = block(torch.cat([x, kept.pop()], 1), t)
        return self.last(F.silu(self.norm(x)))


# ---- warping ----

class Transformer(nn.Module):
    """A spatial transformer: a network says how the image is to be turned, scaled and moved before it is classified."""

    def __init__(self, mode, padding, align, size=(16, 32)):
        super().__init__()
        self.how = {"mode": mode, "padding_mode": padding, "align_corners": align}
        h, w = [(n // 2 - 2) // 2 - 2 for n in size]
        self.locate = nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Tanh(), nn.Flatten())
        self.theta = nn.Linear(8 * h * w, 6)
        nn.init.normal_(self.theta.weight, 0, 0.1)
        self.theta.bias.data = torch.tensor([1.0, 0.1, 0.05, -0.1, 0.9, 0.0])
        self.body = nn.Sequential(blocks.conv_bn_relu(3, 8, stride=2), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), *blocks.head(16))

    def forward(self, image):
        grid = F.affine_grid(self.theta(self.locate(image)).view(-1, 2, 3), image.size(), self.how["align_corners"])
        return self.body(F.grid_sample(image, grid, **self.how))


class Flow(nn.Module):
    """Moves every pixel by what a network says (optical flow, video prediction)."""

    def __init__(self, mode, padding, align, size=(15, 18)):
        super().__init__()
        self.how = {"mode": mode, "padding_mode": padding, "align_corners": align}
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, 1, 1), nn.Tanh(), nn.Conv2d(8, 2, 3, 1, 1))
        y, x = torch.meshgrid(*[(torch.arange(n) + 0.5) * 2 / n - 1 for n in size], indexing="ij")
        self.register_buffer("rest", torch.stack([x, y], -1)[None])

    def forward(self, image):
        return F.grid_sample(image, self.rest + self.body(image).permute(0, 2, 3, 1), **self.how)
