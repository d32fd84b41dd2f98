"""Reads the pages that dpexec writes, as tests/cli/report.sh asks: report.py CHECK ARG...  What a page shows is compared with metrics.jsonl,
and what it says of samples with the predictions that dpexec eval writes."""
import base64
import csv
import html.parser
import json
import pathlib
import re
import struct
import sys
import zlib

import numpy as np


class Page(html.parser.HTMLParser):
    """The JSON that a page holds; a name of the data must not end its script."""

    def __init__(self, path):
        super().__init__()
        self.scripts, self.texts, self.tags = [], [], []
        self.feed(pathlib.Path(path).read_text())

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.lasttag == "script" and self.scripts:
            self.scripts[-1] += data

    def runs(self):
        assert len(self.scripts) == 2, f"{len(self.scripts)} scripts"
        assert not any(k in a for _, a in self.tags for k in ("src", "href")), "it loads something"
        return json.loads(self.scripts[0])["runs"]


def lines(run):
    return [json.loads(line) for line in open(f"{run}/metrics.jsonl")]


def near(a, b, digits=5):
    return abs(a - b) <= 10.0 ** -digits * max(abs(a), abs(b), 1e-30)


def curves(folder):
    """All of a short run is in its page: each step once, each evaluation a row."""
    page, = Page(f"{folder}/report.html").runs()
    logged = lines(folder)
    steps = [m for m in logged if "loss" in m]
    for key in ("loss", "lr"):
        shown = page["series"][key]
        assert [b[0] for b in shown] == [m["step"] for m in steps], key
        assert all(near(b[1], m[key]) and b[1] == b[3] for b, m in zip(shown, steps)), key
    evals = [m for m in logged if "eval_loss" in m]
    assert [r["step"] for r in page["rows"]] == [m["step"] for m in evals]
    for row, m in zip(page["rows"], evals):
        since = [s for s in steps if s["step"] <= m["step"]][-len(steps) // len(evals):]
        assert near(row["eval_loss"], m["eval_loss"]) and near(row["eval_accuracy"], m["eval_accuracy"])
        assert near(row["loss"], np.mean([s["loss"] for s in since])), row
    best = json.load(open(f"{folder}/checkpoints/best"))["step"]
    assert page["best"] == best and page["monitor"] == "accuracy" and page["step"] == steps[-1]["step"]
    table = list(csv.DictReader(open(f"{folder}/metrics.csv", newline="")))
    assert [int(r["step"]) for r in table] == [m["step"] for m in evals]
    assert all(float(r["eval_loss"]) == m["eval_loss"] for r, m in zip(table, evals))
    assert any("sgd" in line for line in page["summary"]) and page["environment"]["cores"] >= 1


def png(data):
    """[H, W] or [H, W, 3] of an 8-bit PNG file without interlacing (PNG specification, section 9)."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, b""
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            w, h, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[at + 8:at + 8 + n])
        body += data[at + 8:at + 8 + n] if kind == b"IDAT" else b""
        at += 12 + n
    assert depth == 8 and colour in (0, 2) and not interlaced
    unit, raw = 3 if colour == 2 else 1, np.frombuffer(zlib.decompress(body), np.uint8).reshape(h, -1).astype(int)
    out = np.zeros((h, w * unit), int)
    for y in range(h):
        for x in range(w * unit):
            a, b = out[y, x - unit] if x >= unit else 0, out[y - 1, x] if y else 0
            c = out[y - 1, x - unit] if y and x >= unit else 0
            p = a + b - c
            near_by = min((a, b, c), key=lambda v: (abs(p - v), (a, b, c).index(v)))
            out[y, x] = (raw[y, x + 1] + [0, a, b, (a + b) // 2, near_by][raw[y, 0]]) % 256
    return out.reshape(h, w, unit)


def classes(folder, predictions, data):
    """The matrix, the worst samples and their pictures, from predictions of the last model."""
    page, = Page(f"{folder}/report.html").runs()
    x, target = (np.load(data)[k] for k in ("x", "target"))
    scores = np.load(next(pathlib.Path(predictions).glob("*.npy"))).astype(np.float64)
    loss = np.log(np.exp(scores - scores.max(1, keepdims=True)).sum(1)) + scores.max(1) - scores[np.arange(len(target)), target]
    n = scores.shape[1]
    counts = np.zeros((n, n), int)
    np.add.at(counts, (target, scores.argmax(1)), 1)
    judged = page["evaluation"]
    assert judged["confusion"] == counts.tolist() == page["tables"]["eval_confusion-matrix"]
    assert judged["samples"] == judged["of"] == len(target) and len(judged["worst"]) == 25
    order = np.argsort(-loss, kind="stable")
    assert [w["row"] for w in judged["worst"]] == order[:25].tolist()
    for w in judged["worst"]:
        assert near(w["loss"], loss[w["row"]], 3), w
        wrong = target[w["row"]] != scores[w["row"]].argmax()
        assert w["wrong"] == wrong and w["text"].startswith(f"{target[w['row']]}, predicted {'' if wrong else 'correctly'}"), w
        image = x[w["row"]]
        grey = np.floor(255 * (image - image.min()) / (image.max() - image.min()) + .5)
        shown = png(base64.b64decode(w["png"]))
        assert np.abs(shown - grey.transpose(1, 2, 0)).max() <= 1, w["row"]


def values(folder, predictions, data):
    page, = Page(f"{folder}/report.html").runs()
    x, target = (np.load(data)[k] for k in ("x", "target"))
    target = target.reshape(-1)
    predicted = np.load(next(pathlib.Path(predictions).glob("*.npy"))).reshape(-1)
    judged = page["evaluation"]
    assert judged["samples"] == judged["of"] == len(target)
    assert np.allclose(sorted(judged["residuals"]), sorted(np.stack([target, predicted], 1).tolist()), rtol=1e-4, atol=1e-5)
    assert [w["row"] for w in judged["worst"]] == np.argsort(-np.abs(target - predicted))[:25].tolist()
    for w in judged["worst"]:
        (name, numbers), = w["values"]
        assert "wrong" not in w, w
        assert name == "x" and np.allclose([float(v) for v in numbers.split(", ")], x[w["row"]], rtol=1e-3), w


def losses_of(predictions):
    """Of each sample, from scores [N,...,classes] and targets."""
    scores = np.load(next(pathlib.Path(predictions).glob("*.npy"))).astype(np.float64)
    most = scores.max(-1, keepdims=True)
    log = scores - most - np.log(np.exp(scores - most).sum(-1, keepdims=True))
    return lambda target: -np.take_along_axis(log, target[..., None], -1)[..., 0].reshape(len(target), -1).mean(1)


def rows(folder, predictions, data):
    """Cells beside the worst rows are those of the file."""
    page, = Page(f"{folder}/report.html").runs()
    table = list(csv.DictReader(open(data, newline="")))
    loss = losses_of(predictions)(np.array([["no", "yes"].index(r["target"]) for r in table]))
    worst = page["evaluation"]["worst"]
    assert page["evaluation"]["classes"] == ["no", "yes"]
    assert [w["row"] for w in worst] == np.argsort(-loss, kind="stable")[:25].tolist()
    for w in worst:
        row, shown = table[w["row"]], dict(w["values"])
        assert list(shown) == ["age", "city", "height", "target"] and w["from"] == f"line {w['row'] + 2}", w
        assert w["wrong"] == (float(w["loss"]) > np.log(2)), w     # of two classes
        assert (shown["city"], shown["target"]) == (row["city"], row["target"]), w
        assert all(float(shown[c] or "nan") == float(row[c] or "nan") or shown[c] == row[c] == "" for c in ("age", "height")), (w, row)


def texts(folder, predictions, data):
    page, = Page(f"{folder}/report.html").runs()
    text = np.frombuffer(pathlib.Path(data).read_bytes(), "u1").astype(np.int64)
    block = np.load(next(pathlib.Path(predictions).glob("*.npy")), mmap_mode="r").shape[1]
    n = (len(text) - 1) // block
    loss = losses_of(predictions)(text[1:n * block + 1].reshape(n, block))
    judged = page["evaluation"]
    assert judged["samples"] == judged["of"] == n
    assert [w["row"] for w in judged["worst"]] == np.argsort(-loss, kind="stable")[:25].tolist()
    for w in judged["worst"]:
        window = bytes(text[w["row"] * block:][:block].tolist())
        assert w["values"] == [["text", window.decode(errors="replace")]] and near(w["loss"], loss[w["row"]], 3), w
        assert re.fullmatch(fr"[0-9]+ of {block} wrong", w["text"]) and "wrong" not in w, w


def masks(folder, predictions, data):
    """Beside each picture the classes of its pixels: the targets, and those with the largest predicted score."""
    page, = Page(f"{folder}/report.html").runs()
    target, scores = np.load(data)["target"], np.load(next(pathlib.Path(predictions).glob("*.npy")))
    colours = np.array([[0x2b, 0x2f, 0x3a], [0x6e, 0xa0, 0xff], [0xff, 0x9a, 0x5c]])       # MASKS of report.js
    for w in page["evaluation"]["worst"]:
        is_class, found = target[w["row"]], scores[w["row"]].argmax(0)
        counts = is_class != 255
        assert (png(base64.b64decode(w["target"])) == np.where(counts[..., None], colours[np.where(counts, is_class, 0)], 255)).all(), w["row"]
        assert (png(base64.b64decode(w["prediction"])) == colours[found]).all(), w["row"]
        assert w["text"] == f"{(found != is_class)[counts].sum()} of {counts.sum()} pixels wrong", w["text"]
    assert page["evaluation"]["worst"]


def written(folder, every, last):
    """The page has the newest six texts of --sample-every, each once and as log.txt has it."""
    page, = Page(f"{folder}/report.html").runs()
    steps = list(range(int(every), int(last) + 1, int(every)))
    logged = [m for m in lines(folder) if "sample" in m]
    assert [m["step"] for m in logged] == steps, logged
    assert page["texts"] == logged[-6:] and len(page["texts"]) == min(6, len(steps))
    even = lambda s: re.sub("\ufffd+", "?", s)         # how many marks stand for bytes that are not UTF-8 is no matter
    log = even(pathlib.Path(f"{folder}/log.txt").read_bytes().decode(errors="replace"))
    for m in page["texts"]:
        assert f"step {m['step']}, the model writes:\n{even(m['sample'])}" in log, m


def measured(path, *command):
    """Runs it, and writes its most memory to a file."""
    import resource
    import subprocess
    subprocess.check_call(command)
    pathlib.Path(path).write_text(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))


def memory(folder, peak):
    page, = Page(f"{folder}/report.html").runs()
    most = int(pathlib.Path(peak).read_text())
    assert .9 * most <= page["memory"]["process"] <= most, (page["memory"], most)
    number, unit = re.search(r"a step needs ([0-9.]+) (\w+)", pathlib.Path(f"{folder}/log.txt").read_text()).groups()
    assert near(page["memory"]["step"], float(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit), 1), page["memory"]


def long_run(folder):
    """Writes what 100,000 steps log, with one spike each way."""
    r = np.random.default_rng(5)
    pathlib.Path(folder).mkdir()
    with open(f"{folder}/metrics.jsonl", "w") as f:
        for step in range(1, 100001):
            loss = {41234: 77.5, 41236: -3.25}.get(step, 1 + r.random())
            line = {"step": step, "epoch": (step + 999) // 1000, "loss": loss, "lr": .1, "samples": 8, "ms": 2 + r.random(), "grad_norm": r.random()}
            if step % 1000 == 0:
                line.update(read={}, train_loss=loss, train_accuracy=r.random())
            f.write(json.dumps(line) + "\n")
            if step % 100 == 0:
                f.write(json.dumps({"step": step, "eval_loss": r.random(), "eval_accuracy": r.random()}) + "\n")


def thinned(folder):
    path = pathlib.Path(folder) / "report.html"
    page, = Page(path).runs()
    assert path.stat().st_size < 1 << 20, path.stat().st_size
    loss = page["series"]["loss"]
    assert len(loss) <= 600 and max(loss, key=lambda b: b[3])[2:] == [41234, 77.5] and min(loss, key=lambda b: b[1])[:2] == [41236, -3.25]
    assert loss[0][0] < 400 and max(b[2] for b in loss) > 99600
    assert len(list(csv.DictReader(open(f"{folder}/metrics.csv", newline="")))) == 1000
    assert page["rows"][-1]["step"] == 100000 and page["epoch"] == 100


def same(a, b):
    """Pages of a run and of the same run interrupted, but for times."""
    timed = ("seconds", "samples_per_second")
    x, y = (Page(f"{f}/report.html").runs()[0] for f in (a, b))
    for key in ("step", "epoch", "best", "monitor", "tables"):
        assert x[key] == y[key], key
    strip = [[{k: v for k, v in r.items() if k not in timed} for r in page["rows"]] for page in (x, y)]
    assert strip[0] == strip[1]
    assert {k: v for k, v in x["series"].items() if k not in timed} == {k: v for k, v in y["series"].items() if k not in timed}
    assert x["evaluation"] == y["evaluation"]


def once(folder):
    page, = Page(f"{folder}/report.html").runs()
    steps = [m["step"] for m in lines(folder) if "loss" in m]
    assert [b[0] for b in page["series"]["loss"]] == steps == list(range(1, len(steps) + 1))


def ended(folder):
    """The samples that are judged are those of the last evaluation, which ended the run early."""
    page, = Page(f"{folder}/report.html").runs()
    evals = [m["step"] for m in lines(folder) if "eval_loss" in m]
    assert len(evals) >= 5 and page["evaluation"]["step"] == evals[-1], (page["evaluation"]["step"], evals)


def bounds(folder):
    """An AUC that is counted in bins has a bound, which is in the rows, and has no curve of its own."""
    page, = Page(f"{folder}/report.html").runs()
    assert all(0 < m["eval_auc_bound"] < 1 for m in lines(folder) if "eval_loss" in m)
    assert all("eval_auc_bound" in r for r in page["rows"])
    assert [s for s in page["series"] if "auc" in s] == ["train_auc", "eval_auc"], list(page["series"])


def names(folder, *expected):
    page, = Page(f"{folder}/report.html").runs()
    assert page["classes"] == list(expected), page["classes"]


def compared(path, *folders):
    assert [r["name"] for r in Page(path).runs()] == list(folders)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
