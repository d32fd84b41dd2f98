#!/usr/bin/env python3
"""Random networks exported for a batch of 1 or 2, run and trained at other batch sizes, against PyTorch in float64.

    random_batch.py [options]        in the environment of run.sh (requirements.txt)

    --build DIR      where dpexec is [build]
    --count N        networks [400]
    --first SEED     seed of the first one [0]
    --seed S         one network alone, and what it consists of; repeatable
    --out FILE       one line of JSON for each network
    --keep DIR       keep models and data of those that do not agree

Network s is made by seed s alone: three to six blocks of the table below, over images, sequences and rows of features, with its numbers read
from shapes as people write them.  Seeds take turns at the exporter (legacy, default) and at the batch of the example (1, 2).

`dpexec run` answers batches of 1, 3 and 5, and `dpexec train` three steps of 3 samples, on one replica and on two.  A network

    agrees      outputs and losses are PyTorch's, to CLOSE
    warned      outputs agree, and losses do with --freeze for some of the tensors that a warning of the run names, or the run
                names a tensor whose parameters the exporter lost
    refused     exit 1 with one line; the lines are listed at the end, to be read: each must be true
    SILENT      exit 0 and other numbers
    FAILED      anything else: a signal, an internal error, a time out
    no export   the exporter does not write it, or writes a file that ONNX Runtime answers otherwise at the example's own batch

The exit status is 1 if one is SILENT or FAILED.
"""
import argparse
import collections
import io
import itertools
import json
import logging
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn

CLOSE = 1e-4        # files hold weights' epsilons and scales in float32, and simple exporters fold some products in it
STEPS, BATCH, RATE, CLASSES = 3, 3, 0.01, 4
LOST = "computed from parameters that the file does not have"     # as the run names a tensor that only another export keeps
EXPORTS = [(exporter, batch) for batch in (1, 2) for exporter in ("legacy", "default")]


class Fn(nn.Module):
    """f(self, x), with modules and parameters by keyword."""

    def __init__(self, f, **parts):
        super().__init__()
        self.f = f
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, x):
        return self.f(self, x)


def weight(*shape):
    return nn.Parameter(torch.randn(*shape) * 0.3)


def heads_of(r, c):
    return r.choice([h for h in (1, 2, 3, 4) if c % h == 0])


# ---- images [N,C,H,W]: each takes (random, C, H, W) ----

def conv(r, c, h, w):
    out = r.choice([4, 6, 8])
    return nn.Sequential(nn.Conv2d(c, out, r.choice([1, 3]), padding="same"), r.choice([nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU])())


def strided(r, c, h, w):
    return nn.Conv2d(c, r.choice([4, 6, 8]), 3, 2, 1)


def transposed(r, c, h, w):
    return nn.ConvTranspose2d(c, r.choice([4, 6]), 2, 2) if h < 10 else conv(r, c, h, w)


def pool(r, c, h, w):
    return r.choice([nn.MaxPool2d(2, ceil_mode=r.random() < 0.5), nn.AvgPool2d(3, 1, 1), nn.MaxPool2d(3, 1, 1)]) if h > 3 else nn.Identity()


def batch_norm(r, c, h, w):
    return nn.BatchNorm2d(c)


def group_norm(r, c, h, w):
    return r.choice([nn.GroupNorm(heads_of(r, c), c), nn.InstanceNorm2d(c, affine=True)])


def resize_number(r, c, h, w):
    size = (r.randint(3, 9), r.randint(3, 9))
    mode = r.choice(["nearest", "bilinear", "bicubic"])
    return Fn(lambda m, x: F.interpolate(x, size=size, mode=mode, **({} if mode == "nearest" else {"align_corners": False})))


def resize_to_other(r, c, h, w):
    """A feature pyramid: a small map as large as the large one."""
    mode = r.choice(["nearest", "bilinear"])

    def f(m, x):
        small = m.down(x)
        up = F.interpolate(small, size=x.shape[-2:], mode=mode, **({} if mode == "nearest" else {"align_corners": r_align}))
        return torch.cat([x, up], 1) if cat else m.side(x) + up
    r_align, cat = r.random() < 0.5, r.random() < 0.5
    return Fn(f, down=nn.Conv2d(c, 4, 3, 2, 1), side=nn.Conv2d(c, 4, 1))


def resize_scale(r, c, h, w):
    mode, s = r.choice(["nearest", "bilinear"]), r.choice([2.0, 1.5, 0.5]) if 4 < h < 9 else 1.0
    return Fn(lambda m, x: F.interpolate(x, scale_factor=s, mode=mode))


def global_context(r, c, h, w):
    """DeepLab's image pooling: one number a channel, interpolated back."""
    return Fn(lambda m, x: x + F.interpolate(m.one(F.adaptive_avg_pool2d(x, 1)), size=x.shape[2:], mode="bilinear", align_corners=False), one=nn.Conv2d(c, c, 1))


def squeeze_excite(r, c, h, w):
    return Fn(lambda m, x: x * torch.sigmoid(m.b(torch.relu(m.a(x.mean((2, 3)))))).view(x.size(0), -1, 1, 1), a=nn.Linear(c, 3), b=nn.Linear(3, c))


def channel_shuffle(r, c, h, w):
    g = heads_of(r, c)

    def f(m, x):
        n, c, h, w = x.shape
        return x.view(n, g, c // g, h, w).transpose(1, 2).reshape(n, c, h, w)
    return Fn(f)


def windows(r, c, h, w):
    """Swin's windows: the batch and the windows are one axis, attention within."""
    s = 2

    def f(m, x):
        x = F.pad(x, (0, x.shape[3] % s, 0, x.shape[2] % s))
        n, c, h, w = x.shape
        y = x.permute(0, 2, 3, 1)
        if m.shift:
            y = torch.roll(y, (-1, -1), (1, 2))
        y = y.view(n, h // s, s, w // s, s, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, s * s, c)
        a = torch.softmax(y @ y.transpose(1, 2) + m.bias, -1)
        y = m.out(a @ y).view(-1, h // s, w // s, s, s, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        if m.shift:
            y = torch.roll(y, (1, 1), (1, 2))
        return x + y.permute(0, 3, 1, 2)
    block = Fn(f, out=nn.Linear(c, c), bias=weight(s * s, s * s))
    block.shift = r.random() < 0.5
    return block


def pad(r, c, h, w):
    mode = r.choice(["constant", "reflect", "replicate"])
    return Fn(lambda m, x: F.pad(x, (1, 2, 0, 1), mode))


def pixel_shuffle(r, c, h, w):
    return nn.Sequential(nn.Conv2d(c, 8, 1), nn.PixelShuffle(2)) if h < 7 else nn.Identity()


def coordinates(r, c, h, w):
    """CoordConv: maps of x and y for each sample."""
    def f(m, x):
        n, _, h, w = x.shape
        ys = torch.linspace(-1, 1, h, dtype=x.dtype).view(1, 1, h, 1).expand(n, 1, h, w)
        xs = torch.linspace(-1, 1, w, dtype=x.dtype).view(1, 1, 1, w).repeat(n, 1, h, 1)
        return m.conv(torch.cat([x, ys, xs], 1))
    return Fn(f, conv=nn.Conv2d(c + 2, 6, 3, 1, 1))


def sampled(r, c, h, w):
    """A spatial transformer: each sample's own affine grid."""
    def f(m, x):
        theta = (m.theta(x.mean((2, 3))) * 0.1).view(-1, 2, 3) + torch.tensor([[1., 0, 0], [0, 1, 0]], dtype=x.dtype)
        return F.grid_sample(x, F.affine_grid(theta, x.size(), align_corners=False), align_corners=False)
    return Fn(f, theta=nn.Linear(c, 6))


def fixed_grid(r, c, h, w):
    """A grid that is the same for all samples, expanded."""
    def f(m, x):
        return F.grid_sample(x, m.grid.to(x.dtype).expand(x.shape[0], -1, -1, -1), align_corners=True, padding_mode="border")
    return Fn(f, grid=torch.rand(1, 4, 5, 2) * 2 - 1)


def position_map(r, c, h, w):
    """A table of positions, resized to the map."""
    return Fn(lambda m, x: x + F.interpolate(m.table, size=x.shape[2:], mode="bilinear"), table=weight(1, c, 3, 3))


def pyramid_pool(r, c, h, w):
    """PSPNet's pyramid: pooled to sizes and back."""
    bins = r.sample([1, 2, 3], 2)
    def f(m, x):
        parts = [F.interpolate(p(F.adaptive_avg_pool2d(x, b)), size=x.shape[2:], mode="bilinear", align_corners=False) for b, p in zip(bins, m.p)]
        return torch.cat([x, *parts], 1)
    return Fn(f, p=nn.ModuleList(nn.Conv2d(c, 2, 1) for _ in bins)) if h % 6 == 0 and w % 6 == 0 else global_context(r, c, h, w)


def unfolded(r, c, h, w):
    def f(m, x):
        y = m.lin(F.unfold(x, 3, padding=1).transpose(1, 2)).transpose(1, 2)
        return y.reshape(x.shape[0], -1, x.shape[2], x.shape[3])
    return Fn(f, lin=nn.Linear(9 * c, 5))


def spatial_softmax(r, c, h, w):
    return Fn(lambda m, x: x * torch.softmax(x.flatten(2), -1).view_as(x))


def axial(r, c, h, w):
    """Attention along rows: the batch is in front of, or behind, the rows within one axis."""
    behind = r.random() < 0.5

    def f(m, x):
        n, c, h, w = x.shape
        if behind:
            y = x.permute(2, 0, 3, 1).reshape(h * n, w, c)
        else:
            y = x.permute(0, 2, 3, 1).reshape(n * h, w, c)
        y = m.out(torch.softmax(y @ y.transpose(1, 2), -1) @ y)
        y = y.view(h, n, w, c).permute(1, 3, 0, 2) if behind else y.view(n, h, w, c).permute(0, 3, 1, 2)
        return x + y
    return Fn(f, out=nn.Linear(c, c))


# ---- image -> sequence [N,T,C] ----

def flat_tokens(r, c, h, w):
    return Fn(lambda m, x: m.norm(x.flatten(2).transpose(1, 2)), norm=nn.LayerNorm(c))


def class_token(r, c, h, w):
    """ViT: a class token for each sample, and a table of positions."""
    how = r.randint(0, 2)

    def f(m, x):
        n = x.shape[0]
        x = m.patch(x).flatten(2).permute(0, 2, 1)
        token = (m.cls.expand(n, -1, -1), m.cls.repeat(n, 1, 1), m.cls + torch.zeros(n, 1, 1, dtype=x.dtype))[how]
        return torch.cat([token, x], 1) + m.pos
    d = 6
    return Fn(f, patch=nn.Conv2d(c, d, 2, 2), cls=weight(1, 1, d), pos=weight(1, (h // 2) * (w // 2) + 1, d)) if h > 1 and w > 1 else flat_tokens(r, c, h, w)


def detr_queries(r, c, h, w):
    """Learned queries look at the image: their rows are expanded to the batch, or are zeros of the memory's size."""
    how = r.randint(0, 2)

    def f(m, x):
        n = x.shape[0]
        memory = x.flatten(2).permute(2, 0, 1)
        q = (m.q.unsqueeze(1).repeat(1, n, 1), m.q.unsqueeze(1).expand(-1, n, -1), torch.zeros(4, n, c, dtype=x.dtype) + m.q[:, None])[how]
        return m.attn(q, memory, memory, need_weights=False)[0].transpose(0, 1)
    return Fn(f, q=weight(4, c), attn=nn.MultiheadAttention(c, heads_of(r, c)))


# ---- sequences [N,T,C]: each takes (random, T, C) ----

def linear(r, t, c):
    return nn.Sequential(nn.Linear(c, r.choice([4, 6, 8])), r.choice([nn.Tanh, nn.GELU, nn.SiLU])())


def layer_norm(r, t, c):
    return nn.LayerNorm(c)


def attention(r, t, c):
    h = heads_of(r, c)

    def f(m, x):
        n, t, c = x.shape
        q, k, v = m.qkv(x).reshape(n, t, 3, h, c // h).permute(2, 0, 3, 1, 4).unbind(0)
        y = torch.softmax(q @ k.transpose(-2, -1) * (c // h) ** -0.5, -1) @ v
        return x + m.out(y.transpose(1, 2).reshape(n, t, c))
    return Fn(f, qkv=nn.Linear(c, 3 * c), out=nn.Linear(c, c))


def attention_sdpa(r, t, c):
    h = heads_of(r, c)

    def f(m, x):
        q, k, v = (p.view(x.size(0), x.size(1), h, -1).transpose(1, 2) for p in m.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=m.causal)
        return x + m.out(y.transpose(1, 2).contiguous().view(x.size(0), -1, c))
    block = Fn(f, qkv=nn.Linear(c, 3 * c), out=nn.Linear(c, c))
    block.causal = r.random() < 0.5
    return block


def attention_torch(r, t, c):
    first = r.random() < 0.5
    return Fn(lambda m, x: m.a(x, x, x, need_weights=False)[0], a=nn.MultiheadAttention(c, heads_of(r, c), batch_first=True)) if first else \
        Fn(lambda m, x: m.a(x.transpose(0, 1), x.transpose(0, 1), x.transpose(0, 1))[0].transpose(0, 1), a=nn.MultiheadAttention(c, heads_of(r, c)))


def attention_joined(r, t, c):
    """Samples and heads are one axis, as in fairseq."""
    h = heads_of(r, c)

    def f(m, x):
        n, t, c = x.shape
        q, k, v = (p.transpose(0, 1).reshape(t, n * h, c // h).transpose(0, 1) for p in m.qkv(x).chunk(3, -1))
        y = torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)), -1), v)
        return m.out(y.transpose(0, 1).reshape(t, n, c).transpose(0, 1))
    return Fn(f, qkv=nn.Linear(c, 3 * c), out=nn.Linear(c, c))


def masked_attention(r, t, c):
    """A causal mask made for each sample."""
    def f(m, x):
        n, t, c = x.shape
        mask = torch.tril(torch.ones(t, t, dtype=torch.bool)).expand(n, t, t)
        s = m.q(x) @ x.transpose(1, 2)
        return x + torch.softmax(s.masked_fill(~mask, -1e4), -1) @ x
    return Fn(f, q=nn.Linear(c, c))


def einsum_attention(r, t, c):
    return Fn(lambda m, x: torch.einsum("nts,nsc->ntc", torch.softmax(torch.einsum("ntc,nsc->nts", m.q(x), m.k(x)), -1), x), q=nn.Linear(c, c), k=nn.Linear(c, c))


def einsum_weight(r, t, c):
    return Fn(lambda m, x: torch.einsum("btc,hcd->bthd", x, m.w).flatten(2), w=weight(2, c, 3))


def expanded_weight(r, t, c):
    """One matrix for each sample, all alike."""
    return Fn(lambda m, x: torch.bmm(x, m.w.unsqueeze(0).expand(x.size(0), -1, -1)), w=weight(c, r.choice([4, 6])))


def positions(r, t, c):
    def f(m, x):
        ids = torch.arange(x.shape[1]).unsqueeze(0).expand(x.shape[0], -1)
        return x + m.table(ids)
    return Fn(f, table=nn.Embedding(t + r.randint(0, 3), c))


def token_types(r, t, c):
    return Fn(lambda m, x: x + m.table(torch.zeros(x.shape[0], x.shape[1], dtype=torch.long)), table=nn.Embedding(2, c))


def rotary(r, t, c):
    def f(m, x):
        n, t, c = x.shape
        a = torch.arange(t, dtype=x.dtype)[:, None] * 0.3 * torch.arange(1, c // 2 + 1, dtype=x.dtype)
        a, b, (s, k) = x[..., :c // 2], x[..., c // 2:], (a.sin(), a.cos())
        return m.out(torch.cat([a * k - b * s, a * s + b * k], -1))
    return Fn(f, out=nn.Linear(c, c)) if c % 2 == 0 else linear(r, t, c)


def lstm(r, t, c):
    """A recurrent layer, its start of zeros made by hand or not, either way round."""
    kind, state, first = r.choice([nn.LSTM, nn.GRU]), r.random() < 0.5, r.random() < 0.5
    hidden, both = r.choice([3, 4]), r.random() < 0.4

    def f(m, x):
        h = torch.zeros(2 if both else 1, x.size(0), hidden, dtype=x.dtype)
        s = () if not state else ((h, h),) if kind is nn.LSTM else (h,)
        return m.rnn(x, *s)[0] if first else m.rnn(x.transpose(0, 1), *s)[0].transpose(0, 1)
    return Fn(f, rnn=kind(c, hidden, batch_first=first, bidirectional=both))


def learned_state(r, t, c):
    def f(m, x):
        return m.rnn(x, m.h.expand(1, x.size(0), 4).contiguous())[0]
    return Fn(f, h=weight(1, 1, 4), rnn=nn.GRU(c, 4, batch_first=True))


def gathered(r, t, c):
    """Some positions of each sample by gather with an expanded index."""
    index = torch.randperm(t)[:max(2, t // 2)]
    how = r.randint(0, 3)

    def f(m, x):
        n = x.shape[0]
        if how == 0:
            return torch.gather(x, 1, m.index.view(1, -1, 1).expand(n, -1, c))
        if how == 1:
            return x[:, m.index]
        if how == 2:
            return x.index_select(1, m.index)
        return torch.take_along_dim(x, m.index[None, :, None], 1)
    return Fn(f, index=index)


def own_position(r, t, c):
    """x[arange(n), k]: a position of each sample."""
    k = r.randrange(t)

    def f(m, x):
        at = torch.full((x.shape[0],), k, dtype=torch.long)
        return x + x[torch.arange(x.shape[0]), at].unsqueeze(1)
    return Fn(f)


def own_best(r, t, c):
    """The position that each sample's scores choose (as end-of-text in CLIP)."""
    return Fn(lambda m, x: x + m.lin(x[torch.arange(x.shape[0]), x[..., 0].argmax(-1)])[:, None], lin=nn.Linear(c, c))


def pair_index(r, t, c):
    """GatherND: rows and positions by two lists of n."""
    a, b = r.randrange(t), r.randrange(t)

    def f(m, x):
        n = x.shape[0]
        rows = torch.arange(n)[:, None]
        return x[rows, torch.tensor([[a, b]]).expand(n, 2)]
    return Fn(f)


def rolled(r, t, c):
    return Fn(lambda m, x: torch.cat([x[:, 1:], x[:, :1]], 1) + torch.roll(x, 1, 1))


def shifted(r, t, c):
    """A start token in front, the last position cut off."""
    return Fn(lambda m, x: torch.cat([torch.zeros(x.shape[0], 1, x.shape[2], dtype=x.dtype) + m.s, x[:, :-1]], 1), s=weight(1, 1, c))


def conv1d(r, t, c):
    return Fn(lambda m, x: m.conv(x.transpose(1, 2)).transpose(1, 2), conv=nn.Conv1d(c, r.choice([4, 6]), 3, padding=1))


def dense_views(r, t, c):
    """Steps of time as samples, and back."""
    how = r.randint(0, 2)

    def f(m, x):
        n, t, c = x.shape
        if how == 0:
            return torch.tanh(m.lin(x.reshape(n * t, c))).reshape(n, t, -1)
        if how == 1:
            return torch.tanh(m.lin(x.contiguous().view(-1, c))).view(n, -1, 5)
        return torch.tanh(m.lin(x.transpose(0, 1).reshape(t * n, c))).view(t, n, 5).transpose(0, 1)
    return Fn(f, lin=nn.Linear(c, 5))


def padding_mask(r, t, c):
    def f(m, x):
        lengths = torch.full((x.shape[0],), max(1, t - 1))
        keep = (torch.arange(x.shape[1])[None] < lengths[:, None]).unsqueeze(-1).to(x.dtype)
        return (x * keep).sum(1, keepdim=True) / keep.sum(1, keepdim=True) + x
    return Fn(f)


def cumulative(r, t, c):
    return Fn(lambda m, x: torch.cumsum(x, 1) / torch.arange(1, x.shape[1] + 1, dtype=x.dtype).view(1, -1, 1))


def top(r, t, c):
    return Fn(lambda m, x: x.topk(min(3, x.shape[1]), 1)[0])


def memory_tokens(r, t, c):
    def f(m, x):
        return torch.cat([m.memory.unsqueeze(0).repeat(x.shape[0], 1, 1), x], 1)
    return Fn(f, memory=weight(2, c))


def pairs(r, t, c):
    """All pairs of positions (a relation network)."""
    def f(m, x):
        n, t, c = x.shape
        a, b = x.unsqueeze(1).expand(n, t, t, c), x.unsqueeze(2).expand(n, t, t, c)
        return m.lin(torch.cat([a, b], -1).view(n, t * t, 2 * c))[:, :6]
    return Fn(f, lin=nn.Linear(2 * c, 5))


def masked_pool(r, t, c):
    return Fn(lambda m, x: x - (x * torch.ones(x.shape[:2], dtype=x.dtype).unsqueeze(-1)).sum(1, keepdim=True) / t)


# ---- sequence -> features [N,C] ----

def mean_token(r, t, c):
    return Fn(lambda m, x: x.mean(1))


def first_token(r, t, c):
    return Fn(lambda m, x: x[:, 0])


def last_token(r, t, c):
    return Fn(lambda m, x: x[:, -1, :])


def all_tokens(r, t, c):
    how = r.randint(0, 2)
    return Fn(lambda m, x: (x.flatten(1), x.reshape(x.size(0), -1), x.reshape(x.shape[0], x.shape[1] * x.shape[2]))[how])


def chosen_token(r, t, c):
    k = r.randrange(t)
    return Fn(lambda m, x: x[torch.arange(x.size(0)), torch.full((x.size(0),), k)])


def weighted_token(r, t, c):
    return Fn(lambda m, x: torch.einsum("nt,ntc->nc", torch.softmax(m.score(x).squeeze(-1), -1), x), score=nn.Linear(c, 1))


# ---- features [N,C] ----

def dense(r, c):
    return nn.Sequential(nn.Linear(c, r.choice([5, 6, 8])), r.choice([nn.Tanh, nn.ReLU, nn.GELU])())


def normalised(r, c):
    return r.choice([Fn(lambda m, x: F.normalize(x, dim=-1)), nn.LayerNorm(c), Fn(lambda m, x: x / (x.norm(dim=1, keepdim=True) + 1e-6))])


def bilinear(r, c):
    return Fn(lambda m, x: torch.einsum("ni,ijk,nj->nk", x, m.w, x), w=weight(c, c, 5)) if c < 16 else dense(r, c)


def outer(r, c):
    return Fn(lambda m, x: torch.bmm(x.unsqueeze(2), m.lin(x).unsqueeze(1)).view(x.size(0), -1), lin=nn.Linear(c, 3)) if c < 16 else dense(r, c)


def prototypes(r, c):
    """Distances to learned centres, expanded to every sample."""
    def f(m, x):
        n = x.size(0)
        return -((x.unsqueeze(1).expand(n, 5, c) - m.p.unsqueeze(0).expand(n, 5, c)) ** 2).sum(2)
    return Fn(f, p=weight(5, c))


def mixture(r, c):
    """Experts stacked, one weight for each sample."""
    return Fn(lambda m, x: torch.bmm(torch.softmax(m.gate(x), -1).unsqueeze(1), torch.stack([e(x) for e in m.e], 1)).squeeze(1), gate=nn.Linear(c, 3),
              e=nn.ModuleList(nn.Linear(c, 6) for _ in range(3)))


def fused_ones(r, c):
    """Tensor fusion: a one in front of the features."""
    return Fn(lambda m, x: torch.cat([torch.ones(x.size(0), 1, dtype=x.dtype), x], 1))


IMAGE = (conv, conv, strided, transposed, pool, batch_norm, group_norm, resize_number, resize_to_other, resize_scale, global_context, squeeze_excite,
         channel_shuffle, windows, pad, pixel_shuffle, coordinates, sampled, fixed_grid, position_map, pyramid_pool, unfolded, spatial_softmax, axial)
TOKENS = (flat_tokens, class_token, class_token, detr_queries)
SEQUENCE = (linear, layer_norm, attention, attention_sdpa, attention_torch, attention_joined, masked_attention, einsum_attention, einsum_weight, expanded_weight,
            positions, token_types, rotary, lstm, lstm, learned_state, gathered, own_position, own_best, pair_index, rolled, shifted, conv1d, dense_views,
            padding_mask, cumulative, top, memory_tokens, pairs, masked_pool)
POOLED = (mean_token, first_token, last_token, all_tokens, chosen_token, weighted_token)
FEATURES = (dense, normalised, bilinear, outer, prototypes, mixture, fused_ones)


def make_network(seed):
    """-> (network, shape of a sample, names of its blocks)."""
    r = random.Random(seed)
    torch.manual_seed(seed)
    sample = r.choice([(3, 6, 6), (3, 8, 8), (2, 7, 5), (4, 6, 9)]) if r.random() < 0.6 else (r.randint(3, 7), r.choice([4, 6, 8]))
    blocks, names, x = [], [], torch.randn(2, *sample)

    def add(table):
        nonlocal x
        make = r.choice(table)
        shape = x.shape[1:]
        block = make(r, *shape).eval()
        with torch.no_grad():
            x = block(x)
        blocks.append(block)
        names.append(make.__name__)
    if x.ndim == 4:
        for _ in range(r.randint(1, 4)):
            add(IMAGE)
        if r.random() < 0.5:
            add(TOKENS)
        else:
            blocks.append(Fn(lambda m, x: x.mean((2, 3))) if r.random() < 0.6 else Fn(lambda m, x: x.view(x.size(0), -1) if x.is_contiguous() else x.flatten(1)))
            x = blocks[-1](x).detach()
    if x.ndim == 3:
        for _ in range(r.randint(1, 4)):
            add(SEQUENCE)
        add(POOLED)
    for _ in range(r.randint(0, 2)):
        add(FEATURES)
    blocks.append(nn.Linear(x.shape[1], CLASSES))
    net = nn.Sequential(*blocks)
    with torch.no_grad():           # zeros and ones of fresh layers are what exporters drop and merge
        for p in net.parameters():
            p.add_(torch.randn(p.shape) * 0.05)
    return net, sample, names


def batch_norms(net):
    return any(isinstance(m, nn.BatchNorm2d) for m in net.modules())


def export(net, sample, exporter, batch, path, seed):
    """Writes the file, of float32; the legacy exporter in training mode every other time, but for statistics that it would change."""
    x = torch.randn(batch, *sample, generator=torch.Generator().manual_seed(seed))
    sink = io.StringIO()
    keep = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = sink
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if exporter == "legacy":
                torch.onnx.export(net, (x,), str(path), dynamo=False, input_names=["x"], output_names=["y"], opset_version=17, do_constant_folding=bool(seed // 4 % 2),
                                  training=torch.onnx.TrainingMode.EVAL if seed // 8 % 2 or batch_norms(net) else torch.onnx.TrainingMode.TRAINING)
            else:
                torch.onnx.export(net, (x,), str(path), dynamo=True, input_names=["x"], output_names=["y"], verbose=False, optimize=bool(seed // 4 % 2), external_data=False)
    finally:
        sys.stdout, sys.stderr = keep


def train_losses(net, x, target):
    net.train()
    sgd = torch.optim.SGD(net.parameters(), RATE)
    losses = []
    for k in range(STEPS):
        at = slice(k * BATCH, (k + 1) * BATCH)
        loss = F.cross_entropy(net(x[at]), target[at])
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return losses


def far(found, expected):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        return float("inf")
    gap = np.abs(found - expected) / np.maximum(np.abs(expected), 1)
    return float(np.max(gap, initial=0)) if np.isfinite(gap).all() else float("inf")


class Tried:
    """One network: what dpexec makes of its file."""

    def __init__(self, dpexec, seed, work):
        self.dpexec, self.seed, self.work = dpexec, seed, work
        self.exporter, self.b0 = EXPORTS[seed % 4]
        self.model = work / "model.onnx"
        self.found = []

    def tool(self, *words):
        try:
            p = subprocess.run([str(self.dpexec), *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
            return p.returncode, p.stdout + p.stderr
        except subprocess.TimeoutExpired:
            return 124, "timeout"

    def note(self, what, status, said, gap):
        """Keeps (verdict, what, detail)."""
        lines = [line for line in said.splitlines() if line.startswith(("dpexec: error", "error", "dpexec:"))] or said.splitlines()[-1:]
        if status == 1 and "internal error" not in said and lines:
            self.found.append(("refused", what, lines[-1]))
        elif status:
            self.found.append(("FAILED", what, f"exit {status}: {' '.join(lines)[-300:]}"))
        elif gap > CLOSE:
            self.found.append(("SILENT", what, f"{gap:.2g}"))
        else:
            self.found.append(("agrees", what, f"{gap:.2g}"))

    def run(self, net, sample):
        for n in (1, 3, 5):
            x = torch.randn(n, *sample, generator=torch.Generator().manual_seed(100 + n)).double()
            with torch.no_grad():
                y = net(x).numpy()
            np.save(self.work / "x.npy", x.numpy())
            out = self.work / f"run{n}"
            status, said = self.tool("run", self.model, "--input", self.work / "x.npy", "--out", out, "--dtype", "float64", "--quiet", "--batch-size", n)
            found = next(iter(sorted(out.glob("*.npy"))), None) if not status else None
            self.note(f"run {n}", status, said, far(np.load(found), y) if found else float("inf"))

    def train(self, net, x, target):
        np.savez(self.work / "train.npz", x=x.numpy(), target=target.numpy())
        losses = train_losses(net, x, target)
        for replicas in (1, 2):
            status, said, gap = self.trained(replicas, losses, self.freeze(net))
            flags = next((f for f in self.warned_of(said) if self.trained(replicas, losses, self.freeze(net) + f)[2] <= CLOSE), None) if CLOSE < gap < float("inf") else None
            if CLOSE < gap < float("inf") and LOST in said:
                flags = ["optimize=False"]
            if flags:
                self.found.append(("warned", f"train on {replicas}", " ".join(flags)))
            else:
                self.note(f"train on {replicas}", status, said, gap)

    def trained(self, replicas, losses, flags):
        """-> exit status, what was said, how far the losses are from `losses`."""
        out = self.work / f"train{replicas}"
        shutil.rmtree(out, ignore_errors=True)
        status, said = self.tool("train", self.model, "--data", self.work / "train.npz", "--loss", "cross-entropy", "--lr", RATE, "--batch-size", BATCH, "--steps", STEPS,
                                 "--no-shuffle", "--dtype", "float64", "--bn-variance", "unbiased", "--threads", 1, "--replicas", replicas, "--out", out, *flags)
        if status:
            return status, said, float("inf")
        return status, said, far([m["loss"] for m in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in m], losses)

    @staticmethod
    def warned_of(said):
        """--freeze for each choice, small ones first, of the tensors that the run has warned of."""
        line = next((line for line in said.splitlines() if "guessed to be parameters" in line), "")
        names = re.findall(r"'([^']+)'", line)[:6]
        return [[w for n in chosen for w in ("--freeze", n)] for k in range(1, len(names) + 1) for chosen in itertools.combinations(names, k)]

    def freeze(self, net):
        """A file without kinds does not say that these are no parameters."""
        held = {i.name for i in onnx.load(self.model).graph.initializer if i.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)}
        names = [n for n, _ in net.named_buffers() if n in held and "running" not in n and "num_batches" not in n]
        return [w for n in names for w in ("--freeze", n)]

    def verdict(self):
        order = ("FAILED", "SILENT", "refused", "warned", "agrees")
        return min((f[0] for f in self.found), key=order.index)


def answers(model, net, sample, b0):
    """Does ONNX Runtime answer as PyTorch at the example's own batch?"""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    x = torch.randn(b0, *sample, generator=torch.Generator().manual_seed(99))
    try:
        y = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]).run(None, {"x": x.numpy()})[0]
    except Exception as e:      # some operators have no kernel there
        return "NOT_IMPLEMENTED" in str(e) or "NotImplemented" in type(e).__name__ or "training_mode" in str(e)
    with torch.no_grad():
        return far(y, net(x).numpy()) < 1e-3


def try_network(dpexec, seed, work):
    """-> one line of the results."""
    net, sample, names = make_network(seed)
    tried = Tried(dpexec, seed, work)
    line = {"seed": seed, "exporter": tried.exporter, "batch": tried.b0, "blocks": names}
    state = {k: v.clone() for k, v in net.state_dict().items()}
    training = batch_norms(net)
    try:
        export(net.eval() if not (training and tried.exporter == "default") else net.train(), sample, tried.exporter, tried.b0, tried.model, seed)
    except Exception as e:
        return {**line, "verdict": "no export", "detail": [str(e).splitlines()[0][:200] if str(e) else type(e).__name__]}
    net.load_state_dict(state)
    net.eval()
    if not training and not answers(tried.model, net, sample, tried.b0):
        return {**line, "verdict": "no export", "detail": ["ONNX Runtime answers otherwise"]}
    net.double()
    r = torch.Generator().manual_seed(1000 + seed)
    x, target = torch.randn(STEPS * BATCH, *sample, generator=r).double(), torch.randint(0, CLASSES, (STEPS * BATCH,), generator=r)
    tried.run(net, sample)
    tried.train(net, x, target)
    return {**line, "verdict": tried.verdict(), "detail": [list(f) for f in tried.found if f[0] != "agrees"]}


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    p.add_argument("--count", type=int, default=400)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--seed", type=int, action="append")
    p.add_argument("--out", type=pathlib.Path)
    p.add_argument("--keep", type=pathlib.Path)
    args = p.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    counts, lines, refused = collections.Counter(), [], collections.Counter()
    for seed in args.seed or range(args.first, args.first + args.count):
        with tempfile.TemporaryDirectory() as folder:
            line = try_network(args.build / "dpexec", seed, pathlib.Path(folder))
            if args.keep and line["verdict"] not in ("agrees", "no export"):
                shutil.copytree(folder, args.keep / str(seed), dirs_exist_ok=True)
        counts[line["verdict"]] += 1
        lines.append(json.dumps(line))
        refused.update({d[2] for d in line["detail"] if d[0] == "refused"})
        if line["verdict"] in ("SILENT", "FAILED") or args.seed:
            print(lines[-1], flush=True)
        if args.out:
            args.out.write_text("\n".join(lines) + "\n")
    for text, n in refused.most_common():
        print(f"{n:4} {text}")
    print(", ".join(f"{n} {v}" for v, n in counts.most_common()))
    return 1 if counts["SILENT"] + counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
