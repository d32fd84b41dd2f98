"""Networks that are made of what others rarely use: attributes, layers and functions of torch with an operator of their own.

Sizes are odd where a layer takes any, so that nothing divides.
"""
import torch
import torch.nn.functional as F
from torch import nn

import blocks


def edges():
    """What is beyond the border is mirrored, repeated, taken from the other side, or a number."""
    modes = ("reflect", "replicate", "circular", "zeros")
    convs = [nn.Conv2d(3 if not i else 8, 8, (3, 5), 1 + i % 2, (1, 2), padding_mode=m) for i, m in enumerate(modes)]
    layers = [x for c in convs for x in (c, nn.Tanh())]
    return nn.Sequential(nn.ZeroPad2d((1, 0, 2, 1)), nn.ConstantPad2d((0, 2, 0, -1), 0.25), *layers, nn.ReflectionPad2d((2, 1, 0, 1)),
                         nn.ReplicationPad2d((0, 3, 1, 0)), nn.Conv2d(8, 12, 3, padding="same", dilation=2), nn.ReLU(), *blocks.head(12))


class Sizes(nn.Module):
    """A pyramid of resized images: every mode of interpolation, up and down, to a factor and to a size."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(3 if not i else 6, 6, 3, 1, 1) for i in range(8)])
        self.out = nn.Linear(6, 10)

    def forward(self, image):
        ways = ({"scale_factor": 2.0, "mode": "nearest"}, {"size": (17, 23), "mode": "bilinear", "align_corners": True},
                {"size": (13, 11), "mode": "bilinear", "antialias": True}, {"scale_factor": (1.5, 2.0), "mode": "bicubic"},
                {"size": (16, 15), "mode": "bicubic", "align_corners": True}, {"size": (9, 20), "mode": "nearest-exact"},
                {"size": (7, 8), "mode": "bicubic", "antialias": True}, {"size": (14, 14), "mode": "nearest"})
        x = image
        for conv, how in zip(self.convs, ways):
            x = F.interpolate(torch.tanh(conv(x)), **how)
        return self.out(x.mean((2, 3)))


class SizesOld(nn.Module):
    """The same of those that every exporter writes."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(3 if not i else 6, 6, 3, 1, 1) for i in range(5)])
        self.out = nn.Linear(6, 10)

    def forward(self, image):
        ways = ({"scale_factor": 2.0, "mode": "nearest"}, {"size": (17, 23), "mode": "bilinear", "align_corners": True},
                {"scale_factor": (1.5, 2.0), "mode": "bicubic"}, {"size": (16, 15), "mode": "bicubic", "align_corners": True},
                {"size": (9, 20), "mode": "bilinear"})
        x = image
        for conv, how in zip(self.convs, ways):
            x = F.interpolate(torch.tanh(conv(x)), **how)
        return self.out(x.mean((2, 3)))


def pools():
    """Windows that overlap, hang over the border, count it or not, or are dilated; LRN between."""
    return nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), nn.LocalResponseNorm(5, 0.5, 0.75, 2.0),
                         nn.Conv2d(8, 8, 3, 1, 1), nn.MaxPool2d((3, 2), (2, 1), (1, 0), dilation=(1, 2), ceil_mode=True),
                         nn.LPPool2d(2, (2, 3), 1), nn.Conv2d(8, 12, 1), nn.AvgPool2d((2, 3), (1, 2), (1, 1)), nn.Softplus(), *blocks.head(12))


def transposed():
    """Transposed convolutions of every kind; to an image of the input's size."""
    return nn.Sequential(nn.Conv2d(1, 8, (5, 3), (3, 2), (2, 1)), nn.LeakyReLU(0.125),
                         nn.ConvTranspose2d(8, 6, (3, 4), (3, 2), (1, 1), (1, 0), groups=2), nn.Mish(),
                         nn.ConvTranspose2d(6, 4, (2, 3), 1, 1, dilation=(2, 1), bias=False), nn.GELU(), nn.Conv2d(4, 1, (2, 1)))


def volumes():
    """Three axes of space."""
    return nn.Sequential(nn.Conv3d(1, 6, 3, (1, 2, 2), 1), nn.BatchNorm3d(6), nn.ReLU(), nn.MaxPool3d((1, 2, 2)),
                         nn.Conv3d(6, 8, (3, 1, 3), 1, (1, 0, 1), groups=2), nn.InstanceNorm3d(8, affine=True), nn.ELU(),
                         nn.ConvTranspose3d(8, 4, (1, 2, 2), (1, 2, 2)), nn.AvgPool3d(2), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, 10))


class Shuffle(nn.Module):
    """Super-resolution: channels become pixels, and pixels channels."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(4, 16, 3, 1, 1), nn.PReLU(16), nn.ChannelShuffle(4),
                                  nn.Conv2d(16, 16, 3, 1, 1, groups=4), nn.GLU(1), nn.Conv2d(8, 4, 1), nn.PixelShuffle(2))

    def forward(self, image):
        return self.body(image) + image


class Windows(nn.Module):
    """Attention within overlapping windows: unfolded, and folded again."""

    def __init__(self, w=4):
        super().__init__()
        self.first, self.qkv, self.out = nn.Conv2d(3, w, 3, 1, 1), nn.Linear(w * 12, 48), nn.Linear(16, w * 12)
        self.last = nn.Linear(w, 10)

    def forward(self, image):
        x = torch.tanh(self.first(image))
        patches = F.unfold(x, (3, 4), padding=(1, 0), stride=(2, 3)).transpose(1, 2)
        q, k, v = self.qkv(patches).chunk(3, -1)
        y = self.out(torch.softmax(q @ k.transpose(1, 2) * 0.25, -1) @ v)
        x = x + F.fold(y.transpose(1, 2), image.shape[2:], (3, 4), padding=(1, 0), stride=(2, 3))
        return self.last(x.mean((2, 3)))


class Spectrum(nn.Module):
    """Classifies sounds by the magnitudes of their short-time spectra."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 1, 5, padding=2)
        self.register_buffer("window", torch.hann_window(16))
        self.body = nn.Sequential(nn.Conv1d(9, 12, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(12, 10))

    def forward(self, wave):
        x = wave + self.first(wave[:, None])[:, 0]
        s = torch.stft(x, 16, 6, window=self.window.to(x.dtype), center=False, onesided=True, return_complex=False)
        return self.body(torch.log(s.pow(2).sum(-1) + 0.0625))


class Fourier(nn.Module):
    """A Fourier layer: products of frequencies and learned numbers (FNO, GFNet)."""

    def __init__(self, length=18, width=6):
        super().__init__()
        self.first = nn.Linear(4, width)
        self.weight = nn.Parameter(torch.randn(length // 2 + 1, width, 2) * 0.3)
        self.out = nn.Linear(width, 10)

    def forward(self, x):
        y = torch.tanh(self.first(x))
        f = torch.fft.rfft(y, dim=1) * torch.view_as_complex(self.weight)
        return self.out((y + torch.fft.irfft(f, n=x.shape[1], dim=1)).relu().mean(1))


class EinsumAttention(nn.Module):
    """Attention, a bilinear form and a gate written as sums over letters."""

    def __init__(self, width=16, heads=4, d=4, classes=10):
        super().__init__()
        self.q, self.k, self.v = [nn.Parameter(torch.randn(heads, width, d) * 0.25) for _ in range(3)]
        self.o = nn.Parameter(torch.randn(heads, d, width) * 0.25)
        self.form = nn.Parameter(torch.randn(classes, width, width) * 0.125)

    def forward(self, x):
        q, k, v = [torch.einsum("ntc,hcd->nhtd", x, w) for w in (self.q, self.k, self.v)]
        a = torch.softmax(torch.einsum("nhqd,nhkd->nhqk", q, k) * 0.5, -1)
        y = x + torch.einsum("nhqk,nhkd,hdc->nqc", a, v, self.o)
        return torch.einsum("nti,cij,ntj->nc", y, self.form, y) / 12


class Translator(nn.Module):
    """torch.nn's encoder and decoder: a causal mask, padding of the source, both kinds of layers."""

    def __init__(self, vocabulary=20, width=32):
        super().__init__()
        self.source, self.target = nn.Embedding(30, width), nn.Embedding(vocabulary, width)
        self.body = nn.Transformer(width, 2, 1, 1, 48, 0.0, "gelu", batch_first=True, norm_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, ids, mask, said):
        causal = torch.triu(torch.full((said.shape[1], said.shape[1]), float("-inf"), dtype=self.out.weight.dtype), 1)
        hidden = torch.zeros_like(mask, dtype=self.out.weight.dtype).masked_fill(mask == 0, float("-inf"))
        y = self.body(self.source(ids), self.target(said), tgt_mask=causal, tgt_is_causal=True, src_key_padding_mask=hidden, memory_key_padding_mask=hidden)
        return self.out(y).transpose(1, 2)


class Experts(nn.Module):
    """A mixture of experts: each row is answered by the two that a gate likes best."""

    def __init__(self, width=12, experts=5, out=3):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.w1, self.w2 = nn.Parameter(torch.randn(experts, width, 8) * 0.3), nn.Parameter(torch.randn(experts, 8, out) * 0.3)

    def forward(self, x):
        best, which = torch.topk(torch.softmax(self.gate(x), -1), 2)
        best = best / best.sum(-1, keepdim=True)
        hidden = F.silu(torch.matmul(x[:, None, None], self.w1[which]))
        return (torch.matmul(hidden, self.w2[which])[:, :, 0] * best[..., None]).sum(1)


class Messages(nn.Module):
    """A graph network over the atoms of a molecule: messages along edges are gathered, summed where they go, and normalised."""

    def __init__(self, atoms=7, width=8):
        super().__init__()
        self.atoms = atoms
        self.embed, self.message, self.update = nn.Embedding(6, width), nn.Linear(2 * width, width), nn.GRUCell(width, width)
        self.out = nn.Linear(width, 10)

    def forward(self, kinds, sources, targets):
        h = self.embed(kinds)
        for _ in range(2):
            pick = lambda at: torch.gather(h, 1, at[..., None].expand(-1, -1, h.shape[-1]))
            m = F.elu(self.message(torch.cat([pick(sources), pick(targets)], -1)))
            total = torch.zeros_like(h).scatter_add(1, targets[..., None].expand(-1, -1, h.shape[-1]), m)
            h = self.update(total.flatten(0, 1), h.flatten(0, 1)).unflatten(0, (-1, self.atoms))
        return self.out(h.amax(1) + h.mean(1))


class Functions(nn.Module):
    """Functions of torch that exporters have an operator for."""

    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(6)])
        self.norm, self.scale = nn.RMSNorm(width, eps=2.0 ** -20), nn.Parameter(torch.ones(4))
        self.out = nn.Linear(width, 10)

    def forward(self, x):
        a, b, c, d, e, f = [layer(x) for layer in self.layers]
        y = self.norm(torch.cumsum(torch.sigmoid(a), 1) - torch.logsumexp(b, 1, keepdim=True))
        y = y + F.normalize(c, dim=-1) * self.scale[0] + F.hardtanh(d, -0.5, 0.75) * self.scale[1]
        y = y + torch.where(e > 0, torch.atan(e), torch.expm1(e)) * self.scale[2] + F.softsign(torch.erf(f)) * self.scale[3]
        top = torch.sort(y, 1, descending=True)[0][:, :3].mean(1)
        return self.out(top + y.std(1) + y.norm(dim=1) + torch.linalg.vector_norm(y, 1, dim=1) + y.flip(1)[:, ::2].amin(1) + y.tril().sum(1))
