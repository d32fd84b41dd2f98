"""What adafactor, muon and schedule-free-adamw make of tests/cli/groups/model.onnx, in NumPy and float64, from the papers' formulas.

    tests/cli/optimizers.py NAME RUN [KEY=VALUE...]     compares the losses, evaluations and weights of a run's folder
    tests/cli/optimizers.py first-step START.onnx BY_SGD BY_MUON NAME=KIND...
    tests/cli/optimizers.py packages                    compares these formulas with torch.optim and the package schedulefree
"""
import json
import sys

import numpy as np

NAMES = ("stem", "body:0", "head")
STEPS, BATCH = 11, 4


def shape2(w):
    return w.ndim > 1


class ScheduleFree:
    """Defazio and others, arXiv:2405.15682, algorithm 1."""
    settings = dict(lr=0.0025, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, r=0.0, p=2.0)

    def __init__(self):
        self.t, self.sum, self.top = 0, 0.0, 0.0

    def begin(self, lr, **s):
        self.t, self.top = self.t + 1, max(self.top, lr)
        weight = self.t ** s["r"] * self.top ** s["p"]
        self.sum += weight
        self.c = weight / self.sum

    def step(self, name, y, g, state, lr, beta1, beta2, eps, weight_decay, r, p):
        v = state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g * g
        d = g / (np.sqrt(v / (1 - beta2 ** self.t)) + eps) + weight_decay * y
        z = state["z"] = state.get("z", y) - lr * d
        x = state["x"] = (1 - self.c) * state.get("x", y) + self.c * z
        return (1 - beta1) * z + beta1 * x

    def shown(self, w, state):
        """The weights that evaluations and exports use."""
        return state["x"]


class Plain:
    def __init__(self):
        self.t = 0

    def begin(self, lr, **s):
        self.t += 1

    def shown(self, w, state):
        return w


class Adafactor(Plain):
    """Shazeer and Stern, arXiv:1804.04235, algorithms 4 and 5, as torch.optim.Adafactor has them."""
    settings = dict(lr=0.01, beta2_decay=-0.8, eps1=np.finfo(np.float64).eps, eps2=1e-3, d=1.0, weight_decay=0.0)

    def step(self, name, w, g, state, lr, beta2_decay, eps1, eps2, d, weight_decay):
        rms = lambda a: np.sqrt(np.mean(a * a))
        new = self.t ** beta2_decay
        alpha = max(eps2, rms(w)) * min(lr, 1 / np.sqrt(self.t))
        if shape2(w):
            rows = state["rows"] = (1 - new) * state.get("rows", 0) + new * np.mean(g * g, -1, keepdims=True)
            columns = state["columns"] = (1 - new) * state.get("columns", 0) + new * np.mean(g * g, -2, keepdims=True)
            v = rows @ columns / np.maximum(np.mean(rows, -2, keepdims=True), eps1)
        else:
            v = state["v"] = (1 - new) * state.get("v", 0) + new * g * g
        u = g / np.sqrt(np.maximum(v, eps1 * eps1))
        return w * (1 - lr * weight_decay) - alpha / max(1, rms(u) / d) * u


def orthogonal(g, steps, eps):
    """Newton and Schulz' iteration (Jordan and others, "Muon", 2024)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / max(np.linalg.norm(x), eps)
    for _ in range(steps):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if g.shape[0] > g.shape[1] else x


class Muon(Plain):
    """Matrices but the head's by their orthogonalized momentum, all others by AdamW."""
    settings = dict(lr=0.001, momentum=0.95, nesterov=True, ns_steps=5, weight_decay=0.1, match=True, beta1=0.9, beta2=0.95, eps=1e-10)

    def step(self, name, w, g, state, lr, momentum, nesterov, ns_steps, weight_decay, match, beta1, beta2, eps):
        if w.ndim != 2 or name.startswith("head"):
            m = state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g
            v = state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g * g
            return w * (1 - lr * weight_decay) - lr / (1 - beta1 ** self.t) * m / (np.sqrt(v) / np.sqrt(1 - beta2 ** self.t) + eps)
        m = state["m"] = momentum * state.get("m", 0) + (1 - momentum) * g
        u = momentum * m + (1 - momentum) * g if nesterov else m
        fan_in, fan_out = w.shape       # MatMul's weights are [in, out]
        scale = 0.2 * np.sqrt(max(w.shape)) if match else np.sqrt(max(1, fan_out / fan_in))
        return w * (1 - lr * weight_decay) - lr * scale * orthogonal(u, ns_steps, 1e-7)


KINDS = {"schedule-free-adamw": ScheduleFree, "adafactor": Adafactor, "muon": Muon}


def forward(w, x, target):
    """The mean cross-entropy of three layers with tanh between them, and its gradient."""
    layers = [x]
    for i, n in enumerate(NAMES):
        s = layers[-1] @ w[n + ".weight"] + w[n + ".bias"]
        layers.append(np.tanh(s) if i < 2 else s)
    s = layers[-1] - layers[-1].max(1, keepdims=True)
    p = np.exp(s) / np.exp(s).sum(1, keepdims=True)
    loss, d, grads = -np.log(p[np.arange(len(x)), target]).mean(), p.copy(), {}
    d[np.arange(len(x)), target] -= 1
    d /= len(x)
    for i in (2, 1, 0):
        grads[NAMES[i] + ".weight"], grads[NAMES[i] + ".bias"] = layers[i].T @ d, d.sum(0)
        d = d @ w[NAMES[i] + ".weight"].T * (1 - layers[i] ** 2)
    return loss, grads


def batches(n, accumulate):
    while True:
        for at in range(0, n, BATCH * accumulate):
            yield slice(at, min(at + BATCH * accumulate, n))


def train(kind, start, x, target, accumulate=1, clip_norm=0, warmup=0, frozen="", **given):
    """The losses of the steps, the losses of all samples after each step, and the weights in the end."""
    opt, w, state, source = kind(), dict(start), {n: {} for n in start}, batches(len(x), accumulate)
    settings, losses, evals = dict(kind.settings, **given), [], []
    for step in range(STEPS):
        at = next(source)
        loss, g = forward(w, x[at], target[at])
        g = {n: a for n, a in g.items() if not frozen or not n.startswith(frozen)}
        if clip_norm:
            scale = min(1, clip_norm / (np.sqrt(sum((a * a).sum() for a in g.values())) + 1e-6))
            g = {n: a * scale for n, a in g.items()}
        rate = settings["lr"] * (min(1, (step + 1) / warmup) if warmup else 1)
        now = dict(settings, lr=rate)
        opt.begin(**now)
        for n in g:
            w[n] = opt.step(n, w[n], g[n], state[n], **now)
        shown = {n: opt.shown(w[n], state[n]) if n in g else w[n] for n in w}
        losses.append(loss)
        evals.append(forward(shown, x, target)[0])
    return losses, evals, shown


def load():
    import onnx
    from onnx import numpy_helper
    data = np.load("tests/cli/groups/data.npz")
    return weights(onnx, numpy_helper, "tests/cli/groups/model.onnx"), data["x"], data["target"]


def weights(onnx, numpy_helper, path):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer if t.name.split(".")[0] in NAMES}


def compare(name, run, words):
    import onnx
    from onnx import numpy_helper
    given = {k: json.loads(v) if v[0] not in "abcdefghijklmnopqrsuvwxyz" or v in ("true", "false") else v
             for k, v in (word.split("=") for word in words)}
    losses, evals, w = train(KINDS[name], *load(), **given)
    rows = [json.loads(line) for line in open(run + "/metrics.jsonl")]
    got = [r["loss"] for r in rows if "loss" in r]
    seen = [r["eval_loss"] for r in rows if "eval_loss" in r]
    last = weights(onnx, numpy_helper, run + "/model.onnx")
    apart = [max(np.abs(np.subtract(got, losses))) if len(got) == len(losses) else np.inf,
             max(np.abs(np.subtract(seen, evals))) if len(seen) == len(evals) else np.inf,
             max(np.abs(last[n] - w[n]).max() for n in w)]
    print(name, "losses, evaluations and weights are apart by", *apart)
    return not max(apart) <= 1e-8


def checkpoint(run):
    """The states after the first step of a run in float64."""
    with open(run + "/checkpoints/step-000000001/state.safetensors", "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    return {n: np.frombuffer(data[slice(*h["data_offsets"])], "f8").reshape(h["shape"]) for n, h in header.items()
            if n != "__metadata__" and h["dtype"] == "F64"}


def first_step(start, by_sgd, by_muon, kinds):
    """Compares the first step of muon with the gradient that a step of sgd with lr 1 shows; kinds: of the matrices, by name."""
    import onnx
    from onnx import numpy_helper
    before = {t.name: numpy_helper.to_array(t).astype("f8") for t in onnx.load(start).graph.initializer}
    sgd, muon = checkpoint(by_sgd), checkpoint(by_muon)
    worst, n = 0, 0
    for name, w in before.items():
        if name not in sgd or name + ".momentum_buffer" not in muon and name + ".exp_avg" not in muon:
            continue
        g, kind = w - sgd[name], kinds.get(name)
        rows = g.reshape(len(g), -1) if kind == "flat" else g
        if kind:
            u = np.stack([orthogonal(x, 5, 1e-7) for x in rows.reshape(-1, *rows.shape[-2:])]).reshape(g.shape)
            u *= 0.2 * np.sqrt(max(rows.shape[-2:]))
        else:
            u = g / (np.abs(g) + 1e-10)     # adamw's first step
        worst, n = max(worst, np.abs(w * (1 - 0.001 * 0.1) - 0.001 * u - muon[name]).max()), n + bool(kind)
    print(n, "matrices, apart by", worst)
    return not worst <= 1e-8 or n != len(kinds)


def packages():
    """Steps of random gradients, by the packages and by the formulas above."""
    import schedulefree
    import torch
    torch.set_default_dtype(torch.float64)
    torch.Tensor.bfloat16 = lambda t: t
    rng = np.random.default_rng(1)
    start = {"stem.weight": rng.standard_normal((5, 7)), "body:0.weight": rng.standard_normal((7, 6)), "stem.bias": rng.standard_normal(7)}
    grads = [{n: rng.standard_normal(a.shape) for n, a in start.items()} for _ in range(6)]

    def ours(kind, start, **given):
        opt, w, state = kind(), dict(start), {n: {} for n in start}
        for g in grads:
            opt.begin(**dict(kind.settings, **given))
            for n in w:
                w[n] = opt.step(n, w[n], g[n], state[n], **dict(kind.settings, **given))
        return w, {n: opt.shown(w[n], state[n]) for n in w}

    def theirs(make, start):
        w = {n: torch.tensor(a, requires_grad=True) for n, a in start.items()}
        opt = make(list(w.values()))
        if hasattr(opt, "train"):
            opt.train()
        for g in grads:
            for n in w:
                w[n].grad = torch.tensor(g[n])
            opt.step()
        trained = {n: t.detach().numpy().copy() for n, t in w.items()}
        if hasattr(opt, "eval"):
            opt.eval()
        return trained, {n: t.detach().numpy() for n, t in w.items()}

    def apart(a, b):
        return max(np.abs(x[n] - y[n]).max() for x, y in zip(a, b) for n in x)

    import torch.optim._muon as module
    source = module._zeropower_via_newtonschulz

    def in_float64(grad, coefficients, steps, eps):
        cast = torch.Tensor.to
        torch.Tensor.to = lambda t, *a, **k: cast(t, copy=True) if k.get("dtype") == torch.bfloat16 else cast(t, *a, **k)
        try:
            return source(grad, coefficients, steps, eps)
        finally:
            torch.Tensor.to = cast
    module._zeropower_via_newtonschulz = in_float64
    matrices = {n: a for n, a in start.items() if a.ndim == 2}
    flipped = dict(start=matrices, lr=0.1, weight_decay=0.05)
    S, T = schedulefree.AdamWScheduleFree, torch.optim
    rows = [("schedule-free", ours(ScheduleFree, start, lr=0.1, weight_decay=0.05), theirs(lambda p: S(p, lr=0.1, weight_decay=0.05), start)),
            ("schedule-free, r 1", ours(ScheduleFree, start, lr=0.1, r=1.0), theirs(lambda p: S(p, lr=0.1, r=1.0), start)),
            ("adafactor", ours(Adafactor, start), theirs(lambda p: T.Adafactor(p), start)),
            ("adafactor, decay", ours(Adafactor, start, lr=0.5, weight_decay=0.05, d=1.1, eps2=0.1, beta2_decay=-0.5),
             theirs(lambda p: T.Adafactor(p, lr=0.5, weight_decay=0.05, d=1.1, eps=(None, 0.1), beta2_decay=-0.5), start)),
            ("muon", ours(Muon, **flipped), theirs(lambda p: T.Muon(p, lr=0.1, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"), matrices)),
            ("muon, no nesterov", ours(Muon, nesterov=False, ns_steps=3, **flipped),
             theirs(lambda p: T.Muon(p, lr=0.1, weight_decay=0.05, nesterov=False, ns_steps=3, adjust_lr_fn="match_rms_adamw"), matrices))]
    for name, a, b in rows:
        print(f"{name}: apart by {apart(a, b):.3g}")
    return max(apart(a, b) for _, a, b in rows) > 1e-12


if sys.argv[1] == "first-step":
    sys.exit(first_step(*sys.argv[2:5], dict(word.split("=") for word in sys.argv[5:])))
sys.exit(packages() if sys.argv[1] == "packages" else compare(sys.argv[1], sys.argv[2], sys.argv[3:]))
