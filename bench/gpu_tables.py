"""What the numbers of bench/gpu.py mean: a step's time by kernel, limits, what was wanted, and all of it as Markdown."""

import gpu_models

# (case, contestant of PyTorch, least ratio of its time to dpexec's)
SPEED = (("resnet50", "eager", 1.4), ("resnet50", "compile", 1.1), ("gpt2", "eager", 1.0), ("gpt2", "compile", 1.0), ("vit", "eager", 1.0),
         ("vit", "compile", 1.0), ("bert", "eager", 1.0), ("bert", "compile", 1.0), ("mlp", "eager", 3.0), ("fashion_cnn", "eager", 3.0))
# Milliseconds a step and GiB of the driver's memory on an H100, at full size; a second one is the best rate that has been published.
STEP_MS = (("resnet50", 20.0), ("resnet50", 17.9), ("gpt2", 31.0), ("gpt2", 29.0))
STEP_GIB = (("gpt2", 6.3),)
MEMORY, START_SECONDS, BANDWIDTH = 0.7, 5.0, 0.85
# Kernels that follow indices or overlapping windows, whose accesses are not in one piece.
SCATTERED, SCATTERED_BANDWIDTH = ("cuda_cumsum", "cuda_scatter_elements", "cuda_gather_grad", "_pool"), 0.5
SAME_LOSS = {"bfloat16": 2e-2, "float32": 1e-3}


def grouped(trace, steps, key):
    """Rows of a traced step, what takes longest first: a node's name, operator, kernel, calls, milliseconds and bytes of one step, of
    all nodes for which `key` is the same."""
    rows = {}
    for e in (trace or {}).get("events", []):
        row = rows.setdefault(key(e), {"op": e["op"], "kernel": e.get("kernel", ""), "node": e["name"], "calls": 0, "ms": 0.0, "bytes": 0})
        row["calls"] += 1 / steps
        row["ms"] += e["us"] * 1e-3 / steps
        row["bytes"] += e.get("bytes", 0) / steps
    return sorted(rows.values(), key=lambda r: -r["ms"])


def by_kernel(trace, steps):
    return grouped(trace, steps, lambda e: (e["op"], e.get("kernel", "")))


def by_size(trace, steps):
    """Nodes of one operator that move as many bytes: mostly those of one shape."""
    return grouped(trace, steps, lambda e: (e["op"], e.get("kernel", ""), e.get("bytes", 0)))


def ms(result, case, how):
    return result["cases"].get(case, {}).get("contestants", {}).get(how, {}).get("ms")


def fastest(result, case):
    """dpexec's time, tuned or not."""
    return min((t for t in (ms(result, case, how) for how in gpu_models.OURS) if t), default=None)


def held(row):
    """Bytes that the driver has given to dpexec, the least of its contestants."""
    return min((c["memory"]["driver"] for how, c in row.get("contestants", {}).items()
                if how in gpu_models.OURS and (c.get("memory") or {}).get("driver")), default=None)


def memory_ratio(row):
    """Of the driver's memory where it is known, else of the plan's, to what PyTorch reserves (its least)."""
    ours = held(row) or row.get("plan_bytes")
    theirs = [c["memory"]["reserved"] for how, c in row["contestants"].items() if (c.get("memory") or {}).get("reserved")]
    return ours / min(theirs) if ours and theirs else None


def wanted(result):
    """[{what, found, wanted, met}]; found and met None where it was not measured.  Sets result["counts"]: checks passed and failed,
    and result["targets"]: how many of the rows were met, missed, not measured.  A target that is missed is a failed check, but in a
    trial, whose times mean nothing: there a kernel that ran has passed."""
    rows = []

    def add(what, found, want, met):
        rows.append({"what": what, "found": found, "wanted": want, "met": None if found is None else bool(met)})

    for case, how, least in SPEED:
        ours, theirs = fastest(result, case), ms(result, case, how)
        ratio = theirs / ours if ours and theirs else None
        add(f"{case}: speed against PyTorch {how}", ratio, f">= {least}", ratio and ratio >= least)
    for case, most in () if result["trial"] else STEP_MS:
        ours = fastest(result, case)
        add(f"{case}: milliseconds a step", ours, f"<= {most}", ours and ours <= most)
    for case, most in () if result["trial"] else STEP_GIB:
        least = held(result["cases"].get(case, {}))
        add(f"{case}: GiB", least and least / 2**30, f"<= {most}", least and least / 2**30 <= most)
    for case, row in result["cases"].items():
        ratio = memory_ratio(row)
        add(f"{case}: memory against what PyTorch reserves", ratio, f"<= {MEMORY}", ratio and ratio <= MEMORY)
    start = result["cases"].get("resnet50", {}).get("contestants", {}).get("dpexec", {}).get("first_step_s")
    add("resnet50: seconds from start to the first step", start, f"<= {START_SECONDS}", start and start <= START_SECONDS)
    for k in result["kernels"]:
        least = SCATTERED_BANDWIDTH if any(name in k["kernel"] for name in SCATTERED) else BANDWIDTH
        add(f"{k['kernel']} {k['case'].strip()}: share of the copy bandwidth", k["share"], f">= {least}", k["share"] >= least)
    met, missed = sum(r["met"] is True for r in rows), sum(r["met"] is False for r in rows)
    result["targets"] = [met, missed, len(rows) - met - missed]
    passed, failed = (len(result["kernels"]), 0) if result["trial"] else (met, missed)
    failed += len(result["failures"])
    for case, row in result["cases"].items():
        losses = {how: c["first_loss"] for how, c in row["contestants"].items()}
        for how, loss in losses.items():
            if how != "dpexec" and "dpexec" in losses:
                good = abs(loss - losses["dpexec"]) <= SAME_LOSS[row["precision"]] * abs(loss)
                passed, failed = passed + good, failed + (not good)
                if not good:
                    print(f"FAILED: {case}: first loss {losses['dpexec']:.6g}, PyTorch {how} {loss:.6g}")
    result["counts"] = [passed, failed]
    return rows


# ---- Markdown ----

def show(x, form="{:.2f}"):
    return "-" if x is None else form.format(x)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def label(how):
    options = gpu_models.OURS.get(how)
    if options is None:
        return f"PyTorch {how}"
    return " ".join(["dpexec"] + [f"--{name}" if value == "true" else f"--{name} {value}" for name, value in options.items()])


def contestants(result):
    rows = []
    for case, row in result["cases"].items():
        ours = fastest(result, case)
        for how, c in row["contestants"].items():
            held = c.get("memory") or {}
            bytes_held = held.get("driver") or held.get("reserved") or (row.get("plan_bytes") if how == "dpexec" else None)
            spread = show(max(c["rounds"]) / min(c["rounds"]), "{:.3f}") if c["rounds"] else "-"
            rows.append([case, str(row["batch"]), label(how), show(c["ms"], "{:.3f}"), spread,
                         show(row["batch"] / c["ms"] * 1e3 if c["ms"] else None, "{:.0f}"),
                         show(c["ms"] / ours if c["ms"] and ours else None), show(bytes_held and bytes_held / 2**20, "{:.0f}"), show(c["first_step_s"])])
    return table(["model", "batch", "", "ms/step", "slowest / fastest round", "samples/s", "dpexec is faster by", "MiB", "s to first step"], rows)


def limits(result, row):
    """Milliseconds of a step that bytes, and arithmetic in its precision, take at least; None where a ceiling or a count is missing."""
    moved = sum(r["bytes"] for r in row.get("trace") or [])
    by_bytes = moved / result["copy_gbs"] * 1e-6 if moved and result.get("copy_gbs") else None
    peak = (result.get("matmul_tflops") or {}).get(row.get("precision"))
    by_flops = row["flops"] / peak * 1e-9 if row.get("flops") and peak else None
    return by_bytes, by_flops


def step_by_kernel(result, case, row, most=20):
    rows = row.get("trace") or []
    total = sum(r["ms"] for r in rows)
    if not total:
        return ""
    lines = [[r["op"], r["kernel"], show(r["calls"], "{:.0f}"), show(r["ms"], "{:.3f}"), show(100 * r["ms"] / total, "{:.1f} %"),
              show(r["bytes"] / r["ms"] * 1e-6 if r["ms"] else None, "{:.0f}")] for r in rows[:most]]
    by_bytes, by_flops = limits(result, row)
    text = (f"A step of {case} by kernel, each timed alone: {total:.3f} ms in sum, {show(ms(result, case, 'dpexec'), '{:.3f}')} ms as one "
            f"graph; at least {show(by_bytes, '{:.3f}')} ms by the bytes that the kernels move, {show(by_flops, '{:.3f}')} ms by arithmetic.")
    return text + "\n\n" + table(["operator", "kernel", "calls", "ms", "share", "GB/s"], lines)


def missed_targets(result):
    """A line for each target that was missed."""
    return [f"MISSED: {w['what']}: {w['found']:.3g}, wanted {w['wanted']}" for w in result["wanted"] if w["met"] is False]


def markdown(result):
    kernels = [[k["case"].strip(), k["kernel"], show(k["bytes"] / 2**20, "{:.1f}"), show(k["us"]), show(k["gbs"], "{:.0f}"), show(k["share"])]
               for k in result["kernels"]]
    found = [[w["what"], show(w["found"]), w["wanted"], {None: "not measured", True: "yes", False: "**no**"}[w["met"]]] for w in result["wanted"]]
    peaks = result.get("matmul_tflops") or {}
    stages = [[s["stage"], s["counts"], str(s["seconds"])] for s in result.get("stages", [])]
    parts = [f"{result['device'] or 'simulated device, PyTorch on the CPU: a trial of the program, not a measurement'}; PyTorch {result.get('torch')}; "
             f"copies {show(result.get('copy_gbs'), '{:.0f}')} GB/s; products of matrices: bfloat16 {show(peaks.get('bfloat16'), '{:.0f}')} "
             f"TFLOP/s, float32 {show(peaks.get('float32'), '{:.1f}')} TFLOP/s.",
             contestants(result), "Targets: {} met, {} missed, {} not measured.".format(*result["targets"]),
             table(["", "found", "wanted", "met"], found)]
    parts += [step_by_kernel(result, case, row) for case, row in result["cases"].items()]
    if stages:
        parts.append(table(["stage", "", "s"], stages))
    if kernels:
        parts.append(table(["kernel", "", "MiB", "us", "GB/s", "of a copy"], kernels))
    if result["failures"]:
        parts.append("Failures:\n\n" + "\n".join(f"- {f}" for f in result["failures"]))
    return "\n\n".join(p for p in parts if p)
