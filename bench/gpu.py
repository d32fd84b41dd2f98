#!/usr/bin/env python3
"""Training on one GPU: dpexec and PyTorch, alternately, on the same card.  Needs torch and numpy.

    bench/gpu.py BUILD [--out FILE.json] [--deadline SECONDS] [--gate FILE] [--trial]
                 [--only CASE,...] [--contestants dpexec,tuned,chunked,eager,compile] [--kernels PATTERN]

BUILD is the folder of libdpexec.so, graph-transform and bench_kernels.  Each contestant is a process of its own (gpu_worker.py) that
trains from the same weights on the same batches, which lie in the host's memory.  In a round each trains for about a second; medians
over the rounds.  PyTorch's contestants are started first, since they compile for minutes of the CPU, or load PyTorch and then wait
for their turn; with --gate the rest waits until FILE exists.  When the deadline comes, what has been measured is written.

--only and --contestants choose what is trained; "none" is nothing.  --kernels: lines of kernels.txt that the regular expression finds.
--trial: tiny networks, on whatever devices there are (dpexec on a simulation, PyTorch on the CPU), to see that all of this works.

Prints tables in Markdown and writes them as JSON too, with what was wanted of each number and whether it was met.
"""
import argparse
import json
import os
import pathlib
import queue
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import gpu_models
import gpu_tables

HERE = pathlib.Path(__file__).resolve().parent
CONTESTANTS = {"resnet50": ("dpexec", "tuned", "eager", "compile"), "gpt2": ("dpexec", "tuned", "chunked", "eager", "compile"),
               "vit": ("dpexec", "eager", "compile"), "bert": ("dpexec", "eager", "compile"), "mlp": ("dpexec", "eager"),
               "fashion_cnn": ("dpexec", "eager")}
COMPILE_SHARE = 0.6         # of the time until the deadline


class Failed(Exception):
    pass


class Contestant:
    """A worker process.  Started by `start`, which returns at once; `ready` waits for its first step, and begins it where the worker
    has loaded PyTorch and waits: the time between is not counted."""

    def __init__(self, bench, case, how):
        self.case, self.how, self.left = case, how, bench.left
        which = "trial" if bench.args.trial else "full"
        sizes, precision = gpu_models.CASES[case][which], gpu_models.CASES[case]["precision"][which]
        self.spec = {"case": case, "how": how, "sizes": sizes, "model": str(gpu_models.model_file(case, sizes, bench.folder)),
                     "precision": precision, "library": f"{bench.args.build}/libdpexec.so", "device": bench.args.device,
                     "threads": 1 if bench.args.trial else 0, "waits": how == "eager"}
        self.process, self.first, self.error, self.lines = None, None, None, queue.Queue()
        self.env = bench.environment(how)

    def start(self):
        self.begun = time.monotonic()
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, str(HERE / "gpu_worker.py"), json.dumps(self.spec)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, env=self.env)
        threading.Thread(target=self.read, daemon=True).start()
        return self

    def read(self):
        for line in self.process.stdout:
            self.lines.put((time.monotonic(), line))
        self.lines.put((time.monotonic(), None))

    def answer(self, seconds=1e9):
        try:
            at, line = self.lines.get(timeout=max(1, min(seconds, self.left())))
        except queue.Empty:
            self.stop()
            raise Failed(f"{self.case}, {self.how}: no answer in time") from None
        if line is None:
            self.process.wait()
            self.errors.seek(0)
            said = self.errors.read().strip().splitlines()
            raise Failed(f"{self.case}, {self.how}: exit {self.process.returncode}: {' / '.join(said[-3:])[-500:]}")
        return at, json.loads(line)

    def ready(self, seconds=1e9):
        waited = 0
        if self.spec["waits"]:
            prepared, _ = self.answer(seconds)
            waited = time.monotonic() - prepared
            self.say("begin")
        at, answer = self.answer(seconds)
        self.first, self.first_loss = at - self.begun - waited, answer["loss"]
        return self

    def settled(self):
        """After two more steps all memory is taken; dpexec's is what the driver has less than before, so it is asked alone."""
        if self.how in gpu_models.OURS:
            self.ask("run 2")
            self.held = self.ask("memory")
        return self

    def memory(self):
        return self.held if self.how in gpu_models.OURS else self.ask("memory")

    def say(self, command):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass                                    # answer() says why

    def ask(self, command):
        self.say(command)
        return self.answer()[1]

    def ms(self, steps):
        return 1e3 * self.ask(f"run {steps}")["seconds"] / steps

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder, self.failures = args, folder, []
        self.end = time.monotonic() + args.deadline
        self.result = {"device": "", "trial": args.trial, "cases": {}, "kernels": [], "failures": self.failures}

    def left(self):
        return self.end - time.monotonic()

    def environment(self, how):
        """dpexec keeps what it compiles in a folder of this run: its first start is one without a cache."""
        env = dict(os.environ, DPEXEC_CACHE_DIR=f"{self.folder}/cache")
        if not self.args.trial:
            env.pop("OMP_NUM_THREADS", None)
        if how in gpu_models.OURS:
            env["LD_LIBRARY_PATH"] = ":".join(filter(None, [self.args.library_path, env.get("LD_LIBRARY_PATH")]))
        return env

    def attempt(self, what, work, *args):
        """work(*args), or None when it fails, which is noted."""
        try:
            if self.left() <= 0:
                raise Failed("the deadline has come")
            return work(*args)
        except (Failed, OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
            self.failures.append(f"{what}: {e}")
            print(f"FAILED: {what}: {e}", flush=True)
            return None

    def tool(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=max(1, self.left()), env=self.environment("dpexec"))
        if done.returncode and not done.stdout:
            raise Failed(f"exit {done.returncode}: {done.stderr.strip()[-400:]}")
        if done.returncode:
            self.failures.append(f"{pathlib.Path(command[0]).name}: {done.stderr.strip()[-400:]}")
        return done.stdout

    # ---- what the machine can do ----

    def look(self):
        self.result.update(json.loads(self.python("gpu_peak.py", "--look")))

    def peak(self):
        self.result.update(json.loads(self.python("gpu_peak.py")))

    def python(self, script, *more):
        done = subprocess.run([sys.executable, str(HERE / script), *more], capture_output=True, text=True, timeout=max(1, self.left()))
        if done.returncode:
            raise Failed(done.stderr.strip()[-400:])
        return done.stdout

    def kernels(self):
        trial, chosen = ["--trial"] if self.args.trial else [], pathlib.Path(self.folder) / "kernels.txt"
        chosen.write_text("".join(line + "\n" for line in (HERE / "kernels.txt").read_text().splitlines() if re.search(self.args.kernels, line)))
        lines = self.tool(f"{self.args.build}/bench_kernels", *trial, str(chosen)).splitlines()
        copy, *cases = [json.loads(line) for line in lines]
        self.result.update(copy_gbs=copy["gbs"], kernels=cases)

    # ---- a case ----

    def flops(self, one):
        options = [f"--{k}={v}" for k, v in gpu_models.CASES[one.case]["options"].items()]
        report = self.tool(f"{self.args.build}/graph-transform", one.spec["model"], *options, f"--batch-size={one.spec['sizes']['batch']}",
                           "--report", "--json")
        return json.loads(report)["devices"][0]["flops"]

    def plan(self, one):
        """Bytes of the device's memory that the plan asks for."""
        options = [f"--{k}={v}" for k, v in gpu_models.CASES[one.case]["options"].items()]
        text = self.tool(f"{self.args.build}/dpexec", one.spec["model"], *options, f"--batch-size={one.spec['sizes']['batch']}",
                         f"--precision={one.spec['precision']}", f"--devices={one.spec['device']}", "--dry-run")
        line = next(s for s in text.splitlines() if s.strip().startswith("memory: "))
        number, unit = line.split()[1], line.split()[2].rstrip(":")
        return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)

    def rounds(self, ones):
        """Steps of each contestant in turn; each round about --seconds long for the slowest."""
        steps = {}
        for one in ones:
            one.ask("run 2")
            ms = one.ms(2)
            steps[one.how] = max(1, min(1000, int(1e3 * self.args.seconds / ms))) if not self.args.trial else 1
        times = {one.how: [] for one in ones}
        for _ in range(self.args.rounds):
            for one in ones:
                times[one.how].append(one.ms(steps[one.how]))
        return times

    def run_case(self, case, early):
        row, ones = {"contestants": {}}, []
        self.result["cases"][case] = row
        for how in self.ways(case):
            one = early.get((case, how))
            if how == "eager" and one:
                one = self.attempt(f"{case}, {how}", one.ready)
            elif how in gpu_models.OURS:
                one = self.attempt(f"{case}, {how}", lambda h=how: Contestant(self, case, h).start().ready().settled())
            if one:
                ones.append(one)
                row.update(batch=one.spec["sizes"]["batch"], precision=one.spec["precision"])
        if ones and ones[0].how == "dpexec":
            again = self.attempt(f"{case}, second start", lambda: Contestant(self, case, "dpexec").start().ready())
            if again:
                row["warm_start"] = again.first
                again.stop()
                if abs(again.first_loss - ones[0].first_loss) > gpu_tables.SAME_LOSS[row["precision"]] * abs(ones[0].first_loss):
                    self.failures.append(f"{case}: first loss {ones[0].first_loss:.6g}, of a second start {again.first_loss:.6g}")
        times = self.attempt(f"{case}, rounds", self.rounds, ones) or {}
        for one in ones:
            row["contestants"][one.how] = {
                "ms": statistics.median(times[one.how]) if times.get(one.how) else None, "rounds": times.get(one.how, []),
                "first_step_s": one.first, "first_loss": one.first_loss,
                "memory": self.attempt(f"{case}, {one.how}, memory", one.memory)}
        ours = next((one for one in ones if one.how == "dpexec"), None)
        if ours:
            row["plan_bytes"] = self.attempt(f"{case}, plan", self.plan, ours)
            row["flops"] = self.attempt(f"{case}, FLOPs", self.flops, ours)
            trace = self.attempt(f"{case}, trace", ours.ask, "trace 3")
            row["trace"], row["by_size"] = gpu_tables.by_kernel(trace, 3), gpu_tables.by_size(trace, 3)
        for one in ones:
            one.stop()

    def ways(self, case):
        """The contestants; where nothing can be compiled (a trial), eager PyTorch stands in."""
        can = self.result.get("can_compile")
        ways = [how for how in CONTESTANTS[case] if how in self.args.contestants]
        return ways if can else list(dict.fromkeys(how.replace("compile", "eager") for how in ways))

    def start_early(self, cases):
        """PyTorch's contestants, all at once: those of the first cases first, since compiling starts before the others load."""
        found = {(case, how): Contestant(self, case, how) for case in cases for how in self.ways(case) if how not in gpu_models.OURS}
        for one in sorted(found.values(), key=lambda one: one.spec["waits"]):
            one.start()
        return found

    def compiled(self, early, until):
        """Drops from `early` what has not compiled by then.  What has gives back the memory that it does not need between steps."""
        for key in [key for key in early if key[1] == "compile"]:
            if self.attempt(", ".join(key), lambda one=early[key]: one.ready(until - time.monotonic()).ask("rest")) is None:
                early.pop(key).stop()

    def run(self):
        cases = [c for c in CONTESTANTS if self.args.only is None or c in self.args.only]
        self.attempt("look at the machine", self.look)
        until = time.monotonic() + COMPILE_SHARE * self.left()
        early = self.attempt("starting PyTorch", self.start_early, cases) or {}
        while self.args.gate and not os.path.exists(self.args.gate) and self.left() > 0:
            time.sleep(0.2)
        self.compiled(early, until)
        self.attempt("peak", self.peak)
        if self.args.kernels != "none":
            self.attempt("bench_kernels", self.kernels)
            self.write()
        for case in cases:
            self.attempt(case, self.run_case, case, early)
            self.write()
        for one in early.values():
            one.stop()

    def write(self):
        self.result["wanted"] = gpu_tables.wanted(self.result)
        if self.args.stages and os.path.exists(self.args.stages):
            self.result["stages"] = [json.loads(line) for line in open(self.args.stages)]
        if self.args.markdown:
            pathlib.Path(self.args.markdown).write_text(gpu_tables.markdown(self.result) + "\n")
        if self.args.out:
            pathlib.Path(self.args.out).write_text(json.dumps(self.result, indent=1) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--device", default="cuda:0", help="of dpexec")
    p.add_argument("--library-path", default="", help="folders of libraries, for dpexec alone")
    p.add_argument("--only", type=lambda text: text.split(","), help="cases, of " + ", ".join(CONTESTANTS))
    p.add_argument("--contestants", type=lambda text: text.split(","), default=["dpexec", "tuned", "chunked", "eager", "compile"])
    p.add_argument("--kernels", default="", metavar="PATTERN")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=1.0, help="of a contestant in a round")
    p.add_argument("--deadline", type=float, default=1e6, help="seconds from now")
    p.add_argument("--gate")
    p.add_argument("--out", help="the numbers, as JSON")
    p.add_argument("--markdown", help="the tables")
    p.add_argument("--stages", help="JSON lines of tests/gpu.sh, to be written with the numbers")
    p.add_argument("--trial", action="store_true")
    args = p.parse_args()
    args.build = str(pathlib.Path(args.build).resolve())
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, folder)
        bench.run()
        bench.write()
    if not args.markdown:
        print(gpu_tables.markdown(bench.result))
    for line in [] if args.trial else gpu_tables.missed_targets(bench.result):
        print(line)
    print("targets: {} met, {} missed, {} not measured".format(*bench.result["targets"]))
    print(f"{bench.result['counts'][0]} passed, {bench.result['counts'][1]} failed")
    return bench.result["counts"][1] > 0


if __name__ == "__main__":
    sys.exit(main())
