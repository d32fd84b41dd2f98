#!/usr/bin/python3
"""Writes torch_values.h: what PyTorch computes for the losses and optimizers of tests/passes, in float64.

    tests/passes/torch_values.py > tests/passes/torch_values.h
"""
import torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)


def array(name, t, ctype="double"):
    values = t.detach().reshape(-1).tolist()
    text = ", ".join(repr(v) if ctype == "double" else str(int(v)) for v in values)
    lines, line = [], "    "
    for word in text.split(" "):
        if len(line) + len(word) > 120:
            lines.append(line.rstrip())
            line = "    "
        line += word + " "
    print(f"static const {ctype} {name}[] = {{\n" + "\n".join(lines + [line.rstrip()]) + "\n};")


def losses():
    n, c, d = 4, 3, 2
    scores = torch.randn(n, c, d)
    target = torch.tensor([[0, 2], [1, 1], [2, 0], [1, 2]])
    weights = torch.tensor([0.5, 1.25, 2.0])
    array("scores", scores)
    array("labels", target, "long long")
    array("class_weights", weights)
    print("typedef struct { const char *name; int loss, ignore, weights; double smoothing, sum, mean; double grad[24]; } ClassLoss;")
    print("static const ClassLoss class_losses[] = {")
    for loss in (1, 2):
        for ignore in (None, 1):
            for w in (None, weights):
                for eps in (0.0, 0.3) if loss == 1 else (0.0,):
                    def f(reduction):
                        x = scores.clone().requires_grad_(True)
                        k = dict(weight=w, ignore_index=-100 if ignore is None else ignore, reduction=reduction)
                        y = F.cross_entropy(x, target, label_smoothing=eps, **k) if loss == 1 else F.nll_loss(x, target, **k)
                        y.backward()
                        return y.item(), x.grad.reshape(-1).tolist()
                    mean, grad = f("mean")
                    total, _ = f("sum")
                    name = ["", "cross-entropy", "nll"][loss]
                    print(f'    {{ "{name} ignore={ignore} weights={w is not None} smoothing={eps}", {loss}, {-1 if ignore is None else ignore}, '
                          f'{int(w is not None)}, {eps}, {total!r}, {mean!r},\n      {{ {", ".join(map(repr, grad))} }} }},')
    print("};")


def element_losses():
    x = torch.tensor([0.25, 0.5, 0.75, 0.0, 1.0, 0.125])
    z = torch.tensor([1.0, 0.0, 0.3, 1.0, 0.0, 0.125])
    array("element_x", x)
    array("element_z", z)
    print("typedef struct { const char *name; int loss; double mean; double grad[6]; } ElementLoss;")
    print("static const ElementLoss element_losses[] = {")
    for name, kind, f in (("mse", 3, F.mse_loss), ("l1", 4, F.l1_loss), ("bce", 5, F.binary_cross_entropy),
                          ("bce-logits", 6, F.binary_cross_entropy_with_logits)):
        v = x.clone().requires_grad_(True)
        y = f(v, z)
        y.backward()
        print(f'    {{ "{name}", {kind}, {y.item()!r}, {{ {", ".join(map(repr, v.grad.tolist()))} }} }},')
    print("};")


def optimizers():
    steps, n = 4, 5
    w0 = [torch.randn(n), torch.randn(2)]
    g = [[torch.randn(n), torch.randn(2)] for _ in range(steps)]
    array("start_w", torch.cat(w0))
    array("step_gradients", torch.cat([torch.cat(x) for x in g]))
    print("typedef struct { const char *name; int optimizer, nesterov; double lr, momentum, decay, beta1, beta2, eps, clip, norm; "
          "double w[28]; } Updates;")
    print("static const Updates updates[] = {")
    table = [
        ("sgd", 0, 0, 0.1, 0.0, 0.0, 0.9, 0.999, 1e-8, 0.0),
        ("sgd with decay", 0, 0, 0.1, 0.0, 0.05, 0.9, 0.999, 1e-8, 0.0),
        ("sgd with momentum", 0, 0, 0.1, 0.9, 0.05, 0.9, 0.999, 1e-8, 0.0),
        ("sgd with nesterov", 0, 1, 0.1, 0.9, 0.05, 0.9, 0.999, 1e-8, 0.0),
        ("sgd clipped", 0, 0, 0.1, 0.9, 0.05, 0.9, 0.999, 1e-8, 0.5),
        ("sgd not clipped", 0, 0, 0.1, 0.0, 0.0, 0.9, 0.999, 1e-8, 100.0),
        ("adam", 1, 0, 0.1, 0.0, 0.0, 0.9, 0.999, 1e-8, 0.0),
        ("adam with decay", 1, 0, 0.1, 0.0, 0.05, 0.8, 0.95, 1e-3, 0.0),
        ("adamw", 2, 0, 0.1, 0.0, 0.05, 0.8, 0.95, 1e-3, 0.0),
        ("adamw clipped", 2, 0, 0.1, 0.0, 0.05, 0.9, 0.999, 1e-8, 0.25),
    ]
    for name, kind, nesterov, lr, momentum, decay, b1, b2, eps, clip in table:
        w = [x.clone().requires_grad_(True) for x in w0]
        if kind == 0:
            opt = torch.optim.SGD(w, lr=lr, momentum=momentum, weight_decay=decay, nesterov=bool(nesterov))
        else:
            opt = (torch.optim.Adam, torch.optim.AdamW)[kind - 1](w, lr=lr, betas=(b1, b2), eps=eps, weight_decay=decay)
        seen, norm = [], 0.0
        for step in range(steps):
            for p, q in zip(w, g[step]):
                p.grad = q.clone()
            if clip:
                norm = torch.nn.utils.clip_grad_norm_(w, clip).item()
            opt.step()
            seen += torch.cat([p.detach() for p in w]).tolist()
        print(f'    {{ "{name}", {kind}, {nesterov}, {lr}, {momentum}, {decay}, {b1}, {b2}, {eps}, {clip}, {norm!r},\n'
              f'      {{ {", ".join(map(repr, seen))} }} }},')
    print("};")


print("/* Made by torch_values.py. */")
losses()
element_losses()
optimizers()
