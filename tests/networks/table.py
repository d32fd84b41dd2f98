"""The results as a line each, and as the table of docs/reference/networks.md."""
import collections
import json

BEGIN, END = "<!-- results: tests/networks/run.py --table -->", "<!-- end of results -->"
SHORT = {"legacy-train-17": "legacy, training", "default-eval": "default, eval", "default-noopt": "default, `optimize=False`"}


def checked(r):
    """How many of the runs of --verify passed."""
    runs = r.get("verify", {}).values()
    return f"{sum(v['ok'] for v in runs)}/{len(runs)}" if runs else "-"


def elsewhere(r):
    """Whether the trained model answers alike in other runtimes."""
    return {True: "yes", False: "NO"}[r["runtimes"]["ok"]] if "runtimes" in r else "-"


def sent(r):
    """Bytes that a device sends in a step, over those of the gradients."""
    report = r.get("report", {})
    return f"{report['sent'] / report['gradients']:.2f}" if report.get("gradients") else "-"


def split(r):
    """How far the losses of 3 replicas are from those of one."""
    found = r.get("replicas", {})
    return f"{found['losses']:.0e}" if "losses" in found else "FAILED" if found else "-"


def line(r):
    if "trained" not in r:
        return f"{r['case']:48s} {r['verdict']:12s} {r['error'].splitlines()[0][:150]}"
    t = r["trained"]
    return (f"{r['case']:48s} {r['verdict']:12s} first {r['first']:.0e} losses {r['losses']:.0e} weights {t['worst'][0]:.0e} "
            f"steps {r['steps']} trained {t['found']}/{t['parameters']}+{len(t['extra'])} replicas {split(r)} runtimes {elsewhere(r)} verify {checked(r)} sent {sent(r)} {r['seconds']:.0f} s")


def cell(r):
    """What one file came to, for the table."""
    if r is None:
        return "not run"
    if "trained" not in r:
        return r["verdict"]
    t = r["trained"]
    share = f", {100 * t['share']:.0f} %" if t["share"] < 1 else ""
    steps = f" ({r['steps']} steps)" if r["steps"] < 20 else ""
    return f"{r['verdict']} {r['losses']:.0e}{steps}{share}"


def load(results, case):
    path = results / f"{case}.json"
    return json.loads(path.read_text()) if path.exists() else None


def over(found, what):
    """One word for all files of a network, or each file's."""
    words = [what(r) for r in found if r and "trained" in r]
    return words[0] if len(set(words)) == 1 else ", ".join(words) or "-"


def network_table(results, cases, before):
    """A row for each network, a column for each of its exports."""
    rows, exports = collections.defaultdict(list), {}
    for c in cases:
        rows[c.split(".")[0]].append(load(results, c))
        exports[SHORT[c.split(".")[2]]] = True
    yield "| network | " + " | ".join(exports) + " | 3 replicas | runtimes | verify | sent |"
    yield "|---" * (len(exports) + 5) + "|"
    for name, found in rows.items():
        if not any(found) and name in before:
            yield before[name]
            continue
        yield f"| {name} | " + " | ".join(map(cell, found)) + f" | {over(found, split)} | {over(found, elsewhere)} | {over(found, checked)} | {over(found, sent)} |"


def cross_table(results, cases, before):
    if not any(load(results, c) for c in cases):
        yield from before.values()
        return
    counts = collections.defaultdict(collections.Counter)
    for c in cases:
        r = load(results, c)
        counts[c.split(".")[2]][r["verdict"] if r else "not run"] += 1
    yield "| export | files | outcome |"
    yield "|---|---|---|"
    for exporter, n in counts.items():
        yield f"| {exporter} | {sum(n.values())} | " + ", ".join(f"{v} {k}" for k, v in n.most_common()) + " |"


def written(text):
    """-> the rows that stand there, each by its first cell, of each table."""
    return [{row.split("|")[1].strip(): row for row in part.splitlines()} for part in text.strip().split("\n\n")]


def write(path, results, main_cases, cross_cases, library_cases):
    """A network of which nothing was run here keeps its row, and so does the second table."""
    text = path.read_text()
    head, rest = text.split(BEGIN)
    networks, exports, libraries = written(rest.split(END)[0])
    body = "\n".join([*network_table(results, main_cases, networks), "", *cross_table(results, cross_cases, exports), "",
                      *network_table(results, library_cases, libraries)])
    path.write_text(f"{head}{BEGIN}\n\n{body}\n\n{END}{rest.split(END)[1]}")
