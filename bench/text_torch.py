#!/usr/bin/env python3
"""Trains the network of docs/tutorial/text.md in PyTorch, from the same weights, with as many steps of the same size.

    bench/text_torch.py FOLDER [STEPS [SEED]]       # FOLDER: code.txt and gpt.onnx of docs/tutorial/text.py

Prints the validation loss.
"""
import math
import pathlib
import sys
import time

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional as F

BATCH, RATE, DECAY, WARMUP = 16, 0.002, 0.01, 100


def loss_of(w, ids):
    x, heads, layers = ids[:, :-1], 4, sum(n.endswith(".norm1.weight") for n in w)
    n, length = x.shape
    norm = lambda x, name: F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])
    linear = lambda x, name: x @ w[f"{name}.weight"] + w[f"{name}.bias"]
    h = w["token.weight"][x] + w["position.weight"]
    for i in range(layers):
        y = norm(h, f"{i}.norm1")
        q, k, v = (linear(y, f"{i}.{part}").view(n, length, heads, -1).transpose(1, 2) for part in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, length, -1)
        h = h + linear(y, f"{i}.out")
        h = h + linear(F.relu(linear(norm(h, f"{i}.norm2"), f"{i}.up")), f"{i}.down")
    logits = norm(h, "norm") @ w["head.weight"]
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def main():
    folder, steps = pathlib.Path(sys.argv[1]), int((sys.argv[2:] or [2000])[0])
    torch.manual_seed(int((sys.argv[3:] or [0])[0]))
    graph = onnx.load(folder / "gpt.onnx").graph
    w = {t.name: torch.tensor(numpy_helper.to_array(t)).requires_grad_() for t in graph.initializer if "." in t.name}
    text = torch.tensor(np.fromfile(folder / "code.txt", "u1").astype("i8"))
    length = graph.input[0].type.tensor_type.shape.dim[1].dim_value
    windows = (len(text) - 1) // length
    train = windows - round(windows * 0.1)
    held = torch.stack([text[i * length:(i + 1) * length + 1] for i in range(train, windows)])
    optimizer = torch.optim.AdamW(w.values(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: (s + 1) / WARMUP if s < WARMUP else
                                                 (1 + math.cos(math.pi * (s - WARMUP) / (steps - WARMUP))) / 2)
    begin = time.time()
    for _ in range(steps):
        at = torch.randint((train - 1) * length + 1, (BATCH,))
        optimizer.zero_grad()
        loss_of(w, torch.stack([text[i:i + length + 1] for i in at])).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        parts = held.split(256)
        loss = sum(loss_of(w, p).item() * len(p) for p in parts) / len(held)
    print(f"{steps} steps in {time.time() - begin:.0f} s, validation loss {loss:.4f}")


main()
