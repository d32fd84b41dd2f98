"""What a file holds of a network, what dpexec trained of it, and how far the run is from PyTorch's.  Needs numpy and onnx."""
import collections
import json
import re
import struct

import numpy as np
import onnx
from onnx import numpy_helper

EXACT, CLOSE = 1e-10, 1e-6      # of the first step's loss where few steps can be compared; of all losses
MOVED = 1e-4                    # of what training changed of a parameter
WARNING = "warning: the exporter: "     # how dpexec names what an exporter has lost (docs/guide/export.md)
GUESSED = "--freeze keeps them fixed"    # what it trains though it may be no parameter, by name
GENERAL = "it is known to"              # and what it says of an exporter whose losses leave no trace


# ---- files ----

def tensors(path):
    """-> {name: array} of the float tensors of a model, initializers and Constant nodes alike; the count of BatchNormalization."""
    model = onnx.load(str(path))
    graphs = [model.graph, *model.functions]
    found = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for g in graphs:
        for n in g.node:
            if n.op_type == "Constant":
                found.update({n.output[0]: numpy_helper.to_array(a.t) for a in n.attribute if a.name == "value"})
    norms = sum(n.op_type == "BatchNormalization" for g in graphs for n in g.node)
    return {k: v for k, v in found.items() if v.dtype in (np.float32, np.float64)}, norms


def state(path):
    """-> {name: array} of a checkpoint's tensors."""
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    kinds = {"F64": np.float64, "F32": np.float32, "I64": np.int64}
    return {k: np.frombuffer(raw, kinds[v["dtype"]], offset=8 + n + v["data_offsets"][0], count=int(np.prod(v["shape"]))).reshape(v["shape"])
            for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__" and v["dtype"] in kinds}


# ---- whose tensor is whose ----

def turned(a):
    """The forms in which an exporter writes a parameter: as it is, transposed, in another shape."""
    yield a
    if a.ndim == 2 and min(a.shape) > 1:
        yield a.T


def prints(a):
    """Fingerprints of what a tensor of a file holds: itself, and its row where it is one row repeated."""
    yield a.astype(np.float32).tobytes()
    if a.ndim > 1 and a.shape[0] > 1 and (a == a[:1]).all():
        yield a[:1].astype(np.float32).tobytes()


def holders(first, file):
    """-> {parameter: names of the file's tensors with its values}."""
    where = collections.defaultdict(list)
    for name, a in file.items():
        for p in prints(a):
            where[p].append(name)
    return {k: [n for t in turned(a) for n in where.get(np.ascontiguousarray(t, np.float32).tobytes(), [])] for k, a in first.items()}


def distance(trained, wanted, first):
    """How far a trained tensor is from a parameter, in the nearest form: relative to what training changed of it, or where its
    gradient is nothing but rounding, to the parameter."""
    change = np.linalg.norm(wanted - first)
    scale = change if change > 1e-9 * np.linalg.norm(wanted) else max(np.linalg.norm(wanted), 1e-9)
    return min((float(np.linalg.norm(trained.ravel() - np.ravel(t)) / scale) for t in turned(wanted) if t.size == trained.size),
               default=np.inf)


def compare_parameters(oracle, file, checkpoint):
    """Which of the network's parameters were trained, what else was, and how far the values are from PyTorch's."""
    numbers = np.load(oracle["npz"])
    first = {k: numbers["first:" + k] for k in oracle["parameters"]}
    final = {k: numbers["final:" + k] for k in oracle["parameters"]}
    aliases = {k: t for t in oracle["tied"] for k in t}
    trained = {k[:-len(".momentum")] for k in checkpoint if k.endswith(".momentum")}
    by_value, free, far, missing = holders(first, file), set(trained), {}, []
    groups = {tuple(aliases.get(k, [k])) for k in first}
    for group in sorted(groups, key=lambda g: not any(k in trained for k in g)):
        names = [n for n in group if n in free] or [n for k in group for n in by_value[k] if n in free]
        if not names:   # a tensor of another name, such as one of several that the file held as one
            def off(n, k=group[0]):
                return distance(checkpoint[n], final[k], first[k])
            names = [n for n in sorted((n for n in free if n not in file), key=off)[:1] if off(n) < 1e-3]
        if names:
            free.discard(names[0])
            far[group[0]] = distance(checkpoint[names[0]], final[group[0]], first[group[0]])
        else:
            missing.append(group[0])
    n = len(groups)
    return {"parameters": n, "found": n - len(missing), "missing": missing, "extra": sorted(free),
            "share": (n - len(missing)) / (n + len(free)),
            "worst": max(((d, k) for k, d in far.items() if np.isfinite(d)), default=(0.0, "")),
            "shapes": sorted(k for k, d in far.items() if not np.isfinite(d))}


def lost(oracle, path):
    """What the file lacks of the network: parameters whose values are nowhere, tensors that stand for several, batch-norms."""
    file, norms = tensors(path)
    numbers = np.load(oracle["npz"])
    first = {k: numbers["first:" + k] for k in oracle["parameters"]}
    aliases = {k: t[0] for t in oracle["tied"] for k in t}
    by_value = holders(first, file)
    absent = [k for k, names in by_value.items() if not names]
    users = collections.defaultdict(set)
    for k, names in by_value.items():
        if names:
            users[tuple(sorted(set(names)))].add(aliases.get(k, k))
    merged = sum(max(len(u) - len(names), 0) for names, u in users.items())
    return {"absent": absent, "merged": merged, "batch_norms": max(oracle["batch_norms"] - norms, 0)}


def apart(losses, wanted):
    """The relative difference of each loss."""
    return [abs(a - b) / abs(b) for a, b in zip(losses, wanted, strict=True)]


# ---- the verdict ----

def warnings_in(said, general=True):
    """The lines that tell what the exporter has lost; those that would come with any file of this exporter too if `general`."""
    return [line for line in said.splitlines() if WARNING in line and (general or GENERAL not in line)]


def named_flags(said, extra):
    """-> the flags that the run's warnings name: for tensors that are trained and no parameters, and for gradients that the program stops."""
    guessed = [line for line in said.splitlines() if GUESSED in line]
    frozen = [("--freeze", name) for name in extra if any(f"'{name}'" in line for line in guessed)]
    return [word for flag in [*frozen, *re.findall(r"(--stop-gradient) '([^']+)'", said)] for word in flag]


def verdict(result):
    """agrees: as PyTorch, on 3 replicas as on one; warned: another network, and the run named what is lost, or agrees with the
    flags that the run's warnings name; noted: another, and the run said what the exporter
    is known to lose; SILENT: another without a word; DIFFERS: the file holds the network, and the run is another; refused: no run."""
    if "error" in result:
        return "refused"
    if not result.get("replicas", {"losses": 0}).get("losses", np.inf) <= CLOSE:
        return "DIFFERS"
    gone, trained = result["lost"], result["trained"]
    whole = not gone["absent"] and not gone["batch_norms"] and not gone["merged"]
    close = result["losses"] <= CLOSE and trained["worst"][0] <= MOVED
    close &= result["first"] <= EXACT or result["steps"] == 20
    if close and trained["found"] == trained["parameters"] and not trained["extra"]:
        return "warned" if "named" in result else "agrees"
    if warnings_in(result["said"], general=False):      # also of a tensor shared with a constant of the code
        return "warned"
    if whole:
        return "DIFFERS"
    return "noted" if warnings_in(result["said"]) else "SILENT"
