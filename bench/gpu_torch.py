"""The networks of bench/gpu_models.py as PyTorch modules, and a training step of each in PyTorch's best setting."""
import torch
import torch.nn.functional as F
from torch import nn

import onnx_file


class Mlp(nn.Module):
    def __init__(self, **_):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(64, 128), nn.Linear(128, 64), nn.Linear(64, 10)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class FashionCnn(nn.Module):
    def __init__(self, **_):
        super().__init__()
        for i, (a, b) in enumerate([(1, 16), (16, 32), (32, 64)], 1):
            self.add_module(f"conv{i}", nn.Conv2d(a, b, 3, padding=1, bias=False))
            self.add_module(f"bn{i}", nn.BatchNorm2d(b))
        self.fc = nn.Linear(576, 10)

    def forward(self, x):
        for conv, bn in ((self.conv1, self.bn1), (self.conv2, self.bn2), (self.conv3, self.bn3)):
            x = F.max_pool2d(torch.relu(bn(conv(x))), 2)
        return self.fc(x.flatten(1))


class Bottleneck(nn.Module):
    def __init__(self, cin, c, stride, first):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, c, 1, bias=False), nn.BatchNorm2d(c)
        self.conv2, self.bn2 = nn.Conv2d(c, c, 3, stride, 1, bias=False), nn.BatchNorm2d(c)
        self.conv3, self.bn3 = nn.Conv2d(c, 4 * c, 1, bias=False), nn.BatchNorm2d(4 * c)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(nn.Conv2d(cin, 4 * c, 1, stride, bias=False), nn.BatchNorm2d(4 * c)) if first else None

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Resnet50(nn.Module):
    def __init__(self, width, blocks, classes, **_):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        n, self.stages = width, len(blocks)
        for i, count in enumerate(blocks):
            layers = []
            for b in range(count):
                layers.append(Bottleneck(n, width << i, 2 if b == 0 and i > 0 else 1, b == 0))
                n = 4 * (width << i)
            self.add_module(f"layer{i + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(n, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x)), inplace=True), 3, 2, 1)
        for i in range(self.stages):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(x.mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.c_attn, self.c_proj, self.causal = heads, nn.Linear(width, 3 * width), nn.Linear(width, width), causal

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = [p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in self.c_attn(x).split(c, 2)]
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = (q @ k.transpose(2, 3)) * (c // self.heads) ** -0.5
            if self.causal:
                scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
            y = scores.softmax(-1) @ v
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))


class Feed(nn.Module):
    def __init__(self, width, gelu):
        super().__init__()
        self.c_fc, self.c_proj, self.gelu = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), gelu

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate=self.gelu))


class Block(nn.Module):
    """`post`: norms stand behind the additions."""

    def __init__(self, width, heads, causal=False, gelu="none", post=False):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(width), Attention(width, heads, causal), nn.LayerNorm(width), Feed(width, gelu)
        self.post = post

    def forward(self, x):
        if self.post:
            x = self.ln_1(x + self.attn(x))
            return self.ln_2(x + self.mlp(x))
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, length, layers, width, heads, vocabulary, **_):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.h, self.ln_f = nn.ModuleList([Block(width, heads, True, "tanh") for _ in range(layers)]), nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight).flatten(0, 1)


class Vit(nn.Module):
    def __init__(self, size, patch, layers, width, heads, classes, **_):
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, width, patch, patch), nn.Parameter(torch.zeros(1, 1, width))
        self.wpe = nn.Embedding((size // patch) ** 2 + 1, width)
        self.h, self.ln_f, self.head = nn.ModuleList([Block(width, heads) for _ in range(layers)]), nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.wpe.weight
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x)[:, 0])


class Bert(nn.Module):
    def __init__(self, length, layers, width, heads, vocabulary, **_):
        super().__init__()
        self.wte, self.wpe, self.wse = nn.Embedding(vocabulary, width), nn.Embedding(length, width), nn.Embedding(2, width)
        self.ln_0, self.h = nn.LayerNorm(width), nn.ModuleList([Block(width, heads, post=True) for _ in range(layers)])
        self.head, self.ln_f, self.decoder_bias = nn.Linear(width, width), nn.LayerNorm(width), nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens, segments):
        x = self.ln_0(self.wte(tokens) + self.wpe.weight[:tokens.shape[1]] + self.wse(segments))
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(F.gelu(self.head(x))), self.wte.weight, self.decoder_bias).flatten(0, 1)


NETS = {"mlp": Mlp, "fashion_cnn": FashionCnn, "resnet50": Resnet50, "gpt2": Gpt2, "vit": Vit, "bert": Bert}
TRANSFORMERS = ("gpt2", "vit", "bert")


def load(case, sizes, path):
    """The network with the weights of the ONNX file."""
    net, weights = NETS[case](**sizes), onnx_file.read_weights(path)
    for name, module in net.named_modules():
        if case in TRANSFORMERS and isinstance(module, nn.Linear):
            weights[f"{name}.weight"] = weights[f"{name}.weight"].T
    state = {name: torch.tensor(w.copy()) for name, w in weights.items()}
    missing = net.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys and all(k.endswith("num_batches_tracked") for k in missing.missing_keys), missing
    return net


class Step:
    """One training step after another on the same batches, from pinned memory.  `how`: eager or compile; `precision`: bfloat16 or
    float32."""

    def __init__(self, case, sizes, path, options, batches, how, precision):
        cuda = torch.cuda.is_available()
        self.device, self.low = torch.device("cuda" if cuda else "cpu"), precision == "bfloat16"
        self.net, self.turn = load(case, sizes, path).to(self.device).train(), 0
        self.layout = torch.channels_last if case == "resnet50" else torch.contiguous_format
        if case == "resnet50":
            self.net = self.net.to(memory_format=self.layout)
        if case in TRANSFORMERS:
            torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
        fused, lr = {"fused": True} if cuda else {}, float(options["lr"])
        if options["optimizer"] == "adamw":
            self.optimizer = torch.optim.AdamW(self.net.parameters(), lr, (0.9, float(options["beta2"])),
                                               weight_decay=float(options["weight-decay"]), **fused)
        else:
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr, float(options["momentum"]), **fused)
        self.forward = torch.compile(self.loss()) if how == "compile" else self.loss()
        self.batches = [[self.host(a) for a in b.values()] for b in batches]

    def host(self, array):
        a = torch.from_numpy(array)
        a = a.contiguous(memory_format=self.layout) if a.dim() == 4 else a
        return a.pin_memory() if self.device.type == "cuda" else a

    def loss(self):
        net, device, low = self.net, self.device.type, self.low

        def loss(*batch):
            with torch.autocast(device, torch.bfloat16, enabled=low):
                return F.cross_entropy(net(*batch[:-1]), batch[-1].flatten())

        return loss

    def __call__(self):
        batch = [a.to(self.device, non_blocking=True) for a in self.batches[self.turn % len(self.batches)]]
        self.turn += 1
        if batch[0].dim() == 4:
            batch[0] = batch[0].contiguous(memory_format=self.layout)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(*batch)
        loss.backward()
        self.optimizer.step()
        return loss

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()
