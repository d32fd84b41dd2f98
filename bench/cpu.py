#!/usr/bin/env python3
"""Training steps of dpexec and PyTorch on the CPU, in turns, with equal threads.

Needs torch, torchvision, onnx and numpy.

    bench/cpu.py [--dpexec build/dpexec] [--threads 2] [--rounds 3] [--only MODEL...] [--simd native|avx2]
                 [--contestants NAME...] [--ort-python ort/bin/python] [--against OTHER/dpexec] [--out FILE.json]
                 [--trial]

A round runs each contestant once, as a process of its own: steps of SGD with momentum on the same random batches.  The
contestants:

    dpexec           one device of --threads threads
    replicas         dpexec with a replica of one thread for each of --threads
    eager            PyTorch
    channels_last    PyTorch with the channels last; networks of images
    compile          PyTorch, torch.compile
    onnxruntime      ONNX Runtime 1.19.2 (cpu_ort.py), with --ort-python; SGD without momentum
    against          another dpexec, in place of all but the first, to see what a change does; beside the speed by
                     steps stands that by CPU time of the processes; nothing is written

A step's time is the mean of the steps behind the first one or two; metrics.jsonl has dpexec's.  Peak memory is that of
the whole process.  The first step's time runs from the start of the process to that step's end; torch.compile's
is that of the first round, whose cache is empty.  A speed is PyTorch's time divided by dpexec's in the same round.
Standard output gets a table of medians, spreads and targets; --out gets all numbers.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import cpu_models
from cpu_models import CASES, ROOT

TORCH = ("eager", "channels_last", "compile")
CONTESTANTS = ("dpexec", "replicas", *TORCH, "onnxruntime")
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
COLUMNS = ("model (batch)", "ms/step: dpexec", "replicas", "eager", "channels last", "compile", "ONNX Runtime",
           "speed (spread)", "target", "replicas' speed", "MiB: dpexec", "PyTorch", "ratio; without import", "target",
           "s to the first step's end: dpexec", "PyTorch", "beyond the step")


class Failed(Exception):
    pass


def wait_for(pid, log):
    """Status and resources of the process, and the clock when the file `log` got its first line; None without."""
    ended, first = 0, None
    while not ended:
        watching = log and not first
        ended, status, used = os.wait4(pid, os.WNOHANG if watching else 0)
        if watching and log.exists() and log.stat().st_size:
            first = time.monotonic()
        elif watching and not ended:
            time.sleep(0.001)
    return status, used, first


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.env = dict(os.environ, OMP_NUM_THREADS=str(args.threads), TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"))
        self.isa = []
        if args.simd == "avx2":
            self.env.update(AVX2)
            shown = subprocess.run([args.dpexec, "train", "--help"], capture_output=True, text=True, check=True).stdout
            self.isa = ["--isa", "x86-64-v3"] if "x86-64-v3" in shown and self.accepts_isa() else []

    def accepts_isa(self):
        """Only a build with several instruction sets has them."""
        trial = [self.args.dpexec, "train", str(ROOT / "models/mlp.onnx"), "--loss", "cross-entropy", "--dry-run",
                 "--isa", "x86-64-v3"]
        return subprocess.run(trial, capture_output=True, check=False).returncode == 0

    def train(self, program, model, steps, out, *more):
        return [program, "train", str(cpu_models.path_of(model, self.folder)), "--data", str(self.data(model)),
                "--loss", "cross-entropy", "--batch-size", str(CASES[model].batch), "--momentum", "0.9",
                "--lr", "0.001", "--steps", str(steps), "--quiet", "--out", str(out), *self.isa, *more]

    def data(self, model):
        return self.folder / f"{model}.npz"

    def command(self, who, model, out):
        args, steps, warm = self.args, self.steps(model), CASES[model].warm
        if who in TORCH:
            return [sys.executable, "bench/cpu_torch.py", who, model, str(self.data(model)), str(steps), str(warm),
                    str(args.threads)]
        if who == "onnxruntime":
            return [args.ort_python, "bench/cpu_ort.py", "train", model, str(self.data(model)), str(steps), str(warm),
                    str(args.threads), str(self.folder / f"{model}-artifacts")]
        devices, threads = (f"cpu*{args.threads}", 1) if who == "replicas" else ("cpu", args.threads)
        return self.train(args.against if who == "against" else args.dpexec, model, warm + steps, out, "--devices",
                          devices, "--threads", str(threads))

    def steps(self, model):
        return 1 if self.args.trial else CASES[model].steps

    def prepare(self, model):
        """The ONNX file and the data."""
        cpu_models.make_data(model, self.data(model), CASES[model].warm + self.steps(model))
        path = cpu_models.path_of(model, self.folder)
        if not path.exists():
            self.call([sys.executable, "bench/cpu_torch.py", "export", model, str(path)])

    def make_artifacts(self, model):
        """The files that ONNX Runtime trains."""
        folder = self.folder / f"{model}-artifacts"
        folder.mkdir()
        self.call([self.args.ort_python, "bench/cpu_ort.py", "artifacts", model,
                   str(cpu_models.path_of(model, self.folder)), str(folder)])

    def call(self, command, log=None):
        """Runs a process: its peak memory in MiB, CPU seconds, standard output, the clock at its start and its end, and
        with `log` the clock when that file got its first line."""
        start = time.monotonic()
        with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as error:
            child = subprocess.Popen(command, cwd=ROOT, env=self.env, stdout=said, stderr=error)
            status, used, first = wait_for(child.pid, log)
            end, child.returncode = time.monotonic(), os.waitstatus_to_exitcode(status)
            said.seek(0), error.seek(0)
            if child.returncode:
                lines = error.read().strip().splitlines()
                raise Failed(lines[-1] if lines else f"exit status {child.returncode}")
            return {"peak_mib": used.ru_maxrss / 1024, "cpu_s": used.ru_utime + used.ru_stime, "said": said.read(),
                    "start": start, "first": first, "end": end}

    def run(self, who, model, number):
        """One contestant in one round."""
        out = self.folder / f"run-{who}-{model}-{number}"
        ours = who not in TORCH and who != "onnxruntime"
        ran = self.call(self.command(who, model, out), out / "metrics.jsonl" if ours else None)
        if ours:
            lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            told = {"ms": [line["ms"] for line in lines if line["step"] > CASES[model].warm], "first_end": ran["first"]}
            shutil.rmtree(out)
        else:
            told = json.loads(ran["said"].splitlines()[-1])
        return {"ms": statistics.mean(told["ms"]), "peak_mib": ran["peak_mib"],
                "cpu_s": ran["cpu_s"],
                "first_s": told["first_end"] - ran["start"], "import_mib": told.get("import_mib", 0)}

    def contestants(self, model):
        if self.args.against:
            return ["dpexec", "against"]
        who = list(CONTESTANTS)
        if self.args.threads == 1:
            who.remove("replicas")
        if not CASES[model].images:
            who.remove("channels_last")
        # The loss of ONNX Runtime's artifacts takes logits [N, C] alone, and nothing limits its instruction set.
        case = CASES[model]
        if not self.args.ort_python or case.layout or case.dense or self.args.simd == "avx2":
            who.remove("onnxruntime")
        return [w for w in who if w in self.args.contestants]

    def measure(self, model):
        """Rounds of each contestant, and the message of each that failed, which runs no more."""
        self.prepare(model)
        rounds, failed = {who: [] for who in self.contestants(model)}, {}
        for i in range(1 if self.args.trial else self.args.rounds):
            order = list(rounds)
            for who in order[i % len(order):] + order[:i % len(order)]:
                try:
                    if who == "onnxruntime" and i == 0:
                        self.make_artifacts(model)
                    rounds[who].append(self.run(who, model, i))
                except Failed as e:
                    failed[who] = str(e)
                    print(f"{model}: {who}: {e}", file=sys.stderr, flush=True)
            rounds = {who: r for who, r in rounds.items() if who not in failed}
        return {"model": model, "batch": CASES[model].batch, "rounds": rounds, "failed": failed}

    def one_step(self):
        """Seconds of a whole run of one step of the MLP, over the digits of the tests."""
        times = []
        for i in range(1 if self.args.trial else 9):
            train = self.train(self.args.dpexec, "mlp", 1, self.folder / f"one-{i}")
            train[train.index("--data") + 1] = "tests/oracle/data/digits.npz"
            ran = self.call(train)
            times.append(ran["end"] - ran["start"])
        return statistics.median(times)


def median_of(row, who, key):
    return statistics.median(r[key] for r in row["rounds"][who])


def speed_against(row, others, mine="dpexec", key="ms"):
    """How many times as fast `mine` is as the fastest of the others: median, least and most of the rounds."""
    if mine not in row["rounds"] or not (others := [who for who in others if who in row["rounds"]]):
        return None
    best = min(others, key=lambda who: median_of(row, who, key))
    ratios = [b[key] / a[key] for a, b in zip(row["rounds"][mine], row["rounds"][best])]
    return {"against": best, "median": statistics.median(ratios), "spread": [min(ratios), max(ratios)]}


def summarize(row):
    """Adds speeds, memory and first steps to a row, each with its target."""
    case, rounds = CASES[row["model"]], row["rounds"]
    others = {"best": TORCH, "eager": TORCH[:2], "compiled": TORCH[2:], "against": ("against",)}
    wanted = {"against": None} if "against" in rounds else case.speed or {"best": None}
    row["speed"] = {name: {**s, "target": target} for name, target in wanted.items()
                    if (s := speed_against(row, others[name]))}
    if "against" in rounds and (s := speed_against(row, ("against",), key="cpu_s")):
        row["speed"]["CPU"] = {**s, "against": "its CPU time", "target": None}
    row["replicas"] = {**s, "target": 0.97} if (s := speed_against(row, ("dpexec",), "replicas")) else None
    row["memory"] = row["first"] = None
    target = None if "against" in rounds else case.memory
    theirs = [who for who in (*TORCH, "against") if who in rounds]
    if "dpexec" not in rounds:
        return
    if theirs:
        ours, least = median_of(row, "dpexec", "peak_mib"), min(theirs, key=lambda who: median_of(row, who, "peak_mib"))
        peak = median_of(row, least, "peak_mib")
        row["memory"] = {"dpexec": ours, "other": peak, "against": least, "ratio": ours / peak, "target": target,
                         "without_import": ours / (peak - median_of(row, least, "import_mib"))}
    first = median_of(row, "dpexec", "first_s")
    row["first"] = {"dpexec": first, "beyond": first - median_of(row, "dpexec", "ms") / 1e3, "target": case.first,
                    **{who: rounds[who][0]["first_s"] if who == "compile" else median_of(row, who, "first_s")
                       for who in theirs}}


def verdict(value, target, least=True):
    if target is None:
        return ""
    met = value >= target if least else value <= target
    return f"{'≥' if least else '≤'} {target:g} {'met' if met else '**missed**'}"


def table_row(row):
    times = [f"{median_of(row, who, 'ms'):.4g}" if who in row["rounds"] else "failed" if who in row["failed"] else ""
             for who in CONTESTANTS]
    speed, replicas, memory, first = (row[k] for k in ("speed", "replicas", "memory", "first"))
    told = "; ".join(f"{s['median']:.2f} ({s['spread'][0]:.2f}–{s['spread'][1]:.2f}) of {s['against']}"
                     for s in speed.values())
    wanted = "; ".join(filter(None, (verdict(s["median"], s["target"]) for s in speed.values())))
    of_replicas = f"{replicas['median']:.3f} {verdict(replicas['median'], replicas['target'])}" if replicas else ""
    cells = ["", "", "", ""] if not memory else [
        f"{memory['dpexec']:.0f}", f"{memory['other']:.0f}", f"{memory['ratio']:.2f}; {memory['without_import']:.2f}",
        verdict(memory["ratio"], memory["target"], False)]
    cells += ["", "", ""] if not first else [
        f"{first['dpexec']:.2f}", ", ".join(f"{first[who]:.1f}" for who in (*TORCH, "against") if who in first),
        f"{first['beyond']:.2f} {verdict(first['beyond'], first['target'], False)}"]
    return "| " + " | ".join([f"{row['model']} ({row['batch']})", *times, told, wanted, of_replicas, *cells]) + " |"


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def torch_version():
    return subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True,
                          text=True, check=True).stdout.strip()


def write_results(args, rows, one_step):
    out = args.out or ROOT / f"bench/results/cpu-{datetime.date.today()}-{args.simd}.json"
    out.write_text(json.dumps({
        "machine": processor(), "cores": os.cpu_count(), "load": os.getloadavg(), "threads": args.threads,
        "rounds": args.rounds, "simd": args.simd, "torch": torch_version(), "one_step_of_mlp_s": one_step,
        "models": rows}, indent=1) + "\n")


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dpexec", default="build/dpexec", type=os.path.abspath)
    p.add_argument("--against", help="another build of dpexec, in PyTorch's place", type=os.path.abspath)
    p.add_argument("--ort-python", help="a Python with onnxruntime-training-cpu 1.19.2", type=os.path.abspath)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--simd", choices=("native", "avx2"), default="native")
    p.add_argument("--only", choices=CASES, nargs="+", default=[m for m, case in CASES.items() if case.speed])
    p.add_argument("--contestants", choices=CONTESTANTS, nargs="+", default=CONTESTANTS)
    p.add_argument("--out", help="[bench/results/cpu-DATE-SIMD.json]", type=pathlib.Path)
    p.add_argument("--trial", action="store_true", help="one round of one step, to see that all runs")
    return p.parse_args()


def main():
    args, rows = parse_args(), []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, pathlib.Path(folder))
        print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|", flush=True)
        for model in args.only:
            rows.append(bench.measure(model))
            summarize(rows[-1])
            print(table_row(rows[-1]), flush=True)
        one_step = bench.one_step()
        print(f"\nA run of one step of the MLP: {1e3 * one_step:.0f} ms {verdict(one_step, 0.05, False)} (seconds).")
    if not args.against and not args.trial:
        write_results(args, rows, one_step)
    return any("dpexec" in row["failed"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
