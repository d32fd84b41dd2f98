"""The modules of the suite that torchvision does not have, written the way users write them.

Heads are 16 wide, so that the scale of attention is a number float32 holds: what differs from PyTorch is then never a literal.
"""
import torch
import torch.nn.functional as F
import torchvision
from torch import nn


def no_dropout(module):
    if isinstance(module, nn.Dropout):
        module.p = 0.0


# ---- images ----

def conv_bn_relu(cin, cout, k=3, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, k, stride, k // 2, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class UNet(nn.Module):
    """Two levels; the way up is a transposed convolution or bilinear interpolation."""

    def __init__(self, bilinear, width=8, classes=4):
        super().__init__()
        w = width
        self.down = nn.ModuleList([conv_bn_relu(3, w), conv_bn_relu(w, 2 * w)])
        self.bottom = conv_bn_relu(2 * w, 4 * w)
        up = (lambda c: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(2 * c, c, 1))) if bilinear else (
            lambda c: nn.ConvTranspose2d(2 * c, c, 2, 2))
        self.up = nn.ModuleList([up(2 * w), up(w)])
        self.join = nn.ModuleList([conv_bn_relu(4 * w, 2 * w), conv_bn_relu(2 * w, w)])
        self.head = nn.Conv2d(w, classes, 1)

    def forward(self, image):
        kept, x = [], image
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


class Mixer(nn.Module):
    """MLP-Mixer: layers over positions and over channels in turn."""

    class Block(nn.Module):
        def __init__(self, positions, width):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.positions = nn.Sequential(nn.Linear(positions, 32), nn.GELU(), nn.Linear(32, positions))
            self.channels = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

        def forward(self, x):
            x = x + self.positions(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norm2(x))

    def __init__(self, width=32, positions=16):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.blocks = nn.Sequential(*[Mixer.Block(positions, width) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(1))


def head(width):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]


def group_norm_net():
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.GroupNorm(8, 32),
                         nn.SiLU(), nn.Conv2d(32, 32, 3, 2, 1), nn.GroupNorm(1, 32, affine=False), nn.ReLU(), *head(32))


def instance_norm_net():
    """InstanceNorm with and without scale, and a BatchNorm without (its ones and zeros are not parameters)."""
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.InstanceNorm2d(16, affine=True), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1),
                         nn.InstanceNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1), nn.BatchNorm2d(32, affine=False), nn.ReLU(),
                         *head(32))


class RegionHead(nn.Module):
    """A region of each image is pooled and classified."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(conv_bn_relu(3, 8), conv_bn_relu(8, 8, stride=2))
        self.head = nn.Linear(8 * 9, 10)

    def forward(self, image, boxes):
        of = torch.arange(image.shape[0], dtype=boxes.dtype)[:, None]
        regions = torchvision.ops.roi_align(self.features(image), torch.cat([of, boxes], 1), (3, 3), 0.5, 2, True)
        return self.head(regions.flatten(1))


def autoencoder():
    return nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.LeakyReLU(0.125), nn.Conv2d(8, 16, 3, 2, 1), nn.LeakyReLU(0.125),
                         nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.LeakyReLU(0.125), nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Sigmoid())


# ---- rows and series ----

def tabular_net():
    return nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.PReLU(), nn.Linear(32, 3))


class Swapped(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


def temporal_net():
    return nn.Sequential(Swapped(), nn.Conv1d(16, 24, 3, padding=2, dilation=2), nn.BatchNorm1d(24), nn.ReLU(),
                         nn.Conv1d(24, 24, 3, padding=1, groups=4), nn.ELU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(24, 10))


class Memory(nn.Module):
    """Attention over the series and a learned memory, which is the same for every sample; a fixed table of positions."""

    def __init__(self, width=16, slots=5):
        super().__init__()
        self.memory = nn.Parameter(torch.randn(1, slots, width) * 0.5)
        self.start = nn.Parameter(torch.zeros(1, 1, width))
        place = torch.arange(18)[:, None] / 10000 ** (torch.arange(0, width, 2)[None] / width)
        self.register_buffer("places", torch.stack([place.sin(), place.cos()], 2).flatten(1))
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        n = x.shape[0]
        x = torch.cat([self.start.expand(n, -1, -1), self.memory.expand(n, -1, -1), x], 1) + self.places[:x.shape[1] + 6]
        k, v = self.kv(x).chunk(2, -1)
        a = torch.softmax(self.q(x) @ k.transpose(1, 2) * 0.25, -1)
        return self.head((x + a @ v)[:, 0])


# ---- transformers ----

class TorchEncoder(nn.Module):
    """torch.nn's own encoder layers."""

    def __init__(self, first=True, width=32):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 2, 64, dropout=0.0, batch_first=first)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)
        self.time = 1 if first else 0

    def forward(self, x):
        return self.head(self.layers(x).mean(self.time))


def SequenceFirst():
    """The same for x of [time, batch, width]."""
    return TorchEncoder(first=False)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask):
        n, t, c = x.shape
        q, k, v = [a.view(n, t, self.heads, c // self.heads).transpose(1, 2) for a in self.qkv(x).split(c, 2)]
        scores = q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5
        return self.out((torch.softmax(mask(scores), -1) @ v).transpose(1, 2).reshape(n, t, c))


class Gpt(nn.Module):
    """GPT-2's layout: norm first, learned positions, the head is the embedding; logits [N, T, V] or [N, V, T]."""

    class Block(nn.Module):
        def __init__(self, width, length):
            super().__init__()
            self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), Attention(width, 2), nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
            self.register_buffer("bias", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

        def forward(self, x):
            t = x.shape[1]
            x = x + self.attn(self.ln_1(x), lambda s: s.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf")))
            return x + self.mlp(self.ln_2(x))

    def __init__(self, vocabulary, length, last, width=32):
        super().__init__()
        self.last = last
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.h = nn.ModuleList([Gpt.Block(width, length) for _ in range(2)])
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, 0, 0.2)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits if self.last else logits.transpose(1, 2)


class Bert(nn.Module):
    """BERT's layout: norm last, three embeddings, padding kept out by a large negative number, the first token classifies."""

    class Layer(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.attention, self.norm1 = Attention(width, 2), nn.LayerNorm(width, eps=1e-12)
            self.ff = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
            self.norm2 = nn.LayerNorm(width, eps=1e-12)

        def forward(self, x, bias):
            x = self.norm1(x + self.attention(x, lambda s: s + bias))
            return self.norm2(x + self.ff(x))

    def __init__(self, vocabulary, length, width=32):
        super().__init__()
        self.word = nn.Embedding(vocabulary, width, padding_idx=0)
        self.position, self.kind = nn.Embedding(length, width), nn.Embedding(2, width)
        self.register_buffer("position_ids", torch.arange(length)[None])
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList([Bert.Layer(width) for _ in range(2)])
        self.pooler, self.classifier = nn.Linear(width, width), nn.Linear(width, 10)

    def forward(self, ids, mask):
        x = self.word(ids) + self.position(self.position_ids[:, :ids.shape[1]]) + self.kind(torch.zeros_like(ids))
        x = self.norm(x)
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


class Llama(nn.Module):
    """RMSNorm, rotary positions, keys and values shared by two heads, a gated feed-forward layer."""

    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 2.0 ** -17))

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm1, self.norm2 = Llama.Norm(width), Llama.Norm(width)
            self.q, self.k, self.v, self.o = [nn.Linear(width, w, bias=False) for w in (width, 16, 16, width)]
            self.gate, self.up, self.down = [nn.Linear(a, b, bias=False) for a, b in ((width, 48), (width, 48), (48, width))]

        def forward(self, x, cos, sin, mask):
            n, t, c = x.shape
            y = self.norm1(x)
            q, k, v = [f(y).view(n, t, -1, 16).transpose(1, 2) for f in (self.q, self.k, self.v)]
            q, k = [a * cos + torch.cat([-a[..., 8:], a[..., :8]], -1) * sin for a in (q, k)]
            k, v = [a.expand(n, 2, t, 16) for a in (k, v)]
            a = torch.softmax(q @ k.transpose(2, 3) * 0.25 + mask[:t, :t], -1) @ v
            x = x + self.o(a.transpose(1, 2).reshape(n, t, c))
            y = self.norm2(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def __init__(self, vocabulary, length, width=32):
        super().__init__()
        self.embed, self.norm = nn.Embedding(vocabulary, width), Llama.Norm(width)
        self.blocks = nn.ModuleList([Llama.Block(width) for _ in range(2)])
        self.head = nn.Linear(width, vocabulary, bias=False)
        angle = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(8) / 8)).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("mask", torch.full((length, length), -1e9).triu(1))

    def forward(self, ids):
        t = ids.shape[1]
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos[:t], self.sin[:t], self.mask)
        return self.head(self.norm(x))


# ---- losses inside the graph ----

class Contrastive(nn.Module):
    """CLIP's loss: which image belongs to which text, both ways, with a learned temperature."""

    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(conv_bn_relu(3, 8, stride=2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 16))
        self.text = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 16))
        self.logit_scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, image, text):
        a, b = [F.normalize(x, dim=1) for x in (self.image(image), self.text(text))]
        logits = self.logit_scale.exp() * a @ b.T
        own = torch.arange(logits.shape[0], device=logits.device)
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


class Dice(nn.Module):
    """A segmentation network that ends in the soft dice loss of the whole batch."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv_bn_relu(3, 8), conv_bn_relu(8, 8), nn.Conv2d(8, 1, 1))

    def forward(self, image, wanted):
        p = torch.sigmoid(self.body(image))
        return 1 - (2 * (p * wanted).sum() + 1) / (p.sum() + wanted.sum() + 1)


# ---- recurrent layers ----

class Words(nn.Module):
    """A language model: scores of the next word at each position, batch first as exporters write it best."""

    def __init__(self, kind, layers, both=False, vocabulary=20, **more):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 8)
        self.rnn = kind(8, 12, layers, bidirectional=both, batch_first=True, **more)
        self.head = nn.Linear(12 * (1 + both), vocabulary)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0]).transpose(1, 2)
