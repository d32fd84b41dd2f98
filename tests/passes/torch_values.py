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
    print("typedef struct { const char *name; const LossDef *loss; int ignore, weights; double smoothing, sum, mean; double grad[24]; } ClassLoss;")
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
                    c_name = name.replace("-", "_")
                    print(f'    {{ "{name} ignore={ignore} weights={w is not None} smoothing={eps}", &loss_{c_name}, {-1 if ignore is None else ignore}, '
                          f'{int(w is not None)}, {eps}, {total!r}, {mean!r},\n      {{ {", ".join(map(repr, grad))} }} }},')
    print("};")


def element_losses():
    x = torch.tensor([0.25, 0.5, 0.75, 0.0, 1.0, 0.125])
    z = torch.tensor([1.0, 0.0, 0.3, 1.0, 0.0, 0.125])
    array("element_x", x)
    array("element_z", z)
    print("typedef struct { const char *name; const LossDef *loss; const char *args; double mean; double grad[6]; } ElementLoss;")
    print("static const ElementLoss element_losses[] = {")
    for name, args, f in (("mse", None, F.mse_loss), ("l1", None, F.l1_loss), ("bce", None, F.binary_cross_entropy),
                          ("bce-logits", None, F.binary_cross_entropy_with_logits), ("huber", None, F.huber_loss),
                          ("huber", "0.4", lambda x, z: F.huber_loss(x, z, delta=0.4))):
        v = x.clone().requires_grad_(True)
        y = f(v, z)
        y.backward()
        text = f'"{args}"' if args else "NULL"
        print(f'    {{ "{name}", &loss_{name.replace("-", "_")}, {text}, {y.item()!r}, '
              f'{{ {", ".join(map(repr, v.grad.tolist()))} }} }},')
    print("};")


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of arXiv:2302.06675, line by line."""

    def __init__(self, w, lr, beta1=0.9, beta2=0.99, weight_decay=0.0):
        super().__init__(w, dict(lr=lr, beta1=beta1, beta2=beta2, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                m = self.state[w].setdefault("m", torch.zeros_like(w))
                g, b1, b2 = w.grad, group["beta1"], group["beta2"]
                c = b1 * m + (1 - b1) * g
                w -= group["lr"] * (torch.sign(c) + group["weight_decay"] * w)
                self.state[w]["m"] = b2 * m + (1 - b2) * g


class Lamb(torch.optim.Optimizer):
    """Algorithm 2 of arXiv:1904.00962, line by line, with phi(z) = z; a layer is a parameter."""

    def __init__(self, w, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0):
        super().__init__(w, dict(lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay))
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        for group in self.param_groups:
            for w in group["params"]:
                s, g, b1, b2 = self.state[w], w.grad, group["beta1"], group["beta2"]
                s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
                s["v"] = b2 * s.get("v", 0) + (1 - b2) * g ** 2
                m, v = s["m"] / (1 - b1 ** self.t), s["v"] / (1 - b2 ** self.t)
                u = m / (torch.sqrt(v) + group["eps"]) + group["weight_decay"] * w
                ratio = torch.linalg.norm(w) / torch.linalg.norm(u) if (w != 0).any() and (u != 0).any() else 1
                w -= group["lr"] * ratio * u


class Lars(torch.optim.Optimizer):
    """Algorithm 1 of arXiv:1708.03888, line by line."""

    def __init__(self, w, lr, momentum=0.0, trust=0.001, weight_decay=0.0):
        super().__init__(w, dict(lr=lr, momentum=momentum, trust=trust, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                g, decay, norm = w.grad, group["weight_decay"], torch.linalg.norm
                local = group["trust"] * norm(w) / (norm(g) + decay * norm(w)) if (w != 0).any() and (g != 0).any() else 1
                v = group["momentum"] * self.state[w].get("v", 0) + group["lr"] * local * (g + decay * w)
                self.state[w]["v"] = v
                w -= v


class ScheduleFree(torch.optim.Optimizer):
    """Algorithm 1 of arXiv:2405.15682, line by line.  The package schedulefree's AdamWScheduleFree has the same numbers."""

    def __init__(self, w, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, power=0.0, lr_power=2.0):
        super().__init__(w, dict(lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay, power=power, lr_power=lr_power,
                                 t=0, weights=0.0, top=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            group["t"] += 1
            b1, b2, lr, t = group["beta1"], group["beta2"], group["lr"], group["t"]
            group["top"] = max(lr, group["top"])
            weight = t ** group["power"] * group["top"] ** group["lr_power"]
            group["weights"] += weight
            c = weight / group["weights"]
            for w in group["params"]:
                s, g = self.state[w], w.grad
                s["v"] = b2 * s.get("v", 0) + (1 - b2) * g ** 2
                d = g / (torch.sqrt(s["v"] / (1 - b2 ** t)) + group["eps"]) + group["weight_decay"] * w
                z = s.get("z", w) - lr * d
                s["x"] = (1 - c) * s.get("x", w) + c * z
                s["z"] = z.clone()
                w.copy_((1 - b1) * z + b1 * s["x"])


def optimizers():
    steps, n = 4, 5
    w0 = [torch.randn(n), torch.randn(2)]
    g = [[torch.randn(n), torch.randn(2)] for _ in range(steps)]
    array("start_w", torch.cat(w0))
    array("step_gradients", torch.cat([torch.cat(x) for x in g]))
    print("typedef struct { const char *name; const OptimizerDef *optimizer; const char *settings; double lr, clip, norm; "
          "double w[28]; } Updates;")
    print("static const Updates updates[] = {")
    T = torch.optim
    table = [
        ("sgd", "sgd", {"momentum": 0}, T.SGD, {}, 0.0),
        ("sgd with decay", "sgd", {"weight-decay": 0.05, "momentum": 0}, T.SGD, {"weight_decay": 0.05}, 0.0),
        ("sgd with momentum", "sgd", {"weight-decay": 0.05, "momentum": 0.9}, T.SGD, {"weight_decay": 0.05, "momentum": 0.9}, 0.0),
        ("sgd with nesterov", "sgd", {"weight-decay": 0.05, "momentum": 0.9, "nesterov": "true"}, T.SGD,
         {"weight_decay": 0.05, "momentum": 0.9, "nesterov": True}, 0.0),
        ("sgd clipped", "sgd", {"weight-decay": 0.05, "momentum": 0.9}, T.SGD, {"weight_decay": 0.05, "momentum": 0.9}, 0.5),
        ("sgd not clipped", "sgd", {"momentum": 0}, T.SGD, {}, 100.0),
        ("adam", "adam", {}, T.Adam, {}, 0.0),
    ]
    small = {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "weight-decay": 0.05}
    torch_small = {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.05}
    table += [
        ("adam with decay", "adam", small, T.Adam, torch_small, 0.0),
        ("adamw", "adamw", small, T.AdamW, torch_small, 0.0),
        ("adamw clipped", "adamw", {"weight-decay": 0.05}, T.AdamW, {"weight_decay": 0.05}, 0.25),
    ]
    table += [
        ("lion", "lion", {}, Lion, {}, 0.0),
        ("lion with decay", "lion", {"beta1": 0.8, "beta2": 0.95, "weight-decay": 0.05}, Lion,
         {"beta1": 0.8, "beta2": 0.95, "weight_decay": 0.05}, 0.5),
        ("lamb", "lamb", {}, Lamb, {}, 0.0),
        ("lamb with decay, clipped", "lamb", small, Lamb, {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "weight_decay": 0.05}, 0.5),
        ("lars", "lars", {}, Lars, {}, 0.0),
        ("lars with decay and momentum, clipped", "lars", {"trust": 0.02, "momentum": 0.9, "weight-decay": 0.05}, Lars,
         {"trust": 0.02, "momentum": 0.9, "weight_decay": 0.05}, 0.5),
        ("adagrad", "adagrad", {}, T.Adagrad, {}, 0.0),
        ("adagrad with decay", "adagrad", {"eps": 1e-3, "weight-decay": 0.05}, T.Adagrad, {"eps": 1e-3, "weight_decay": 0.05}, 0.5),
        ("adagrad with lr-decay and initial-sum", "adagrad", {"lr-decay": 0.3, "initial-sum": 0.7}, T.Adagrad,
         {"lr_decay": 0.3, "initial_accumulator_value": 0.7}, 0.0),
        ("sgd dampened", "sgd", {"weight-decay": 0.05, "momentum": 0.9, "dampening": 0.3}, T.SGD,
         {"weight_decay": 0.05, "momentum": 0.9, "dampening": 0.3}, 0.0),
        ("amsgrad", "adam", dict(small, amsgrad="true"), T.Adam, dict(torch_small, amsgrad=True), 0.0),
        ("adamw with amsgrad", "adamw", dict(small, amsgrad="true"), T.AdamW, dict(torch_small, amsgrad=True), 0.0),
        ("schedule-free-adamw", "schedule_free_adamw", {}, ScheduleFree, {}, 0.0),
        ("schedule-free-adamw with decay, clipped", "schedule_free_adamw", dict(small, **{"average-power": 1, "average-lr-power": 0}),
         ScheduleFree, {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "weight_decay": 0.05, "power": 1.0, "lr_power": 0.0}, 0.5),
        ("rmsprop", "rmsprop", {}, T.RMSprop, {}, 0.0),
        ("rmsprop with momentum", "rmsprop", {"alpha": 0.9, "momentum": 0.9, "eps": 1e-3}, T.RMSprop,
         {"alpha": 0.9, "momentum": 0.9, "eps": 1e-3}, 0.0),
        ("rmsprop centered", "rmsprop", {"centered": "true", "weight-decay": 0.05, "momentum": 0.5}, T.RMSprop,
         {"centered": True, "weight_decay": 0.05, "momentum": 0.5}, 0.0),
    ]
    for name, kind, settings, make, keywords, clip in table:
        w = [x.clone().requires_grad_(True) for x in w0]
        opt = make(w, lr=0.1, **keywords)
        seen, norm = [], 0.0
        for step in range(steps):
            for p, q in zip(w, g[step]):
                p.grad = q.clone()
            if clip:
                norm = torch.nn.utils.clip_grad_norm_(w, clip).item()
            opt.step()
            seen += torch.cat([p.detach() for p in w]).tolist()
        text = ";".join(f"{k}={v}" for k, v in settings.items())
        print(f'    {{ "{name}", &optimizer_{kind}, "{text}", 0.1, {clip}, {norm!r},\n'
              f'      {{ {", ".join(map(repr, seen))} }} }},')
    print("};")


if __name__ == "__main__":
    print("/* Made by torch_values.py. */\n#include \"graph/recipes/metric.h\"\n#include \"graph/recipes/optimizer.h\"\n")
    losses()
    element_losses()
    optimizers()
