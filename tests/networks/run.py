#!/usr/bin/env python3
"""Trains exported networks with dpexec and compares with PyTorch: run.py [options] (run.sh makes the environment; docs/reference/networks.md)

    --build DIR      where dpexec and graph-transform are [build]
    --work DIR       files, data and results; what is there is kept [/tmp/networks]
    --subset NAME    main: every network, three exports, perturbed weights, dynamic batch; cross: five networks, everything; all: both;
                     libraries: architectures of transformers, timm, diffusers … (libraries.py), the two exports of docs/guide/export.md [main]
    --case PATTERN   only cases whose name matches (as in the shell; repeatable): NET.WEIGHTS.EXPORTER.BATCH
    --jobs N         cases at a time [1]
    --budget S       seconds for each command of a case [600]
    --again          run cases that have a result, too;  --again VERDICT: those with that verdict
    --no-verify      leave out graph-transform --verify, which takes the most time
    --standard       only train five steps in ONNX Runtime, by the file that graph-transform --standard writes, and compare (standard.py):
                     in float32 to 1e-4, or to what FLOAT32 says of a network
    --batches N,...  with --standard: at these sizes of batches, by one file [4, with --determined 32]
    --after N        with --standard: of the networks as N steps of training leave them [0]
    --determined     with --standard: from where float32 determines what five steps in a row compute, in batches of 32 at a rate of 0.001
                     or what DETERMINED_RATE says, residual branches beginning at zero: losses and all parameters together to 1e-4, for every network
    --kernels        only train a few steps in float32, and print where their time goes by kernel
    --list           print the cases
    --table FILE     write the results' table into FILE between its two marks, and run nothing

Results: WORK/results/CASE.json.  The exit status is 1 when a network that its file holds was trained differently, or differently
without a warning, or with --kernels where a reference kernel takes more than 0.5 % of a step, or with --standard where the two differ.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np

import judge
import kernels
import table

HERE = pathlib.Path(__file__).resolve().parent
MAIN = ("legacy-train-17", "default-eval", "default-noopt")
RECOMMENDED = ("legacy-train-17", "default-noopt")
CROSSED = ("resnet18", "unet", "vit", "bert", "groupnorm")
CROSS = tuple(f"legacy-{m}-{o}" for m in ("train", "eval") for o in (11, 13, 17)) + ("default-train", "default-eval", "default-noopt")
# How far a step's changes are from ONNX Runtime's in float32 where rounding turns over a decision, with --standard in batches of 4: the
# most that was measured of MAIN's three files.  A bound may shrink, and a network may leave; neither is there to make room.
FLOAT32 = {"resnet50": 4.5e-2, "mobilenet_v2": 1.6e-2, "densenet121": 2.6e-3, "googlenet": 1.3e-2, "vgg11_bn": 2.0e-3, "regnet": 8.7e-4,
           "fcn": 1.6e-2, "deeplab": 2.1e-2}
DETERMINED_BATCH, DETERMINED_RATE = "32", {"googlenet": 3e-5, "shufflenet_v2": 1e-4}      # of --determined; of others 1e-3
VERIFIED = [(replicas, batch) for batch in (1, 4, 10) for replicas in (3, 8)] + [(1, 4)]


def all_cases(nets):
    main = [f"{n}.perturbed.{e}.dynamic" for n, spec in nets.items() if not spec["library"] for e in MAIN]
    libraries = [f"{n}.perturbed.{e}.dynamic" for n, spec in nets.items() if spec["library"] for e in RECOMMENDED]
    cross = [f"{n}.{w}.{e}.{b}" for n in CROSSED for w in ("perturbed", "fresh") for e in CROSS for b in ("dynamic", "fixed")]
    return main, [c for c in cross if c not in main], libraries


class Suite:
    def __init__(self, args, nets):
        self.args, self.nets = args, nets
        self.dpexec, self.transform = (args.build / p for p in ("dpexec", "graph-transform"))
        self.results = args.work / "results"
        self.results.mkdir(parents=True, exist_ok=True)

    def command(self, *words):
        """-> exit status (124: out of time), everything it printed."""
        try:
            p = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=self.args.budget, check=False)
            return p.returncode, p.stdout + p.stderr
        except subprocess.TimeoutExpired:
            return 124, f"more than {self.args.budget} s"

    def prepare(self, name, weights, exports):
        return self.command(sys.executable, HERE / "prepare.py", name, weights, self.args.work / f"{name}-{weights}", *exports)

    def flags(self, spec, dtype="float64"):
        """Data-independent flags, the same for a run and for graph-transform."""
        return ["--loss", spec["loss"], "--lr", str(spec["lr"]), "--momentum", "0.9", "--bn-variance", "unbiased",
                *(["--dtype", dtype] if dtype else []), *spec["flags"]]

    def steps(self, spec, folder, model, case, steps, replicas):
        """Trains the file: the run's folder, what was said, the losses; no losses where it failed, and its errors in their place."""
        out = self.args.work / "runs" / (case if replicas == 1 else f"{case}.replicas")
        out.parent.mkdir(exist_ok=True)
        shutil.rmtree(out, ignore_errors=True)
        status, said = self.command(self.dpexec, "train", model, "--data", folder / "data.npz", *self.flags(spec), "--batch-size", "4",
                                    "--steps", steps, "--no-shuffle", "--threads", "1", "--replicas", replicas, "--out", out)
        if status:
            lines = [x for x in said.splitlines() if x.startswith("dpexec: ") and "warning: " not in x]
            return out, "\n".join(lines) or f"exit status {status}: {said}", None
        return out, said, [m["loss"] for m in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in m]

    def train(self, spec, folder, model, result):
        """Fills in what one run and three replicas come to.  Where the run's warnings name flags, it is judged with these."""
        oracle = json.loads((folder / "oracle.json").read_text()) | {"npz": folder / "oracle.npz"}
        steps = len(oracle["losses"])
        start = time.time()
        out, said, losses = self.steps(spec, folder, model, result["case"], steps, 1)
        result |= {"said": said, "seconds": time.time() - start}
        if losses and (named := judge.named_flags(said, self.compared(oracle, model, out)["extra"])):
            spec = spec | {"flags": [*spec["flags"], *named]}
            result["named"] = named
            out, said, losses = self.steps(spec, folder, model, result["case"], steps, 1)
        if not losses:
            result["error"] = said
            return
        apart = judge.apart(losses, oracle["losses"])
        result |= {"steps": steps, "first": apart[0], "losses": max(apart), "amplified": oracle["amplified"], "lost": judge.lost(oracle, model),
                   "trained": self.compared(oracle, model, out)}
        _, said, split = self.steps(spec, folder, model, result["case"], steps, 3)
        result["replicas"] = {"losses": max(judge.apart(split, losses))} if split else {"error": said}

    def compared(self, oracle, model, out):
        checkpoint = judge.state(next((out / "checkpoints").glob("step-*/state.safetensors")))
        return judge.compare_parameters(oracle, judge.tensors(model)[0], checkpoint)

    def runtimes(self, spec, folder, result):
        """The trained model in ONNX Runtime and onnx.reference, the whole batch and single samples (tests/interop)."""
        out, words = self.args.work / "runs" / result["case"], []
        with np.load(folder / "data.npz") as data:
            for name in data.files:
                if name != "target":
                    np.save(out / f"{name}.npy", np.moveaxis(data[name][:4], 0, spec["axes"].get(name, 0)))
                    words += ["--input", f"{name}={out / name}.npy"]
        status, said = self.command(sys.executable, HERE.parent / "interop" / "compare.py", self.dpexec, out / "model.onnx", *words)
        result["runtimes"] = {"ok": status == 0, "said": said.strip()[-1000:]}

    def verify(self, spec, model, result):
        """Replicas and batches: the largest difference that graph-transform --verify found, or its error."""
        result["verify"] = {}
        for replicas, batch in VERIFIED:
            status, said = self.command(self.transform, model, *self.flags(spec), "--batch-size", batch, "--replicas", replicas, "--verify")
            last = (said.strip().splitlines() or [""])[-1]
            worst = [line.rsplit(":", 1)[1] for line in said.splitlines() if line.startswith("largest relative difference")]
            result["verify"][f"R{replicas} B{batch}"] = {"ok": status == 0, "worst": worst[0].strip() if worst else "", "said": last}

    def report(self, spec, model, result):
        """What travels between three devices in a step."""
        status, said = self.command(self.transform, model, *self.flags(spec), "--batch-size", 6, "--devices", "cpu*3", "--report", "--json")
        if status:
            result["report"] = {"error": said.strip().splitlines()[-1]}
            return
        report = json.loads(said[said.index("{"):])
        device = report["devices"][-1]
        result["report"] = {k: report[k] for k in ("mixes", "replicated", "notes")} | {"collectives": len(report["collectives"]),
            "nodes": device["nodes"], "sent": device["sent_bytes"], "gradients": 8 * device["parameters"]}

    def profile(self, case):
        """-> the table by kernel of a step in float32, or what stands in its place."""
        name, weights, exporter, batch = case.split(".")
        spec, folder = self.nets[name], self.args.work / f"{name}-{weights}"
        model, trace = folder / f"{exporter}-{batch}.onnx", self.args.work / "runs" / f"{case}.trace.json"
        if not model.exists():
            return "no file"
        trace.parent.mkdir(exist_ok=True)
        status, said = self.command(self.dpexec, "train", model, "--data", folder / "data.npz", *self.flags(spec, "float32"),
                                    "--batch-size", "4", "--steps", "20", "--no-shuffle", "--threads", "1", "--quiet", "--trace", trace)
        return kernels.table(trace) if status == 0 else said.strip().splitlines()[-1]

    def run(self, case):
        name, weights, exporter, batch = case.split(".")
        spec, folder = self.nets[name], self.args.work / f"{name}-{weights}"
        spec = spec | {"flags": [*spec["flags"], *spec["exports"].get(exporter, [])]}
        model = folder / f"{exporter}-{batch}.onnx"
        result = {"case": case}
        if not model.exists():
            refused = model.with_suffix(".refused")
            result["error"] = "exporter: " + (refused.read_text()[:500] if refused.exists() else "no file")
            result["verdict"] = "no file"
        else:
            self.train(spec, folder, model, result)
            if "error" not in result:
                self.runtimes(spec, folder, result)
                self.report(spec, model, result)
                if not self.args.no_verify:
                    self.verify(spec, model, result)
            result["verdict"] = judge.verdict(result)
        (self.results / f"{case}.json").write_text(json.dumps(result, indent=1))
        return result


def wanted(args, cases, results):
    for c in cases:
        path = results / f"{c}.json"
        if args.case and not any(fnmatch.fnmatch(c, p) for p in args.case):
            continue
        if not (args.kernels or args.standard) and path.exists() and (args.again is None or args.again and not json.loads(path.read_text())["verdict"].startswith(args.again)):
            continue
        yield c


def make_files(suite, group):
    name, weights = group[0].split(".")[:2]
    exports = [".".join(c.split(".")[2:]).replace(".", "-") for c in group]
    folder = suite.args.work / f"{name}-{weights}"
    if all(any((folder / f"{e}.{kind}").exists() for kind in ("onnx", "refused")) for e in exports) and (folder / "oracle.json").exists():
        return
    status, said = suite.prepare(name, weights, exports)
    if status:
        print(f"{name} {weights}: prepare.py: {said.strip().splitlines()[-1] if said.strip() else status}", flush=True)


def profiled(suite, groups):
    """Prints a line for each case, and what the kernels take of a step: on average, and where they take most."""
    share, bad, n = {}, 0, 0
    for group in groups:
        make_files(suite, group)
        for case in group:
            rows = suite.profile(case)
            if isinstance(rows, str):
                print(f"{case:44} {rows}", flush=True)
                continue
            all_of_it, wrong = kernels.step(rows), kernels.slow(rows)
            bad += bool(wrong)
            n += 1
            reference = sum(us for k, us, _ in rows if k.startswith("ref_"))
            print(f"{case:44}{all_of_it / 1000:9.2f} ms, reference kernels {100 * reference / all_of_it:.2f} %",
                  f"; too slow: {', '.join(wrong)}" if wrong else "", flush=True)
            for k, us, _ in rows:
                share.setdefault(k, []).append((100 * us / all_of_it, case))
    print(f"\n{'kernel':34}{'% of a step':>12}{'at most':>9}  in")
    for k, of in sorted(share.items(), key=lambda item: -sum(s for s, _ in item[1])):
        print(f"{k:34}{sum(s for s, _ in of) / n:12.2f}{max(of)[0]:9.2f}  {max(of)[1]}")
    return bad


def elsewhere(suite, groups):
    """Prints a line for each case that ONNX Runtime trained, or why it did not."""
    bad = 0
    for group in groups:
        make_files(suite, group)
        for case in group:
            name, weights, exporter, batch = case.split(".")
            spec, folder = suite.nets[name], suite.args.work / f"{name}-{weights}"
            model = folder / f"{exporter}-{batch}.onnx"
            if not model.exists():
                print(f"{case:44} no file", flush=True)
                continue
            spec = spec | ({"lr": DETERMINED_RATE.get(name, 1e-3)} if suite.args.determined else {})
            how = ["--zero-residuals", "--in-a-row"] if suite.args.determined else ["--float32", FLOAT32.get(name, 1e-4)]
            status, said = suite.command(sys.executable, HERE / "standard.py", "--after", suite.args.after, *how, suite.args.build,
                                         model, folder / "data.npz", suite.args.batches, *suite.flags(spec, None))
            bad += bool(status)
            for line in (said.strip().splitlines() or ["nothing was said"])[-len(suite.args.batches.split(",")):]:
                print(f"{case:44} {line}", flush=True)
    return bad


def together(suite, group):
    """One network: its files first, then each case."""
    make_files(suite, group)
    bad = 0
    for c in group:
        r = suite.run(c)
        bad += r["verdict"] in ("DIFFERS", "SILENT")
        print(table.line(r), flush=True)
    return bad


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build")
    ap.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/networks"))
    ap.add_argument("--subset", choices=("main", "cross", "all", "libraries"), default="main")
    ap.add_argument("--case", action="append")
    ap.add_argument("--jobs", type=int, default=1)
    ap.add_argument("--budget", type=int, default=600)
    ap.add_argument("--again", nargs="?", const="")
    ap.add_argument("--no-verify", action="store_true")
    ap.add_argument("--kernels", action="store_true")
    ap.add_argument("--standard", action="store_true")
    ap.add_argument("--batches")
    ap.add_argument("--after", default="0")
    ap.add_argument("--determined", action="store_true")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--table", type=pathlib.Path)
    args = ap.parse_args()
    args.batches = args.batches or (DETERMINED_BATCH if args.determined else "4")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    nets = json.loads(subprocess.run([sys.executable, HERE / "prepare.py", "--list"], capture_output=True, check=True, text=True).stdout)
    main_cases, cross_cases, library_cases = all_cases(nets)
    if args.table:
        table.write(args.table, args.work / "results", main_cases, cross_cases, library_cases)
        return 0
    suite = Suite(args, nets)
    cases = {"main": main_cases, "cross": cross_cases, "all": main_cases + cross_cases,
             "libraries": library_cases}[args.subset]
    if args.list:
        print(*cases, sep="\n")
        return 0
    groups = {}
    for c in wanted(args, cases, suite.results):
        groups.setdefault(tuple(c.split(".")[:2]), []).append(c)
    if args.standard:
        return 1 if elsewhere(suite, groups.values()) else 0
    if args.kernels:
        return 1 if profiled(suite, groups.values()) else 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        bad = sum(pool.map(lambda g: together(suite, g), groups.values()))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
