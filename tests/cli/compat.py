#!/usr/bin/env python3
"""Writes tests/cli/compat/: a model with batch-norm, data of 13 and of 5 samples, and what torch.nn.DataParallel, DistributedDataParallel
and PyTorch-Encoding compute of them in float64 on 4 replicas (torch.txt, a line a case: its name, its options, the loss of each step, and
in after.npz the parameters and running statistics at the end).  Their published rules are applied to the parts one by one, with autograd:

    DP         scatter by chunk; the loss on the gathered scores; statistics of each part, the running ones those of part 0
    DDP        every rank's own mean loss; gradients summed and divided by the number of ranks; buffers of rank 0 before each forward
    MM         as DDP, with running statistics of each rank, whose mean all take after each epoch, and for an evaluation within one
    Encoding   parts by chunk; the sum of the parts' mean losses by the number of parts
    jactorch   the variance's larger of itself and epsilon, its running one by n - 1

A part without samples adds 0.  What replicas compute of their parts is a loss of PyTorch's, or one that own.onnx, or criterion.onnx
behind the model, computes itself: sums that weigh samples unlike, all pairs of samples of the part, a parameter of the part's mean, rows
and samples apart.  tests/cli/compat_gloo.py has processes under DistributedDataParallel itself compute the same.

    pip install torch onnx numpy
    tests/cli/compat.py
"""
import os

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compat")
torch.set_num_threads(1)
REPLICAS, STEPS, LR = 4, 10, 0.2
MOMENTUM, EPSILON, CLAMP = float(np.float32(0.9)), float(np.float32(1e-5)), 0.5  # attributes of ONNX are float32
rng = np.random.default_rng(11)
start = {"conv.weight": rng.standard_normal((5, 3, 2)) * 0.5, "conv.bias": rng.standard_normal(5) * 0.1,
         "bn.weight": rng.uniform(0.5, 1.5, 5), "bn.bias": rng.standard_normal(5) * 0.2,
         "bn.running_mean": rng.standard_normal(5) * 0.1, "bn.running_var": rng.uniform(0.5, 2, 5),
         "head.weight": rng.standard_normal((15, 4)) * 0.4, "head.bias": rng.standard_normal(4) * 0.1}
data = {n: (rng.standard_normal((n, 3, 4)), rng.integers(0, 4, n)) for n in (13, 5)}
values = {n: rng.standard_normal((n, 4)) for n in (13, 5)}
class_weights = rng.uniform(0.5, 2, 4)
proj = rng.standard_normal((4, 2)) * 0.5


def save(name, epsilon, twice=False):
    """`twice`: the batch-norm is called a second time, on the tanh of what it gave."""
    def norm(x, y):
        return h.make_node("BatchNormalization", [x, "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"], [y], momentum=0.9,
                           epsilon=epsilon)

    nodes = [h.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["c"]),
             *([norm("c", "b1"), h.make_node("Tanh", ["b1"], ["t"]), norm("t", "b")] if twice else [norm("c", "b")]),
             h.make_node("Relu", ["b"], ["r"]), h.make_node("Flatten", ["r"], ["f"]), h.make_node("MatMul", ["f", "head.weight"], ["m"]),
             h.make_node("Add", ["m", "head.bias"], ["scores"])]
    graph = h.make_graph(nodes, "compat", [h.make_tensor_value_info("x", T.DOUBLE, ["batch", 3, 4])],
                         [h.make_tensor_value_info("scores", T.DOUBLE, ["batch", 4])], [nh.from_array(a, n) for n, a in start.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(HERE, name))
    np.save(os.path.join(HERE, "weights.npy"), class_weights)
    for n, (x, target) in data.items():
        np.savez(os.path.join(HERE, f"data{n}.npz"), x=x, target=target)
        np.savez(os.path.join(HERE, f"values{n}.npz"), x=x, target=values[n])


def losses_of(scores):
    """Nodes of the losses that own_loss and others below compute."""
    c = lambda name, a: h.make_node("Constant", [], [name], value=nh.from_array(np.array(a), name))
    n = h.make_node
    nodes = [n("LogSoftmax", [scores], ["logp"], axis=1), c("one", np.array([1], dtype=np.int64)), n("Unsqueeze", ["target", "one"], ["t1"]),
             n("GatherElements", ["logp", "t1"], ["picked"], axis=1), n("Cast", ["t1"], ["tf"], to=T.DOUBLE), c("half", 0.5), c("unit", 1.0),
             n("Mul", ["tf", "half"], ["th"]), n("Add", ["th", "unit"], ["w"]), n("Mul", ["w", "picked"], ["wp"]),
             n("ReduceSum", ["wp"], ["num"], keepdims=0), n("ReduceSum", ["w"], ["den"], keepdims=0), n("Div", ["num", "den"], ["nll"]),
             n("Transpose", [scores], ["st"], perm=[1, 0]), n("MatMul", [scores, "st"], ["pairs"]), n("Mul", ["pairs", "half"], ["s"]),
             n("Exp", ["s"], ["es"]), n("ReduceSum", ["es", "one"], ["rows"], keepdims=0), n("Log", ["rows"], ["lse"]),
             n("ReduceMean", ["lse"], ["mlse"], keepdims=0), c("tenth", 0.1), n("Mul", ["mlse", "tenth"], ["contrast"]),
             n("Sub", ["contrast", "nll"], ["own_loss"]),
             n("ReduceMean", [scores], ["center"], axes=[0], keepdims=1), n("MatMul", ["center", "proj.weight"], ["cp"]),
             n("Mul", ["cp", "cp"], ["cc"]), n("ReduceMean", ["cc"], ["center_loss"], keepdims=0),
             n("Mul", [scores, scores], ["sq"]), n("ReduceMean", ["sq"], ["msq"], keepdims=0), n("Sqrt", ["msq"], ["spread"]),
             c("flat", np.array([-1], dtype=np.int64)), n("Reshape", ["sq", "flat"], ["row_loss"]),
             n("ReduceMax", [scores], ["sample_loss"], axes=[1], keepdims=0)]
    outputs = [h.make_tensor_value_info(o, T.DOUBLE, s) for o, s in (("own_loss", []), ("center_loss", []), ("spread", []), ("row_loss", ["rows"]),
                                                                     ("sample_loss", ["batch"]))]
    return nodes, h.make_tensor_value_info("target", T.INT64, ["batch"]), outputs


def save_own():
    model = onnx.load(os.path.join(HERE, MODEL))
    nodes, target, outputs = losses_of("scores")
    weight = nh.from_array(proj, "proj.weight")
    g = model.graph
    own = h.make_graph(list(g.node) + nodes, "own", list(g.input) + [target], outputs, list(g.initializer) + [weight])
    scores = h.make_tensor_value_info("scores", T.DOUBLE, ["batch", 4])
    criterion = h.make_graph(nodes, "criterion", [scores, target], outputs, [weight])
    for name, graph in (("own.onnx", own), ("criterion.onnx", criterion)):
        m = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(m, full_check=True)
        onnx.save(m, os.path.join(HERE, name))


def own_loss(y, t, p):
    w = 1 + 0.5 * t.double()
    nll = -(w * torch.log_softmax(y, 1)[torch.arange(len(t)), t]).sum() / w.sum()
    return nll + 0.1 * torch.log(torch.exp(y @ y.T / 2).sum(1)).mean()


def all_losses(y, t, p):
    return own_loss(y, t, p) + ((y.mean(0) @ p["proj.weight"]) ** 2).mean() + (y ** 2).mean() + y.max(1).values.mean()


def chunks(n):
    """torch.chunk: parts of ceil(n / REPLICAS), the last smaller, and none for who is left."""
    each = -(-n // REPLICAS)
    return [range(min(r * each, n), min((r + 1) * each, n)) for r in range(REPLICAS)]


def balanced(n):
    sizes = [n // REPLICAS + (r < n % REPLICAS) for r in range(REPLICAS)]
    return [range(sum(sizes[:r]), sum(sizes[:r + 1])) for r in range(REPLICAS)]


def forward(p, x, stats, clamp=False, twice=False):
    """Scores in training mode; `stats`, running mean and variance, is updated (population variance, as ONNX)."""
    b = norm(p, F.conv1d(x, p["conv.weight"], p["conv.bias"]), stats, clamp)
    if twice:
        b = norm(p, torch.tanh(b), stats, clamp)
    return torch.relu(b).flatten(1) @ p["head.weight"] + p["head.bias"]


def norm(p, c, stats, clamp):
    mean, var = c.mean((0, 2)), c.var((0, 2), unbiased=False)
    n = c.numel() // 5
    for s, new in zip(stats, (mean, var * n / (n - 1) if clamp else var)):
        s.mul_(MOMENTUM).add_((1 - MOMENTUM) * new.detach())
    return (c - mean[:, None]) * (torch.clamp(var, CLAMP) if clamp else var + EPSILON)[:, None] ** -0.5 * p["bn.weight"][:, None] + p["bn.bias"][:, None]


def mean_loss(scores, target):
    return F.cross_entropy(scores, target)


def weighted(scores, target):
    return F.cross_entropy(scores, target, weight=torch.tensor(class_weights), ignore_index=3)


def squared(scores, target):
    return F.mse_loss(scores, target)


def huber(scores, target):
    return F.huber_loss(scores, target)


def counts(criterion, target):
    """Is there anything in the part that the loss counts?"""
    return len(target) > 0 and not (criterion is weighted and bool((target == 3).all()))


def train(samples, batch, parts, total, criterion=mean_loss, accumulate=1, bn="local", group=1, clamp=False, across=False, reduce=None,
          twice=False, every=False, body=None, fixed=()):
    """`total` makes the loss of the parts' scores and targets; statistics are those of `group` replicas together.  bn local: every step
    begins with the first group's running statistics; own: each keeps its own; average: so, and their mean after each epoch, or `every` batch.
    `body`: the loss of all parameters but proj.weight and head's; `fixed`: those that are not trained."""
    own = criterion in (own_loss, all_losses)
    p = {n: torch.tensor(a, requires_grad="running" not in n and n not in fixed) for n, a in (start | {"proj.weight": proj} if own else start).items()}
    if own:
        of_all = criterion
        criterion = lambda y, t: of_all(y, t, p)
    sets = [[p["bn.running_mean"].clone(), p["bn.running_var"].clone()] for _ in range(0, REPLICAS, group)]
    x, target = torch.tensor(data[samples][0]), torch.tensor(data[samples][1] if own or criterion in (mean_loss, weighted) else values[samples])
    optimizer = torch.optim.SGD([t for t in p.values() if t.requires_grad], LR, momentum=0.5)
    seen, at = [], 0
    while len(seen) < STEPS:
        optimizer.zero_grad()
        losses, partial, of_body = [], [], []
        while True:
            n = min(batch, samples - at)
            index = [[at + i for i in part] for part in parts(n)]
            scores = []
            for k, stats in enumerate(sets):
                mine = index[k * group:(k + 1) * group]
                y = forward(p, x[sum(mine, [])], stats, clamp, twice).split([len(i) for i in mine]) if sum(mine, []) else [None] * len(mine)
                scores += [(y[i], target[mine[i]]) if mine[i] else None for i in range(len(mine))]
            losses.append(total(scores, criterion))
            if body:
                of_body.append(total(scores, lambda y, t: body(y, t, p)))
            partial.append([total([s if i == r else None for i, s in enumerate(scores)], criterion, len(sum(index, []))) if scores[r] else 0
                            for r in range(REPLICAS)] if reduce else [])
            at = (at + n) % samples
            if bn == "local" or bn == "average" and (at == 0 or every):
                means = [sum(s) / len(s) for s in zip(*sets)] if bn == "average" else [t.clone() for t in sets[0]]
                sets = [[t.clone() for t in means] for _ in sets]
            if len(losses) == accumulate or at == 0 and not across:
                break
        loss = sum(losses) / len(losses)
        if reduce:
            narrow([sum(rows) / len(losses) for rows in zip(*partial)], [t for t in p.values() if t.requires_grad], reduce)
        else:
            of_one = [n for n in p if body and p[n].requires_grad and not n.startswith(("head", "proj"))]
            loss.backward(retain_graph=bool(body))
            for n, grad in zip(of_one, torch.autograd.grad(sum(of_body) / len(losses), [p[n] for n in of_one]) if body else []):
                p[n].grad = grad
        optimizer.step()
        seen.append(loss.item())
    left = [sum(s) / len(s) for s in zip(*sets)] if bn == "average" else sets[0]
    p.update(zip(("bn.running_mean", "bn.running_var"), left))
    return seen, {n: t.detach().numpy() for n, t in p.items()}


def narrow(losses, parameters, dtype):
    """Each part's own gradient, rounded; their sum by pairs in float32, rounded again."""
    for t in parameters:
        g = [torch.autograd.grad(y, t, retain_graph=True)[0].to(dtype).float() if torch.is_tensor(y) else torch.zeros(t.shape) for y in losses]
        t.grad = ((g[0] + g[1]) + (g[2] + g[3])).to(dtype).double()


def gathered(parts, criterion, whole=None):
    """`whole`: of a part of so many samples' batch, what it adds."""
    if whole:
        return sum(criterion(y, t) * len(t) / whole for y, t in filter(None, parts))
    parts = [part for part in parts if part]
    return criterion(torch.cat([y for y, _ in parts]), torch.cat([t for _, t in parts]))


def over_all(parts, criterion, _=None):
    return sum(criterion(y, t) for y, t in filter(None, parts) if counts(criterion, t)) / len(parts)


def over_filled(parts, criterion, _=None):
    return sum(criterion(y, t) for y, t in filter(None, parts) if counts(criterion, t)) / len([part for part in parts if part])


MODEL, CLAMPED, TWICE = "model.onnx", "clamped.onnx", "twice.onnx"
CE, MSE, HUBER = "--data data{}.npz --loss cross-entropy", "--data values{}.npz --loss mse", "--data values{}.npz --loss huber"
WEIGHTS = " --class-weights weights.npy --ignore-index 3"
MEANS = " --bn local --loss-scaling mean-of-means"
FILLED = MEANS + " --split chunk --mean-over filled"
OWN, OUTPUTS = "own.onnx", "--data data{}.npz --loss outputs"
SYNC, BOTH = dict(group=REPLICAS), dict(accumulate=2)
CASES = [
    ("DP", MODEL, CE + " --split chunk --bn local", chunks, gathered, mean_loss, {}),
    ("DP by name", MODEL, CE + " --compat dp", chunks, gathered, mean_loss, {}),
    ("DDP", MODEL, CE + MEANS, balanced, over_all, mean_loss, {}),
    ("DDP by name", MODEL, CE + " --compat ddp", balanced, over_all, mean_loss, {}),
    ("DDP by name, synchronised", MODEL, CE + " --bn sync --compat ddp", balanced, over_all, mean_loss, SYNC),
    ("DDP, two micro-batches", MODEL, CE + MEANS + " --accumulate 2", balanced, over_all, mean_loss, BOTH),
    ("DDP, weights and an ignored class", MODEL, CE + MEANS + WEIGHTS, balanced, over_all, weighted, {}),
    ("DDP, squares", MODEL, MSE + MEANS, balanced, over_all, squared, {}),
    ("DDP, huber", MODEL, HUBER + MEANS, balanced, over_all, huber, {}),
    ("DDP, own buffers", MODEL, CE + " --compat ddp --broadcast-buffers false", balanced, over_all, mean_loss, dict(bn="own")),
    ("DDP, groups of two", MODEL, CE + " --compat ddp --bn sync --bn-group 2", balanced, over_all, mean_loss, dict(group=2)),
    ("groups of three", MODEL, CE + " --split chunk --bn-group 3", chunks, gathered, mean_loss, dict(group=3)),
    ("jactorch, clamped groups", CLAMPED, CE + " --bn-eps clamp --bn-group 2", balanced, gathered, mean_loss, dict(group=2, clamp=True)),
    ("MM, averaged buffers", MODEL, CE + " --compat ddp --bn average", balanced, over_all, mean_loss, dict(bn="average")),
    ("MM, averaged for evaluations", MODEL, CE + " --compat ddp --bn average --val data{}.npz --eval-every 1", balanced, over_all, mean_loss,
     dict(bn="average", every=True)),
    ("MM, averaged buffers, chunks", MODEL, CE + " --split chunk --bn average", chunks, gathered, mean_loss, dict(bn="average")),
    ("MM, averaged buffers, two micro-batches", MODEL, CE + " --compat ddp --bn average --accumulate 2", balanced, over_all, mean_loss,
     dict(bn="average", accumulate=2)),
    ("MM, groups over epochs", MODEL, CE + " --compat ddp --accumulate 3 --accumulate-across-epochs", balanced, over_all, mean_loss,
     dict(accumulate=3, across=True)),
    ("DDP, compressed to bfloat16", MODEL, CE + " --compat ddp --reduce-dtype bf16", balanced, over_all, mean_loss,
     dict(reduce=torch.bfloat16)),
    ("DDP, compressed to float16", MODEL, CE + " --compat ddp --reduce-dtype fp16 --accumulate 2", balanced, over_all, mean_loss,
     dict(reduce=torch.float16, accumulate=2)),
    ("DP, compressed to bfloat16", MODEL, CE + " --compat dp --reduce-dtype bf16", chunks, gathered, mean_loss, dict(reduce=torch.bfloat16)),
    ("Encoding", MODEL, CE + FILLED, chunks, over_filled, mean_loss, {}),
    ("Encoding by name", MODEL, CE + " --compat encoding", chunks, over_filled, mean_loss, SYNC),
    ("Encoding, weights and an ignored class", MODEL, CE + FILLED + WEIGHTS, chunks, over_filled, weighted, {}),
    ("Encoding, huber, two micro-batches", MODEL, HUBER + FILLED + " --accumulate 2", chunks, over_filled, huber, BOTH),
    ("DDP, the model's own loss", OWN, "--data data{}.npz --loss output:own_loss" + MEANS, balanced, over_all, own_loss, {}),
    ("DDP by name, own losses", OWN, OUTPUTS + " --compat ddp", balanced, over_all, all_losses, {}),
    ("DDP by name, own losses, synchronised, two micro-batches", OWN, OUTPUTS + " --compat ddp --bn sync --accumulate 2", balanced, over_all,
     all_losses, dict(group=REPLICAS, accumulate=2)),
    ("MM, own losses, groups over epochs", OWN, OUTPUTS + " --compat ddp --accumulate 3 --accumulate-across-epochs", balanced, over_all,
     all_losses, dict(accumulate=3, across=True)),
    ("DDP, own losses by group", OWN, OUTPUTS + " --compat ddp --group conv*:loss=own_loss --group bn*:loss=own_loss", balanced, over_all,
     all_losses, dict(body=own_loss)),
    ("Encoding by name, own losses", OWN, OUTPUTS + " --compat encoding", chunks, over_filled, all_losses, SYNC),
    ("Encoding, own losses, local", OWN, OUTPUTS + FILLED + " --accumulate 2", chunks, over_filled, all_losses, BOTH),
    ("Encoding, a criterion's losses", MODEL, OUTPUTS + " --criterion criterion.onnx --compat encoding", chunks, over_filled, all_losses,
     dict(group=REPLICAS, fixed=["proj.weight"])),
    ("DDP, a criterion's loss", MODEL, "--data data{}.npz --loss output:own_loss --criterion criterion.onnx --compat ddp", balanced, over_all,
     own_loss, {}),
    ("jactorch, clamped", CLAMPED, CE + " --split chunk --bn-eps clamp", chunks, gathered, mean_loss, dict(group=REPLICAS, clamp=True)),
    ("jactorch, clamped parts", CLAMPED, CE + " --bn-eps clamp --bn local", balanced, gathered, mean_loss, dict(clamp=True)),
    ("a module called twice", TWICE, CE, balanced, gathered, mean_loss, dict(group=REPLICAS, twice=True)),
    ("DDP, called twice", TWICE, CE + " --compat ddp", balanced, over_all, mean_loss, dict(twice=True)),
    ("DDP, own buffers, called twice", TWICE, CE + " --compat ddp --broadcast-buffers false", balanced, over_all, mean_loss,
     dict(bn="own", twice=True)),
    ("MM, averaged buffers, called twice", TWICE, CE + " --compat ddp --bn average", balanced, over_all, mean_loss,
     dict(bn="average", twice=True)),
    ("MM, averaged buffers, chunks, called twice", TWICE, CE + " --split chunk --bn average", chunks, gathered, mean_loss,
     dict(bn="average", twice=True)),
    ("MM, averaged buffers, two micro-batches, called twice", TWICE, CE + " --compat ddp --bn average --accumulate 2", balanced, over_all,
     mean_loss, dict(bn="average", accumulate=2, twice=True)),
]


if __name__ == "__main__":
    os.makedirs(HERE, exist_ok=True)
    save(MODEL, EPSILON)
    save(CLAMPED, CLAMP)
    save(TWICE, EPSILON, twice=True)
    save_own()
    ends = {}
    with open(os.path.join(HERE, "torch.txt"), "w") as f:
        for name, model, options, parts, total, criterion, more in CASES:
            for samples, batch in ((13, 10), (5, 5)):
                losses, after = train(samples, batch, parts, total, criterion, **more)
                case = f"{name}, {samples} samples"
                print(case, "|", f"{model} {options.replace('{}', str(samples))} --batch-size {batch}", "|", " ".join(map(repr, losses)), file=f)
                ends.update({case + "/" + n: a for n, a in after.items() if n in start or model == OWN})
    np.savez_compressed(os.path.join(HERE, "after.npz"), **ends)
