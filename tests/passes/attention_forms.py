#!/usr/bin/env python3
"""Exports attention as models spell it, with both exporters of PyTorch, and what PyTorch computes in float64: the losses of STEPS steps
of gradient descent, which tell of every gradient.  Scales are powers of two, so that float32 constants hold them.

    tests/passes/attention_forms.py      # writes attention_forms/*.onnx and attention_forms.h; needs torch, onnxscript
"""
import math
import pathlib
import warnings

import onnx
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
N, T, WIDTH, HEADS, DEPTH = 2, 5, 32, 2, 16
STEPS, RATE = 3, 0.5
warnings.filterwarnings("ignore")


class Packed(nn.Module):
    """One projection; `spell` makes [N, HEADS, T, DEPTH] of it."""

    def __init__(self, spell):
        super().__init__()
        self.qkv, self.out, self.spell = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), spell
        self.register_buffer("later", torch.full((T, T), float("-inf")).triu(1))

    def forward(self, x, keep):
        y = self.spell(self, self.qkv(x), keep)
        return self.out(y.transpose(1, 2).reshape(x.shape[0], T, WIDTH))


class Apart(nn.Module):
    def __init__(self, spell):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.spell = spell

    def forward(self, x, keep):
        q, k, v = (m(x).view(x.shape[0], -1, HEADS, DEPTH).transpose(1, 2) for m in (self.q, self.k, self.v))
        return self.out(self.spell(q, k, v, keep).transpose(1, 2).contiguous().view(x.shape[0], T, WIDTH))


class Module(nn.Module):
    """nn.MultiheadAttention."""

    def __init__(self, batch_first, weights, causal):
        super().__init__()
        self.attention, self.weights = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first), weights
        self.batch_first = batch_first
        self.register_buffer("mask", torch.full((T, T), float("-inf")).triu(1) if causal else None)

    def forward(self, x, keep):
        x = x * keep[:, :, None]
        x = x if self.batch_first else x.transpose(0, 1)
        y = self.attention(x, x, x, need_weights=self.weights, attn_mask=self.mask)[0]
        return y if self.batch_first else y.transpose(0, 1)


class Cross(nn.Module):
    """Keys and values of one projection, queries of another."""

    def __init__(self):
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, keep):
        q = self.q(x).view(-1, T, HEADS, DEPTH).transpose(1, 2)
        k, v = (t.view(-1, T, HEADS, DEPTH).transpose(1, 2) for t in self.kv(x * keep[:, :, None]).chunk(2, dim=-1))
        return self.out(((q @ k.transpose(-2, -1) / 4).softmax(-1) @ v).transpose(1, 2).reshape(-1, T, WIDTH))


def picked(net, qkv, keep):
    q, k, v = (qkv.view(-1, T, 3, HEADS, DEPTH)[:, :, i].transpose(1, 2) for i in range(3))
    return ((q @ k.transpose(-2, -1)) / math.sqrt(DEPTH) + net.later).softmax(-1) @ v


def interleaved(net, qkv, keep):
    q, k, v = (qkv.view(-1, T, HEADS, 3, DEPTH)[:, :, :, i].transpose(1, 2) for i in range(3))
    return ((q @ k.transpose(-2, -1) + net.later) * DEPTH ** -0.5).softmax(-1) @ v


def nano(net, qkv, keep):
    q, k, v = (t.view(-1, T, HEADS, DEPTH).transpose(1, 2) for t in qkv.split(WIDTH, dim=2))
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(DEPTH))
    return scores.masked_fill(net.later != 0, float("-inf")).softmax(-1) @ v


def nano_flash(net, qkv, keep):
    q, k, v = (t.view(-1, T, HEADS, DEPTH).transpose(1, 2) for t in qkv.split(WIDTH, dim=2))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def unbound(net, qkv, keep):
    q, k, v = qkv.reshape(-1, T, 3, HEADS, DEPTH).permute(2, 0, 3, 1, 4).unbind(0)
    return ((q * DEPTH ** -0.5) @ k.transpose(-2, -1)).softmax(-1) @ v


def unbound_flash(net, qkv, keep):
    q, k, v = qkv.reshape(-1, T, 3, HEADS, DEPTH).permute(2, 0, 3, 1, 4).unbind(0)
    return F.scaled_dot_product_attention(q, k, v)


def gpt2(net, qkv, keep):
    """Hugging Face's: later keys by Where, then padding added."""
    q, k, v = (t.view(-1, T, HEADS, DEPTH).transpose(1, 2) for t in qkv.split(WIDTH, dim=2))
    scores = torch.where(net.later == 0, (q @ k.transpose(-1, -2)) / 4.0, torch.finfo(torch.float32).min)
    return (scores + (1.0 - keep[:, None, None, :]) * -10000.0).softmax(-1) @ v


def gpt2_least(net, qkv, keep):
    """The same with the least number for both, which leaves rows of padding in front without anything they see."""
    q, k, v = (t.view(-1, T, HEADS, DEPTH).transpose(1, 2) for t in qkv.split(WIDTH, dim=2))
    least = torch.finfo(torch.float32).min
    scores = torch.where(net.later == 0, (q @ k.transpose(-1, -2)) / 4.0, least)
    return (scores + (1.0 - keep[:, None, None, :]) * least).softmax(-1) @ v


def bert(q, k, v, keep):
    scores = q @ k.transpose(-1, -2) / 4.0
    return (scores + (1.0 - keep[:, None, None, :]) * -10000.0).softmax(-1) @ v


def distilbert(q, k, v, keep):
    scores = (q / 4.0) @ k.transpose(2, 3)
    hidden = (keep == 0).view(-1, 1, 1, T).expand_as(scores)
    return scores.masked_fill(hidden, -1e9).softmax(-1) @ v


def bert_flash(q, k, v, keep):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(keep != 0)[:, None, None, :])


def rows(q, k, v, keep):
    """Heads joined with samples, as torch.bmm wants them."""
    q, k, v = (t.reshape(-1, T, DEPTH) for t in (q, k, v))
    return (torch.bmm(q * 0.25, k.transpose(1, 2)).softmax(-1) @ v).view(-1, HEADS, T, DEPTH)


FORMS = {"picked": lambda: Packed(picked), "interleaved": lambda: Packed(interleaved), "nano": lambda: Packed(nano),
         "nano_flash": lambda: Packed(nano_flash), "unbound": lambda: Packed(unbound), "unbound_flash": lambda: Packed(unbound_flash),
         "gpt2": lambda: Packed(gpt2), "gpt2_least": lambda: Packed(gpt2_least),
         "bert": lambda: Apart(bert), "distilbert": lambda: Apart(distilbert),
         "bert_flash": lambda: Apart(bert_flash), "rows": lambda: Apart(rows), "cross": Cross,
         "module": lambda: Module(True, False, False), "module_weights": lambda: Module(True, True, False),
         "module_tokens_first": lambda: Module(False, False, True), "module_tokens_weights": lambda: Module(False, True, True)}
# Packed where one projection is read whole.
APART = ("bert", "distilbert", "bert_flash", "rows", "cross")


def numbers(out, name, values):
    print(f"static const double {name}[] = {{", file=out)
    for i in range(0, len(values), 5):
        print("    " + ", ".join(map(repr, values[i:i + 5])) + ",", file=out)
    print("};", file=out)


def strip(path):
    """Without what the exporter tells of the nodes' source, which is most of a small file."""
    model = onnx.load(path)
    for x in (*model.graph.node, *model.graph.input, *model.graph.output):
        del x.metadata_props[:]
        x.doc_string = ""
    del model.graph.value_info[:]
    onnx.save(model, path)


def losses(net, x, keep, target):
    found = []
    for _ in range(STEPS):
        net.zero_grad()
        loss = F.mse_loss(net(x, keep), target)
        loss.backward()
        found.append(loss.item())
        with torch.no_grad():
            for p in net.parameters():
                p -= RATE * p.grad
    return found


def main():
    torch.manual_seed(7)
    x, target = torch.randn(N, T, WIDTH), torch.randn(N, T, WIDTH)
    keep = torch.tensor([[0.0, 0, 1, 1, 1], [1, 1, 1, 0, 0]])
    table = []
    for name, make in FORMS.items():
        torch.manual_seed(3)
        net = make().train()
        for p in net.parameters():
            nn.init.uniform_(p, -0.4, 0.4)
        args, names = (x, keep), ["x", "keep"]
        torch.onnx.export(net, args, str(HERE / f"attention_forms/{name}.onnx"), opset_version=17, dynamo=False,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=names,
                          output_names=["y"], dynamic_axes={n: {0: "N"} for n in names})
        torch.onnx.export(net.eval(), args, str(HERE / f"attention_forms/{name}_dynamo.onnx"), dynamo=True, input_names=names,
                          output_names=["y"], external_data=False, verbose=False)
        for path in HERE.glob(f"attention_forms/{name}*.onnx"):
            strip(path)
        table.append((name, losses(net.double(), x.double(), keep.double(), target.double())))
    with open(HERE / "attention_forms.h", "w") as out:
        print("/* Made by attention_forms.py. */", file=out)
        numbers(out, "attention_x", x.double().flatten().tolist())
        numbers(out, "attention_keep", keep.double().flatten().tolist())
        numbers(out, "attention_target", target.double().flatten().tolist())
        print(f"enum {{ ATTENTION_STEPS = {STEPS} }};\nstatic const double attention_rate = {RATE};", file=out)
        print("typedef struct {\n    const char *file;\n    bool packed;\n    double loss[ATTENTION_STEPS];\n} AttentionForm;", file=out)
        print("static const AttentionForm attention_forms[] = {", file=out)
        for name, loss in table:
            for file in (name, f"{name}_dynamo"):
                print(f'    {{ "{file}", {str(name not in APART).lower()}, {{ {", ".join(map(repr, loss))} }} }},', file=out)
        print("};", file=out)


main()
