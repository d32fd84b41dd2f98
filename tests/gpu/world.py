#!/usr/bin/env python3
"""Several processes that train together on one GPU, which NCCL takes for GPUs of several machines: a test of what they compute, not
of how fast.  Needs nothing but Python.

    tests/gpu/world.py DPEXEC [--quick] [--killed] [--logs DIR] [--trial]

With 2 and with 4 processes the losses must be the CPU's with as many replicas within 1e-3, steps must be captured as one graph, and
all processes must end well; --quick leaves out one of three models.  --killed, in place of that: when one of two is killed in mid-run the other must end within 20 seconds,
saying why.  If it does not, what its threads wait for is printed, and what cuda-gdb shows of them where it is found; DIR/killed-gdb.log
and killed-threads.log keep all of it.  --killed takes at most 90 seconds.
--trial: on the CPU, since simulated devices are those of one process.  Ends with "N passed, N failed".
"""
import argparse
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from train import Run, captured, cases, close

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ("mlp-sgd", "resnet20-sgd", "fashion_cnn-sgd")
SECONDS = 60
START, END, LOOK = 40, 20, 25      # seconds of --killed: to the first steps, to the end of the one that is left, of cuda-gdb
# NCCL refuses two members on one GPU of one machine, so each is told to be a machine of its own; between machines it has sockets.
NCCL = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0",
        "NCCL_CUMEM_ENABLE": "0", "NCCL_MAX_NCHANNELS": "2", "NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class World(Run):
    """A Run of several processes; rank 0 writes the folder."""

    def __init__(self, dpexec, case, size, device):
        self.error, self.losses, self.said = None, [], ""
        meet = ["--world", str(size), "--rendezvous", f"127.0.0.1:{free_port()}", "--devices", device, "--steps", str(case["steps"]), "--quiet"]
        with tempfile.TemporaryDirectory() as tmp:
            ranks = []
            for rank in range(size):
                env = dict(os.environ, **NCCL, NCCL_HOSTID=f"dpexec-{rank}")
                ranks.append(subprocess.Popen([dpexec, "train", *case["args"], *meet, "--rank", str(rank), "--out", f"{tmp}/run"], cwd=ROOT, env=env,
                                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
            end = time.monotonic() + SECONDS
            for rank, process in enumerate(ranks):
                try:
                    said = process.communicate(timeout=max(0.1, end - time.monotonic()))[1]
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    said = f"no end within {SECONDS} s"
                self.said += said
                if process.returncode and not self.error:
                    self.error = f"rank {rank} of {size}: exit {process.returncode}: {said.strip()[-400:]}"
            if not self.error:
                self.read(pathlib.Path(tmp) / "run")


def threads(pid):
    """A line for each thread: its name, its state, what it waits for in the kernel, and the kernel's stack where that may be read."""
    lines = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir(), key=lambda t: int(t.name)):
        found = {}
        for what in ("comm", "wchan", "syscall", "stack", "status"):
            try:
                found[what] = (task / what).read_text().strip()
            except OSError as e:
                found[what] = f"({e.strerror})"
        state = next((line.split(None, 1)[1] for line in found["status"].splitlines() if line.startswith("State:")), "?")
        stack = " < ".join(line.split()[-1] for line in found["stack"].splitlines()[:6] if line.strip())
        lines.append(f"thread {task.name} {found['comm']}: {state}, in {found['wchan']}, system call {found['syscall'].split(' ')[0]}: {stack}")
    return "\n".join(lines)


def where(pid, logs):
    """Where process `pid` hangs, in a few lines; all that is known of it goes to the folder `logs`."""
    said, gdb = threads(pid), shutil.which("cuda-gdb") or "/usr/local/cuda/bin/cuda-gdb"
    pathlib.Path(logs, "killed-threads.log").write_text(said + "\n")
    if not pathlib.Path(gdb).exists():
        return said
    try:
        done = subprocess.run(["timeout", "-k", "2", str(LOOK - 3), gdb, "-p", str(pid), "-batch", "-ex", "thread apply all bt"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LOOK)
        text = done.stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired) as e:
        text = f"{e}"
    pathlib.Path(logs, "killed-gdb.log").write_text(text)
    return said + "\n" + "\n".join(line[:160] for line in text.splitlines() if line.startswith(("Thread ", "#")))


def killed(dpexec, case, device, logs):
    """What is wrong with how rank 0 ends when rank 1 is killed while both train, or None."""
    meet = ["--world", "2", "--rendezvous", f"127.0.0.1:{free_port()}", "--devices", device, "--steps", "10000000"]
    with tempfile.TemporaryDirectory() as tmp:
        def said():
            return pathlib.Path(tmp, "said-0").read_text().strip()[-800:]

        ranks = [subprocess.Popen([dpexec, "train", *case["args"], *meet, "--rank", str(rank), "--out", f"{tmp}/run"], cwd=ROOT,
                                  env=dict(os.environ, **NCCL, NCCL_HOSTID=f"dpexec-{rank}"), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=open(f"{tmp}/said-{rank}", "w")) for rank in (0, 1)]
        try:
            metrics, end = pathlib.Path(tmp) / "run/metrics.jsonl", time.monotonic() + START
            while not (metrics.exists() and metrics.read_text().count("\n") > 5):
                if any(r.poll() is not None for r in ranks):
                    return f"no steps: {said()}"
                if time.monotonic() > end:
                    return f"no steps within {START} s: {said()}\n{where(ranks[0].pid, logs)}"
                time.sleep(0.1)
            ranks[1].kill()
            begun = time.monotonic()
            status = ranks[0].wait(END)
            print(f"rank 0 ended {time.monotonic() - begun:.1f} s after rank 1 was killed: exit {status}: {said()}", flush=True)
            return None if status > 0 and "rank 1 of 2" in said() else f"exit {status}: {said()}"
        except subprocess.TimeoutExpired:
            return f"no end within {END} s: {said()}\n{where(ranks[0].pid, logs)}"
        finally:
            for r in ranks:
                r.kill()
            for r in ranks:
                try:
                    r.wait(5)
                except subprocess.TimeoutExpired:
                    print(f"process {r.pid} is left: the kernel does not end it\n{threads(r.pid)}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dpexec")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--killed", action="store_true")
    p.add_argument("--logs", default=tempfile.gettempdir())
    p.add_argument("--trial", action="store_true")
    args = p.parse_args()
    dpexec = str(pathlib.Path(args.dpexec).resolve())
    chosen = [c for c in cases() if c["name"] in MODELS[:1 if args.trial else 2 if args.quick else 3]]
    if args.killed:
        wrong = killed(dpexec, chosen[0], "cpu" if args.trial else "cuda:0", args.logs)
        print((f"FAILED: one of 2 processes killed: {wrong}\n" if wrong else "") + f"{int(not wrong)} passed, {int(bool(wrong))} failed")
        return bool(wrong)
    passed = failed = 0
    for case in chosen:
        case = dict(case, steps=3) if args.trial else case
        for size in (2,) if args.trial else (2, 4):
            cpu = Run(dpexec, case, "--devices", "cpu", "--threads", "1", "--replicas", str(size))
            world = World(dpexec, case, size, "cpu" if args.trial else "cuda:0")
            wrong = cpu.error or close(world, cpu.losses) or captured(world)
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print(f"FAILED: {case['name']}, {size} processes: {wrong}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
